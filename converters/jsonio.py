"""Tolerant JSON and JSON Lines: the fast decoder first, repair and a ledger entry on failure.

Lines are cut at byte 0x0A only. The exact mode (:func:`loads_exact`) repairs
nothing and serves fingerprints; :mod:`converters.canonical` writes for them.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
import orjson

from converters.errors import BadInput, LimitReached

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterator

    from converters.ledger import Ledger

__all__ = [
    "DEPTH",
    "dumps",
    "elements",
    "leading_values",
    "load",
    "loads_exact",
    "objects",
    "records",
    "sniff_text",
]

DEPTH: Final = 512
"""Container levels that dcb reads; deeper values are malformed."""

_CHUNK: Final = 1 << 20
_decode = msgspec.json.decode
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SPACE: Final = b" \t\r\n"
_TRIES: Final = 256
_WORK: Final = 64 << 20
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
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
) -> Iterator[tuple[int, Any]]:
    """Give ``(line number, value)`` for every record of JSON Lines, and count them as seen.

    ``decode`` may be typed; a record that it refuses comes as an untyped ``dict``
    (repaired where necessary), so a typed reader has a slow path for odd shapes.
    With ``objects`` values that are no objects are skipped here. What cannot be
    read is skipped with ``malformed-record``, a torn last line with
    ``truncated-input``. Memory: one line.
    """
    stream, repaired = _utf8(source)
    if repaired:
        ledger.note("encoding-repaired", 1)
    seen = 0
    try:
        for number, raw in enumerate(stream, 1):
            try:
                value = decode(raw)
            except (msgspec.DecodeError, RecursionError, ValueError):
                if not raw.strip(_SPACE):
                    continue
            else:
                if not objects or not isinstance(value, int | float | str | list | None):
                    seen += 1
                    yield number, value
                    continue
            for value in _recover(raw, number, ledger, torn=not raw.endswith(b"\n")):
                if objects and not isinstance(value, dict):
                    ledger.seen()
                    ledger.skipped("malformed-record", number, kind=_NAMES[type(value)])
                    continue
                seen += 1
                yield number, value
    finally:
        ledger.seen(seen)


def _recover(raw: bytes, number: int, ledger: Ledger, *, torn: bool) -> Iterator[Any]:
    """Give every value that the line still holds; count what it does not give."""
    lost = "truncated-input" if torn else "malformed-record"
    stripped = raw.rstrip(b"\x00 \t\r\n")
    if len(stripped) < len(raw.rstrip(_SPACE)):
        ledger.seen()
        ledger.skipped("truncated-input", number)
    if not stripped:
        return
    text = _text(stripped, number, ledger)
    position, size = 0, len(text)
    while position < size:
        try:
            value, end = _parse(text, position, number, ledger)
        except _Unreadable:
            ledger.seen()
            if not text[position:].lstrip().startswith(("{", "[")):
                ledger.skipped("text-outside-records", number)
            else:
                ledger.skipped(lost, number)
            start = _whole_suffix(text, position + 1)
            if start < 0:
                return
            position = start
        else:
            yield value
            position = _skip_space(text, end)
            if position < size:
                ledger.note("malformed-record", number, kind="glued")


def _whole_suffix(text: str, start: int) -> int:
    """Find the longest suffix that is one whole object; -1 when there is none."""
    budget = _WORK
    for _ in range(_TRIES):
        start = text.find('{"', start)
        if start < 0 or budget < 0:
            return -1
        budget -= len(text) - start
        try:
            json.loads(text[start:], strict=False)
        except (ValueError, RecursionError):
            start += 1
        else:
            return start
    return -1


class _Unreadable(ValueError):
    pass


class _Counts:
    """The repairs of one value."""

    __slots__ = ("duplicates", "numbers")

    def __init__(self) -> None:
        self.duplicates = 0
        self.numbers = 0

    def constant(self, _: str) -> None:
        self.numbers += 1

    def float(self, text: str) -> float | None:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self.numbers += 1
            return None
        return value

    def int(self, text: str) -> int | str:
        if len(text) > 4300:
            self.numbers += 1
            return text
        return int(text)

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        self.duplicates += len(pairs) - len(value)
        return value


def _parse(text: str, position: int, place: int | str | None, ledger: Ledger) -> tuple[Any, int]:
    """Parse one value at ``position`` with every repair that dcb knows."""
    counts = _Counts()
    decoder = json.JSONDecoder(
        strict=False,
        parse_constant=counts.constant,
        parse_float=counts.float,
        parse_int=counts.int,
        object_pairs_hook=counts.pairs,
    )
    start = _skip_space(text, position)
    if _depth(text, start) > DEPTH:
        raise _Unreadable
    try:
        value, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise _Unreadable from error
    if counts.duplicates:
        ledger.note("duplicate-key", place, counts.duplicates)
    if counts.numbers:
        ledger.note("lossy-number", place, counts.numbers)
    part = text[start:end]
    if _CONTROL.search(part):
        ledger.note("control-repaired", place)
    if "\\u" in part or _SURROGATE.search(part):
        value, halves = _mend_surrogates(value)
        if halves:
            ledger.note("lone-surrogate", place, halves)
    return value, end


_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _mend_surrogates(value: Any) -> tuple[Any, int]:
    """Replace lone halves by U+FFFD, join halves that belong together; count the lone ones."""
    count = 0

    def mend(text: str) -> str:
        nonlocal count
        if not _SURROGATE.search(text):
            return text
        text = _PAIR.sub(
            lambda m: m[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text
        )
        text, n = _SURROGATE.subn("\ufffd", text)
        count += n
        return text

    if isinstance(value, str):
        return mend(value), count
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for key, child in list(item.items()):
                if isinstance(child, str):
                    item[key] = mend(child)
                elif isinstance(child, dict | list):
                    stack.append(child)
                if _SURROGATE.search(key):
                    item[mend(key)] = item.pop(key)
        elif isinstance(item, list):
            for index, child in enumerate(item):
                if isinstance(child, str):
                    item[index] = mend(child)
                elif isinstance(child, dict | list):
                    stack.append(child)
    return value, count


def _text(raw: bytes, place: int | str | None, ledger: Ledger) -> str:
    """Decode UTF-8; CESU-8 halves stay halves, other bad bytes become U+FFFD."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        ledger.note("encoding-repaired", place)
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _depth(text: str, start: int) -> int:
    """Give the deepest container level from ``start``, counted by a loop."""
    if text.count("[", start) + text.count("{", start) <= DEPTH:
        return 0
    level = deepest = 0
    for token in _TOKEN.finditer(text.encode("utf-8", "surrogatepass"), start):
        mark = token[0][:1]
        if mark in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif mark in b"]}":
            level -= 1
            if level <= 0:
                break
    return deepest


