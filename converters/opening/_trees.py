"""Trees of names: a folder on disk, the members of an archive, companions in memory."""

from __future__ import annotations

import fnmatch
import os
import stat
from functools import cached_property, lru_cache
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from converters.errors import BadInput, DcbError, LimitReached
from converters.opening._content import Plain
from converters.opening._streams import plain_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from converters.opening._content import Content

__all__ = ["DiskTree", "Entry", "IndexTree", "Listing", "Tree", "find", "kind_of"]

_LISTINGS: Final = 16
_DEEPEST: Final = 255
_UPS: Final = 4
_NUMBERS: Final = count()
_MAGIC: Final = frozenset("*?[")
_KINDS: Final = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "dir"),
    (stat.S_ISLNK, "symbolic link"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
)


class Entry(NamedTuple):
    """A name in a folder; ``kind`` is ``file``, ``dir``, or what else it is in words."""

    name: str
    kind: str


class Listing(tuple[Entry, ...]):  # noqa: SLOT001 - what is cached needs a dict
    """What is in a folder, sorted by name."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of files and of folders, these with a trailing slash."""
        return frozenset(
            entry.name + "/" if entry.kind == "dir" else entry.name
            for entry in self
            if entry.kind in ("file", "dir")
        )

    @cached_property
    def by_name(self) -> dict[str, Entry]:
        """The entries by their names."""
        return {entry.name: entry for entry in self}


class Tree(Protocol):
    """Folders and files under one name."""

    def entries(self, folder: str) -> Listing:
        """Give what is in a folder, sorted by name; raises :class:`BadInput`."""

    def entry(self, folder: str, name: str) -> Entry | None:
        """Give one entry of a folder, without its neighbours."""

    def join(self, folder: str, name: str) -> str:
        """Give the path of an entry."""

    def parent(self, folder: str) -> str | None:
        """Give the folder that holds a folder; ``None`` above the root of an archive."""

    def content(self, path: str) -> Content:
        """Give the bytes of a file; raises :class:`DcbError` where they cannot be had."""

    def display(self, path: str) -> str:
        """Give the name for messages."""


def kind_of(mode: int) -> str:
    """Say what a file mode stands for."""
    return next((kind for test, kind in _KINDS if test(mode)), "device")


class DiskTree:
    """Folders on disk; links in them are not followed.

    A folder is listed once. Inputs that come to another process one by one share one tree
    there, which looks for itself: a listing would travel with each input of a folder.
    """

    def __init__(self) -> None:
        self._listings: dict[str, Listing] = {}
        self._number = next(_NUMBERS)

    def __reduce__(self) -> tuple[Callable[[int, int], DiskTree], tuple[int, int]]:
        return _elsewhere, (os.getpid(), self._number)

    def entries(self, folder: str) -> Listing:
        """Give what is in a folder, sorted by name; raises :class:`BadInput`."""
        known = self._listings.get(folder)
        if known is not None:
            return known
        try:
            with os.scandir(folder or ".") as found:
                listing = [
                    Entry(item.name, kind_of(item.stat(follow_symlinks=False).st_mode))
                    for item in found
                ]
        except OSError as error:
            raise plain_error(error, folder) from error
        if len(self._listings) >= _LISTINGS:
            del self._listings[next(iter(self._listings))]
        result = self._listings[folder] = Listing(sorted(listing))
        return result

    def entry(self, folder: str, name: str) -> Entry | None:
        """Give one entry of a folder, without its neighbours."""
        known = self._listings.get(folder)
        if known is not None:
            return known.by_name.get(name)
        try:
            return Entry(name, kind_of(os.lstat(self.join(folder, name)).st_mode))
        except (OSError, ValueError):
            return None

    def join(self, folder: str, name: str) -> str:
        """Give the path of an entry."""
        return os.path.join(folder, name)  # noqa: PTH118 - the name as it was given, "./" too

    def parent(self, folder: str) -> str | None:
        """Give the folder that holds a folder."""
        return os.path.join(folder, os.pardir)  # noqa: PTH118

    def content(self, path: str) -> Content:
        """Give a regular file."""
        return Plain(path, path, follow=False)

    def display(self, path: str) -> str:
        """Give the path itself."""
        return path


@lru_cache(maxsize=2)
def _elsewhere(process: int, number: int) -> DiskTree:
    """Give the tree that stands in this process for one of another process."""
    del process, number
    return DiskTree()


