"""A session by the ends of its file: the first 64 KiB tell what it is, the last 64 KiB when."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import msgspec

from converters.errors import DcbError
from converters.ledger import Ledger
from converters.opening import Memory
from converters.reading import Unit, read_unit
from converters.text import parse_time
from converters.turns import title_of
from converters.types import Context, Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.types import Format, Input

__all__ = ["EDGE", "Seen", "by_ends", "described", "sessions"]

EDGE: Final = 64 * 1024
"""Bytes read from each end of a file without ``deep``."""

_MADE: Final = 5

_THROUGH: Final = 256 << 20
"""Bytes read at most to come to the end of a compressed file."""


class Seen(NamedTuple):
    """What the ends of a file tell; ``guessed``: not its id, which is the file's name here."""

    listed: list[Listed]
    guessed: bool = False


def by_ends(record: Format, found: Input, changed: int) -> Seen:
    """List the sessions of a file by its ends, and by small files around it.

    Where a file goes on past its start and its end states no time, the last activity is taken
    to be when it was ``changed`` (ms): no activity comes after that.
    """
    head, tail, whole = _ends(found)
    if not whole and not record.kinds & {"json", "dir"}:
        head = head[: head.rfind(b"\n") + 1] or head
    late = None if whole else _latest(tail)
    late = changed if late is None and not whole else late
    start, ledger = _Start(head, found), Ledger(found.name)
    listed = []
    guessed = False
    try:
        for session in sessions(record, start, ledger):
            one = described(session)
            # An id that is made of the content is another one for all of the content.
            made = not whole and ledger.count("id-minted") > 0 and _is_made(one.id)
            guessed |= made
            times = [one.time, late, changed if start.cut and one.parent is not None else None]
            time = max((time for time in times if time is not None), default=None)
            identity = found.stem if made else one.id
            listed.append(Listed(identity, one.title, one.cwd, time, parent=one.parent))
    except DcbError:
        if whole:
            raise
    if whole or listed:
        return Seen(listed, guessed)
    return Seen([Listed(found.stem, time=late)], guessed=True)


def sessions(record: Format, found: Input, ledger: Ledger) -> Iterator[Session]:
    """Read an input for what it says of its sessions; its account is thrown away."""
    return read_unit(Unit(found, record), Context(ledger))


def _is_made(identity: str) -> bool:
    """Whether an id has the form of one that was made for want of one in the source."""
    try:
        return uuid.UUID(identity).version == _MADE
    except ValueError:
        return False


def described(session: Session) -> Listed:
    """Give what a scan tells of a session that was read."""
    title = title_of(session.turns, session.title)
    cwd, turns, parent = session.meta.cwd, len(session.turns), _parent(session)
    return Listed(session.meta.id, title, cwd, _last(session), turns=turns, parent=parent)


def _last(session: Session) -> int | None:
    """Give the latest time in a session."""
    times = [session.meta.created_at]
    for turn in session.turns:
        times.append(turn.time)
        for step in turn.steps:
            times.append(step.time)
            times += [result.time for result in step.tool_results]
    return max((time for time in times if time is not None), default=None)


def _parent(session: Session) -> str | None:
    """Give the session that a subagent works for; empty when its source does not say which."""
    parent = (session.extra or {}).get("parent")
    return str(parent.get("sessionId") or "") if isinstance(parent, dict) else None


class _Start(Memory):
    """The start of an input, with the small ones of its companions.

    Of lines the first are given (``cut`` says that some were left out), a larger document is not.
    """

    def __init__(self, head: bytes, source: Input) -> None:
        super().__init__(head, source.name, nested=True)
        self.cut = False
        self._source = source

    def files(self, pattern: str) -> tuple[Input, ...]:
        """Find companions as the input itself does."""
        given = (self._small(file) for file in self._source.files(pattern))
        return tuple(file for file in given if file is not None)

    def _small(self, file: Input) -> Input | None:
        try:
            with file.open() as stream:
                data = stream.read(EDGE + 1)
        except DcbError:
            return None
        if len(data) > EDGE:
            end = data.rfind(b"\n") + 1
            if ".jsonl" not in file.name or not end:
                return None
            self.cut = True
            data = data[:end]
        return Memory(data, file.name, nested=True)


def _ends(found: Input) -> tuple[bytes, bytes, bool]:
    """Give both ends of an input, and whether the first is all of it."""
    with found.open() as stream:
        head = stream.read(EDGE)
        size = found.size
        if size is None:
            whole = len(head) < EDGE
            return head, b"" if whole else _end_of(stream), whole
        if size > EDGE and stream.seekable():
            stream.seek(max(EDGE, size - EDGE))
            return head, stream.read(EDGE), False
        return head, b"", size <= EDGE


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
