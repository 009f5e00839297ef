"""From a named source to its inputs: what it is, is told by its bytes."""

from __future__ import annotations

import glob
import io
import os
import re
import stat
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, TypeAlias

from converters.errors import BadInput, DcbError, LimitReached
from converters.opening._codecs import Budget, codec_of
from converters.opening._content import Held, Packed, Plain, start_of
from converters.opening._inputs import Folder, Place, Stored
from converters.opening._streams import Spool, plain_error
from converters.opening._trees import DiskTree, kind_of
from converters.types import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from converters.opening._archives import Archive
    from converters.opening._content import Content
    from converters.opening._trees import Tree
    from converters.types import Head

__all__ = ["Found", "Opener", "Skipped", "head_of", "open_inputs"]

_SNIFF: Final = 512
_CHECKSUM: Final = slice(148, 156)
_LAYERS: Final = 2
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_DATABASE_SIDES: Final = ("-wal", "-shm", "-journal")


class Skipped(NamedTuple):
    """Something in a folder or archive that is no input: a link, a pipe, a device."""

    name: str
    reason: str


Found: TypeAlias = "Stored | Folder | Skipped | DcbError"
"""What :func:`open_inputs` gives: an input, what it left out, or what it could not open."""

_Build: TypeAlias = "Callable[[Content, str, Limits, Budget], Archive]"

Opener: TypeAlias = "Callable[[str], Iterable[tuple[str, Callable[[], BinaryIO]]]]"
"""Gives ``(name, open)`` for each object that an address stands for."""


class _Run(NamedTuple):
    """What stays the same while one source is opened."""

    limits: Limits
    budget: Budget
    is_unit: Callable[[Head], bool]
    disk: DiskTree
    found: bool


def open_inputs(
    source: str | os.PathLike[str] | bytes,
    *,
    stdin: BinaryIO | None = None,
    openers: Mapping[str, Opener] | None = None,
    is_unit: Callable[[Head], bool] | None = None,
    limits: Limits | None = None,
    disk: DiskTree | None = None,
    found: bool = False,
) -> Iterator[Found]:
    """Give what a named source holds, one by one, in a stable order.

    ``source`` is a path, ``-`` for ``stdin``, ``SCHEME://...`` for one of the
    ``openers``, a glob pattern where no such file exists, or the bytes
    themselves. A folder is walked (sorted, links not followed), archives and
    compressed files are opened wherever they stand; what a file is, its first
    bytes tell. ``is_unit`` says of a folder's head whether the folder is one input.
    ``disk`` serves several sources of one run, so that a folder is listed once for all of them.
    ``found``: a program found the path, no person named it; it is an input like one in a folder.

    Nothing raises: a thing that cannot be opened comes as a :class:`DcbError`
    in its place and the rest goes on; what is no file comes as :class:`Skipped`.
    An input that was found inside a folder or an archive has ``nested`` set.
    """
    limits = limits or Limits()
    run = _Run(limits, Budget(limits), is_unit or _no_unit, disk or DiskTree(), found)
    try:
        if isinstance(source, bytes):
            yield from _held(io.BytesIO(source), "-", run)
            return
        name = os.fspath(source)
        scheme = _SCHEME.match(name)
        if name == "-":
            if stdin is None:
                raise BadInput("no standard input here", path="-")
            yield from _held(stdin, "-", run)
        elif scheme and not os.path.lexists(name):
            yield from _remote(name, scheme[1].lower(), openers or {}, run)
        else:
            yield from _local(name, run)
    except DcbError as error:
        yield error


def head_of(source: str | os.PathLike[str] | bytes, **how: Any) -> Head:
    """Give the head of the first input that a source holds; raises its error if there is none."""
    for found in open_inputs(source, **how):
        if isinstance(found, DcbError):
            raise found
        if not isinstance(found, Skipped):
            return found.head
    name = "-" if isinstance(source, bytes) else os.fspath(source)
    raise BadInput("nothing to read in it", path=name)


def _no_unit(_: Head) -> bool:
    return False


def _remote(name: str, scheme: str, openers: Mapping[str, Opener], run: _Run) -> Iterator[Found]:
    opener = openers.get(scheme)
    if opener is None:
        raise BadInput(
            f"no way to open {scheme}:// addresses", path=name, hint="pip install 'dcb[remote]'"
        )
    count = 0
    try:
        for item, open_it in opener(name):
            count += 1
            try:
                with open_it() as stream:
                    yield from _held(stream, item, run)
            except DcbError as error:
                yield error
            except OSError as error:
                yield plain_error(error, item)
    except OSError as error:
        raise plain_error(error, name) from error
    if not count:
        raise BadInput("no such object", path=name)


