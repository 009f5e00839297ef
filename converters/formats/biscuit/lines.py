"""Cuts a dump into lines and says what each can be; finds where a box ends.

Everything that needs a look ahead (confirmed headers, the next box mark, text
lengths) is prepared in one pass, so that reading stays linear.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import Final, Literal, NamedTuple

from converters.formats.biscuit.action import is_action
from converters.text import units

__all__ = [
    "BOX_CAP",
    "CLOSE",
    "HEADER",
    "OPEN",
    "BoxEnd",
    "Scan",
    "escape",
    "fits",
    "kind_of",
    "unescape",
]

OPEN: Final = "╔K"
CLOSE: Final = "╚"
BOX_CAP: Final = 4096
"""UTF-16 units of an output that a box keeps: half from the start, half from the end."""

HEADER: Final = re.compile(
    r"=== F(\d{1,15})"
    r"(?:\s{1,9}(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}) UTC([+-])(\d{1,2})(?::?(\d{2}))?)? ===",
    re.ASCII,
)
"""A header line, by ``fullmatch`` (specification 2.1; one or more blanks before the date)."""

_ESCAPED: Final = re.compile(r"(?:╔K|╚)\\+")
_MARKER: Final = re.compile(r"(?:╔K|╚)\\*+")

LineKind = Literal["question", "answer", "action", "error", "system", "orphan", "text"]


def kind_of(line: str) -> LineKind:
    """Say what a line starts, headers aside; ``text`` for anything unknown."""
    start = line[:3]
    if start in ("Q: ", "Q:"):
        return "question"
    if start in ("A: ", "A:"):
        return "answer"
    if start == "[A ":
        return "action" if is_action(line) else "text"
    if start == "[S]":
        return "system" if line.startswith("[S] ") else "text"
    if start == "[ER":
        return "error" if line.startswith("[ERR]") else "text"
    return "orphan" if start == "  [" and line.startswith("  [T] ✓") else "text"


def escape(body: str) -> str:
    """Give a body whose lines cannot be taken for box marks; :func:`unescape` undoes it."""
    if OPEN not in body and CLOSE not in body:
        return body
    return "\n".join(
        line + "\\" if _MARKER.fullmatch(line.removesuffix("\r")) else line
        for line in body.split("\n")
    )


def unescape(body: str) -> tuple[str, bool]:
    """Give the body as it was, and whether it had been escaped (specification 2.5)."""
    if "\\" not in body:
        return body, False
    lines = body.split("\n")
    found = [i for i, line in enumerate(lines) if _ESCAPED.fullmatch(line.removesuffix("\r"))]
    for i in found:
        cr = "\r" if lines[i].endswith("\r") else ""
        lines[i] = lines[i].removesuffix("\r")[:-1] + cr
    return "\n".join(lines), bool(found)


def fits(size: int, chars: int) -> bool:
    """Whether a body of ``size`` units can be an output of ``chars`` units, its end trimmed."""
    if chars <= BOX_CAP:
        return 0 <= chars - size <= 2
    return any(0 <= full - size <= 2 for full in _expected(chars))


def _expected(chars: int) -> tuple[int, ...]:
    """Give the lengths that a body may have before trimming: whole, or capped with its mark."""
    if chars <= BOX_CAP:
        return (chars,)
    mark = len(f"\n…[trunc {chars - BOX_CAP} chars]…\n")
    return (BOX_CAP + mark, chars)


class BoxEnd(NamedTuple):
    """The end of a box: its body is ``lines[start:stop]``, reading goes on at ``then``.

    ``header``: the first confirmed header inside the body.
    """

    stop: int
    then: int
    closed: bool
    by_length: bool = False
    header: int | None = None


class Scan:
    """The lines of a dump: ``raw`` as they are, ``bare`` without a trailing CR of mixed text."""

    def __init__(self, text: str) -> None:
        self.bom = text.startswith("\ufeff")
        text = text.removeprefix("\ufeff")
        self.newline: Literal["lf", "crlf", "mixed"] = "lf"
        pairs = text.count("\r\n")
        if pairs:
            self.newline = "crlf" if pairs == text.count("\n") else "mixed"
        if self.newline == "crlf":
            text = text.replace("\r\n", "\n")
        self.raw = text.split("\n")
        self.bare = self.raw
        if self.newline == "mixed":
            self.bare = [line.removesuffix("\r") for line in self.raw]
        self.headers: dict[int, re.Match[str]] = {}
        self.confirmed: list[int] = []
        self._find_headers()

    def _find_headers(self) -> None:
        follows = True  # the end of the text confirms a header
        for number in range(len(self.bare) - 1, -1, -1):
            line = self.bare[number]
            header = HEADER.fullmatch(line) if line.startswith("=== F") else None
            if header is not None:
                self.headers[number] = header
                if follows:
                    self.confirmed.append(number)
                follows = True
            elif line and not line.isspace():
                follows = kind_of(line) != "text"
        self.confirmed.reverse()

    def is_blank(self, number: int) -> bool:
        """Whether a line holds nothing but white space."""
        line = self.bare[number]
        return not line or line.isspace()

    @cached_property
    def _opens(self) -> list[int]:
        return [number for number, line in enumerate(self.bare) if line == OPEN]

    @cached_property
    def _closes(self) -> list[int]:
        return [number for number, line in enumerate(self.bare) if line == CLOSE]

    @cached_property
    def _offsets(self) -> list[int]:
        """Give the unescaped UTF-16 length up to each line, a line break each included."""
        total, offsets = 0, [0]
        for line, bare in zip(self.raw, self.bare, strict=True):
            total += units(line) + 1
            if "\\" in bare and _ESCAPED.fullmatch(bare):
                total -= 1
            offsets.append(total)
        return offsets

    @cached_property
    def _close_offsets(self) -> list[int]:
        return [self._offsets[number] for number in self._closes]

    def length(self, start: int, stop: int) -> int:
        """Give the unescaped length of the lines ``start`` to ``stop``, in UTF-16 units."""
        return max(0, self._offsets[stop] - self._offsets[start] - 1)

    def body(self, start: int, stop: int) -> str:
        """Give the lines ``start`` to ``stop`` as they are."""
        return "\n".join(self.raw[start:stop])

    def is_confirmed(self, number: int) -> bool:
        """Whether the line is a header that counts (specification 2.1)."""
        at = bisect_left(self.confirmed, number)
        return at < len(self.confirmed) and self.confirmed[at] == number

    def box_end(self, opened: int, wanted: list[int | None]) -> BoxEnd:
        """Find the end of the box whose ``╔K`` is line ``opened`` (specification 2.6).

        ``wanted`` are the output lengths that the tools still without a box
        announce, in order; ``None`` where a tool announces none.
        """
        start = opened + 1
        first = _after(self._closes, start)
        header = _after(self.confirmed, start)
        again = _after(self._opens, start)
        if first is None or (
            header is not None and header < first and again is not None and again < first
        ):
            return self._unclosed(start, header)
        known = [chars for chars in wanted if chars is not None]
        swallowed = header if header is not None and header < first else None
        if any(fits(self.length(start, first), chars) for chars in known):
            return BoxEnd(first, first + 1, closed=True, header=swallowed)
        if known and wanted[0] is not None:
            for chars in known:
                later = self._close_by_length(start, first, chars)
                if later is not None:
                    inside = header if header is not None and header < later else None
                    return BoxEnd(later, later + 1, closed=True, by_length=True, header=inside)
        if swallowed is not None:
            return self._unclosed(start, swallowed)
        return BoxEnd(first, first + 1, closed=True)

    def _close_by_length(self, start: int, first: int, chars: int) -> int | None:
        """Find the first ``╚`` after ``first`` that gives a body of the announced length."""
        found: list[int] = []
        for full in _expected(chars):
            # length = offset(close) - offset(start) - 1, wanted within full-2 .. full
            at = bisect_left(self._close_offsets, self._offsets[start] + 1 + full - 2)
            if at < len(self._closes) and self._closes[at] <= first:
                at = bisect_right(self._closes, first)
            if at < len(self._closes) and fits(self.length(start, self._closes[at]), chars):
                found.append(self._closes[at])
        return min(found, default=None)

    def _unclosed(self, start: int, header: int | None) -> BoxEnd:
        stop = then = len(self.raw) if header is None else header
        while stop > start and self.is_blank(stop - 1):
            stop -= 1
        return BoxEnd(stop, then, closed=False)


def _after(numbers: list[int], start: int) -> int | None:
    at = bisect_left(numbers, start)
    return numbers[at] if at < len(numbers) else None