class IndexTree:
    """A tree that is known by the paths of its files, such as an archive.

    Paths are names only: ``..`` in one is a folder of that name, a leading slash
    has no meaning. A path that comes twice gets ``#2``.
    """

    def __init__(self, name: str, *, folders: int) -> None:
        self._name = name
        self._files: dict[str, tuple[str, str, Callable[[], Content]]] = {}
        self._folders: dict[str, list[Entry]] = {"": []}
        self._listings: dict[str, Listing] = {}
        self._repeated: dict[str, int] = {}
        self._most = folders

    def add(
        self, path: str, kind: str, content: Callable[[], Content], shown: str | None = None
    ) -> None:
        """Add a file (or what is none); its folders come into being. Messages call it ``shown``."""
        shown = path if shown is None else shown
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if not parts:
            return
        if len(parts) > _DEEPEST:
            raise LimitReached(f"more than {_DEEPEST} folders deep", path=self._name)
        here = ""
        for part in parts[:-1]:
            below = f"{here}/{part}" if here else part
            if below not in self._folders:
                if len(self._folders) > self._most:
                    raise LimitReached(f"more than {self._most} folders", path=self._name)
                self._folders[below] = []
                self._folders[here].append(Entry(part, "dir"))
                self._listings.pop(here, None)
            here = below
        first = key = f"{here}/{parts[-1]}" if here else parts[-1]
        number = self._repeated.get(first, 1)
        while key in self._files or key in self._folders:
            number += 1
            key = f"{first}#{number}"
        self._repeated[first] = number
        self._files[key] = (kind, shown if number == 1 else f"{shown}#{number}", content)
        self._folders[here].append(Entry(key.rpartition("/")[2], kind))
        self._listings.pop(here, None)

    def __len__(self) -> int:
        return len(self._files)

    def entries(self, folder: str) -> Listing:
        """Give what is in a folder, sorted by name."""
        known = self._listings.get(folder)
        if known is None:
            if folder not in self._folders:
                raise BadInput("no such folder", path=self.display(folder))
            known = self._listings[folder] = Listing(sorted(self._folders[folder]))
        return known

    def entry(self, folder: str, name: str) -> Entry | None:
        """Give one entry of a folder, without its neighbours."""
        return self.entries(folder).by_name.get(name) if folder in self._folders else None

    def join(self, folder: str, name: str) -> str:
        """Give the path of an entry."""
        return f"{folder}/{name}" if folder else name

    def parent(self, folder: str) -> str | None:
        """Give the folder that holds a folder; ``None`` above the root."""
        return folder.rpartition("/")[0] if folder else None

    def content(self, path: str) -> Content:
        """Give the bytes of a member; raises :class:`DcbError` where they cannot be had."""
        return self._files[path][2]()

    def display(self, path: str) -> str:
        """Give ``ARCHIVE!MEMBER``; for its root ``ARCHIVE``."""
        shown = self._files[path][1] if path in self._files else path
        if not shown:
            return self._name
        return f"{self._name}!{shown}"


def find(tree: Tree, folder: str, pattern: str) -> Iterator[tuple[str, str]]:
    """Give ``(folder, path)`` of the files that a glob finds, sorted by path.

    ``*``, ``?`` and ``[...]`` within a name, ``**`` for any folders; ``..`` at the
    start, up to four times, for the folder above. Links are not followed.
    """
    parts = pattern.split("/")
    ups = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    if ups > _UPS or ".." in parts[ups:]:
        return
    stack = [(folder, tuple(parts))]
    found: set[tuple[str, str]] = set()
    done: set[tuple[str, tuple[str, ...]]] = set()
    while stack:
        state = stack.pop()
        if state in done:
            continue
        done.add(state)
        here, (part, *tail) = state
        rest = tuple(tail)
        if part == ".." or part in ("", "."):
            above = tree.parent(here) if part == ".." else here
            if above is not None and rest:
                stack.append((above, rest))
            continue
        try:
            entries = _matching(tree, here, part)
        except DcbError:
            continue
        if part == "**":
            below = [tree.join(here, entry.name) for entry in entries if entry.kind == "dir"]
            stack += [(path, state[1]) for path in below]
            stack.append((here, rest or ("*",)))
            continue
        kind = "dir" if rest else "file"
        for path in [tree.join(here, entry.name) for entry in entries if entry.kind == kind]:
            if rest:
                stack.append((path, rest))
            else:
                found.add((here, path))
    yield from sorted(found, key=lambda pair: pair[1])


def _matching(tree: Tree, folder: str, part: str) -> Iterable[Entry]:
    """Give the entries of a folder that a part of a glob fits; ``**`` fits all."""
    if _MAGIC.isdisjoint(part):
        entry = tree.entry(folder, part)
        return () if entry is None else (entry,)
    entries = tree.entries(folder)
    if part == "**":
        return entries
    return [entry for entry in entries if fnmatch.fnmatchcase(entry.name, part)]
