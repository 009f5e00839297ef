"""Reads an action line: tools, displays, summaries and sha marks (specification 2.4, 2.7)."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from converters.formats.biscuit.model import Action, Count, Diff, Lines, Sha
from converters.formats.biscuit.tools import KNOWN, WRITING, summary_at_end, was_cut

if TYPE_CHECKING:
    from converters.formats.biscuit.tools import Ending

__all__ = ["MARK", "actions_of", "is_action"]

MARK: Final = "[A → "
_PRODUCED: Final = re.compile(r" ➜ sha=([0-9a-f]{12})")
_READ: Final = re.compile(r"(?:^| )@sha=([0-9a-f]{12})")
_PRODUCED_SIZE: Final = len(" ➜ sha=") + 12
_READ_SIZE: Final = len(" @sha=") + 12
_UNITS: Final = ("edits", "hits", "items", "results", "versions")
_WORK: Final = 1_000_000


def is_action(line: str) -> bool:
    """Whether a line starts an action: its mark and the bracket that ends the names."""
    return line.startswith(MARK) and "]" in line


def actions_of(text: str, number: int) -> tuple[list[Action], bool]:
    """Give the actions of an action line (with its continuation lines), and whether they are sure.

    ``number`` is the place of the line in its floor. When the parts cannot be told
    apart, the first action gets all of the text.
    """
    names, _, rest = text[len(MARK) :].partition("]")
    rest = rest.removeprefix(" ")
    tools = names.split("+")
    if len(tools) == 1:
        return [_part(tools[0], number, rest)], True
    parts = _split(tools, rest)
    if parts is None:
        first = Action(tools[0], number, rest or None, raw=True)
        return [first, *(Action(tool, number) for tool in tools[1:])], False
    return [_part(tool, number, part) for tool, part in zip(tools, parts, strict=True)], True


def _without_sha(text: str) -> tuple[str, str | None]:
    found = _PRODUCED.fullmatch(text, max(0, len(text) - _PRODUCED_SIZE))
    return (text[: found.start()], found[1]) if found else (text, None)


def _part(tool: str, number: int, text: str) -> Action:
    text, produced = _without_sha(text)
    ending = summary_at_end(tool, text)
    if ending is not None:
        text = ending.rest
    asked = _READ.fullmatch(text, max(0, len(text) - _READ_SIZE))
    if asked:
        text = text[: asked.start()]
    action = Action(tool, number)
    action.literal_null = text == "null"
    if text and text not in ("null", tool):
        action.args_text = text
        action.args_truncated = was_cut(tool, text)
    if produced:
        action.shas.append(Sha("produced", produced))
    if asked:
        action.shas.append(Sha("read", asked[1]))
    if ending is not None:
        _read_summary(action, ending)
    return action


def _read_summary(action: Action, ending: Ending) -> None:
    found = ending.match.groupdict()
    action.summary = text = ending.match[0]
    if found.get("chars") is not None:
        action.chars = int(found["chars"])
    elif found.get("from") is not None:
        action.lines = Lines(int(found["from"]), int(found["to"]), int(found["total"]))
    elif found.get("added") is not None:
        action.diff = Diff(int(found["added"]), int(found["removed"]))
    for unit in _UNITS:
        if found.get(unit) is not None:
            action.count = Count(unit, int(found[unit]))
    if text.startswith("✗"):
        action.ok = False
        if found.get("exit") is not None:
            action.exit_code = int(found["exit"])
    elif action.tool in ("write_file", "create_file", "delete_file"):
        # Their mark is a constant; only a produced sha proves that they worked.
        action.ok = True if action.shas and action.shas[0].kind == "produced" else None
    elif text.startswith("✓") or (action.tool in WRITING and action.count is not None):
        action.ok = True


def _split(tools: list[str], text: str) -> list[str] | None:
    """Cut the text of several tools at the one set of ``, `` that fits all summaries."""
    pieces = text.split(", ")
    if len(pieces) == len(tools):
        return pieces
    if len(pieces) < len(tools) or len(pieces) * len(tools) > _WORK:
        return None
    chosen = _only_cut(tools, [_without_sha(piece)[0] for piece in pieces])
    if chosen is None:
        return None
    edges = [0, *chosen]
    return [", ".join(pieces[a:b]) for a, b in pairwise(edges)]


def _only_cut(tools: list[str], pieces: list[str]) -> list[int] | None:
    """Give the piece counts after which each tool ends, if there is exactly one way.

    Whether a part may end after a piece depends on that piece alone, so the ways
    are counted tool by tool (up to two).
    """
    size = len(pieces)
    ways = [1] + [0] * size
    table = [ways]
    for index, tool in enumerate(tools):
        left = len(tools) - index - 1
        nxt, total = [0] * (size + 1), 0
        for end in range(1, size + 1):
            total = min(2, total + ways[end - 1])
            if (
                total
                and end <= size - left
                and (left or end == size)
                and _may_end(tool, pieces[end - 1])
            ):
                nxt[end] = total
        ways = nxt
        table.append(ways)
    if ways[size] != 1:
        return None
    edges = [size]
    for ways in reversed(table[1:-1]):
        edges.append(next(end for end in range(edges[-1] - 1, 0, -1) if ways[end]))
    return edges[::-1]


def _may_end(tool: str, piece: str) -> bool:
    if tool not in KNOWN:
        return True
    ending = summary_at_end(tool, piece)
    return ending is not None
