"""Lays out what is written of a session: floors, their lines, and what each line stands for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from converters.formats.biscuit.lines import (
    CLOSE,
    HEADER,
    OPEN,
    escape,
    fits,
    kind_of,
    unescape,
)
from converters.formats.biscuit.sieve import (
    Call,
    action_lines,
    answer_text,
    arguments_of,
    call_of,
    flatten,
    header_line,
)
from converters.formats.biscuit.tools import WRITING, display, summary_at_end
from converters.ir import Image, Text, prompt_of
from converters.text import units

if TYPE_CHECKING:
    from converters.ir import Block, Extra, Session, Step, ToolCall, ToolResult, Turn

__all__ = ["Entry", "FloorPlan", "TurnPlan", "answers", "native_of", "plan", "result_text"]

_ZONE: Final = timedelta(hours=8)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME: Final = str.maketrans({"]": "_", "+": "_", "\n": "_", "\r": "_"})

Kind = Literal["question", "answer", "action", "error", "note"]


class Entry(NamedTuple):
    """Lines of a floor, and the step that they come from."""

    kind: Kind
    lines: list[str]
    step: Step | None = None


class TurnPlan(NamedTuple):
    """The turns that read back as one (a guide message has no line of its own), and its lines."""

    turns: list[Turn]
    entries: list[Entry]


class FloorPlan(NamedTuple):
    """One floor; ``time`` in ms."""

    n: int
    time: int | None
    turns: list[TurnPlan]

    @property
    def text(self) -> str:
        """The floor as a part of a dump."""
        lines = [header_line(self.n, _clock(self.time))]
        lines += [line for turn in self.turns for entry in turn.entries for line in entry.lines]
        return "\n".join(lines)


def native_of(extra: Extra | None) -> dict[str, Any]:
    """Give ``x-dcb.native``, or nothing."""
    native = (extra or {}).get("native")
    return native if isinstance(native, dict) else {}


def plan(session: Session, root: str = "") -> list[FloorPlan]:
    """Give the floors of a session: its own where all turns have them, else one per turn."""
    floors: list[FloorPlan] = []
    for turn, (n, starts) in zip(session.turns, _numbers(session.turns), strict=True):
        if starts:
            floors.append(FloorPlan(n, None, []))
        entries = _entries(turn, root, goes_on=not starts)
        turns = floors[-1].turns
        if turns and not any(entry.kind == "question" for entry in entries):
            turns[-1].turns.append(turn)
            turns[-1].entries.extend(entries)
        else:
            turns.append(TurnPlan([turn], entries))
    return [floor._replace(time=_time(floor)) for floor in floors]


def _numbers(turns: list[Turn]) -> list[tuple[int, bool]]:
    """Give the floor number of each turn, and whether the turn opens the floor."""
    own: list[tuple[int, bool]] = []
    for turn in turns:
        native = native_of(turn.extra)
        n, question = _number(native.get("floor")), _number(native.get("question"))
        if n is None or question is None:
            return [(number, True) for number in range(1, len(turns) + 1)]
        same = bool(own) and own[-1][0] == n and question > 0
        own.append((n, not same))
    return own


def _number(value: Any) -> int | None:
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15
    return value if ok else None


def _time(floor: FloorPlan) -> int | None:
    """Give the header time: that of the turn, else of the last step that has one."""
    turns = [turn for part in floor.turns for turn in part.turns]
    given = [turn.time for turn in turns if turn.time is not None]
    if given:
        return given[0]
    steps = [step.time for turn in turns for step in turn.steps if step.time is not None]
    return steps[-1] if steps else None


def _clock(ms: int | None) -> str | None:
    """Give the digits of a header in UTC+8; ``None`` for a time that a header cannot hold."""
    if ms is None:
        return None
    try:
        at = _EPOCH + timedelta(milliseconds=ms) + _ZONE
    except OverflowError:
        return None
    return f"{at.year:04}-{at.month:02}-{at.day:02} {at:%H:%M:%S}"


def _entries(turn: Turn, root: str, *, goes_on: bool) -> list[Entry]:
    entries: list[Entry] = []
    native = native_of(turn.extra)
    blocks = prompt_of(turn)
    if native.get("guide") is not True and (blocks or goes_on or native.get("empty") is True):
        entries.append(Entry("question", [f"Q: {question_of(blocks)}"]))
    if turn.compaction is not None:
        summary = answer_text(turn.compaction.summary)
        entries.append(Entry("note", [f"[S] {summary}"]))
    notes = _notes(native.get("notes"))
    for index, step in enumerate(turn.steps):
        entries += [Entry("note", [line]) for line in notes.pop(index, [])]
        entries += _step(step, root)
    entries += [Entry("note", [line]) for index in sorted(notes) for line in notes[index]]
    return entries


def question_of(blocks: list[Block]) -> str:
    """Give the text of a ``Q: `` line; a picture becomes ``[image]``."""
    texts = []
    for block in blocks:
        if isinstance(block, Text) and native_of(block.extra).get("part") != "files":
            texts.append(block.text)
        elif isinstance(block, Image):
            texts.append("[image]")
    return flatten("\n".join(texts))


def _notes(value: Any) -> dict[int, list[str]]:
    """Give the notes of a dump that can be lines again, by the step that they stand before."""
    found: dict[int, list[str]] = {}
    for note in value if isinstance(value, list) else ():
        if not isinstance(note, dict) or not isinstance(note.get("text"), str):
            continue
        before = note.get("before")
        text = flatten(note["text"])
        line = {"system": f"[S] {text}", "unmatched_tool_result": f"  [T] {text}"}.get(
            str(note.get("kind"))
        )
        if line is not None:
            found.setdefault(_number(before) or 0, []).append(line)
    return found


def _step(step: Step, root: str) -> list[Entry]:
    entries: list[Entry] = []
    native = native_of(step.extra)
    text = answer_text("\n".join(b.text for b in step.content if isinstance(b, Text)))
    if native.get("error") is True and not step.tool_calls:
        time = native.get("time")
        mark = f"[ERR] [{time}]" if isinstance(time, str) and time else "[ERR]"
        entries.append(Entry("error", [f"{flatten(mark)} {text}"], step))
    elif text:
        entries.append(Entry("answer", [f"A: {text}"], step))
    if step.tool_calls:
        results = {result.tool_call_id: result for result in reversed(step.tool_results)}
        calls = [_call(call, results.get(call.id), root) for call in step.tool_calls]
        entries.append(Entry("action", action_lines(calls), step))
    return entries


def _call(call: ToolCall, result: ToolResult | None, root: str) -> Call:
    args = arguments_of(call.arguments)
    made = _native_call(call, args, result, root)
    if made is None:
        text = None if result is None else result_text(result)
        made = call_of(call.name, args, text, root)
    shown = made.shown
    if "\r" in shown or any(map(_starts_something, shown.split("\n")[1:])):
        shown = flatten(shown)
    if made.box is not None and _ends_early(made.box, made.summary):
        made = made._replace(box=None)
    return made._replace(tool=made.tool.translate(_NAME) or "?", shown=shown)


def _ends_early(body: str, short: str | None) -> bool:
    """Whether a header inside a body would end its box, since no length vouches for it.

    Such a box would turn what follows into floors of its own; better none.
    """
    if "=== F" not in body or not any(map(HEADER.fullmatch, body.split("\n"))):
        return False
    ending = summary_at_end("run_command", short or "")
    chars = ending.match["chars"] if ending is not None else None
    return chars is None or not fits(units(unescape(body)[0]), int(chars))


def _starts_something(line: str) -> bool:
    return (
        kind_of(line) != "text"
        or line in (OPEN, CLOSE)
        or line.startswith("  │ ")
        or HEADER.fullmatch(line) is not None
    )


def _native_call(call: ToolCall, args: Any, result: ToolResult | None, root: str) -> Call | None:
    """Give a call as the dump had it from which it was read."""
    native = native_of(result.extra) if result is not None else {}
    short, sha, box = native.get("summary"), native.get("sha"), native.get("box")
    if result is None or not (short or sha or box):
        return None
    return Call(
        call.name or "?",
        display(call.name, args, root),
        flatten(short) if isinstance(short, str) else None,
        sha[:12] if isinstance(sha, str) else None,
        escape(result_text(result)) if box else None,
    )


def result_text(result: ToolResult) -> str:
    """Give the text of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, Text))


def without_boxes(floors: list[FloorPlan]) -> None:
    """Remove the boxes: each action keeps its line."""
    for floor in floors:
        for turn in floor.turns:
            for entry in turn.entries:
                if entry.kind == "action":
                    del entry.lines[1:]


def only_edits(floors: list[FloorPlan]) -> None:
    """Keep questions, answers, system lines and the lines of one write tool."""
    for floor in floors:
        for turn in floor.turns:
            turn.entries[:] = [entry for entry in turn.entries if _survives(entry)]


def _survives(entry: Entry) -> bool:
    if entry.kind == "action":
        return entry.lines[0].startswith(tuple(f"[A → {tool}]" for tool in WRITING))
    return entry.kind in ("question", "answer") or entry.lines[0].startswith("[S]")


def answers(entries: list[Entry]) -> list[list[Entry]]:
    """Group the lines that read back as one step: an answer and the action right behind it."""
    groups: list[list[Entry]] = []
    open_answer = False
    for entry in entries:
        if entry.kind == "action" and open_answer:
            groups[-1].append(entry)
        elif entry.kind in ("answer", "action", "error"):
            groups.append([entry])
        open_answer = entry.kind == "answer"
    return groups
