"""Parses a dump: floors, questions, answers, actions with their boxes, and what is odd.

The rules are sections 2.1 to 2.9 of the specification. :func:`parse` never fails
on a text; :func:`box_lines` gives the line ranges of the boxes it found, so that
stripping and parsing cannot disagree.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final, NamedTuple

from converters.formats.biscuit.action import actions_of
from converters.formats.biscuit.lines import CLOSE, OPEN, Scan, fits, kind_of, unescape
from converters.formats.biscuit.model import Box, Dump, Failure, Floor, Note, Warn
from converters.formats.biscuit.tools import ABSOLUTE, KEPT_BEFORE_V13, KNOWN
from converters.text import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.formats.biscuit.model import Action

__all__ = ["Cut", "box_lines", "parse"]

_ERROR: Final = re.compile(r"\[ERR\](?: \[(\d\d:\d\d)\])? ?", re.ASCII)
_TRUNCATED: Final = re.compile(r"^…\[(?:trunc|截断) (\d{1,15}) chars\]…\r?$", re.MULTILINE)
_GUTTER: Final = "  │ "
_MISSING: Final = 10_000
_WINDOW: Final = 64
"""So many tools of one line are looked at for the owner of a box, which keeps reading linear."""


class Cut(NamedTuple):
    """Lines ``start`` to ``stop`` (from 0) of a box; ``header`` when a header ended it."""

    start: int
    stop: int
    header: bool = False


def parse(text: str) -> Dump:
    """Give the floors of a dump in file order, and warnings for what is odd in it."""
    return _Parser(Scan(text)).run()


def box_lines(scan: Scan) -> list[Cut]:
    """Give the line ranges of all boxes and gutter bodies of a dump, in order."""
    parser = _Parser(scan)
    parser.run()
    return parser.cuts


class _Open:
    """An action line that is being read: its text, later its actions and boxes."""

    __slots__ = ("actions", "boxes", "owners", "position", "text")

    def __init__(self, text: str) -> None:
        self.text: list[str] = [text]
        self.actions: list[Action] | None = None
        self.owners: list[Action] = []
        self.position = 0
        self.boxes: list[tuple[Box, int]] = []


class _Parser:
    """One pass over the lines; holds what the line before has left open."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.cuts: list[Cut] = []
        self.warnings: list[Warn] = []
        self.late: list[Warn] = []
        self.floors: list[Floor] = []
        self.preamble: list[str] = []
        self.floor: Floor | None = None
        self.text: list[str] | None = None  # the question, answer or error that may go on
        self.kind = ""
        self.action: _Open | None = None
        self.blanks: list[str] = []
        self.number = 0
        self.action_lines = 0

    def warn(self, code: str, line: int | None = None) -> None:
        floor = self.floor.n if self.floor else None
        self.warnings.append(Warn(code, floor, None if line is None else line + 1))

    def run(self) -> Dump:
        scan = self.scan
        if scan.bom:
            self.warnings.append(Warn("bom"))
        if scan.newline == "mixed":
            self.warnings.append(Warn("mixed_newlines"))
        while self.number < len(scan.bare):
            self._line(scan.bare[self.number])
        self._end_floor()
        self._check_floors()
        seen = {floor.n for floor in self.floors}
        missing = [n for n in _below(max(seen, default=1)) if n not in seen]
        count = max(seen, default=0) - len(seen - {0})
        return Dump(
            scan.newline,
            self.preamble,
            self.floors,
            missing[:_MISSING],
            max(0, count),
            self.warnings + self.late,
        )

    def _line(self, line: str) -> None:
        number = self.number
        self.number += 1
        if number in self.scan.headers:
            if self.scan.is_confirmed(number):
                self._header(number)
                return
            self.warn("header_like_text", number)
        if self.scan.is_blank(number):
            if self.floor is not None:
                self.blanks.append(line)
            return
        if self.floor is None:
            self.preamble.append(line)
            return
        if line == OPEN:
            self._box(number)
        elif line.startswith(_GUTTER) and self.action is not None:
            self._gutter(number)
        elif line == CLOSE:
            self._end_text()
            self.warn("stray_box_end", number)
            self._note(Note("stray", line))
        else:
            self._known(line, number)

    def _known(self, line: str, number: int) -> None:
        kind = kind_of(line)
        if kind == "text":
            self._continue(line, number)
            return
        self._end_text()
        if kind in ("question", "answer"):
            self.kind, self.text = kind, [line[3:]]
        elif kind == "error":
            self.kind, self.text = kind, [line]
        elif kind == "action":
            self.action = _Open(line)
        elif kind == "system":
            self._note(Note("system", line[4:]))
        else:
            self._note(Note("unmatched_tool_result", line[6:]))

    def _continue(self, line: str, number: int) -> None:
        """Take a line that starts nothing: it goes on with the last text, else it is stray."""
        target = self.text
        if target is None and self.action is not None and not self.action.boxes:
            target = self.action.text
        if target is None:
            self._end_text()
            self.warn("stray_text", number)
            self._note(Note("stray", line))
            return
        target += [*self.blanks, line]
        self.blanks = []

    def _header(self, number: int) -> None:
        self._end_floor()
        match = self.scan.headers[number]
        floor = Floor(int(match[1]), number + 1)
        if match[2] is not None:
            floor.timestamp_raw = match[0][match.start(2) : -4]
            floor.timestamp = _iso(match)
        self.floor = floor
        self.floors.append(floor)
        self.action_lines = 0

    def _note(self, note: Note) -> None:
        if self.floor is not None:
            self.floor.sequence.append(("note", len(self.floor.notes)))
            self.floor.notes.append(note)

    def _end_text(self) -> None:
        """Close what is open: the text becomes an entry, the boxes go to their tools."""
        self.blanks = []
        floor = self.floor
        if floor is None:
            return
        if self.text is not None:
            text = "\n".join(self.text)
            if self.kind == "question":
                floor.sequence.append(("question", len(floor.questions)))
                floor.questions.append(text)
            elif self.kind == "answer":
                floor.sequence.append(("answer", len(floor.answers)))
                floor.answers.append(text)
            else:
                match = _ERROR.match(text)
                floor.sequence.append(("error", len(floor.errors)))
                failure = Failure(match[1], text[match.end() :]) if match else Failure(None, text)
                floor.errors.append(failure)
            self.text = None
        if self.action is not None:
            self._end_action(floor, self.action)
            self.action = None

    def _read_action(self, floor: Floor, opened: _Open) -> list[Action]:
        """Parse the text of the action line, once it is complete."""
        if opened.actions is not None:
            return opened.actions
        text = "\n".join(opened.text)
        opened.actions, sure = actions_of(text, self.action_lines)
        self.action_lines += 1
        if not sure:
            self.late.append(Warn("parts_ambiguous", floor.n))
        for action in opened.actions:
            if action.literal_null:
                self.late.append(Warn("null_args", floor.n, tool=action.tool))
            if action.tool not in KNOWN:
                self.late.append(Warn("unknown_tool", floor.n, tool=action.tool))
        only = opened.actions if len(opened.actions) == 1 else None
        opened.owners = only or [a for a in opened.actions if a.tool in ABSOLUTE]
        return opened.actions

    def _end_action(self, floor: Floor, opened: _Open) -> None:
        actions = self._read_action(floor, opened)
        for action in actions:
            floor.sequence.append(("action", len(floor.actions)))
            floor.actions.append(action)
        for box, number in _give(opened.boxes, actions):
            self.warn("orphan_box", number)
            self._note(Note("orphan_box", box.body))

    def _box(self, number: int) -> None:
        floor, opened = self.floor, self.action
        if self.text is not None or opened is None or floor is None:
            self._end_text()
            opened = None
        wanted: list[int | None] = []
        if opened is not None and floor is not None:
            self._read_action(floor, opened)
            self.blanks = []
            waiting = opened.owners[opened.position : opened.position + _WINDOW]
            wanted = [a.chars for a in waiting if a.tool in ABSOLUTE and a.chars != 0]
        end = self.scan.box_end(number, wanted)
        if end.by_length:
            self.warn("box_end_by_length", number)
        if not end.closed:
            self.warn("box_unclosed", number)
        if end.header is not None:
            self.warn("header_like_in_box", end.header)
        body, escaped = unescape(self.scan.body(number + 1, end.stop))
        box = Box(body, end.closed, "box", escaped)
        self.number = end.then
        self.cuts.append(Cut(number, end.then, not end.closed and end.then < len(self.scan.raw)))
        if opened is None:
            self.warn("orphan_box", number)
            self._note(Note("orphan_box", body))
            return
        opened.boxes.append((box, number))
        opened.position += _owner(opened.owners, opened.position, units(body)) + 1

    def _gutter(self, number: int) -> None:
        """Read a V11/V12 body: lines behind a gutter, the marks of later tools glued to them."""
        opened, floor = self.action, self.floor
        if opened is None or floor is None:
            return
        self._read_action(floor, opened)
        stop = number
        while stop < len(self.scan.bare) and self.scan.bare[stop].startswith(_GUTTER):
            stop += 1
        body = "\n".join(line[len(_GUTTER) :] for line in self.scan.raw[number:stop])
        opened.boxes.append((Box(body, closed=True, style="gutter"), number))
        self.cuts.append(Cut(number, stop))
        self.blanks = []
        self.number = stop

    def _end_floor(self) -> None:
        self._end_text()
        self.floor = None

    def _check_floors(self) -> None:
        seen: set[int] = set()
        previous = 0
        for floor in self.floors:
            if floor.n in seen:
                floor.duplicate = True
                self.late.append(Warn("duplicate_floor", floor.n))
            if floor.n < previous:
                self.late.append(Warn("floor_out_of_order", floor.n))
            if floor.timestamp is None:
                self.late.append(Warn("no_timestamp", floor.n))
            seen.add(floor.n)
            previous = floor.n