def _utf8(source: BinaryIO) -> tuple[BinaryIO, bool]:
    """Give a stream of UTF-8 without BOM, and whether bytes had to be repaired."""
    head = source.peek(4)[:4] if isinstance(source, io.BufferedReader) else b""
    if not head:
        head = source.read(4)
        source = _Prefixed(head, source)  # type: ignore[assignment]
    for bom, encoding in _BOMS:
        if head.startswith(bom):
            if encoding == "utf-8-sig":
                source.read(3)
                return source, True
            text = source.read().decode(encoding, "replace")
            return io.BytesIO(text.encode("utf-8", "replace")), True
    return source, False


class _Prefixed(io.RawIOBase):
    """A stream with some bytes put back in front."""

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

    def __iter__(self) -> Iterator[bytes]:
        return iter(io.BufferedReader(self, _CHUNK))


def load(data: bytes, ledger: Ledger, *, path: str | None = None) -> list[Any]:
    """Give the JSON values of a document: normally one.

    Several documents in one file come as several values. Raises
    :class:`BadInput` with a byte position when no value can be read. A document
    that is cut gives its whole parts (``truncated-input``).
    """
    try:
        return [_decode(data)]
    except (msgspec.DecodeError, RecursionError, ValueError):
        pass
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            data = data.decode(encoding, "replace").encode()
            ledger.note("encoding-repaired", "byte 0")
            break
    text = _text(data, "byte 0", ledger)
    values: list[Any] = []
    position = _skip_space(text, 0)
    while position < len(text):
        try:
            value, end = _parse(text, position, f"byte {position}", ledger)
        except _Unreadable as error:
            if not text[position:].strip("\x00 \t\r\n"):
                break
            if _depth(text, position) > DEPTH:
                raise LimitReached(
                    f"JSON deeper than {DEPTH} levels", path=path, position=f"byte {position}"
                ) from error
            closed = _closed(text[position:].encode("utf-8", "replace"))
            if text[position] in "[{" and closed is not None:
                value, _ = _parse(closed, 0, f"byte {position}", ledger)
                values.append(value)
                ledger.note("truncated-input", f"byte {len(data)}")
                break
            start = _next_document(text, position)
            if start < 0:
                if values:
                    ledger.note("text-outside-records", f"byte {position}")
                    break
                raise BadInput("not JSON", path=path, position=f"byte {_error_at(text)}") from error
            ledger.note("text-outside-records", f"byte {position}")
            position = start
        else:
            values.append(value)
            position = _skip_space(text, end)
    if not values:
        raise BadInput("no JSON value in it", path=path)
    return values


