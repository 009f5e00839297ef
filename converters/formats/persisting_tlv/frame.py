"""The frame that all generations share: header line, body of stated length, separator.

This module is strict: it reads by the procedure of the 1.0 parser and stops with a
:class:`FrameError` at the first fault. :mod:`.document` reads tolerantly with the same parts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from converters.errors import BadInput

__all__ = [
    "MARKER",
    "Block",
    "Document",
    "Fault",
    "FrameError",
    "Header",
    "blank_end",
    "lex_header",
    "new_block",
    "parse_strict",
    "serialize",
    "strict_header",
]

MARKER: Final = b"<!-- persisting:block"
_MARK: Final = MARKER.decode()

SPACE: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
    "\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode White_Space, by which the format trims; no byte order mark."""

_WS: Final = (
    rb"(?:[\t\v\f\r ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]"
    rb"|\xe2\x81\x9f|\xe3\x80\x80)"
)
_BLANK_LINES: Final = re.compile(rb"(?:" + _WS + rb"*+\n)*+(?:" + _WS + rb"++\Z)?")
_DASHES: Final = re.compile(rb"^" + _WS + rb"*+---" + _WS + rb"*+$", re.MULTILINE)
_OPENING: Final = re.compile(_WS + rb"*+---" + _WS + rb"*+(?:\n|\Z)")
_FILLER: Final = re.compile(rb"(?:[\r\n]|#[^\n]*+(?:\n|\Z))*+")
_SPEAKER: Final = re.compile(r"\s*(?::\s*([A-Za-z0-9_-]+)\s*)?", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_TYPE: Final = re.compile(r"[A-Za-z0-9._/-]+", re.ASCII)
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}]', re.DOTALL)


class Fault(ValueError):
    """Why a header line is none; ``code`` is one of the error codes of the vectors."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class FrameError(BadInput):
    """The document breaks the 1.0 grammar; ``fault`` says how, ``offset`` (bytes) where.

    Codes: ``unclosed_frontmatter``, ``expected_block_marker``, ``unreadable_line``,
    ``unclosed_comment``, ``missing_json``, ``unclosed_json``, ``bad_json``,
    ``bad_speaker``, ``bad_type``, ``bad_length``, ``missing_or_duplicate_type``,
    ``missing_or_duplicate_length``, ``body_past_eof``, ``body_not_utf8``.
    """

    def __init__(self, fault: str, offset: int) -> None:
        super().__init__(fault.replace("_", " "), position=f"byte {offset}")
        self.fault = fault
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return (FrameError, (self.fault, self.offset))


class Header(NamedTuple):
    """A header line as it stands: ``values`` holds every key, also ``type`` and ``length``."""

    speaker: str | None
    values: dict[str, Any]
    types: int
    lengths: int


@dataclass(frozen=True, slots=True)
class Block:
    """One block and its bytes: ``head + body + gap + filler``.

    ``head`` is the header line with the blank lines behind it, ``gap`` the blank lines
    after the body, ``filler`` what was skipped before the next block. ``start`` is a
    byte offset, ``stated`` the length by the header (``None`` where it has none).
    """

    speaker: str | None
    type: str
    fields: dict[str, Any]
    body: bytes
    head: bytes
    gap: bytes = b"\n\n"
    filler: bytes = b""
    start: int = field(default=0, compare=False)
    line: int = field(default=0, compare=False)
    stated: int | None = field(default=None, compare=False)

    @property
    def body_start(self) -> int:
        """Byte offset of the body."""
        return self.start + len(self.head)

    @property
    def body_end(self) -> int:
        """Byte offset after the body."""
        return self.body_start + len(self.body)

    @property
    def end(self) -> int:
        """Byte offset after the separator: ``start..end`` is what an upsert replaces."""
        return self.body_end + len(self.gap)


@dataclass(frozen=True, slots=True)
class Document:
    """A document without loss: ``serialize(parse(data)) == data``."""

    preamble: bytes
    blocks: tuple[Block, ...]


def serialize(document: Document) -> bytes:
    """Give the bytes of a document."""
    parts = [document.preamble]
    for block in document.blocks:
        parts += (block.head, block.body, block.gap, block.filler)
    return b"".join(parts)


def new_block(fields: dict[str, Any], body: bytes, *, kind: str = "markdown") -> Block:
    """Make a block as the 1.0 writer does; ``kind`` is its ``type``.

    The speaker is the ``role``, or ``note`` where there is none that a header can
    hold. The length is computed. Raises :class:`BadInput` for an impossible type.
    """
    if not _TYPE.fullmatch(kind):
        raise BadInput(f"a block cannot have the type {kind[:40]!r}")
    own = {key: value for key, value in fields.items() if key not in ("type", "length")}
    role = own.get("role")
    speaker = role if isinstance(role, str) and _NAME.fullmatch(role) else "note"
    rest = _compact(own)[1:-1]
    text = f'{_MARK}:{speaker} {{"type":"{kind}","length":{len(body)}{rest and ","}{rest}}} -->'
    return Block(speaker, kind, own, body, text.encode("utf-8", "replace") + b"\n\n")


def _compact(value: dict[str, Any]) -> str:
    """Write JSON with sorted keys; what ends an HTML comment is escaped."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.replace("-->", "--\\u003e").replace("--!>", "--!\\u003e") if "--" in text else text


