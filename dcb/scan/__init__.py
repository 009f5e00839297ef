"""Finds the sessions of every tool on a machine, without reading more than it must.

Each format says where its tool keeps sessions (``places``); files found there are listed by
their first and last 64 KiB, or by the format's own ``listing`` (databases, folders). A cache
keyed by path, size and modification time makes the next scan cheap.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import msgspec

from converters import opening
from converters.errors import BadInput, DcbError
from converters.ledger import Ledger
from converters.opening import Memory
from converters.reading import Unit, read_unit
from converters.text import parse_time
from converters.turns import title_of
from converters.types import Context, Listed
from dcb.files import write_whole

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from converters.ir import Session
    from converters.types import Format, Input

__all__ = ["EDGE", "Cache", "Found", "Machine", "Unreadable", "resolve", "scan"]

EDGE: Final = 64 * 1024
"""Bytes read from each end of a file without ``deep``."""

_THROUGH: Final = 256 << 20
"""Bytes read at most to come to the end of a compressed file."""

_VERSION: Final = 1


class Machine(NamedTuple):
    """Where to look: the home folder, the environment, and ``sys.platform``."""

    home: Path
    env: Mapping[str, str]
    platform: str


class Found(msgspec.Struct, rename="camel", omit_defaults=True):
    """One session on this machine. ``time``: last activity in ms; ``size`` in bytes."""

    tool: str
    id: str
    path: str
    title: str | None = None
    cwd: str | None = None
    time: int | None = None
    size: int | None = None
    turns: int | None = None


class Unreadable(NamedTuple):
    """A store that is there and cannot be listed."""

    tool: str
    path: str
    reason: str


class _Kept(msgspec.Struct, array_like=True):
    size: int
    mtime_ns: int
    found: list[Found]


class _File(msgspec.Struct):
    version: int
    entries: dict[str, _Kept]


class Cache:
    """What earlier scans found; a damaged or older file counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = False
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_File)
            self._entries = kept.entries if kept.version == _VERSION else {}
        except (OSError, msgspec.DecodeError):
            self._entries = {}

    def get(self, key: str, size: int, mtime_ns: int) -> list[Found] | None:
        """Give what is known of a file that has not changed."""
        kept = self._entries.get(key)
        fits = kept is not None and kept.size == size and kept.mtime_ns == mtime_ns
        return kept.found if fits and kept is not None else None

    def put(self, key: str, size: int, mtime_ns: int, found: list[Found]) -> None:
        """Remember what a file holds."""
        self._entries[key] = _Kept(size, mtime_ns, found)
        self._changed = True

    def save(self) -> None:
        """Write the cache if anything is new; a folder that cannot be written is no error."""
        if not self._changed:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, msgspec.json.encode(_File(_VERSION, self._entries)), force=True)
        except (OSError, DcbError):
            return


def scan(
    formats: Iterable[Format],
    machine: Machine,
    *,
    cache: Cache | None = None,
    deep: bool = False,
) -> Iterator[Found | Unreadable]:
    """Give every session of these formats on the machine, tool by tool, sorted by path.

    ``deep`` reads whole files and counts turns; it does not use the cache.
    """
    for record in formats:
        if record.read is None:
            continue
        for path in _files(record, machine):
            yield from _list(record, path, cache, deep=deep)
    if cache is not None:
        cache.save()


def _files(record: Format, machine: Machine) -> list[Path]:
    """Give what lies in the places of a format, each path once."""
    found: dict[str, Path] = {}
    for pattern in record.places.get(machine.platform, ()):
        filled = _fill(pattern, machine)
        if filled is None:
            continue
        base, rest = _split(filled)
        if not rest:
            if base.exists():
                found[str(base)] = base
            continue
        try:
            found.update({str(path): path for path in base.glob(rest)})
        except OSError:
            continue
    # A tool that compresses its files, or writes them in another form, leaves both; they are one.
    twins = {name for path in found.values() for name in _twins(record, path)}
    return [found[name] for name in sorted(found) if name not in twins]


def _twins(record: Format, path: Path) -> Iterator[str]:
    """Give the paths of companions that are named after a file and lie beside it."""
    stem = path.name.partition(".")[0]
    for pattern in record.companions:
        if "{" in pattern and not any(mark in pattern for mark in "*?[/"):
            name = pattern.replace("{name}", path.name).replace("{stem}", stem)
            if name != path.name:
                yield str(path.with_name(name))


def _fill(pattern: str, machine: Machine) -> Path | None:
    """Put environment variables in; a pattern with an unset one names no place."""
    names = {name for _, name, *_ in string.Template.pattern.findall(pattern) if name}
    if any(not machine.env.get(name) for name in names):
        return None
    text = string.Template(pattern).safe_substitute(machine.env)
    return Path(machine.home, text)


def _split(path: Path) -> tuple[Path, str]:
    """Split a path before its first part with a wildcard."""
    for index, part in enumerate(path.parts):
        if any(mark in part for mark in "*?["):
            return Path(*path.parts[:index]), "/".join(path.parts[index:])
    return path, ""


