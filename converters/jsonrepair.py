"""The slow path of :mod:`converters.jsonio`: JSON that the fast decoder refuses.

Every function here is linear in its input, or stops at a stated amount of work:
the input may be made to be slow.
"""

from __future__ import annotations

import codecs
import itertools
import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ledger import Ledger

__all__ = [
    "BOMS",
    "DEPTH",
    "SPACE",
    "Parser",
    "Unreadable",
    "close_cut",
    "decode_text",
    "deep_value",
    "many_levels",
    "recover",
    "skip_space",
    "too_deep",
]

DEPTH: Final = 512
"""Container levels that dcb reads; deeper values are malformed."""

SPACE: Final = b" \t\r\n"
BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_TRIES: Final = 256
_WORK: Final = 64 << 20
_ROUNDS: Final = 32
_SHORT: Final = 1 << 20
_FIRST: Final = 2048
_TOKENS: Final = 1 << 20
_SCALARS: Final = 64
_DIGITS: Final = 4300
_NOT_BRACKETS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[^\[\]{}"]++', re.DOTALL)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_BRACKET: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_TEXT_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_COLON: Final = re.compile(r"[ \t\r\n]*+:")
_PAIR_BYTES: Final = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")
_HALF_BYTES: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SPACES: Final = re.compile(r"[ \t\r\n]*+")


def many_levels(data: bytes) -> bool:
    """Whether JSON has more than :data:`DEPTH` opening brackets, so that it may be too deep."""
    if len(data) <= 2 * DEPTH:
        return False
    # Counting single bytes is slow in CPython; deleting them goes by memchr.
    left = 2 * len(data) - DEPTH
    return len(data.replace(b"{", b"", DEPTH + 1)) + len(data.replace(b"[", b"", DEPTH + 1)) < left


def too_deep(data: bytes) -> bool:
    """Whether JSON nests more than :data:`DEPTH` levels; strings do not count."""
    if not many_levels(data):
        return False
    if len(data) > _SHORT:
        level = 0
        for token in itertools.islice(_BRACKET.finditer(data), _FIRST):
            mark = token[0]
            if mark in b"[{":
                level += 1
                if level > DEPTH:
                    return True
            elif mark in b"]}":
                level = max(level - 1, 0)
    brackets = fewer = _NOT_BRACKETS.sub(b"", data)
    for done in range(1, _ROUNDS):
        # Each round takes away the innermost level, or two of them.
        before, fewer = fewer, fewer.replace(b"{}", b"").replace(b"[]", b"")
        if len(fewer) + 2 * done <= DEPTH:
            return False
        if len(fewer) == len(before):
            break
    level = 0
    for bracket in brackets:
        level = max(level + (1 if bracket in b"[{" else -1), 0)
        if level > DEPTH:
            return True
    return False


def deep_value(value: Any) -> bool:
    """Whether a decoded value has more than :data:`DEPTH` container levels."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if type(item) is dict else item)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def decode_text(raw: bytes, place: int | str | None, ledger: Ledger) -> str:
    """Decode UTF-8; pairs in CESU-8 become their character, other bad bytes U+FFFD."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        ledger.note("encoding-repaired", place)
    raw = _PAIR_BYTES.sub(_join_bytes, raw)
    raw, halves = _HALF_BYTES.subn("\ufffd".encode(), raw)
    if halves:
        ledger.note("lone-surrogate", place, halves)
    return raw.decode("utf-8", "replace")


def _join_bytes(match: re.Match[bytes]) -> bytes:
    return _join(match[0].decode("utf-8", "surrogatepass")).encode()


def _join(pair: str) -> str:
    return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


class Unreadable(ValueError):
    """No value can be had here.

    ``at``: where the text stops being JSON. ``end``: the end of a value that is
    whole but too deep, else -1.
    """

    def __init__(self, at: int, end: int = -1) -> None:
        super().__init__(at)
        self.at = at
        self.end = end


class Parser:
    """Parses values with every repair that dcb knows, and counts the repairs of the last one."""

    __slots__ = ("_decoder", "controls", "duplicates", "halves", "numbers")

    def __init__(self) -> None:
        self.controls = self.duplicates = self.halves = self.numbers = 0
        self._decoder = json.JSONDecoder(
            strict=False,
            parse_constant=self._constant,
            parse_float=self._float,
            parse_int=self._int,
            object_pairs_hook=self._pairs,
        )

    def parse(self, text: str, position: int) -> tuple[Any, int]:
        """Give the value at ``position`` and the place behind it; or raise :class:`Unreadable`."""
        self.controls = self.duplicates = self.halves = self.numbers = 0
        try:
            value, end = self._decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise Unreadable(error.pos) from error
        except RecursionError as error:
            raise Unreadable(position, _end_of(text, position)) from error
        part = text[position:end]
        if len(part) > 2 * DEPTH and too_deep(part.encode("utf-8", "replace")):
            raise Unreadable(position, end)
        if _CONTROL.search(part):
            self.controls = sum(
                1
                for token in _TEXT_TOKEN.finditer(part)
                if token[0].startswith('"') and _CONTROL.search(token[0])
            )
        if "\\u" in part:
            value = self._mend_surrogates(value)
        return value, end

    def any(self) -> bool:
        """Whether there is one."""
        return bool(self.controls or self.duplicates or self.halves or self.numbers)

    def note(self, place: int | str | None, ledger: Ledger) -> None:
        """Count the repairs."""
        if self.controls:
            ledger.note("encoding-repaired", place, self.controls, kind="control")
        for rule, count in (
            ("duplicate-key", self.duplicates),
            ("lossy-number", self.numbers),
            ("lone-surrogate", self.halves),
        ):
            if count:
                ledger.note(rule, place, count)

    def _mend_surrogates(self, value: Any) -> Any:
        """Replace lone halves by U+FFFD, join halves that belong together; in place."""

        def mend(text: str) -> str:
            if not _SURROGATE.search(text):
                return text
            text, count = _SURROGATE.subn("\ufffd", _PAIR.sub(lambda m: _join(m[0]), text))
            self.halves += count
            return text

        if isinstance(value, str):
            return mend(value)
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                if any(_SURROGATE.search(key) for key in item):
                    members = [(mend(key), child) for key, child in item.items()]
                    item.clear()
                    item.update(members)
                    self.duplicates += len(members) - len(item)
                places: Any = item.items()
            elif isinstance(item, list):
                places = enumerate(item)
            else:
                continue
            for key, child in places:
                if isinstance(child, str):
                    item[key] = mend(child)
                elif isinstance(child, dict | list):
                    stack.append(child)
        return value

    def _constant(self, _: str) -> None:
        self.numbers += 1

    def _float(self, text: str) -> float | None:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self.numbers += 1
            return None
        return value

    def _int(self, text: str) -> int | str:
        if len(text) <= _DIGITS:
            try:
                return int(text)
            except ValueError:  # Python's own limit was set lower
                pass
        self.numbers += 1
        return text

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        self.duplicates += len(pairs) - len(value)
        return value


def _end_of(text: str, position: int) -> int:
    """Find the end of a value by its brackets alone; the end of the text where that is far."""
    level = 0
    for token in itertools.islice(_TEXT_TOKEN.finditer(text, position), _TOKENS):
        mark = token[0]
        if mark in "[{":
            level += 1
        elif mark in "]}":
            level -= 1
            if level <= 0:
                return token.end()
    return len(text)


def skip_space(text: str, position: int) -> int:
    """Give the place of the next character that is no JSON whitespace."""
    match = _SPACES.match(text, position)
    return match.end() if match else position


def recover(
    raw: bytes, number: int, ledger: Ledger, *, torn: bool, model: bytes = b""
) -> Iterator[Any]:
    """Give every value that a line still holds; count as a record what it does not give.

    ``torn``: it is the last line and has no end. ``model`` is a good line of the
    same file: a record that is glued to a fragment has to look like the one or
    the other, lest a part of the fragment passes for a record.
    """
    body = raw.strip(b"\x00 \t\r\n")
    zeros = b"\x00" in (raw[:1], raw.rstrip(SPACE)[-1:])
    if body.startswith(codecs.BOM_UTF8):
        body = body[len(codecs.BOM_UTF8) :]
        ledger.note("encoding-repaired", number)
    text = decode_text(body, number, ledger)
    parser, search = Parser(), _Search(text, model, torn=torn)
    position, size, fragments, scalars = skip_space(text, 0), len(text), 0, 0
    while position < size and scalars < _SCALARS:
        try:
            value, end = parser.parse(text, position)
        except Unreadable as error:
            fragments += 1
            ledger.seen()
            if error.end >= 0:
                ledger.skipped("malformed-record", number, kind="too deep")
                position = skip_space(text, error.end)
                continue
            start = search.next_record(position, error.at)
            if text[position] not in "{[":
                ledger.skipped("text-outside-records", number)
            else:
                last = torn and start < 0
                ledger.skipped("truncated-input" if last else "malformed-record", number)
            if start < 0:
                break
            position = start
        else:
            parser.note(number, ledger)
            scalars += not isinstance(value, dict | list)
            yield value
            position = skip_space(text, end)
            if position < size:
                ledger.note("malformed-record", number, kind="glued")
    if position < size and scalars >= _SCALARS:
        fragments += 1
        ledger.seen()
        ledger.skipped("text-outside-records", number)
    if zeros and not fragments:
        ledger.seen()
        ledger.skipped("truncated-input", number)


class _Search:
    """Looks for whole records behind a fragment on the same line."""

    def __init__(self, text: str, model: bytes, *, torn: bool) -> None:
        self._text, self._torn = text, torn
        self._parser = Parser()
        self._model = model
        self._names: set[str] | None = None
        self._tries = 0
        self._work = _WORK

    def next_record(self, start: int, at: int) -> int:
        """Give the place of the next whole record behind a fragment; -1 when there is none.

        The fragment begins at ``start`` and stops being JSON at ``at``. A record
        that was glued to it begins there or just before (inside the string that
        its first quote closed), or was taken for a member's value and ends there.
        """
        text = self._text
        while self._tries < _TRIES and self._work > 0:
            self._tries += 1
            self._work -= at + 1  # what the error message cost, and the scan below
            names, closed = self._structure(start, at)
            if closed > start and not (self._torn and at >= len(text)):
                value, end = self._try(closed)
                if end >= 0 and self._alike(value, names, 2):
                    return closed
            following = text.find('{"', max(at - 2, start + 1))
            if following < 0:
                return -1
            value, end = self._try(following)
            if end >= 0 and self._alike(value, names, 1):
                return following
            start, at = following, max(abs(end), following + 1)
        return -1

    def _try(self, position: int) -> tuple[Any, int]:
        """Parse; give minus the place where the text stops being JSON when it is none."""
        try:
            return self._parser.parse(self._text, position)
        except Unreadable as error:
            return None, -max(error.at, error.end)

    def _structure(self, start: int, at: int) -> tuple[set[str], int]:
        """Give the names of a fragment's members, and the place of the last object that ends it."""
        names: set[str] = set()
        stack: list[int] = []
        closed = end = -1
        for token in _TEXT_TOKEN.finditer(self._text, start, at):
            mark = token[0]
            if mark in "[{":
                stack.append(token.start())
            elif mark in "]}":
                closed, end = (stack.pop() if stack else -1), token.end()
            elif len(stack) == 1 and _COLON.match(self._text, token.end()):
                names.add(mark[1:-1])
        whole = skip_space(self._text, end) >= at if end >= 0 else False
        return names, closed if whole and self._text[closed] == "{" else -1

    def _alike(self, value: Any, names: set[str], shared: int) -> bool:
        """Whether a value looks like the records of this file."""
        if not isinstance(value, dict):
            return False
        if self._names is None:
            self._names = _names_of(self._model)
        known = self._names | names
        if not known or not value:
            return True
        first = next(iter(value))
        return first in known and len(known & value.keys()) >= min(shared, len(value))


def _names_of(model: bytes) -> set[str]:
    try:
        value = msgspec.json.decode(model)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return set()
    return set(value) if isinstance(value, dict) else set()


def close_cut(data: bytes) -> bytes | None:
    """Close a JSON text where it was cut, after its last whole value; ``None`` if it was not cut.

    A member name without its value is dropped.
    """
    stack = bytearray()
    cut = 0
    for token in _TOKEN.finditer(data):
        mark = token[0]
        if mark in b"[{":
            if len(stack) >= DEPTH:
                return None
            stack += b"]" if mark == b"[" else b"}"
            cut = token.end()
        elif mark in b"]}":
            if not stack or stack.pop() != mark[0]:
                return None
            cut = token.end()
            if not stack:
                return None
        elif mark == b",":
            cut = token.start()
    return data[:cut] + bytes(reversed(stack)) if stack else None
