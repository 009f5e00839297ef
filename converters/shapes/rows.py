"""Conversations inside documents, arrays and JSON Lines, and back.

People keep chats as one document, as an array or an object of rows, as one
conversation per line, or as one message per line. :func:`rows` gives the
conversations of all of these one at a time; :func:`write_rows` writes them.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

import msgspec
from blake3 import blake3

from converters import jsonio
from converters.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from converters.ir import Session
    from converters.ledger import Ledger
    from converters.types import Head, Input, Match, Sink

__all__ = [
    "Row",
    "Shape",
    "best_match",
    "mint_id",
    "pointer",
    "rows",
    "sessions_of",
    "text_of",
    "untyped",
    "write_rows",
]

_NAMESPACE: Final = uuid.UUID("6d1f6c5e-3c0b-5d0e-9a52-6a6f9f0d7a11").bytes
_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = b" \t\r\n"
_SAMPLE: Final = 20
_MISSES: Final = 8
_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Shape:
    """What a format takes for a conversation and for a single message.

    ``typed`` decodes the most common form of a conversation straight into a struct; a
    row that it takes comes as that struct, every other one untyped as ever.
    """

    is_document: Callable[[dict[str, Any]], bool]
    is_message: Callable[[dict[str, Any]], bool]
    typed: msgspec.json.Decoder[Any] | None = None


class Row(NamedTuple):
    """One conversation: a document (typed where the shape says so), or a list of messages.

    ``place`` is its line number or JSON pointer. ``counted``: the messages of the
    list are records that were seen already, ``places`` are theirs. ``record``: the
    row itself is a record and waits for its fate. ``number`` counts the rows from 0,
    ``raw`` are its bytes where they are at hand.
    """

    place: int | str
    value: Any
    number: int
    record: bool = False
    counted: bool = False
    places: list[int | str] | None = None
    raw: bytes | memoryview | None = None

    @property
    def identity(self) -> str:
        """Give the uuid5 for a conversation without an id of its own."""
        return mint_id(self.raw or jsonio.dumps(self.value), self.number)


def rows(source: Input, ledger: Ledger, shape: Shape) -> Iterator[Row]:
    """Give the conversations of an input in order.

    Values that are neither a conversation nor a message are skipped as
    ``unknown-record``. Memory: one conversation for arrays and JSON Lines of
    conversations; the whole input for an object of rows and for damaged arrays.
    """
    return _Walk(ledger, shape, source.name).run(source)


class _Walk:
    """The state of one input: the run of bare messages that is open, and the count of rows."""

    def __init__(self, ledger: Ledger, shape: Shape, name: str) -> None:
        self.ledger, self.shape, self.name = ledger, shape, name
        self.run_values: list[dict[str, Any]] = []
        self.run_places: list[int | str] = []
        self.index = 0
        self.raw: bytes | memoryview | None = None
        self.typed = shape.typed and shape.typed.decode
        self.typed_as = shape.typed and shape.typed.type
        self.misses = 0

    def run(self, source: Input) -> Iterator[Row]:
        """Pick the container by the first bytes."""
        kind, start = _container(source.head)
        if kind == "lines" and _is_one_line(source):
            kind = "document"
        if kind == "lines":
            with source.open() as stream:
                for number, value in jsonio.records(
                    stream, self.ledger, decode=self.decode, objects=False
                ):
                    found = type(value)
                    if found is self.typed_as or (found is dict and self.shape.is_document(value)):
                        if self.run_values:
                            yield from self.flush()
                        self.index += 1
                        yield Row(number, value, self.index - 1, record=True, raw=self.raw)
                    else:
                        yield from self.record(value, number)
                self.raw = None
        elif kind == "array":
            if start:
                self.ledger.note("encoding-repaired", "byte 0")
            yield from self.array(source.view(), start)
        else:
            for value in jsonio.load(source.read(), self.ledger, path=self.name):
                yield from self.document(value)
        yield from self.flush()

    def decode(self, raw: bytes) -> Any:
        """Decode a line and remember its bytes."""
        self.raw = raw
        if self.typed is not None:
            value = self.try_typed(raw)
            if value is not None:
                return value
        return _decode(raw)

    def try_typed(self, raw: bytes | memoryview) -> Any:
        """Give the struct of a conversation in its common form; ``None`` for any other.

        An input with hardly any of them is not decoded twice for long.
        """
        if self.typed is None:
            return None
        try:
            value = self.typed(raw)
        except (msgspec.DecodeError, RecursionError, ValueError):
            self.misses += 1
            if self.misses > _MISSES:
                self.typed = None
            return None
        if self.misses:
            self.misses -= 1
        return value

    def row(self, place: int | str, value: Any, *, record: bool) -> Iterator[Row]:
        """Give a conversation; a run of messages before it ends here."""
        yield from self.flush()
        self.index += 1
        yield Row(place, value, self.index - 1, record, raw=self.raw)

    def flush(self) -> Iterator[Row]:
        """Give the open run of bare messages as one conversation."""
        if self.run_values:
            values, places = self.run_values, self.run_places
            self.run_values, self.run_places = [], []
            self.index += 1
            yield Row(places[0], values, self.index - 1, counted=True, places=places)

    def record(self, value: Any, place: int | str) -> Iterator[Row]:
        """Take a value that was seen as a record: a conversation, a message, or neither."""
        if type(value) is self.typed_as:
            yield from self.row(place, value, record=True)
        elif isinstance(value, dict):
            if self.shape.is_document(value):
                yield from self.row(place, value, record=True)
            elif self.shape.is_message(value):
                self.run_values.append(value)
                self.run_places.append(place)
            elif any(self.is_row(item) or self.is_rows(item) for item in value.values()):
                self.ledger.mapped()
                yield from self.members(value, place)
            else:
                self.ledger.skipped("unknown-record", place)
        elif self.is_messages(value):
            yield from self.row(place, value, record=True)
        else:
            self.ledger.skipped("malformed-record", place, kind=type(value).__name__)

    def is_messages(self, value: Any) -> TypeGuard[list[Any]]:
        """Whether a list holds messages among its first 20 elements."""
        return isinstance(value, list) and any(
            isinstance(item, dict) and self.shape.is_message(item) for item in value[:_SAMPLE]
        )

    def is_row(self, value: Any) -> bool:
        """Whether a value is a conversation."""
        return self.is_messages(value) or (
            isinstance(value, dict) and self.shape.is_document(value)
        )

    def is_rows(self, value: Any) -> bool:
        """Whether a list holds conversations among its first 20 elements."""
        return isinstance(value, list) and any(self.is_row(row) for row in value[:_SAMPLE])

    def document(self, value: Any) -> Iterator[Row]:
        """Take the root of a document."""
        if isinstance(value, list):
            self.ledger.seen(len(value))
            for number, item in enumerate(value):
                yield from self.record(item, f"/{number}")
        elif isinstance(value, dict) and self.shape.is_document(value):
            yield from self.row("", value, record=False)
        elif isinstance(value, dict) and self.shape.is_message(value):
            self.ledger.seen()
            yield from self.record(value, "")
        elif isinstance(value, dict):
            yield from self.members(value)
        else:
            self.ledger.seen()
            self.ledger.skipped("malformed-record", "", kind=type(value).__name__)

    def members(self, value: dict[str, Any], base: int | str = "") -> Iterator[Row]:
        """Take an object of rows, or an object around a list of rows."""
        for name, item in value.items():
            place = pointer(base, name)
            if self.is_row(item):
                self.ledger.seen()
                yield from self.row(place, item, record=True)
            elif self.is_rows(item):
                self.ledger.seen(len(item))
                for number, row in enumerate(item):
                    yield from self.record(row, f"{place}/{number}")
            else:
                self.ledger.seen()
                self.ledger.skipped("unknown-record", place)

    def array(self, data: Any, start: int) -> Iterator[Row]:
        """Take an array element by element over mapped bytes."""
        view = memoryview(data)
        last, number, whole = start + 1, 0, True
        for offset, part in jsonio.elements(data, start):
            if part is None:
                whole = False
                break
            last = offset + len(part)
            self.ledger.seen()
            self.raw = part
            yield from self.element(part, number)
            number += 1
        self.raw = None
        rest = bytes(view[last:]).lstrip(_SPACE + b",") if whole else bytes(view[last:])
        if whole and rest[:1] == b"]" and not rest[1:].strip(_SPACE + b"\x00"):
            return
        yield from self.tail(rest, number, whole=whole)

    def element(self, part: memoryview, number: int) -> Iterator[Row]:
        try:
            value = self.try_typed(part)
            if value is None:
                value = _decode(part)
        except (msgspec.DecodeError, RecursionError, ValueError):
            try:
                value = jsonio.load(bytes(part), self.ledger, path=self.name)[0]
            except BadInput:
                self.ledger.skipped("malformed-record", f"/{number}")
                return
        yield from self.record(value, f"/{number}")

    def tail(self, rest: bytes, number: int, *, whole: bool) -> Iterator[Row]:
        """Take what follows the last whole element: a damaged or cut array, or more documents."""
        if whole:
            for value in jsonio.load(rest[1:], self.ledger, path=self.name):
                yield from self.document(value)
            return
        rest = rest.lstrip(_SPACE + b",")
        if not rest:
            self.ledger.note("truncated-input", f"/{number}")
            return
        before = self.ledger.count("truncated-input")
        try:
            values = jsonio.load(b"[" + rest, self.ledger, path=self.name)
        except BadInput:
            self.ledger.seen()
            self.ledger.skipped("malformed-record", f"/{number}")
            return
        first = values[0] if isinstance(values[0], list) else []
        self.ledger.seen(len(first))
        for item in first:
            yield from self.record(item, f"/{number}")
            number += 1
        if not first and self.ledger.count("truncated-input") == before:
            self.ledger.note("truncated-input", f"/{number}")
        for value in values[1:]:
            yield from self.document(value)


def _container(head: Head) -> tuple[str, int]:
    """Give ``lines``, ``array`` or ``document``, and where the array starts."""
    data = head.data
    start = len(_BOM) if data.startswith(_BOM) else 0
    body = data[start:]
    if body[:2] in (b"\xff\xfe", b"\xfe\xff") or body[:4] == b"\x00\x00\xfe\xff":
        text = head.text.lstrip("\ufeff \t\r\n").encode("utf-8", "replace")
        return ("lines" if _is_lines(text) else "document"), 0
    stripped = body.lstrip(_SPACE)
    start += len(body) - len(stripped)
    if _is_lines(stripped):
        return "lines", 0
    return ("array", start) if stripped[:1] == b"[" else ("document", 0)


def _is_one_line(source: Input) -> bool:
    """Whether an input without a line break in its head has none further on either."""
    if b"\n" in source.head.data:
        return False
    data = source.view()
    return not 0 <= data.find(b"\n") < len(data) - 1


def _is_lines(data: bytes) -> bool:
    """Whether the text is JSON Lines rather than one document (which may stand on one line)."""
    first, found, rest = data.partition(b"\n")
    first = first.strip(_SPACE)
    if not found:
        return first[:1] == b"{"
    if not rest.strip(_SPACE):
        return first[:1] == b"{" and _parses(first)
    if first[:1] in b"{[" and first:
        torn = first[-1:] not in b"{[,:" and len(jsonio.leading_values(data)) > 1
        return torn or _parses(first)
    return any(_parses(line) for line in rest.split(b"\n", _SAMPLE)[:_SAMPLE])


def _parses(line: bytes) -> bool:
    line = line.strip(_SPACE)
    if line[:1] not in (b"{", b"["):
        return False
    try:
        _decode(line)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    return True


def untyped(row: Row) -> Row:
    """Give a row that came as a struct in its untyped form."""
    return row._replace(value=_decode(row.raw or b"null"))


def best_match(head: Head, judge: Callable[[Any], Match | None]) -> Match | None:
    """Give the highest score that ``judge`` finds among the candidates, the first of equals."""
    best: Match | None = None
    for value in head.samples:
        match = judge(value)
        if match is not None and (best is None or match.score > best.score):
            best = match
    return best


def sessions_of(row: Row, found: Iterable[Session], ledger: Ledger) -> Iterator[Session]:
    """Give the sessions of a row that hold a turn, and then the row its fate, if it is a record.

    A row without any is ``empty-session``.
    """
    held = False
    for session in found:
        if session.turns:
            held = True
            yield session
    if row.record and held:
        ledger.mapped()
    elif row.record:
        ledger.skipped("empty-session", row.place)


def pointer(base: int | str, name: str) -> str:
    """Give a JSON pointer for a member; base may be a line number."""
    return f"{base}/{name.replace('~', '~0').replace('/', '~1')}"


def mint_id(content: bytes | memoryview, position: int) -> str:
    """Give the uuid5 of content and position, for a source without ids (DESIGN, section 2)."""
    inner = blake3(content).hexdigest()
    text = hashlib.sha1(  # noqa: S324 - uuid5 is made of SHA-1, nothing relies on its strength
        _NAMESPACE + f"{position}:{inner}".encode()
    ).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"


def text_of(value: Any) -> str | None:
    """Give a text that is not empty, else ``None``."""
    return value if isinstance(value, str) and value else None


def write_rows(sink: Sink, documents: Iterable[Any], *, lines: bool) -> None:
    """Write conversations as they come: one per line, or one indented document, or an array."""
    if lines:
        for document in documents:
            sink.write(jsonio.dumps(document) + b"\n")
        return
    first: Any = None
    count = 0
    for document in documents:
        if count == 0:
            first = document
        elif count == 1:
            sink.write(b"[\n" + jsonio.dumps(first) + b",\n" + jsonio.dumps(document))
            first = None
        else:
            sink.write(b",\n" + jsonio.dumps(document))
        count += 1
    if count == 1:
        sink.write(jsonio.dumps(first, indent=True) + b"\n")
    elif count:
        sink.write(b"\n]\n")