def _held(stream: BinaryIO, name: str, run: _Run, *, nested: bool = False) -> Iterator[Found]:
    """Keep a stream that can be read once, then look what it is."""
    try:
        content = Held(Spool(stream, name, run.limits.expanded))
    except OSError as error:
        raise plain_error(error, name) from error
    yield from _explode(Stored(name, content, Place(), run.limits, nested=nested), run)


def _local(name: str, run: _Run) -> Iterator[Found]:
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116 - the name as it was given
    except (OSError, ValueError) as error:
        if _is_pattern(name):
            yield from _matching(name, run)
            return
        if isinstance(error, OSError):
            raise plain_error(error, name) from error
        raise BadInput("no valid file name", path=name) from error
    if run.found and (kind := kind_of(mode)) not in ("file", "dir"):
        yield Skipped(name, kind)
    elif stat.S_ISDIR(mode):
        yield from _walk(run.disk, name, run)
    elif stat.S_ISFIFO(mode):
        try:
            with open(name, "rb") as stream:  # noqa: PTH123
                yield from _held(stream, name, run)
        except OSError as error:
            raise plain_error(error, name) from error
    else:
        place = Place(run.disk, os.path.dirname(name), name)  # noqa: PTH120
        content = Plain(name, name, follow=True)
        yield from _explode(Stored(name, content, place, run.limits, nested=run.found), run)


def _matching(pattern: str, run: _Run) -> Iterator[Found]:
    """Expand a glob as a shell does: the matches are named, not found."""
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - keeps the "./" of the name
    if not matches:
        raise BadInput("no file matches", path=pattern)
    for match in matches:
        try:
            yield from _local(match, run)
        except DcbError as error:
            yield error


def _is_pattern(name: str) -> bool:
    return any(mark in name for mark in "*?[")


def _walk(tree: Tree, root: str, run: _Run, depth: int = 0) -> Iterator[Found]:
    """Give everything below a folder, sorted; what fails is given in its place."""
    stack: list[tuple[str, str, str]] = [("", root, "dir")]
    while stack:
        folder, path, kind = stack.pop()
        try:
            if kind == "dir":
                nested = run.found or path != root
                unit = Folder(tree.display(path), Place(tree, path), run.limits, nested=nested)
                entries = tree.entries(path)
                if run.is_unit(unit.head):
                    yield unit
                    continue
                names = {entry.name for entry in entries}
                stack += [
                    (path, tree.join(path, entry.name), entry.kind)
                    for entry in reversed(entries)
                    if not _is_side(entry.name, names)
                ]
            elif kind == "file":
                content = tree.content(path)
                place = Place(tree, folder, path)
                found = Stored(tree.display(path), content, place, run.limits, nested=True)
                yield from _explode(found, run, depth)
            else:
                yield Skipped(tree.display(path), kind)
        except DcbError as error:
            yield error


def _is_side(name: str, names: set[str]) -> bool:
    """Whether a file belongs to a database beside it."""
    return any(name.endswith(side) and name[: -len(side)] in names for side in _DATABASE_SIDES)


def _archive_of(start: bytes) -> _Build | None:
    """Give what reads the archive that starts like this; most inputs are none."""
    if start.startswith(b"PK"):
        from converters.opening._archives import is_zip, zip_tree

        return zip_tree if is_zip(start) else None
    # Modules for tar take a while to load: a look at the header's checksum, an octal number.
    if len(start) < _SNIFF or start[_CHECKSUM].strip(b" \0").strip(b"01234567"):
        return None
    from converters.opening._archives import is_tar, tar_tree

    return tar_tree if is_tar(start) else None


def _explode(stored: Stored, run: _Run, depth: int = 0, layers: int = 0) -> Iterator[Found]:
    """Give the input itself, or what is in it when it is an archive or compressed."""
    start = start_of(stored.content, _SNIFF)
    name = stored.name
    build = _archive_of(start)
    if build is not None:
        if depth >= run.limits.nesting:
            raise LimitReached(
                f"archives nested more than {run.limits.nesting} deep",
                path=name,
                hint="unpack the outer archive and name the inner one",
            )
        content: Content = stored.content
        if not content.seekable:
            with content.open() as stream:
                spool = Spool(stream, name, run.limits.expanded)
            content = Held(spool, content.torn)
        archive = build(content, name, run.limits, run.budget)
        if not len(archive.tree) and not archive.problems:
            raise BadInput("an archive without members", path=name)
        yield from archive.problems
        yield from _walk(archive.tree, "", run, depth + 1)
        return
    codec = codec_of(start)
    if codec is None:
        yield stored
        return
    if layers >= _LAYERS:
        raise LimitReached(f"compressed more than {_LAYERS} times over", path=name)
    packed = Packed(stored.content, codec, name, run.budget)
    yield from _explode(stored.unpacked(packed), run, depth, layers + 1)
