"""Reads a document of any generation tolerantly: the frame first, resynchronising where it fails.

Lengths are authoritative as long as the block ends at a boundary (the end of the document or
the next header). Where it does not, the block is cut at the next line that is a header, and the
ledger says so. The specification, sections 2.3 and 2.4, gives the rules of both known readers;
where they differ the one is taken whose body ends at a boundary, the newer first, because it
keeps blank lines at the start of a body.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from converters.formats.persisting_tlv.frame import (
    MARKER,
    Block,
    Document,
    Fault,
    Header,
    blank_end,
    dashes,
    lex_header,
    line_end,
    opens_frontmatter,
    own_fields,
    strict_header,
)
from converters.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_newer", "parse", "unix_length"]

_TEMPLATE: Final = rb"(?!:\{speaker\} \{json\})"  # the layout line of a frontmatter
_HEADER_LINE: Final = re.compile(rb"^[ \t]*+" + MARKER + _TEMPLATE, re.MULTILINE)
_FENCE: Final = re.compile(rb"^ {0,3}(`{3,}+|~{3,}+)([^\n]*+)$", re.MULTILINE)
_SKIPPED: Final = re.compile(rb"(?:#[^\n]*+(?:\n|\Z)|[ \t\r]*+\n)*+")
_NEWER: Final = re.compile(
    rb"^(?:format:[ \t]*+[\"']?persisting[\"']?[ \t\r]*+$|storyline:)", re.MULTILINE
)
_FORMAT_1: Final = re.compile(rb"^format:[ \t]*+[\"']?persisting:", re.MULTILINE)
_OWN_KEYS: Final = frozenset({"role", "kind", "source", "step_id", "storyline"})
_BREAK: Final = re.compile(rb"[ \t\r]*+\n")
_LOOK_AHEAD: Final = 4096
_LONG_HEADER: Final = 64 * 1024


def is_newer(preamble: bytes) -> bool:
    """Whether the frontmatter is that of a generation after 1.0 (G4, G5)."""
    return bool(_NEWER.search(preamble)) and not _FORMAT_1.search(preamble)


def parse(data: bytes, ledger: Ledger | None = None) -> Document:
    """Give every block that the bytes hold; nothing is refused.

    Each header found counts as one record ``seen``. Repairs are noted with the line
    of the header; a header of which nothing can be used is skipped. The blocks and
    the preamble are all bytes of the document.
    """
    return _Scanner(data, ledger or Ledger()).run()


class _Scanner:
    def __init__(self, data: bytes, ledger: Ledger) -> None:
        self.data = data
        self.ledger = ledger
        self.newer = False
        self._line, self._counted = 1, 0
        self._blank = (-1, -1)
        self._filler = (-1, -1)
        self._no_dashes = len(data)

    def run(self) -> Document:
        data = self.data
        start = 0
        if data.startswith(codecs.BOM_UTF8):
            start = len(codecs.BOM_UTF8)
            self.ledger.note("encoding-repaired", 1)
        begin = self._skip(start, report=False)
        if begin < len(data) and not self._is_header(begin):
            found = _HEADER_LINE.search(data, begin)
            at = begin
            begin = found.start() if found else len(data)
            if found:
                self.ledger.note("text-outside-records", self.line(at), kind="preamble")
        preamble = data[:begin]
        self.newer = is_newer(preamble)
        blocks: list[Block] = []
        skipped: list[bytes] = []
        for block in self._blocks(begin):
            if isinstance(block, bytes):
                skipped.append(block)
                continue
            preamble = _attach(preamble, blocks, skipped)
            blocks.append(block)
        return Document(_attach(preamble, blocks, skipped), tuple(blocks))

    def line(self, position: int) -> int:
        """Give the line number of an offset; offsets mostly go up."""
        if position < self._counted:
            return self.data.count(b"\n", 0, position) + 1
        self._line += self.data.count(b"\n", self._counted, position)
        self._counted = position
        return self._line

    def _is_header(self, position: int) -> bool:
        return _HEADER_LINE.match(self.data, position) is not None

    def _blocks(self, position: int) -> Iterator[Block | bytes]:
        """Give blocks, and as bytes what had to be skipped as a whole."""
        data, ledger = self.data, self.ledger
        while position < len(data):
            start, line = position, self.line(position)
            ledger.seen()
            header, after, fault = self._header(start)
            if header is None:
                rest = _HEADER_LINE.search(data, after)
                position = rest.start() if rest else len(data)
                torn = rest is None and fault == "unclosed_comment"
                ledger.skipped(
                    "truncated-input" if torn else "malformed-record", line, kind=fault or ""
                )
                yield data[start:position]
                continue
            body, end, gap = self._body(header, after, line, fault)
            position = self._skip(gap)
            if position < len(data) and not self._is_header_at(position):
                # Only after a cut body: text that stands before the next header.
                found = _HEADER_LINE.search(data, position)
                position = found.start() if found else len(data)
            values = header.values
            kind = values.get("type")
            yield Block(
                header.speaker,
                kind if isinstance(kind, str) else "text" if self.newer else "markdown",
                own_fields(values),
                data[body:end],
                data[start:body],
                data[end:gap],
                data[gap:position],
                start,
                line,
                length if type(length := values.get("length")) is int else None,
            )

    def _header(self, start: int) -> tuple[Header | None, int, str | None]:
        """Read the header at ``start``; what can be mended is, with the fault's code."""
        data = self.data
        after = line_end(data, start)
        line = data[start:after]
        try:
            header = lex_header(line)
            strict_header(header)
        except Fault as fault:
            code = fault.code
        else:
            return header, after, None
        if code == "unclosed_comment":
            inner = data.find(MARKER, start + len(MARKER), start + _LONG_HEADER)
            close = data.find(b"-->", start, inner if inner >= 0 else start + _LONG_HEADER)
            if close < 0:
                return None, after, code
            after = line_end(data, close)
            line = data[start : close + 3].replace(b"\r", b" ").replace(b"\n", b" ")
        try:
            return lex_header(line), after, code
        except Fault:
            return _mended(line), after, code

    def _body(
        self, header: Header, after: int, line: int, fault: str | None
    ) -> tuple[int, int, int]:
        """Give start and end of the body, and the end of the blank lines behind it."""
        data = self.data
        size = header.values.get("length")
        length = size if type(size) is int and size >= 0 else None
        newer = _BREAK.match(data, after)
        first = newer.end() if newer else after
        if fault is not None and not (
            self.newer and (length is None or "type" not in header.values) and _absent(header)
        ):
            self.ledger.note("malformed-record", line, kind=fault)
        if length is not None:
            for body in dict.fromkeys((first, blank_end(data, after))):
                end = body + length
                if end <= len(data) and self._fits(end):
                    return body, end, self._blank_end(end)
        found = self._next(first, header)
        limit = len(data) if found is None else found
        end = first + len(data[first:limit].rstrip(b"\r\n"))
        if length is not None:
            if found is None and first + length > len(data):
                end = limit
                self.ledger.note("truncated-input", line, kind="body_past_eof")
            elif unix_length(data[first:end]) == length:
                self.ledger.note("encoding-repaired", line, kind="crlf")
            else:
                self.ledger.note("malformed-record", line, kind="length_mismatch")
        return first, end, limit

    def _blank_end(self, position: int) -> int:
        start, end = self._blank
        if start <= position <= end:
            return end
        end = blank_end(self.data, position)
        self._blank = (position, end)
        return end

    def _fits(self, end: int) -> bool:
        """Whether a body may end here: only blank lines and filler before the next header."""
        data = self.data
        position = self._blank_end(end)
        if position == len(data) or self._is_header_at(position):
            return True
        if data[position : position + 1] == b"#" and self._tight(end, position):
            return False  # the rest of the body, cut before a heading
        after = self._skip(position, report=False)
        return after > position and (after == len(data) or self._is_header_at(after))

    def _tight(self, end: int, position: int) -> bool:
        """Whether one line break and nothing else stands between, which no writer leaves."""
        data = self.data
        return (
            position - end <= 2
            and data[end:position] in (b"\n", b"\r\n")
            and (data[end - 1 : end] != b"\n")
        )

    def _is_header_at(self, position: int) -> bool:
        """Whether a marker follows; also directly behind a body, as in the oldest files."""
        data = self.data
        if data.startswith(MARKER, position):
            return True
        return self._is_header(position) and (position == 0 or data[position - 1] == 0x0A)

    def _skip(self, position: int, *, report: bool = True) -> int:
        """Skip blank lines, ``#`` lines and frontmatters."""
        data = self.data
        begin, known = self._filler
        if not report and begin <= position < known and data[position - 1 : position] == b"\n":
            return known
        start = position
        while True:
            before = position
            found = _SKIPPED.match(data, position)
            position = found.end() if found else position
            position = self._frontmatter_end(position)
            if position == before:
                break
        if report and position > start:
            text = data[start:position]
            if text.strip(b" \t\r\n"):
                self.ledger.note("text-outside-records", self.line(start), kind="filler")
        elif not report:
            self._filler = (start, position)
        return position

    def _frontmatter_end(self, position: int) -> int:
        if position >= self._no_dashes:
            return position
        if not opens_frontmatter(self.data, position):
            return position
        closing = dashes(self.data, line_end(self.data, position))
        if closing is None:
            self._no_dashes = position
            found = _HEADER_LINE.search(self.data, position)
            if position > len(codecs.BOM_UTF8):
                return position
            self.ledger.note("malformed-record", 1, kind="unclosed_frontmatter")
            return found.start() if found else len(self.data)
        return closing[1]

    def _next(self, position: int, current: Header) -> int | None:
        """Find the next line that is a header, for a block whose length does not fit.

        Taken is a header whose own body ends at a boundary, or one outside of code fences
        that carries the format's own keys; a quoted sample is neither.
        """
        data = self.data
        fence = _FenceState(data, position)
        for found in _HEADER_LINE.finditer(data, position):
            start = found.start()
            header, after, fault = self._header(start)
            if header is None:
                continue
            if fault is None and self._ends_well(header, after):
                return start
            if not fence.open_at(start) and (
                self.newer
                or not _OWN_KEYS.isdisjoint(header.values)
                or (fault is not None and current.speaker is not None)
            ):
                return start
        return None

    def _ends_well(self, header: Header, after: int) -> bool:
        """Whether the body of a candidate ends at a header or the end, seen a little ahead."""
        data = self.data
        length = header.values["length"]
        newer = _BREAK.match(data, after)
        first = newer.end() if newer else after
        end = first + length
        if end > len(data):
            return False
        rest = data[end : end + _LOOK_AHEAD].lstrip(b" \t\r\n")
        return rest.startswith(MARKER) or (not rest and end + _LOOK_AHEAD >= len(data))


