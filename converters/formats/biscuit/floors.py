"""Floors of a dump into turns and steps (specification section 9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.biscuit.sieve import VISION_MARK
from converters.formats.biscuit.tools import ABSOLUTE, GENTLE, PATH_TOOLS, READING, WRITING
from converters.ir import Text, ToolCallBlock, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from converters.formats.biscuit.model import Action, Floor
    from converters.ir import Block, Turn
    from converters.ledger import Ledger
    from converters.turns import TurnBuilder

__all__ = ["add_floor", "arguments_of_action", "floor_ms", "note_losses", "question_blocks"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED: Final = {
    "search_text": "query",
    "search_web": "query",
    "find_files": "pattern",
    "fetch_webpage": "url",
    "run_command": "command",
    "generate_image": "prompt",
    "remove_background": "image",
}


def question_blocks(text: str) -> list[Block]:
    """Give a question as blocks; picture descriptions of the program are a part of their own."""
    at = text.find(VISION_MARK)
    if at < 0:
        return [Text(text)] if text else []
    blocks: list[Block] = [Text(text[:at].rstrip())] if text[:at].strip() else []
    return [*blocks, Text(text[at:], {"native": {"part": "vision"}})]


def floor_ms(floor: Floor, tz: tzinfo | None = None) -> int | None:
    """Give the header time in ms; the digits are taken in ``tz`` where one is given."""
    if floor.timestamp is None:
        return None
    try:
        at = datetime.fromisoformat(floor.timestamp)
        if tz is not None:
            at = at.replace(tzinfo=tz)
        return (at - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def arguments_of_action(action: Action) -> str:
    """Give the arguments that a dump still shows, as JSON.

    The argument gets its name where the tool's row says which one it is and
    nothing was cut, else it is ``display``.
    """
    args: dict[str, str] = {}
    text = action.args_text
    if text is not None:
        name = "path" if action.tool in PATH_TOOLS else _NAMED.get(action.tool)
        value = text
        if name == "query":
            quoted = len(text) > 2 and text[0] == text[-1] == '"'
            name, value = ("query", text[1:-1]) if quoted else (None, text)
        if name is None or action.args_truncated or action.raw:
            name, value = "display", text
        args[name] = value
    asked = next((sha.value for sha in action.shas if sha.kind == "read"), None)
    if asked:
        args["sha256"] = asked
    return jsonio.dumps(args).decode()


def _result(action: Action, call_id: str) -> ToolResult | None:
    """Give what a dump says of a result: the box, else the summary; ``None`` without either."""
    made = next((sha.value for sha in action.shas if sha.kind == "produced"), None)
    if action.summary is None and made is None and action.box is None:
        return None
    native: dict[str, Any] = {}
    if action.summary is not None:
        native["summary"] = action.summary
    if made is not None:
        native["sha"] = made
    text = action.summary
    if action.box is not None:
        text = action.box.body
        native["box"] = action.box.style if action.box.closed else "unclosed"
    return ToolResult(
        call_id,
        [] if text is None else [Text(text)],
        action.ok is False,
        extra={"native": native},
    )


class _FloorWalk:
    """One floor on its way into the builder."""

    def __init__(self, floor: Floor, builder: TurnBuilder, prefix: str) -> None:
        self.floor, self.builder, self.prefix = floor, builder, prefix
        self.questions = 0
        self.answer: str | None = None
        self.turn: Turn | None = None

    def open(self, text: str | None) -> Turn:
        native: dict[str, Any] = {"floor": self.floor.n, "question": self.questions}
        if text == "":
            native["empty"] = True
        blocks = question_blocks(text or "")
        self.turn = self.builder.prompt(blocks, extra={"native": native})
        self.questions += 1
        return self.turn

    def now(self) -> Turn:
        return self.turn or self.open(None)

    def flush(self) -> None:
        if self.answer is not None:
            self.now()
            self.builder.step([Text(self.answer)])
            self.answer = None

    def actions(self, first: int, last: int) -> None:
        """Make one step of the actions of one line, and of the answer right before it."""
        self.now()
        blocks: list[Block] = [] if self.answer is None else [Text(self.answer)]
        self.answer = None
        results: list[ToolResult] = []
        for index in range(first, last):
            action = self.floor.actions[index]
            call_id = f"{self.prefix}-a{index}"
            blocks.append(ToolCallBlock(call_id, action.tool, arguments_of_action(action)))
            result = _result(action, call_id)
            if result is not None:
                results.append(result)
        self.builder.step(blocks)
        for result in results:
            self.builder.result(result)

    def note(self, index: int) -> None:
        note = self.floor.notes[index]
        turn = self.now()
        native = (turn.extra or {}).setdefault("native", {})
        entry = {"kind": note.kind, "text": note.text, "before": len(turn.steps)}
        native.setdefault("notes", []).append(entry)

    def error(self, index: int) -> None:
        failure = self.floor.errors[index]
        self.now()
        native: dict[str, Any] = {"error": True}
        if failure.time is not None:
            native["time"] = failure.time
        self.builder.step([Text(failure.text)] if failure.text else [], extra={"native": native})
        self.builder.abort()


def add_floor(
    floor: Floor,
    builder: TurnBuilder,
    ledger: Ledger,
    *,
    copy: int = 1,
    tz: tzinfo | None = None,
    place: str = "",
) -> None:
    """Add a floor to the builder and say what became of its record.

    ``copy`` counts floors of the same number, so that call ids stay apart.
    The header time goes to the last step, as the time of the floor's end.
    """
    where = f"{place}{floor.line}"
    if not floor.sequence:
        ledger.skipped("empty-message", where)
        return
    walk = _FloorWalk(floor, builder, f"f{floor.n}" if copy == 1 else f"f{floor.n}.{copy}")
    sequence = floor.sequence
    position = 0
    while position < len(sequence):
        kind, index = sequence[position]
        position += 1
        if kind == "action":
            last = index + 1
            while last < len(floor.actions) and (
                floor.actions[last].line == floor.actions[index].line
            ):
                last += 1
                position += 1
            walk.actions(index, last)
            continue
        walk.flush()
        if kind == "question":
            walk.open(floor.questions[index])
        elif kind == "answer":
            walk.answer = floor.answers[index]
        elif kind == "error":
            walk.error(index)
        else:
            walk.note(index)
    walk.flush()
    turn = walk.now()
    ms = floor_ms(floor, tz)
    if ms is not None:
        if turn.steps:
            turn.steps[-1].time = ms
        else:
            turn.time = ms
    elif floor.timestamp_raw is not None:
        ledger.note("timestamp-invalid", where)
    ledger.mapped()


def note_losses(floors: list[Floor], ledger: Ledger, *, missing: int = 0, damaged: int = 0) -> None:
    """Count what the floors of a dump have lost of their conversation (specification section 10).

    ``missing``: floor numbers that do not occur; ``damaged``: boxes without an end.
    """
    if not floors:
        return
    actions = [action for floor in floors for action in floor.actions]
    questions = [text for floor in floors for text in floor.questions]
    tools = {action.tool for action in actions}
    counts = {
        "biscuit-question-flattened": sum(1 for floor in floors if floor.questions),
        "biscuit-answer-flattened": sum(len(floor.answers) for floor in floors),
        "biscuit-attachment-dropped": sum(VISION_MARK in text for text in questions),
        "biscuit-guide-dropped": sum(
            1 for floor in floors if floor.sequence and not floor.questions
        ),
        "biscuit-tool-args-reduced": len(actions),
        "biscuit-tool-args-truncated": sum(action.args_truncated for action in actions),
        "biscuit-tool-result-missing": sum(a.tool not in ABSOLUTE and not a.box for a in actions),
        "biscuit-box-capped": sum(1 for a in actions if a.box and a.box.truncated_chars),
        "biscuit-box-stripped": sum(
            1 for a in actions if a.tool in ABSOLUTE and a.chars and a.box is None
        ),
        "biscuit-box-damaged": damaged,
        "biscuit-reasoning-missing": 1,
        "biscuit-ids-missing": len(actions),
        "biscuit-status-unreliable": sum(
            a.tool in ("write_file", "create_file", "delete_file")
            and not any(sha.kind == "produced" for sha in a.shas)
            for a in actions
        ),
        "biscuit-time-coarse": len(floors),
        "biscuit-floor-missing": missing,
        "biscuit-actions-filtered": int(
            bool(tools) and tools <= GENTLE and not tools & READING and bool(tools & set(WRITING))
        ),
        "biscuit-usage-missing": 1,
        "biscuit-rules-missing": 1,
        "biscuit-path-shortened": 1,
    }
    for rule, count in counts.items():
        if count:
            ledger.note(rule, None, count)


def duplicates(floors: Iterable[Floor]) -> list[tuple[Floor, int]]:
    """Give each floor with its count among the floors of its number, from 1."""
    seen: dict[int, int] = {}
    found = []
    for floor in floors:
        seen[floor.n] = seen.get(floor.n, 0) + 1
        found.append((floor, seen[floor.n]))
    return found
