"""Earlier pages of a rollout: the files that ``history_base`` names.

Experimental, evidence C: no file of a user was at hand. Source: public readers and tests of
``openai/codex`` from 0.146.0 on (``HistoryPosition``, ``RolloutLine``), openai/codex#35746 and
kzahel/yepanywhere#122. What they agree on:

- ``history_base {thread_id, end_ordinal_exclusive, end_byte_offset}`` in ``session_meta`` says
  that the history begins with the first bytes of another file; ``thread_id`` is the id in that
  file's name (the last one: ``rollout-<time>-<thread>_<rollout>.jsonl``), not that of its thread.
- Lines carry an ``ordinal`` that counts through all pages; a page that has a base of its own
  goes on with the base's end.

The bytes decide where a page is left. Where no line ends at that place (the file was written
anew), the ordinals decide.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import msgspec

from converters import jsonio
from converters.errors import DcbError
from converters.formats.codex.records import DECODE, Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.ledger import Ledger
    from converters.types import Input

__all__ = ["Base", "Page", "Seen", "base_of", "chain", "page_records"]

_MOST: Final = 64
_CHUNK: Final = 1 << 18
_LONGEST_HEAD: Final = 16 << 20
_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_OWN_ID: Final = re.compile(r"rollout-.*[-_]([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})")
_FOLDERS: Final = (
    "",
    "../[0-9]*/",
    "../../[0-9]*/[0-9]*/",
    "../../../[0-9]*/[0-9]*/[0-9]*/",
    "../../../../archived_sessions/",
    "../sessions/[0-9]*/[0-9]*/[0-9]*/",
)
"""Where a page can be, the nearest first: from a day's folder the other days of the month, of the
year, of all years, and what was archived; from ``archived_sessions`` all days."""


class Base(NamedTuple):
    """What ``history_base`` says: the id of a page, and where it is left."""

    id: str
    ordinal: int | None
    offset: int | None


class Page(NamedTuple):
    """A file that a history begins with, and where it is left; ``start``: its first ordinal."""

    source: Input
    base: Base
    start: int

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return re.split(r"[/\\!]", self.source.name)[-1]


def base_of(value: Any) -> Base | None:
    """Give what a ``history_base`` says; ``None`` when it names no page or no end of it."""
    if not isinstance(value, dict):
        return None
    identity = value.get("thread_id")
    ordinal, offset = (
        number if type(number) is int and number >= 0 else None
        for number in (value.get("end_ordinal_exclusive"), value.get("end_byte_offset"))
    )
    if not isinstance(identity, str) or not _ID.fullmatch(identity):
        return None
    return None if ordinal is None and offset is None else Base(identity, ordinal, offset)


def chain(source: Input, base: Base | None) -> tuple[list[Page], str | None]:
    """Find the pages of a rollout, the oldest first, and say what ended the search too early."""
    own = _OWN_ID.match(source.stem)
    known = {own[1]} if own else set()
    pages: list[Page] = []
    while base is not None:
        if base.id in known:
            return pages[::-1], f"page {base.id} comes again"
        if len(pages) == _MOST:
            return pages[::-1], f"page {base.id} is one of more than {_MOST}"
        known.add(base.id)
        found = _find(source, base.id)
        if found is None:
            return pages[::-1], f"page {base.id} not found"
        try:
            below = _history_base(found)
        except DcbError as error:
            return pages[::-1], f"page {base.id}: {error.message}"
        earlier = base_of(below)
        start = earlier.ordinal if earlier is not None else 0
        pages.append(Page(found, base, start or 0))
        if below and earlier is None:
            return pages[::-1], f"page before {base.id} of unknown shape"
        base = earlier
    return pages[::-1], None


def _find(source: Input, identity: str) -> Input | None:
    """Give the file with an id in its name; the plain one before the compressed one."""
    for folder in _FOLDERS:
        for suffix in (".jsonl", ".jsonl.zst"):
            found = source.files(f"{folder}rollout-*[-_]{identity}{suffix}")
            if found:
                return found[0]
    return None


def _history_base(page: Input) -> Any:
    """Give the ``history_base`` of a page's own head."""
    with page.open() as stream:
        line = stream.readline(_LONGEST_HEAD)
    try:
        heads = [msgspec.json.decode(line)]
    except (msgspec.DecodeError, RecursionError, ValueError):
        heads = list(page.head.records)
    for head in heads:
        if isinstance(head, dict) and head.get("type") == "session_meta":
            payload = head.get("payload")
            return payload.get("history_base") if isinstance(payload, dict) else None
    return None


def page_records(page: Page, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    """Give the records of a page up to where it is left, with the page's name in their place.

    ``history-truncated`` says that the page ends before. Raises :class:`DcbError` when the
    file cannot be read.
    """
    end = _end(page)
    with page.source.open() as stream:
        source = stream if end is None else io.BufferedReader(_Prefix(stream, end), _CHUNK)
        for number, value in jsonio.records(source, ledger, decode=DECODE, ahead=True):
            yield f"{page.name}:{number}", value
    if page.source.torn is not None:
        ledger.note("truncated-input", page.source.torn)
    if end is None:
        ledger.note("history-truncated", kind=f"page {page.base.id} ends too early")


def _end(page: Page) -> int | None:
    """Give the byte where a page is left; ``None`` when it ends before that."""
    offset, ordinal = page.base.offset, page.base.ordinal
    if offset is not None and _ends_line(page.source, offset):
        return offset
    return None if ordinal is None else _before(page, ordinal)


def _ends_line(source: Input, offset: int) -> bool:
    """Whether a line ends right before an offset."""
    left = offset - 1
    if left < 0:
        return True
    with source.open() as stream:
        while left > 0:
            piece = stream.read(min(left, _CHUNK))
            if not piece:
                return False
            left -= len(piece)
        return stream.read(1) == b"\n"


class _Numbered(msgspec.Struct):
    ordinal: int | None = None


_numbered: Final = msgspec.json.Decoder(_Numbered).decode


def _before(page: Page, ordinal: int) -> int | None:
    """Give the byte where the first record with an ordinal or a later one begins.

    Records without an ordinal are counted.
    """
    here, position = page.start, 0
    with page.source.open() as stream:
        for line in stream:
            try:
                stated = _numbered(line).ordinal
            except (msgspec.DecodeError, RecursionError, ValueError):
                stated = None
            here = here if stated is None else stated
            if here >= ordinal:
                return position
            here += bool(line.strip())
            position += len(line)
    return position if here >= ordinal else None


class _Prefix(io.RawIOBase):
    """The first bytes of a stream. Closing it leaves the stream open."""

    def __init__(self, below: BinaryIO, size: int) -> None:
        self._below, self._left = below, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._below.read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


class Seen:
    """The records of earlier pages, so that what a later one repeats is counted once.

    A repetition has the same time and content; only its ordinal may differ.
    """

    def __init__(self) -> None:
        # Hashes, so that the texts of the pages do not stay in memory.
        self._known: set[int] = set()

    def fresh(
        self, records: Iterable[tuple[Any, Any]], ledger: Ledger
    ) -> Iterator[tuple[Any, Any]]:
        """Give the records that no page before had; the others are skipped and counted."""
        own: set[int] = set()
        for place, value in records:
            key = _key(value)
            if key in self._known:
                ledger.skipped("duplicate-record", place, kind="of an earlier page")
                continue
            own.add(key)
            yield place, value
        self._known |= own


def _key(value: Any) -> int:
    if type(value) is Line:
        return hash(msgspec.json.encode(value))
    return hash(repr([(name, value[name]) for name in sorted(value) if name != "ordinal"]))
