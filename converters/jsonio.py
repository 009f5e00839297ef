"""Tolerant JSON and JSON Lines: the fast decoder first, repair and a ledger entry on failure.

Lines are cut at byte 0x0A only. When a member comes twice the last one counts,
on the fast and the slow path alike; the slow path reports it, and
:func:`duplicate_keys` tells strict callers. The exact mode (:func:`loads_exact`)
repairs nothing and serves fingerprints; :mod:`converters.canonical` writes for them.
"""

from __future__ import annotations

import io
import json
import re
from operator import length_hint
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import msgspec
import orjson

from converters.errors import BadInput, LimitReached
from converters.jsonrepair import (
    BOMS,
    DEPTH,
    SPACE,
    Parser,
    Unreadable,
    close_cut,
    decode_text,
    deep_value,
    many_levels,
    recover,
    skip_space,
    too_deep,
)
from converters.jsonscan import elements
from converters.jsonwrite import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from converters.ledger import Ledger

__all__ = [
    "DEPTH",
    "dumps",
    "duplicate_keys",
    "elements",
    "is_wide",
    "leading_values",
    "load",
    "loads_exact",
    "objects",
    "records",
    "sniff_text",
]

_CHUNK: Final = 1 << 20
_decode = msgspec.json.decode
_REFUSED: Final = (msgspec.DecodeError, RecursionError, ValueError)
_PLAIN: Final = frozenset({int, float, bool, str, list, type(None)})
_SHALLOW: Final = 2 * DEPTH
_AHEAD: Final = 64 << 10
_BANNERS: Final = 64
_MORE: Final = re.compile(rb"[^ \t\r\n]")
_NAMES: Final = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def records(
    source: BinaryIO,
    ledger: Ledger,
    *,
    decode: Callable[[bytes], Any] = _decode,
    objects: bool = True,
    ahead: bool = False,
) -> Iterator[tuple[int, Any]]:
    """Give ``(line number, value)`` for every record of JSON Lines, and count them as seen.

    ``decode`` may be typed; a record that it refuses comes as an untyped ``dict``
    (repaired where necessary), so a typed reader has a slow path for odd shapes. With
    ``ahead`` a typed decoder without a state runs up to 64 KiB of lines ahead of the reader.
    With ``objects`` untyped values that are no objects are skipped here. What cannot be
    read is skipped with ``malformed-record``, a torn last line with
    ``truncated-input``; a whole record that is glued to a torn one is recovered.
    Memory: one line, or those ahead. Depth is checked here for untyped values only: a typed
    decoder goes no deeper than its types, and skips the rest within its own limit.
    """
    stream, repaired = _utf8(source)
    if repaired:
        ledger.note("encoding-repaired", 1)
    lines = _Lines(ledger, decode, objects=objects)
    return lines.ahead(stream) if ahead else lines.each(enumerate(stream, 1))


class _Lines:
    """One reading of JSON Lines; ``good`` is the last line that the decoder took."""

    def __init__(self, ledger: Ledger, decode: Callable[[bytes], Any], *, objects: bool) -> None:
        self._ledger, self._decode, self._objects = ledger, decode, objects
        self._good = b""
        self._refused = 0

    def ahead(self, stream: BinaryIO) -> Iterator[tuple[int, Any]]:
        """Decode some lines at once, without a step of Python for each."""
        start, smooth = 1, True
        while lines := stream.readlines(_AHEAD):
            values = self._all(lines) if smooth else None
            if values is None:
                before = self._refused
                yield from self.each(enumerate(lines, start))
                # Where lines are refused now and then, two attempts would cost more.
                smooth = self._refused == before
            else:
                numbers = iter(range(start, start + len(lines)))
                try:
                    yield from zip(numbers, values, strict=False)
                finally:
                    self._ledger.seen(len(lines) - length_hint(numbers))
                self._good = lines[-1]
            start += len(lines)

    def _all(self, lines: list[bytes]) -> list[Any] | None:
        try:
            return list(map(self._decode, lines))
        except _REFUSED:
            return None

    def each(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Any]]:
        """Decode line by line."""
        ledger, decode, objects = self._ledger, self._decode, self._objects
        typed = decode is not _decode
        seen = 0
        try:
            for number, raw in lines:
                try:
                    value = decode(raw)
                except _REFUSED:
                    self._refused += 1
                    if not raw.strip(SPACE):
                        continue
                else:
                    if typed or (
                        (not objects or type(value) not in _PLAIN)
                        and (len(raw) <= _SHALLOW or not _deep(value, raw))
                    ):
                        seen += 1
                        self._good = raw
                        yield number, value
                        continue
                torn = not raw.endswith(b"\n")
                for value in _slowly(raw, number, ledger, torn=torn, model=self._good):
                    if objects and type(value) is not dict:
                        ledger.seen()
                        ledger.skipped("malformed-record", number, kind=_NAMES[type(value)])
                        continue
                    seen += 1
                    yield number, value
        finally:
            ledger.seen(seen)