def _next_document(text: str, position: int) -> int:
    """Find the next line that starts like a document, or the first brace of a banner."""
    for mark in ("\n{", "\n[", "{", "["):
        start = text.find(mark, position + 1)
        if start >= 0:
            return start + len(mark) - 1
    return -1


def _error_at(text: str) -> int:
    try:
        json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        return error.pos
    except (ValueError, RecursionError):
        pass
    return 0


def _closed(data: bytes) -> str | None:
    """Close a JSON text where it was cut, after its last whole value; ``None`` if it was not cut.

    A member name without its value is dropped with its comma.
    """
    stack: list[int] = []
    cut, closers = 0, b""
    for token in _TOKEN.finditer(data):
        mark = token[0]
        first = mark[0]
        if first in b"[{":
            stack.append(first)
            if len(stack) > DEPTH:
                return None
            cut, closers = token.end(), _closers(stack)
        elif first in b"]}":
            if not stack:
                return None
            stack.pop()
            cut, closers = token.end(), _closers(stack)
            if not stack:
                return None
        elif len(mark) > 1 and mark.endswith(b'"') and stack:
            after = data[token.end() : token.end() + 64].lstrip(_SPACE)[:1]
            if after in (b",", b"]", b"}"):
                cut, closers = token.end(), _closers(stack)
    return (data[:cut] + closers).decode("utf-8", "replace") if stack else None


def _closers(stack: list[int]) -> bytes:
    return bytes(0x5D if mark == 0x5B else 0x7D for mark in reversed(stack))


def elements(data: bytes | mmap.mmap, start: int = 0) -> Iterator[tuple[int, memoryview | None]]:
    """Give ``(byte offset, slice)`` for each element of the JSON array at ``start``.

    One element at a time over mapped bytes, so that memory is bounded by the
    largest one. A cut array ends with ``(offset, None)`` after its whole
    elements. The caller decodes the slices.
    """
    view = memoryview(data)
    size = len(view)
    position = _first_of(view, start, size)
    if position >= size or view[position] != 0x5B:
        raise BadInput("not a JSON array", position=f"byte {start}")
    position += 1
    while True:
        position = _first_of(view, position, size)
        if position >= size:
            yield position, None
            return
        if view[position] == 0x5D:
            return
        if view[position] == 0x2C:
            position += 1
            continue
        end = _end_of_value(view, position, size)
        if end < 0:
            yield position, None
            return
        yield position, view[position:end]
        position = end


def _first_of(view: memoryview, position: int, size: int) -> int:
    while position < size and view[position] in b" \t\r\n":
        position += 1
    return position


_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")


def _end_of_value(view: memoryview, start: int, size: int) -> int:
    """Find the end of the value at ``start``: msgspec skips it in C and names the next byte."""
    window = 1 << 16
    while True:
        end = min(start + window, size)
        try:
            msgspec.json.decode(view[start:end], type=msgspec.Raw)
        except msgspec.DecodeError as error:
            found = _TRAILING.search(str(error))
            if found:
                # The byte named is the one after the first trailing character.
                return start + int(found[1]) - 1
            if end == size:
                return -1
        else:
            # A whole value that ends with the window may go on (a number), an object cannot.
            if end == size or view[end - 1] in b'}]"':
                return end
        window *= 4


def leading_values(data: bytes) -> tuple[Any, ...]:
    """Give what a probe may look at: the root of a document or up to 20 JSONL values.

    ``data`` is the head of an input; never raises.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            data = data.decode(encoding, "replace").encode("utf-8", "replace")
            break
    if not data.lstrip(_SPACE).startswith((b"{", b"[")):
        return _leading_lines(data)
    value = _lenient(data)
    if value is not None:
        return (value,)
    lines = _leading_lines(data)
    if lines:
        return lines
    closed = _closed(data)
    value = _lenient(closed.encode()) if closed else None
    return () if value is None else (value,)


def _leading_lines(data: bytes) -> tuple[Any, ...]:
    values: list[Any] = []
    for raw in data.split(b"\n", 200)[:200]:
        value = _lenient(raw) if raw.lstrip(_SPACE)[:1] in (b"{", b"[") else None
        if value is not None:
            values.append(value)
            if len(values) == 20:
                break
    return tuple(values)


def _lenient(data: bytes) -> Any:
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def sniff_text(data: bytes) -> str:
    """Decode the head of an input for a probe; BOM and UTF-16 honoured, bad bytes replaced."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace")


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

    Raises ``ValueError`` for anything that is not JSON.
    """
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    if _depth(text, 0) > DEPTH:
        raise ValueError("too deep")
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """Write JSON, UTF-8, members in order; integers past 64 bits stay exact."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None)
    except TypeError:
        text = json.dumps(
            value,
            ensure_ascii=False,
            indent=2 if indent else None,
            separators=None if indent else (",", ":"),
        )
        return text.encode("utf-8", "replace")
