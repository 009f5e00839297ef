"""Parses ``all.txt``, the readable log of one floor (specification section 8).

Nothing is escaped in it: HOUSE and ROOM lines count only in rising order, and
``<answer>`` only after the last room of a house.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import msgspec

from converters.errors import BadInput

__all__ = ["AllTxt", "House", "Room", "Stats", "Warn", "is_alltxt", "parse_alltxt"]

_TIME: Final = r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}) UTC([+-]\d{1,2})"
_FLOOR: Final = re.compile(rf"floor\.(\d{{1,15}})[ \t]{{1,9}}{_TIME}", re.ASCII)
_HOUSE: Final = re.compile(
    rf"════ HOUSE (G?\d{{1,9}}) ════ {_TIME} \[(\d{{1,15}})ms\] ════", re.ASCII
)
_ROOM: Final = re.compile(r"  ── ROOM (\d{1,9})\.(\d{1,9})  ([^(\n]*+)\((.*)\) ──", re.ASCII)
_STATS_HEAD: Final = re.compile(r"════ floor \d{1,15} stats ════", re.ASCII)
_STATS: Final = re.compile(
    r"network: (\d{1,15})ms  AI: (\d{1,15})ms  tool: (\d{1,15})ms  cost: (-?[\d.]{1,30}) ge",
    re.ASCII,
)
_INJECTIONS: Final = "═══ SYSTEM INJECTIONS ═══"
_GUIDE: Final = "  ⚡ 引导确认"
_ANSWER, _ANSWER_END = "  <answer>", "  </answer>"
_THINKING, _THINKING_END = "<thinking>", "</thinking>"


class Room(msgspec.Struct):
    """One tool call; ``args`` is parsed from ``args_raw`` where that is JSON."""

    house: int
    room: int
    tool: str
    args: Any
    args_raw: str
    result: str | None


class House(msgspec.Struct):
    """One model round trip; ``index`` is a number, or ``G<k>`` for a guide acknowledgement."""

    index: int | str
    at: str | None
    ms: int
    thinking: str | None = None
    answer: str | None = None
    guide_ack: str | None = None
    rooms: list[Room] = []


class Stats(msgspec.Struct):
    """The last lines: times in ms, cost in the tool's own money as text."""

    network_ms: int
    ai_ms: int
    tool_ms: int
    cost_ge: str


class Warn(msgspec.Struct):
    """A mark of the format that stands inside a result."""

    code: str
    house: int
    room: int


class AllTxt(msgspec.Struct):
    """The log of one floor. ``injections``: the block that only unfinished logs have."""

    floor: int
    started_at: str | None
    body_line: str | None
    question: str
    houses: list[House]
    stats: Stats | None
    warnings: list[Warn]
    injections: str | None = None


def is_alltxt(text: str) -> bool:
    """Whether a text begins like the log of a floor."""
    return _FLOOR.match(text.removeprefix("\ufeff")) is not None