def lex_header(line: bytes) -> Header:
    """Read one header line (any line break at its end is trimmed); raises :class:`Fault`.

    The object ends where its braces close; text between it and ``-->`` is ignored.
    """
    try:
        text = line.decode("utf-8").strip(SPACE)
    except UnicodeDecodeError:
        raise Fault("unreadable_line") from None
    if not text.startswith(_MARK):
        raise Fault("expected_block_marker")
    if not text.endswith("-->"):
        raise Fault("unclosed_comment")
    inner = text[len(_MARK) : -3]
    brace = inner.find("{")
    if brace < 0:
        raise Fault("missing_json")
    speaker = _SPEAKER.fullmatch(inner[:brace])
    if speaker is None:
        raise Fault("bad_speaker")
    values, types, lengths = _object(inner, brace)
    return Header(speaker[1], values, types, lengths)


def _object(text: str, start: int) -> tuple[dict[str, Any], int, int]:
    """Decode the object at ``start``; count its keys ``type`` and ``length``."""
    raw = text[start : text.rfind("}") + 1]
    value = _decoded(raw)
    if value is None:
        raw = _cut(text, start)
        value = _decoded(raw)
    if value is None:
        raise Fault("bad_json")
    if "\\" in raw or raw.count('"type"') != 1 or raw.count('"length"') != 1:
        return value, *_repeated(raw)
    return value, int("type" in value), int("length" in value)


def _decoded(raw: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _cut(text: str, start: int) -> str:
    level = 0
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark == "{":
            level += 1
        elif mark == "}":
            level -= 1
            if level == 0:
                return text[start : token.end()]
    raise Fault("unclosed_json")


def _repeated(raw: str) -> tuple[int, int]:
    """Count ``type`` and ``length`` at the top level of an object that decodes."""
    top: list[str] = []

    def remember(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        top[:] = [key for key, _ in pairs]  # the outermost object comes last
        return {}

    try:
        json.loads(raw, object_pairs_hook=remember, parse_int=str)
    except (ValueError, RecursionError):
        raise Fault("bad_json") from None
    return top.count("type"), top.count("length")


def strict_header(header: Header) -> tuple[str, int]:
    """Give ``(type, length)`` of a header that keeps the rules; raises :class:`Fault`."""
    if header.types != 1:
        raise Fault("missing_or_duplicate_type")
    if header.lengths != 1:
        raise Fault("missing_or_duplicate_length")
    kind, length = header.values["type"], header.values["length"]
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise Fault("bad_type")
    if type(length) is not int or length < 0:
        raise Fault("bad_length")
    return kind, length


def blank_end(data: bytes, position: int) -> int:
    """Give the offset after the whitespace-only lines at ``position``."""
    found = _BLANK_LINES.match(data, position)
    return found.end() if found else position


def line_end(data: bytes, position: int) -> int:
    """Give the offset after the line break that ends the line at ``position``."""
    end = data.find(b"\n", position)
    return len(data) if end < 0 else end + 1


def dashes(data: bytes, position: int) -> tuple[int, int] | None:
    """Find the next line that is ``---`` after trimming; gives its start and end."""
    found = _DASHES.search(data, position)
    return (found.start(), line_end(data, found.end())) if found else None


def opens_frontmatter(data: bytes, position: int) -> bool:
    """Whether the line from ``position`` on is ``---`` after trimming."""
    return _OPENING.match(data, position) is not None


def own_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Give the header keys without ``type`` and ``length``."""
    return {key: value for key, value in values.items() if key not in ("type", "length")}


def _skip(data: bytes, position: int) -> int:
    """Skip one frontmatter and then line breaks and ``#`` lines, as the 1.0 reader does."""
    if opens_frontmatter(data, position):
        closing = dashes(data, line_end(data, position))
        if closing is None:
            raise FrameError("unclosed_frontmatter", position)
        position = closing[1]
    found = _FILLER.match(data, position)
    return found.end() if found else position


def parse_strict(data: bytes) -> Document:
    """Parse by the rules of the 1.0 reader (specification, section 2.3).

    Any fault raises :class:`FrameError` for the whole document. Bodies may hold bytes
    that are no UTF-8 as long as the boundaries fit.
    """
    position = _skip(data, 0)
    preamble = data[:position]
    blocks: list[Block] = []
    line, counted = 1, 0
    while position < len(data):
        start = position
        after = line_end(data, start)
        try:
            header = lex_header(data[start:after])
            kind, length = strict_header(header)
        except Fault as fault:
            raise FrameError(fault.code, start) from None
        body = blank_end(data, after)
        if length > len(data) - body:
            raise FrameError("body_past_eof", start)
        end = blank_end(data, body + length)
        position = _skip(data, end)
        line, counted = line + data.count(b"\n", counted, start), start
        blocks.append(
            Block(
                header.speaker,
                kind,
                own_fields(header.values),
                data[body : body + length],
                data[start:body],
                data[body + length : end],
                data[end:position],
                start,
                line,
                length,
            )
        )
    return Document(preamble, tuple(blocks))