def _slowly(raw: bytes, number: int, ledger: Ledger, *, torn: bool, model: bytes) -> Iterator[Any]:
    """Give what a line holds that the reader's decoder refused: untyped, then with repairs."""
    try:
        value = _decode(raw)
    except _REFUSED:
        pass
    else:
        if not _deep(value, raw):
            yield value
            return
    yield from recover(raw, number, ledger, torn=torn, model=model)


def _deep(value: Any, raw: bytes) -> bool:
    """Whether a value is too deep; its brackets are counted first, which is quicker."""
    return many_levels(raw) and deep_value(value)


def _utf8(source: BinaryIO) -> tuple[BinaryIO, bool]:
    """Give a stream of UTF-8 without BOM, and whether bytes had to be repaired."""
    if isinstance(source, io.BufferedReader):
        head = source.peek(4)[:4]
    else:
        head = source.read(4)
        source = io.BufferedReader(_Prefixed(head, source), _CHUNK)
    for bom, encoding in BOMS:
        if head.startswith(bom):
            if encoding == "utf-8-sig":
                source.read(len(bom))
                return source, True
            text = source.read().decode(encoding, "replace")
            return io.BytesIO(text.encode("utf-8", "replace")), True
    return source, False


class _Prefixed(io.RawIOBase):
    """A stream with some bytes put back in front. Closing it leaves the stream open."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head or self._rest.read(len(buffer))
        self._head = data[len(buffer) :]
        data = data[: len(buffer)]
        buffer[: len(data)] = data
        return len(data)


def load(data: bytes, ledger: Ledger, *, path: str | None = None) -> list[Any]:
    """Give the JSON values of a document: normally one.

    Several documents in one file come as several values. Raises
    :class:`BadInput` with a byte position when no value can be read, and
    :class:`LimitReached` for more than :data:`DEPTH` levels. A document that is
    cut gives its whole parts (``truncated-input``).
    """
    try:
        value = _decode(data)
    except _REFUSED:
        pass
    else:
        if deep_value(value):
            raise LimitReached(f"JSON deeper than {DEPTH} levels", path=path, position="byte 0")
        return [value]
    encoding = _encoding(data)
    if encoding:
        data = data.decode(encoding, "replace").encode("utf-8", "replace")
        ledger.note("encoding-repaired", "byte 0")
    return _Document(decode_text(data, "byte 0", ledger), ledger, path).values()


def _encoding(data: bytes) -> str | None:
    return next((encoding for bom, encoding in BOMS if data.startswith(bom)), None)


class _Document:
    """The text of a document that the fast decoder refused."""

    def __init__(self, text: str, ledger: Ledger, path: str | None) -> None:
        self._text, self._ledger, self._path = text, ledger, path
        self._parser = Parser()
        self._known = (0, 0)

    def values(self) -> list[Any]:
        """Give its values."""
        text = self._text
        found: list[Any] = []
        banners = 0
        position = skip_space(text, 0)
        while position < len(text):
            try:
                value, end = self._parser.parse(text, position)
            except Unreadable as error:
                if error.end >= 0:
                    raise LimitReached(
                        f"JSON deeper than {DEPTH} levels",
                        path=self._path,
                        position=self._place(position),
                    ) from error
                if not text[position:].strip("\x00 \t\r\n"):
                    if found:
                        self._ledger.note("truncated-input", self._place(position))
                    break
                if self._cut(position, found):
                    break
                end = error.at
            else:
                behind = skip_space(text, end)
                if isinstance(value, dict | list) or (not found and behind == len(text)):
                    if self._parser.any():
                        self._parser.note(self._place(position), self._ledger)
                    found.append(value)
                    position = behind
                    continue
                end = behind  # a word or a number in running text
            banners += 1
            start = self._behind_banner(position, end) if banners < _BANNERS else -1
            if start < 0 and not found:
                raise BadInput("not JSON", path=self._path, position=self._place(end))
            self._ledger.note("text-outside-records", self._place(position))
            if start < 0:
                break
            position = start
        if not found:
            raise BadInput("no JSON value in it", path=self._path)
        return found

    def _place(self, position: int) -> str:
        """Give ``byte N`` for a place in the text; places come in order."""
        char, byte = self._known
        if position < char:
            char = byte = 0
        byte += len(self._text[char:position].encode())
        self._known = position, byte
        return f"byte {byte}"

    def _cut(self, position: int, found: list[Any]) -> bool:
        """Take the whole parts of a document that ends too early."""
        if self._text[position] not in "[{":
            return False
        closed = close_cut(self._text[position:].rstrip("\x00").encode())
        if closed is None:
            return False
        try:
            value, _ = self._parser.parse(closed.decode(), 0)
        except Unreadable:
            return False
        self._parser.note(self._place(position), self._ledger)
        found.append(value)
        self._ledger.note("truncated-input", self._place(len(self._text)))
        return True

    def _behind_banner(self, position: int, at: int) -> int:
        """Give the place of a document behind text that is none; -1 when there is none.

        A document that is damaged in itself is no banner: nothing inside it
        passes for the document.
        """
        text = self._text
        if text[position] in "[{":
            line = text.find("\n", position)
            if not 0 <= at <= line:
                return -1
            found = [text.find(mark, line) + 1 for mark in ("\n{", "\n[")]
        else:
            found = [text.find(mark, position) for mark in "{["]
        return min((place for place in found if place > position), default=-1)


def duplicate_keys(data: bytes | str) -> list[str]:
    """Give a JSON pointer for each member whose name an object repeats, in document order.

    For callers that must refuse such documents: two readers could take two
    different values. Text that is not JSON gives an empty list.
    """
    repeated: dict[int, _Repeated] = {}

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(members)
        if len(value) < len(members):
            names: dict[str, int] = {}
            for name, _ in members:
                names[name] = names.get(name, 0) + 1
            twice = [name for name, count in names.items() if count > 1]
            repeated[id(value)] = _Repeated(value, twice)
        return value

    try:
        text = data if isinstance(data, str) else sniff_text(data)
        root = json.JSONDecoder(strict=False, object_pairs_hook=pairs).decode(text)
    except (ValueError, RecursionError):
        return []
    if not repeated:
        return []
    found: list[str] = []
    stack = [("", root)]
    while stack:
        pointer, value = stack.pop()
        if isinstance(value, dict):
            if id(value) in repeated:
                names = repeated[id(value)].names
                found += [f"{pointer}/{_escaped(name)}" for name in names]
            items = [(f"{pointer}/{_escaped(name)}", child) for name, child in value.items()]
            stack += reversed(items)
        elif isinstance(value, list):
            stack += [(f"{pointer}/{n}", value[n]) for n in range(len(value) - 1, -1, -1)]
    return found


class _Repeated(NamedTuple):
    """An object that repeats names; it is kept so that its id stays its own."""

    value: dict[str, Any]
    names: list[str]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def leading_values(data: bytes) -> tuple[Any, ...]:
    """Give what a probe may look at: the root of a document or up to 20 JSONL values.

    ``data`` is the head of an input; never raises.
    """
    encoding = _encoding(data)
    if encoding:
        text = data.decode(encoding, "replace").lstrip("\ufeff")  # some writers put it twice
        data = text.encode("utf-8", "replace")
    data = data.lstrip(SPACE + b"\x00")
    if not data.startswith((b"{", b"[")):
        return _leading_lines(data)
    end = data.find(b"\n")
    whole = _lenient(data if end < 0 else data[:end])
    if whole is not None and end >= 0 and _MORE.search(data, end):
        # A document has nothing behind its end.
        return _leading_lines(data)
    value = _lenient(data) if whole is None else whole
    if value is not None:
        return (value,)
    lines = _leading_lines(data)
    closed = close_cut(data)
    value = _lenient(closed) if closed else None
    return lines if value is None else (value,)


def _leading_lines(data: bytes) -> tuple[Any, ...]:
    values: list[Any] = []
    start = 0
    for _ in range(200):
        end = data.find(b"\n", start)
        raw = data[start:] if end < 0 else data[start:end]
        value = _lenient(raw) if raw.lstrip(SPACE)[:1] in (b"{", b"[") else None
        if value is not None:
            values.append(value)
            if len(values) == 20:
                break
        if end < 0:
            break
        start = end + 1
    return tuple(values)


def _lenient(data: bytes) -> Any:
    try:
        return _decode(data)
    except _REFUSED:
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def is_wide(data: bytes) -> bool:
    """Whether the head of an input is UTF-16 or UTF-32, so that its texts are no ASCII bytes."""
    return bool(_encoding(data))


def sniff_text(data: bytes) -> str:
    """Decode the head of an input for a probe; BOM and UTF-16 honoured, bad bytes replaced."""
    return data.decode(_encoding(data) or "utf-8", "replace")


def objects(value: Any, ledger: Ledger, pointer: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give ``(JSON pointer, object)`` for each element of a list inside a document.

    Each element counts as one record seen; elements that are no objects are skipped.
    A value that is no list counts as one malformed record (``None`` as nothing).
    """
    if not isinstance(value, list):
        if value is not None:
            ledger.seen()
            ledger.skipped("malformed-record", pointer, kind=_NAMES.get(type(value), "?"))
        return
    ledger.seen(len(value))
    for index, item in enumerate(value):
        if isinstance(item, dict):
            yield f"{pointer}/{index}", item
        else:
            ledger.skipped("malformed-record", f"{pointer}/{index}", kind=_NAMES[type(item)])


def loads_exact(data: bytes | str) -> Any:
    """Parse for a fingerprint: nothing is repaired, integers stay exact, a later key wins.

    Raises ``ValueError`` for anything that is not JSON, also for more than
    :data:`DEPTH` levels and for integers of more than 4300 digits.
    """
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    if too_deep(text.encode("utf-8", "surrogatepass")):
        raise ValueError("too deep")
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("too deep") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """Write JSON, UTF-8, members in order; integers past 64 bits stay exact.

    Never raises: lone surrogates become U+FFFD, NaN and infinities null, a
    container inside itself null, an unknown object its text.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None)
    except TypeError:
        return write(value, indent=indent)