def parse_alltxt(text: str) -> AllTxt:
    """Read an ``all.txt``; :class:`BadInput` when its first line is not that of a floor."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    first = _FLOOR.fullmatch(lines[0].rstrip())
    if first is None:
        raise BadInput("not the log of a floor", position=1)
    found = AllTxt(int(first[1]), _iso(first[2], first[3]), None, "", [], None, [])
    end = _tail(lines, found)
    heads = _houses(lines, end)
    stop = heads[0] if heads else end
    _question(lines[1:stop], found)
    for at, nxt in zip(heads, [*heads[1:], end][: len(heads)], strict=True):
        found.houses.append(_house(lines, at, nxt, found))
    return found


def _iso(clock: str, offset: str) -> str | None:
    try:
        zone = timezone(timedelta(hours=int(offset)))
        return datetime.fromisoformat(clock).replace(tzinfo=zone).isoformat()
    except (ValueError, OverflowError):
        return None


def _tail(lines: list[str], found: AllTxt) -> int:
    """Read the statistics and the injections from the end; give where the houses end."""
    end = len(lines)
    for number in range(len(lines) - 1, max(-1, len(lines) - 20), -1):
        if _STATS_HEAD.fullmatch(lines[number]):
            for line in lines[number + 1 :]:
                stats = _STATS.fullmatch(line.rstrip())
                if stats:
                    network, model, tool = (int(stats[i]) for i in (1, 2, 3))
                    found.stats = Stats(network, model, tool, stats[4])
            end = number
            break
    if found.stats is None:
        # Only an unfinished log has injections, and they come last.
        for number in range(end - 1, 0, -1):
            if lines[number] == _INJECTIONS:
                found.injections = "\n".join(lines[number + 1 : end]).strip("\n")
                return number
            if _HOUSE.fullmatch(lines[number]):
                break
    return end


def _houses(lines: list[str], end: int) -> list[int]:
    """Find the HOUSE lines whose numbers rise one by one, guide houses between them."""
    heads: list[int] = []
    wanted, guide = 1, 1
    for number in range(1, end):
        match = _HOUSE.fullmatch(lines[number]) if lines[number].startswith("════ H") else None
        if match is None:
            continue
        if match[1] == str(wanted):
            wanted += 1
        elif match[1] == f"G{guide}":
            guide += 1
        elif heads or match[1].startswith("G"):
            continue
        else:
            wanted = int(match[1]) + 1  # a log whose first houses are gone
        heads.append(number)
    return heads


def _question(lines: list[str], found: AllTxt) -> None:
    texts = [line for line in lines if line.strip()]
    if texts and texts[0].startswith("(body ") and texts[0].endswith(")"):
        found.body_line = texts.pop(0)[1:-1]
    found.question = "\n".join(texts)


def _house(lines: list[str], start: int, end: int, found: AllTxt) -> House:
    match = _HOUSE.fullmatch(lines[start])
    assert match is not None  # noqa: S101 - found by the same pattern
    index: int | str = int(match[1]) if match[1].isdigit() else match[1]
    house = House(index, _iso(match[2], match[3]), int(match[4]))
    at = start + 1
    while end > at and not lines[end - 1].strip():
        end -= 1
    if isinstance(index, str):
        _acknowledgement(lines[at:end], house)
        return house
    rooms = _rooms(lines, at, end, index)
    stop = rooms[0] if rooms else end
    if at < stop and lines[at] == _THINKING:
        closed = next((i for i in range(stop - 1, at, -1) if lines[i] == _THINKING_END), stop)
        house.thinking = "\n".join(lines[at + 1 : closed])
        at = closed + 1
    answer = _answer(lines, rooms[-1] + 1 if rooms else at, end, rooms=bool(rooms))
    if answer is not None:
        house.answer = "\n".join(lines[answer + 1 : end - 1])
        end = answer
    edges = [*rooms[1:], end]
    house.rooms = [
        _room(lines, a, b, found) for a, b in zip(rooms, edges if rooms else [], strict=True)
    ]
    return house


def _acknowledgement(lines: list[str], house: House) -> None:
    for number, line in enumerate(lines):
        if line.startswith(_GUIDE):
            house.guide_ack = "\n".join(text.removeprefix("  ") for text in lines[number + 1 :])
            return


def _rooms(lines: list[str], start: int, end: int, house: int) -> list[int]:
    """Find the ROOM lines of a house whose numbers rise one by one."""
    found: list[int] = []
    wanted = f"  ── ROOM {house}.{{}}  "
    prefix = wanted.format(1)
    for number in range(start, end):
        if lines[number].startswith(prefix) and _ROOM.fullmatch(lines[number]):
            found.append(number)
            prefix = wanted.format(len(found) + 1)
    return found


def _answer(lines: list[str], start: int, end: int, *, rooms: bool) -> int | None:
    """Find the answer of a house, which closes it.

    ``start`` is behind the last ROOM line; a mark in an earlier result cannot be meant.
    """
    if end <= start or lines[end - 1] != _ANSWER_END:
        return None
    # An empty line stands between a result and the answer.
    marks = [
        number
        for number in range(start, end - 1)
        if lines[number] == _ANSWER and (number == start or not lines[number - 1].strip())
    ]
    # Behind rooms the last mark counts: the others are likelier in a result than in an answer.
    return marks[-1 if rooms else 0] if marks else None


def _room(lines: list[str], start: int, end: int, found: AllTxt) -> Room:
    match = _ROOM.fullmatch(lines[start])
    assert match is not None  # noqa: S101 - found by the same pattern
    house, room = int(match[1]), int(match[2])
    result = lines[start + 1 : end]
    while result and not result[-1].strip():
        result.pop()
    if _ANSWER in result or _ANSWER_END in result:
        found.warnings.append(Warn("answer_mark_in_result", house, room))
    try:
        args = json.loads(match[4])
    except (ValueError, RecursionError):
        args = None
    text = "\n".join(result) if result else None
    return Room(house, room, match[3].strip(), args, match[4], text)