def _below(highest: int) -> Iterable[int]:
    return range(1, min(highest, 10 * _MISSING))


def _iso(match: re.Match[str]) -> str | None:
    """Give the time of a header as ISO 8601 with its offset, ``None`` for an impossible one."""
    _, day, clock, sign, hours, minutes = match.groups()
    try:
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        zone = timezone(-offset if sign == "-" else offset)
        return datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=zone).isoformat()
    except (ValueError, OverflowError):
        return None


def _owner(tools: list[Action], position: int, size: int) -> int:
    """Give how far behind ``position`` the first tool is whose length a body fits; 0 for none."""
    window = tools[position : position + _WINDOW]
    return next((i for i, action in enumerate(window) if _announces(action, size)), 0)


def _announces(action: Action, size: int) -> bool:
    return action.chars is not None and fits(size, action.chars)


def _give(boxes: list[tuple[Box, int]], actions: list[Action]) -> Iterator[tuple[Box, int]]:
    """Give each box to its action (specification 2.6, end); yields those that no tool claims."""
    if not boxes:
        return
    kept = KEPT_BEFORE_V13 if boxes[0][0].style == "gutter" else ABSOLUTE
    tools = actions if len(actions) == 1 else [a for a in actions if a.tool in kept]
    position = 0
    for index, (box, number) in enumerate(boxes):
        size = units(box.body)
        if position >= len(tools):
            yield box, number
            continue
        if len(boxes) - index < len(tools) - position:
            position += _owner(tools, position, size)
        _attach(tools[position], box, size)
        position += 1


def _attach(action: Action, box: Box, size: int) -> None:
    action.box = box
    if action.chars is not None:
        box.length_matches = fits(size, action.chars)
    found = _TRUNCATED.search(box.body)
    if found:
        lost = int(found[1])
        if action.chars is None or action.chars > lost:
            box.truncated_chars = lost