def _attach(preamble: bytes, blocks: list[Block], skipped: list[bytes]) -> bytes:
    """Put skipped bytes behind the last block, or behind the preamble that is given back."""
    rest = b"".join(skipped)
    skipped.clear()
    if not blocks:
        return preamble + rest
    if rest:
        blocks[-1] = replace(blocks[-1], filler=blocks[-1].filler + rest)
    return preamble


def _absent(header: Header) -> bool:
    """Whether type and length are just not there, which the newer generations allow."""
    return header.types <= 1 and header.lengths <= 1


def _mended(line: bytes) -> Header | None:
    """Give what a header without readable JSON still says: its speaker."""
    text = line.decode("utf-8", "replace").strip()
    rest = text[len(MARKER) :].lstrip()
    if not rest.startswith(":"):
        return None
    name = re.match(r":\s*+([A-Za-z0-9_-]++)(?=\s*+(?:\{|-->))", rest, re.ASCII)
    speaker = name[1] if name else None
    values: dict[str, Any] = {}
    brace = text.find("{")
    if name is None:
        # A speaker with other characters: the object may still be sound.
        try:
            values = lex_header((MARKER.decode() + text[brace:]).encode()).values
        except Fault:
            return None
    return Header(speaker, values, int("type" in values), int("length" in values))


def unix_length(body: bytes) -> int:
    """Give the length that the body had before its line ends became CRLF."""
    return len(body) - body.count(b"\r\n")


class _FenceState:
    """Whether a code fence is open at an offset; asked in ascending order."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._open = b""

    def open_at(self, position: int) -> bool:
        for found in _FENCE.finditer(self._data, self._position, position):
            mark, info = found[1], found[2]
            if not self._open:
                self._open = mark if mark[:1] == b"~" or b"`" not in info else b""
            elif mark.startswith(self._open) and not info.strip():
                self._open = b""
        self._position = position
        if self._open and not self._closes(position):
            self._open = b""
        return bool(self._open)

    def _closes(self, position: int) -> bool:
        """Whether the open fence ends a little further on; one that does not is none."""
        ahead = _FENCE.finditer(self._data, position, position + _LOOK_AHEAD)
        return any(f[1].startswith(self._open) and not f[2].strip() for f in ahead)
