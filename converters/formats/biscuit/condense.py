"""What qqqide does to a finished dump: strip the boxes, keep the edits only, split into floors.

Source: sections 5 to 7 of the specification. All functions are pure text to text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from converters.formats.biscuit.action import MARK
from converters.formats.biscuit.dump import box_lines
from converters.formats.biscuit.lines import Scan
from converters.formats.biscuit.tools import WRITING
from converters.text import JS_SPACE, units

__all__ = ["Entry", "edit_only", "estimate_tokens", "join", "split", "split_as_source", "strip"]

_KEPT: Final = ("Q:", "A:", "=== F", "[S]", *(f"{MARK}{tool}]" for tool in WRITING))
_SOURCE_CUT: Final = re.compile(r"^=== F(\d{1,15}) ", re.MULTILINE | re.ASCII)


class Entry(NamedTuple):
    """One entry of ``biscuitLines``: the floor number and its text, header first."""

    n: int
    text: str


def strip(text: str) -> str:
    """Remove the boxes and gutter bodies of a dump; the action lines stay.

    Unlike the source's pattern this leaves no blank line for a box and never
    crosses a floor; one blank line separates a header from a box that it ended.
    """
    scan = Scan(text)
    kept: list[str] = []
    position = 0
    for cut in box_lines(scan):
        kept += scan.raw[position : cut.start]
        if cut.header:
            kept.append("")
        position = cut.stop
    kept += scan.raw[position:]
    return ("\r\n" if scan.newline == "crlf" else "\n").join(kept)


def edit_only(text: str) -> str:
    """Keep questions, answers, headers, system lines and actions of one write tool.

    The source's filter knows no boxes: body lines that look like these stay, so
    :func:`strip` comes first where that matters.
    """
    lines = text.split("\n")
    return "\n".join(line for line in lines if not line.strip(JS_SPACE) or line.startswith(_KEPT))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a dump as the tool does: UTF-16 units / 2.5."""
    return units(text) * 2 // 5


def split(text: str) -> list[Entry]:
    """Cut a dump into its floors, in file order; headers inside boxes do not cut.

    Text before the first floor is left out. Line ends become LF.
    """
    scan = Scan(text)
    inside = box_lines(scan)
    starts: list[int] = []
    box = 0
    for number in scan.confirmed:
        while box < len(inside) and inside[box].stop <= number:
            box += 1
        if box == len(inside) or not inside[box].start <= number < inside[box].stop:
            starts.append(number)
    stops = [*starts[1:], len(scan.raw)] if starts else []
    return [
        Entry(int(scan.headers[a][1]), "\n".join(scan.raw[a:b]).strip(JS_SPACE))
        for a, b in zip(starts, stops, strict=True)
    ]


def split_as_source(text: str) -> list[Entry]:
    """Cut a dump as the tool does, sorted by number: before any line like a header.

    Lines in boxes count too, which makes phantom floors; :func:`split` does not.
    """
    starts = list(_SOURCE_CUT.finditer(text))
    stops = [*(match.start() for match in starts[1:]), len(text)] if starts else []
    found = [
        Entry(int(match[1]), text[match.start() : stop].strip(JS_SPACE))
        for match, stop in zip(starts, stops, strict=True)
    ]
    return sorted(found, key=lambda entry: entry.n)


def join(entries: list[Entry]) -> str:
    """Give the dump of ``biscuitLines``: one empty line between floors."""
    return "\n\n".join(entry.text for entry in entries)
