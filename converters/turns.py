"""The one place that groups messages into turns and steps and pairs calls with results.

A reader walks its records in conversation order and tells a :class:`TurnBuilder`
what it met; the builder applies the rules that all sources share (Interchange v1,
sections 1.5 and 5): one human prompt opens a turn, one assistant message is a step,
results find their call anywhere in the session, the first result of a call wins,
a compaction shadows what came before it and is attached to the next turn.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from converters.ir import (
    Block,
    Compaction,
    Extra,
    Image,
    Step,
    Text,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    Turn,
    Usage,
)
from converters.text import normalize_title

if TYPE_CHECKING:
    from collections.abc import Container, Hashable

    from converters.ledger import Ledger, Place

__all__ = ["TurnBuilder", "project", "sanitize_usage", "title_of"]

_HALF: Final = re.compile("[\ud800-\udfff]")
_MAX_SAFE: Final = (1 << 53) - 1
_BUCKETS: Final = (
    ("cacheReadTokens", "cache_read_tokens"),
    ("cacheWriteTokens", "cache_write_tokens"),
    ("reasoningTokens", "reasoning_tokens"),
)


class TurnBuilder:
    """Collects one session's turns; :meth:`finish` gives them.

    ``current`` is the step that is open, if any: to be read only. Every method takes blocks
    that are IR blocks already; ``place`` is where the ledger says something happened.
    """

    __slots__ = (
        "_calls",
        "_keys",
        "_ledger",
        "_open_calls",
        "_pending",
        "_turn",
        "_unsorted",
        "_waiting",
        "current",
        "turns",
    )

    def __init__(self, ledger: Ledger) -> None:
        self.turns: list[Turn] = []
        self._ledger = ledger
        self._turn: Turn | None = None
        self.current: Step | None = None
        self._keys: dict[Hashable, Step] = {}
        self._calls: dict[str, Step] = {}
        # The calls that wait for a result, with their places; a known call that is not here
        # is answered.
        self._open_calls: dict[str, Place | None] = {}
        self._unsorted: dict[int, Step] = {}
        self._waiting: dict[str, tuple[ToolResult, Place | None]] = {}
        self._pending: Compaction | None = None

    def prompt(
        self, blocks: list[Block], *, time: int | None = None, extra: Extra | None = None
    ) -> Turn:
        """Open a turn with a human prompt; ``time`` in ms."""
        text, kept = project(blocks)
        turn = Turn(text, kept, [], time, extra=extra)
        return self._open(turn)

    def plain_prompt(self, text: str) -> None:
        """Open a turn with a prompt that is one text: the short way for hot paths."""
        self._open(Turn(text, None, [], None))

    def plain_step(self, text: str) -> None:
        """Open a step that is one text: the short way for hot paths."""
        self.add(Step([Text(text)], [], []))

    def _open(self, turn: Turn) -> Turn:
        if self._pending is not None:
            turn.compaction, self._pending = self._pending, None
        self.turns.append(turn)
        self._turn = turn
        self.current = None
        return turn

    def step(
        self,
        blocks: list[Block] | None = None,
        *,
        key: Hashable = None,
        time: int | None = None,
        model: str | None = None,
        usage: Usage | None = None,
        extra: Extra | None = None,
    ) -> Step:
        """Open a step, or go on with the step of the same ``key`` (a message id).

        A repeated key adds blocks; the first time stays, the usage with the
        larger output wins (later on ties). Without an open turn one with an
        empty prompt opens.
        """
        found = self._keys.get(key) if key is not None else None
        if found is None:
            found = Step([], [], [], time, model, usage, extra)
            self.add(found)
            if key is not None:
                self._keys[key] = found
        else:
            old = found.usage
            if usage is not None and (old is None or usage.output_tokens >= old.output_tokens):
                found.usage = usage
            found.model = found.model or model
            if extra:
                found.extra = {**extra, **(found.extra or {})}
        if blocks:
            for block in blocks:
                if type(block) is ToolCallBlock:
                    self.block(block, found)
                else:
                    found.content.append(block)
        return found

    def add(self, step: Step) -> None:
        """Open a step that is made already: the short way for hot paths."""
        turn = self._turn
        if turn is None or self._pending is not None:
            turn = self._open(Turn("", None, [], None))
        turn.steps.append(step)
        self.current = step

    @property
    def turn(self) -> Turn | None:
        """The turn that is open, if any."""
        return self._turn

    def block(self, block: Block, step: Step | None = None, place: Place | None = None) -> None:
        """Add a block to a step (the open one); a ``tool-call`` block also declares its call."""
        step = step or self.current or self.step()
        if not isinstance(block, ToolCallBlock):
            step.content.append(block)
        elif self.declare(block, step, place) is not None:
            self._ledger.note("duplicate-tool-call", place)

    def declare(self, block: ToolCallBlock, step: Step, place: Place | None = None) -> Step | None:
        """Add a call and its block to a step, unless the id is known; then give the step of it."""
        name, extra = block.id, block.extra
        before = len(self._calls)
        known = self._calls.setdefault(name, step)
        if len(self._calls) == before:
            return known
        self._open_calls[name] = place
        step.tool_calls.append(ToolCall(name, block.name, block.arguments, extra))
        if extra is not None:
            block = ToolCallBlock(name, block.name, block.arguments)
        step.content.append(block)
        return None

    def call(self, call: ToolCall, step: Step | None = None, place: Place | None = None) -> None:
        """Declare a call that has no block in the content of its message."""
        step = step or self.current or self.step()
        if call.id in self._calls:
            self._ledger.note("duplicate-tool-call", place)
            return
        self._calls[call.id] = step
        self._open_calls[call.id] = place
        step.tool_calls.append(call)

    def declared(self, call_id: str) -> bool:
        """Whether a call of this id is known so far."""
        return call_id in self._calls

    def step_of(self, call_id: str) -> Step | None:
        """Give the step that declared a call, if one did so far."""
        return self._calls.get(call_id)

    def unanswered(self, name: str | None = None) -> str | None:
        """Give the oldest call without a result, of this tool name if given.

        For sources without call ids.
        """
        for call_id in self._open_calls:
            calls = self._calls[call_id].tool_calls
            if name is None or any(c.id == call_id and c.name == name for c in calls):
                return call_id
        return None

    def result(self, result: ToolResult, place: Place | None = None) -> None:
        """Attach a result to the step of its call; it may come before the call."""
        call_id = result.tool_call_id
        if call_id in self._open_calls and call_id not in self._waiting:
            self._attach(result)
        elif call_id in self._calls or call_id in self._waiting:
            self._ledger.note("duplicate-tool-result", place)
        else:
            self._waiting[call_id] = (result, place)

    def _attach(self, result: ToolResult) -> None:
        del self._open_calls[result.tool_call_id]
        step = self._calls[result.tool_call_id]
        if step.tool_results:
            self._unsorted[id(step)] = step
        step.tool_results.append(result)

    def compaction(
        self,
        summary: str,
        *,
        provider: str,
        model: str | None = None,
        time: int | None = None,
        extra: Extra | None = None,
        place: Place | None = None,
    ) -> None:
        """Mark a compaction: earlier turns are shadowed, the next turn carries the summary.

        A blank summary shadows and is counted as ``compacted-unavailable``.
        """
        for turn in self.turns:
            turn.shadowed = True
        if not summary.strip():
            self._ledger.note("compacted-unavailable", place)
            self._turn = self.current = None
            return
        if self._pending is not None:
            self._flush()
        self._pending = Compaction(summary, provider, model, time, extra)
        self.current = None

    def _flush(self) -> None:
        pending = self._pending
        if pending is not None:
            self._open(Turn("", None, [], pending.time))
            self.turns[-1].shadowed = False

    def roll_back(self, prompts: int) -> list[Turn]:
        """Take out the turns from the ``prompts``-th last prompt on, and give them.

        Their calls are forgotten; the turn before them is open again. A compaction among them
        still covers what came before it, and goes to the next turn as well.
        """
        start = len(self.turns)
        while prompts > 0 and start > 0:
            start -= 1
            if self.turns[start].prompt or self.turns[start].prompt_blocks:
                prompts -= 1
        removed = self.turns[start:]
        del self.turns[start:]
        for turn in removed:
            for step in turn.steps:
                for call in step.tool_calls:
                    self._calls.pop(call.id, None)
                    self._open_calls.pop(call.id, None)
                self._unsorted.pop(id(step), None)
        if removed:
            self._turn = self.turns[-1] if self.turns else None
            self.current = None
        if self._pending is None:
            found = (turn.compaction for turn in reversed(removed) if turn.compaction is not None)
            self._pending = next(found, None)
        return removed

    def abort(self) -> None:
        """Mark the open turn as aborted."""
        if self._turn is not None:
            self._turn.aborted = True

    def finish(self, *, drop_retries: bool = False) -> list[Turn]:
        """Pair what is left, count what stays unpaired, and give the turns."""
        self._flush()
        for call_id, (result, place) in self._waiting.items():
            if call_id in self._open_calls:
                self._attach(result)
            else:
                self._ledger.note("orphan-tool-result", place)
        self._waiting.clear()
        if drop_retries and self._open_calls:
            self._drop_retries()
        for place in self._open_calls.values():
            self._ledger.note("tool-result-missing", place)
        for step in self._unsorted.values():
            _sort_results(step)
        return self.turns

    def _drop_retries(self) -> None:
        lonely = {id(self._calls[name]) for name in self._open_calls}
        for turn in self.turns:
            steps = turn.steps
            for index in reversed([n for n, step in enumerate(steps) if id(step) in lonely]):
                if index + 1 < len(steps) and _is_dead_retry(
                    steps[index], steps[index + 1], self._open_calls
                ):
                    for call in steps[index].tool_calls:
                        self._calls.pop(call.id, None)
                        self._open_calls.pop(call.id, None)
                    del steps[index]
                    self._ledger.note("retry-dropped")


def _is_dead_retry(first: Step, second: Step, waiting: Container[str]) -> bool:
    """Interchange v1, section 1.5: only calls, none answered, all repeated by the next step."""
    if any(not isinstance(b, ToolCallBlock) for b in first.content):
        return False
    if any(call.id not in waiting for call in first.tool_calls):
        return False
    repeated = {(call.name, call.arguments) for call in second.tool_calls}
    return all((call.name, call.arguments) in repeated for call in first.tool_calls)


def _sort_results(step: Step) -> None:
    order = {call.id: n for n, call in enumerate(step.tool_calls)}
    step.tool_results.sort(key=lambda result: order.get(result.tool_call_id, len(order)))


def project(blocks: list[Block]) -> tuple[str, list[Block] | None]:
    """Give ``(prompt, promptBlocks)``: the text projection, and the blocks where text is not all.

    One plain text block needs no ``promptBlocks``; several texts are joined by a line break.
    """
    if len(blocks) == 1 and isinstance(blocks[0], Text) and blocks[0].extra is None:
        return blocks[0].text, None
    texts = [block.text for block in blocks if isinstance(block, Text)]
    if not texts and any(isinstance(block, Image) for block in blocks):
        texts = ["[image]"]
    return "\n".join(texts), blocks or None


def sanitize_usage(value: Any) -> Usage | None:
    """Give the usage of an object with Interchange v1 names, or ``None`` when its counts are bad.

    Input and output must be integers from 0 to 2^53-1, else the whole object goes;
    a bad optional bucket only drops itself. Rule: Interchange v1, section 4.2.
    """
    if not isinstance(value, dict):
        return None
    read, written = value.get("inputTokens"), value.get("outputTokens")
    if not _is_count(read) or not _is_count(written):
        return None
    usage = Usage(int(read), int(written))
    for name, attribute in _BUCKETS:
        n = value.get(name)
        if _is_count(n):
            setattr(usage, attribute, int(n))
    return usage


def _is_count(value: Any) -> TypeGuard[int | float]:
    if isinstance(value, float):
        return value.is_integer() and 0 <= value <= _MAX_SAFE
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_SAFE


def title_of(turns: list[Turn], title: str | None = None) -> str | None:
    """Give the title by the rule of Interchange v1, section 4.3: given, else the first prompt.

    Trimmed, whitespace runs folded, at most 80 UTF-16 units (79 and an ellipsis).
    """
    for candidate in (title, *(turn.prompt for turn in turns)):
        if candidate and candidate.strip():
            folded = normalize_title(candidate)
            return _HALF.sub("", folded) or None
    return None
