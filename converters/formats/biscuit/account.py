"""The account of a written dump: each item of the session against what a reader finds again.

A dump has no escapes outside its boxes, so that some texts read back as something
else. Instead of predicting that, the writer reads its own output and compares.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from converters.formats.biscuit.lines import BOX_CAP
from converters.formats.biscuit.plan import answers, native_of, result_text
from converters.formats.biscuit.tools import ABSOLUTE
from converters.ir import Image, Meta, Reasoning, Session, Text, ToolCallBlock, Turn, prompt_of
from converters.ledger import count_items
from converters.text import units

if TYPE_CHECKING:
    from converters.formats.biscuit.plan import Entry, FloorPlan, TurnPlan
    from converters.ir import Block, Extra, Step, ToolCall, ToolResult
    from converters.ledger import Ledger

__all__ = ["account"]

_FILTERED = "biscuit-actions-filtered"


def account(
    session: Session, floors: list[FloorPlan], back: Session | None, ledger: Ledger
) -> None:
    """Say ``kept`` or ``lost`` for every item of the session.

    ``floors`` is what was written, ``back`` what a reader makes of it.
    """
    tally = _Tally(ledger)
    tally.check("title", "title-dropped", session.title, back and back.title)
    tally.lose("cwd", "cwd-dropped", session.meta.cwd is not None)
    tally.lose("time", "time-dropped", session.meta.created_at is not None)
    tally.check("model", "model-dropped", session.model, back and back.model)
    tally.members(session.extra, back.extra if back else None)
    tally.members(session.meta.extra, back.meta.extra if back else None)
    found = _by_floor(back.turns if back else [])
    copies: dict[int, int] = {}
    for floor in floors:
        copies[floor.n] = copy = copies.get(floor.n, 0) + 1
        _floor(floor, found.get((floor.n, copy), []), tally)


def _by_floor(turns: list[Turn]) -> dict[tuple[int, int], list[Turn]]:
    """Give the turns of each floor by its number and count."""
    found: dict[tuple[int, int], list[Turn]] = {}
    copies: dict[int, int] = {}
    for turn in turns:
        native = native_of(turn.extra)
        n = native["floor"]
        if native["question"] == 0:
            copies[n] = copies.get(n, 0) + 1
        found.setdefault((n, copies[n]), []).append(turn)
    return found


def _floor(floor: FloorPlan, back: list[Turn], tally: _Tally) -> None:
    tally.floor = floor.n
    expected = [part for part in floor.turns if part.entries]
    for part in floor.turns:
        if not part.entries:
            for turn in part.turns:
                tally.ledger.note("empty-message", floor.n)
                tally.turn_lost(turn, "empty-message")
    if len(expected) != len(back):
        for part in expected:
            for turn in part.turns:
                tally.turn_lost(turn, "text-changed")
        return
    for part, turn in zip(expected, back, strict=True):
        _turn(part, turn, tally)


def _turn(part: TurnPlan, back: Turn, tally: _Tally) -> None:
    for index, turn in enumerate(part.turns):
        first = index == 0
        if not first:
            tally.ledger.note("turn-merged", tally.floor)
        _prompt(turn, back if first else None, tally)
        if turn.time is not None:
            rule = "biscuit-time-coarse" if _has_time(back) else "time-dropped"
            tally.check("time", rule, turn.time, back.time if first else None)
        tally.count("state", "state-dropped", turn.aborted, kept=back.aborted)
        tally.lose("state", "state-dropped", turn.shadowed)
        tally.members(turn.extra, back.extra if first else None)
        compaction = turn.compaction
        if compaction is not None:
            tally.lose("compaction", "compaction-text")
            tally.lose("time", "time-dropped", compaction.time is not None)
            tally.lose("model", "model-dropped", compaction.model is not None)
            tally.members(compaction.extra, None)
    steps = [step for turn in part.turns for step in turn.steps]
    groups = answers(part.entries)
    if len(groups) != len(back.steps):
        for step in steps:
            tally.step_lost(step, "text-changed")
        return
    places: dict[int, list[tuple[Entry, Step]]] = {}
    guests: set[int] = set()
    for group, found in zip(groups, back.steps, strict=True):
        owners = {id(entry.step) for entry in group}
        if len(owners) > 1:
            tally.ledger.note("step-merged", tally.floor)
            guests.add(id(group[0].step))
        for entry in group:
            places.setdefault(id(entry.step), []).append((entry, found))
    for step in steps:
        _step(step, places.get(id(step), []), tally, guest=id(step) in guests)


def _has_time(turn: Turn) -> bool:
    return turn.time is not None or any(step.time is not None for step in turn.steps)


def _prompt(turn: Turn, back: Turn | None, tally: _Tally) -> None:
    blocks = prompt_of(turn)
    if not blocks:
        return
    guide = native_of(turn.extra).get("guide") is True
    rule = "biscuit-guide-dropped" if guide or back is None else "biscuit-question-flattened"
    found: list[Block] = prompt_of(back) if back is not None and not guide else []
    same = len(found) == len(blocks)
    tally.check("prompt", rule, turn.prompt, back.prompt if back and found else None)
    for index, block in enumerate(blocks):
        other = found[index] if same else None
        if isinstance(block, Text):
            cut = native_of(block.extra).get("part") == "files"
            reason = "biscuit-attachment-dropped" if cut and not guide else rule
            text = other.text if isinstance(other, Text) else None
            tally.check("block.text", reason, block.text, text)
            tally.members(block.extra, other.extra if other else None)
        else:
            tally.block_lost(block, "image-text" if isinstance(block, Image) else rule)


def _step(step: Step, places: list[tuple[Entry, Step]], tally: _Tally, *, guest: bool) -> None:
    """Account for a step by the entries that it gave and the steps they became.

    ``guest``: its text went into the step of the next one's calls, whose time that is.
    """
    text = next((back for entry, back in places if entry.kind != "action"), None)
    action = next((back for entry, back in places if entry.kind == "action"), None)
    home = action or text
    if home is None and not step.tool_calls:
        tally.ledger.note("empty-message", tally.floor, kind="step")
    elif text is not None and action is not None and text is not action:
        tally.ledger.note("text-changed", tally.floor, kind="step")
    _texts(step, text, tally)
    if guest:
        home = None
    for block in step.content:
        if not isinstance(block, Text):
            tally.block_lost(block, _block_rule(block))
    time = home.time if home else None
    tally.check("time", "time-dropped" if time is None else "biscuit-time-coarse", step.time, time)
    tally.lose("model", "model-dropped", step.model is not None)
    if step.usage is not None:
        tally.lose("usage", "biscuit-usage-missing")
        tally.members(step.usage.extra, None)
    tally.members(step.extra, home.extra if home else None)
    _calls(step, action, tally)


def _block_rule(block: Block) -> str:
    if isinstance(block, Reasoning):
        return "biscuit-reasoning-missing"
    return "image-dropped" if isinstance(block, Image) else "extra-dropped"


def _texts(step: Step, back: Step | None, tally: _Tally) -> None:
    """Account for the texts of a step: one text before the calls can be the same again."""
    texts = [block for block in step.content if isinstance(block, Text)]
    found = [block for block in back.content if isinstance(block, Text)] if back else []
    calls_first = any(
        isinstance(a, ToolCallBlock) and isinstance(b, Text)
        for a, b in zip(step.content, step.content[1:], strict=False)
    )
    filtered = back is None and native_of(step.extra).get("error") is True
    rule = _FILTERED if filtered else "biscuit-answer-flattened"
    alone = len(texts) == len(found) == 1 and not calls_first
    for block in texts:
        other = found[0] if alone else None
        tally.check("block.text", rule, block.text, other.text if other else None)
        tally.members(block.extra, other.extra if other else None)


def _calls(step: Step, back: Step | None, tally: _Tally) -> None:
    found = back.tool_calls if back and len(back.tool_calls) == len(step.tool_calls) else []
    results = {result.tool_call_id: result for result in reversed(step.tool_results)}
    missing = _FILTERED if back is None else "text-changed"
    done: set[int] = set()
    for index, call in enumerate(step.tool_calls):
        other = found[index] if found else None
        _call(call, other, missing, tally)
        result = results.get(call.id)
        if result is None or id(result) in done:
            continue
        done.add(id(result))
        answer = None
        if other is not None and back is not None:
            made = [r for r in back.tool_results if r.tool_call_id == other.id]
            answer = made[0] if made else None
        _result(call, result, answer, missing if other is None else None, tally)
    for result in step.tool_results:
        if id(result) not in done:
            tally.result_lost(result, "tool-result-dropped")


def _call(call: ToolCall, back: ToolCall | None, missing: str, tally: _Tally) -> None:
    rule: str | None = None
    if back is None:
        rule = missing
    elif back.name != call.name:
        rule = "text-changed"
    elif not _same_json(back.arguments, call.arguments):
        cut = "…" in back.arguments and "…" not in call.arguments
        rule = "biscuit-tool-args-truncated" if cut else "biscuit-tool-args-reduced"
    elif back.id != call.id:
        rule = "biscuit-ids-missing"
    tally.count("call", rule or "", 1, kept=rule is None)
    tally.members(call.extra, back.extra if back else None)


def _same_json(first: str, second: str) -> bool:
    if first == second:
        return True
    try:
        return bool(json.loads(first) == json.loads(second))
    except (ValueError, RecursionError):
        return False


def _result(
    call: ToolCall, result: ToolResult, back: ToolResult | None, missing: str | None, tally: _Tally
) -> None:
    if back is None:
        rule = missing or "biscuit-tool-result-missing"
        tally.result_lost(result, rule)
        return
    text, found = result_text(result), result_text(back)
    rule = _changed(call, text, found, back)
    texts = [block for block in result.content if isinstance(block, Text)]
    same = text == found and len(result.content) == len(texts) == len(back.content)
    tally.count("result", rule, 1, kept=same)
    for block in result.content:
        if isinstance(block, Text):
            tally.count("block.text", rule, 1, kept=same)
            tally.members(block.extra, None)
        else:
            tally.block_lost(block, _block_rule(block))
    tally.lose("time", "time-dropped", result.time is not None)
    tally.count("error", "error-mark-dropped", result.is_error, kept=back.is_error)
    if back.is_error and not result.is_error:
        tally.ledger.note("biscuit-status-unreliable", tally.floor)
    tally.members(result.extra, back.extra)


def _changed(call: ToolCall, text: str, found: str, back: ToolResult) -> str:
    """Say why a result reads back as another text."""
    if call.name not in ABSOLUTE:
        return "biscuit-tool-result-missing"
    if not native_of(back.extra).get("box"):
        return "biscuit-box-stripped"
    if units(text) > BOX_CAP and "…[trunc " in found:
        return "biscuit-box-capped"
    return "text-changed"


class _Tally:
    """Counts items into the ledger, with the floor as their place."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.floor: int | None = None

    def count(self, kind: str, rule: str, n: int, *, kept: bool) -> None:
        """Count ``n`` items of a kind as kept, or as lost by a rule."""
        if kept:
            self.ledger.kept(kind, int(n))
        else:
            self.lose(kind, rule, n)

    def check(self, kind: str, rule: str, value: object, back: object) -> None:
        """Count an item, if there is one, as kept when it reads back the same."""
        if value is not None:
            self.count(kind, rule, 1, kept=value == back)

    def lose(self, kind: str, rule: str, n: int = 1) -> None:
        """Count items that the dump does not have, or only as something else."""
        self.ledger.lost(rule, kind, None if self.floor is None else f"F{self.floor}", int(n))

    def members(self, extra: Extra | None, back: Extra | None) -> None:
        """Count the members of an ``x-dcb``."""
        for name, value in (extra or {}).items():
            other: Any = (back or {}).get(name)
            self.count("extra", "extra-dropped", 1, kept=other is not None and other == value)

    def block_lost(self, block: Block, rule: str) -> None:
        """Count a block that is gone; a call's place in the message is no item."""
        tag = block.__struct_config__.tag
        if tag != "tool-call":
            self.lose(f"block.{tag}", rule)
        self.members(block.extra, None)

    def result_lost(self, result: ToolResult, rule: str) -> None:
        """Count a result that is gone with all that it holds."""
        self.lose("result", rule)
        for block in result.content:
            self.block_lost(block, rule)
        self.lose("time", "time-dropped", result.time is not None)
        self.lose("error", "error-mark-dropped", result.is_error)
        self.members(result.extra, None)

    def turn_lost(self, turn: Turn, rule: str) -> None:
        """Count all items of a turn as lost by one rule."""
        counts = count_items(Session(meta=Meta(""), provider="", turns=[turn]))
        for kind, n in counts.items():
            self.lose(kind, rule, n)

    def step_lost(self, step: Step, rule: str) -> None:
        """Count all items of a step as lost by one rule."""
        self.turn_lost(Turn("", None, [step]), rule)