def _list(
    record: Format, path: Path, cache: Cache | None, *, deep: bool
) -> Iterator[Found | Unreadable]:
    try:
        stat = path.stat()
        size, mtime = _extent(path, stat)
    except OSError as error:
        yield Unreadable(record.id, str(path), error.strerror or "cannot be read")
        return
    key = f"{record.id}:{path}"
    known = None if cache is None or deep else cache.get(key, size, mtime)
    if known is None:
        try:
            known = [
                Found(
                    record.id,
                    one.id,
                    str(path),
                    one.title,
                    one.cwd,
                    one.time if one.time is not None else mtime // 1_000_000,
                    size if one.size is None else one.size,
                    one.turns,
                )
                for one in _listed(record, path, deep=deep)
            ]
        except DcbError as error:
            yield Unreadable(record.id, str(path), error.message)
            return
        if cache is not None and not deep:
            cache.put(key, size, mtime, known)
    yield from known


def _extent(path: Path, stat: os.stat_result) -> tuple[int, int]:
    """Give size and time; the write-ahead log of a database counts."""
    size, mtime = stat.st_size, stat.st_mtime_ns
    if path.suffix in (".db", ".sqlite", ".vscdb"):
        try:
            wal = Path(f"{path}-wal").stat()
        except OSError:
            return size, mtime
        return size + wal.st_size, max(mtime, wal.st_mtime_ns)
    return size, mtime


def _listed(record: Format, path: Path, *, deep: bool) -> Iterable[Listed]:
    for found in opening.open_inputs(path, is_unit=lambda _: True):
        if isinstance(found, DcbError):
            raise found
        if isinstance(found, opening.Skipped):
            continue
        if deep:
            return [_of(session) for session in _sessions(record, found)]
        if record.listing is not None:
            if record.probe(found.head) is None:
                raise BadInput(f"no store of {record.id}", path=str(path))
            return list(record.listing(found))
        return _by_ends(record, found)
    return []


def _sessions(record: Format, found: Input) -> Iterator[Session]:
    return read_unit(Unit(found, record), Context(Ledger(found.name)))


def _of(session: Session) -> Listed:
    return Listed(
        session.meta.id,
        title_of(session.turns, session.title),
        session.meta.cwd,
        _last(session),
        turns=len(session.turns),
    )


def _last(session: Session) -> int | None:
    """Give the latest time in a session."""
    times = [session.meta.created_at]
    for turn in session.turns:
        times.append(turn.time)
        for step in turn.steps:
            times.append(step.time)
            times += [result.time for result in step.tool_results]
    return max((time for time in times if time is not None), default=None)


def _by_ends(record: Format, found: Input) -> list[Listed]:
    """Read a session from the first 64 KiB; take its last activity from the last 64 KiB."""
    with found.open() as stream:
        head = stream.read(EDGE)
        tail = b""
        if found.size is not None and found.size > EDGE and stream.seekable():
            stream.seek(max(EDGE, found.size - EDGE))
            tail = stream.read(EDGE)
        elif found.size is None and len(head) == EDGE:
            tail = _end_of(stream)
    if tail and not record.kinds & {"json", "dir"}:
        head = head[: head.rfind(b"\n") + 1] or head
    listed = []
    try:
        for session in _sessions(record, Memory(head, found.name)):
            one = _of(session)
            late = _latest(tail)
            listed.append(
                Listed(
                    one.id, one.title, one.cwd, max(filter(None, (one.time, late)), default=None)
                )
            )
    except DcbError:
        if not tail:
            raise
        listed.append(Listed(found.stem, time=_latest(tail)))
    return listed


def _end_of(stream: BinaryIO) -> bytes:
    """Give the last 64 KiB of compressed bytes, to which no way leads but through them."""
    tail, left = b"", _THROUGH
    try:
        while left > 0 and (piece := stream.read(EDGE)):
            tail = (tail + piece)[-EDGE:]
            left -= len(piece)
    except DcbError:
        pass  # damaged: what came before that counts
    return tail


def _latest(tail: bytes) -> int | None:
    """Give the latest time that a line of the tail states at its top."""
    latest = None
    for line in tail.split(b"\n")[1:]:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(record, dict):
            value: Any = record.get("timestamp", record.get("time", record.get("ts")))
            time = parse_time(value)
            if time is not None and (latest is None or time.ms > latest):
                latest = time.ms
    return latest


def resolve(name: str, found: Iterable[Found]) -> list[Found]:
    """Give what ``scan:NAME`` stands for: ``last``, a tool, or a prefix of session ids.

    Empty when nothing fits; several for an ambiguous prefix or a tool.
    """
    sessions = list(found)
    if name == "last":
        return sorted(sessions, key=lambda one: (one.time or 0, one.id))[-1:]
    tools = [one for one in sessions if one.tool == name]
    return tools or [one for one in sessions if one.id.startswith(name)]
