"""Where the tools keep their sessions: from the patterns of the formats to what lies there."""

from __future__ import annotations

import fnmatch
import glob
import os
import stat
import string
from typing import TYPE_CHECKING, Final, NamedTuple

from converters import opening
from converters.errors import BadInput
from converters.opening import DiskTree, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from converters.types import Format

__all__ = ["Machine", "Store", "Unreadable", "stores"]

_MAGIC: Final = frozenset("*?[")
_LINK: Final = "symbolic link"
_DENIED: Final = "permission denied"


class Machine(NamedTuple):
    """Where to look: the home folder, the environment, and ``sys.platform``."""

    home: Path
    env: Mapping[str, str]
    platform: str


class Store(NamedTuple):
    """A file or folder in a place of a format; ``beside``: its companions around and below it."""

    record: Format
    path: str
    stat: os.stat_result
    beside: tuple[str, ...] = ()

    @property
    def is_dir(self) -> bool:
        """Whether it is a folder that is one input."""
        return stat.S_ISDIR(self.stat.st_mode)


class Unreadable(NamedTuple):
    """Something in a place that cannot be listed.

    ``skipped``: a pipe or the like, with which nothing is lost; else a store, or a folder that
    may hold some.
    """

    tool: str
    path: str
    reason: str
    skipped: bool = False


def stores(
    formats: Iterable[Format], machine: Machine, disk: DiskTree | None = None
) -> Iterator[Store | Unreadable]:
    """Give what lies in the places of formats, tool by tool: each thing once, sorted by path.

    A place that is not there is passed over; one that cannot be entered is named. Links are
    followed, as a tool follows them, but not below ``**``. What belongs to another file is no
    store of its own, as in a folder that is read.
    """
    disk = disk or DiskTree()
    for record in {record.id: record for record in formats if record.read is not None}.values():
        yield from _Search(record, machine, disk).run()


class _Search:
    """The search for the stores of one format."""

    def __init__(self, record: Format, machine: Machine, disk: DiskTree) -> None:
        self._record, self._machine, self._disk = record, machine, disk
        self._found: dict[str, tuple[str, os.stat_result]] = {}
        self._real: dict[str, str] = {}
        self._troubles: dict[str, Unreadable] = {}

    def run(self) -> Iterator[Store | Unreadable]:
        for pattern in self._record.places.get(self._machine.platform, ()):
            self._look(pattern)
        yield from (self._troubles[path] for path in sorted(self._troubles))
        yield from self._own()

    def _look(self, pattern: str) -> None:
        """Find what fits a pattern; only its own wildcards count, not those of a folder's name."""
        found = _filled(pattern, self._machine)
        if found is None:
            return
        stack = [found]
        while stack:
            folder, parts = stack.pop()
            if not parts:
                self._take(folder, "")
                continue
            part, *rest = parts
            if part == "**":
                below = [entry for entry in self._entries(folder) if entry.kind == "dir"]
                stack += [(self._disk.join(folder, one.name), parts) for one in below]
                stack.append((folder, rest or ["*"]))
                continue
            if _MAGIC.isdisjoint(part):
                stack.append((self._disk.join(folder, part), rest))
                continue
            for entry in self._entries(folder):
                if fnmatch.fnmatch(entry.name, part):
                    path = self._disk.join(folder, entry.name)
                    if not rest:
                        self._take(path, entry.kind)
                    elif entry.kind in ("dir", _LINK) and _is_folder(path, entry.kind):
                        stack.append((path, rest))

    def _entries(self, folder: str) -> opening.Listing:
        try:
            return self._disk.entries(folder)
        except BadInput as error:
            cause = error.__cause__
            if not isinstance(cause, FileNotFoundError | NotADirectoryError):
                self._trouble(folder, error.message)
            return opening.Listing()

    def _take(self, path: str, kind: str) -> None:
        """Take what is a file or a folder; name a pipe and the like."""
        try:
            found = os.stat(path)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            if kind == _LINK:
                reason = "symbolic link to nothing"
                self._troubles[path] = Unreadable(self._record.id, path, reason, skipped=True)
            return
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "cannot be read"
            self._trouble(path, _DENIED if isinstance(error, PermissionError) else reason)
            return
        what = kind_of(found.st_mode)
        reason = "empty file" if what == "file" and not found.st_size else what
        if reason not in ("file", "dir") or (what == "dir" and "dir" not in self._record.kinds):
            reason = "folder" if what == "dir" else reason
            self._troubles[path] = Unreadable(self._record.id, path, reason, skipped=True)
            return
        self._found.setdefault(self._key(path, kind), (path, found))

    def _trouble(self, path: str, reason: str) -> None:
        """Note a store or folder that cannot be read; what may not be entered is named itself."""
        while reason == _DENIED and not _exists(path):
            path, below = os.path.dirname(path), path  # noqa: PTH120
            if path == below:
                break
        self._troubles[path] = Unreadable(self._record.id, path, reason)

    def _key(self, path: str, kind: str = "file") -> str:
        """Tell a file from all others, whatever way leads to it."""
        if kind in (_LINK, ""):
            return os.path.realpath(path)
        folder, name = os.path.split(path)
        real = self._real.get(folder)
        if real is None:
            real = self._real[folder] = os.path.realpath(folder)
        return os.path.join(real, name)  # noqa: PTH118

    def _own(self) -> Iterator[Store]:
        """Give what was found, but for what belongs to something else that was found."""
        names = {os.path.basename(path) for path, _ in self._found.values()}  # noqa: PTH119
        owned: set[str] = set()
        made: dict[str, Store] = {}
        for key, (path, found) in sorted(self._found.items(), key=lambda item: item[1][0]):
            store = Store(self._record, path, found)
            beside: list[str] = []
            for pattern in self._record.companions:
                last = pattern.rpartition("/")[2]
                inside = not pattern.startswith("../")
                if not inside and _MAGIC.isdisjoint(last) and "{" not in last and last not in names:
                    continue  # no store of the format is called so
                files = opening.companions(path, pattern, self._disk, is_dir=store.is_dir)
                if not files:
                    continue
                if inside:
                    beside += files
                keys = {self._key(file) for file in files}
                # What another one owns owns nothing itself, as in a folder that is read.
                if key not in owned and (pattern not in self._record.series or key in keys):
                    owned |= keys - {key}
            made[key] = store._replace(beside=tuple(beside))
        yield from (store for key, store in made.items() if key not in owned)


def _filled(pattern: str, machine: Machine) -> tuple[str, list[str]] | None:
    """Give the folder to start in and the parts that lead on; ``None`` for an unset variable."""
    parts = pattern.split("/")
    names = {name for _, name, *_ in string.Template.pattern.findall(pattern) if name}
    if any(not machine.env.get(name) for name in names):
        return None
    first = next((n for n, part in enumerate(parts) if not _MAGIC.isdisjoint(part)), len(parts))
    env = {name: machine.env[name] for name in names}
    base = (string.Template(part).safe_substitute(env) for part in parts[:first])
    plain = {name: glob.escape(value) for name, value in env.items()}
    rest = [string.Template(part).safe_substitute(plain) for part in parts[first:]]
    return os.path.join(machine.home, *base), rest  # noqa: PTH118 - a variable may hold a path


def _is_folder(path: str, kind: str) -> bool:
    return kind == "dir" or os.path.isdir(path)  # noqa: PTH112


def _exists(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    return True
