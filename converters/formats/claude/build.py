"""Entries in conversation order as turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.formats.claude.content import answer, spoken
from converters.formats.claude.log import Again, joined
from converters.formats.claude.records import ResultBlock
from converters.ir import Reasoning, Step, Text, ToolCallBlock, ToolResult, Turn, Usage
from converters.text import datetime_ms
from converters.turns import TurnBuilder

if TYPE_CHECKING:
    from converters.formats.claude.log import Entry, Log, Said
    from converters.formats.claude.records import Message, RawUsage, Record
    from converters.ir import Block
    from converters.ledger import Ledger

__all__ = ["PROVIDER", "Assembler", "time_of"]

PROVIDER: Final = "claude-code"
_PROSE: Final = (Text, Reasoning)
_NO_MODEL: Final = frozenset({None, "<synthetic>", "unknown"})


class _Twice(NamedTuple):
    """A call id that a later step declares again; ``answered``: after its result."""

    first: Step
    second: Step
    block: ToolCallBlock
    place: int
    answered: bool


class Assembler:
    """Groups the records of one path into turns and steps, given one by one.

    ``once``: the records come straight from the file; :meth:`settle` must be called at its end.
    """

    def __init__(self, log: Log, ledger: Ledger, *, once: bool = False) -> None:
        self.taken = 0
        self.summaries: list[Entry] = []
        self.compactions: set[int] = set()
        self.model: str | None = None
        self.first_time: int | None = None
        self._log = log
        self._said = log.said
        self._ledger = ledger
        self._builder = TurnBuilder(ledger)
        self._steps: dict[str, Step] = {}
        self._twice: list[_Twice] = []
        self._boundary: int | None = None
        self._old: Entry | None = None
        self._told = 0
        self._once = once
        self._parents: list[str | None] = []
        self._notices: dict[str, str | None] = {}
        self._leaves: list[str] = []
        self._look = 16

    def feed(self, place: int, record: Record) -> None:
        """Take the next record."""
        self.taken += 1
        kind = record.type
        if kind == "assistant":
            self._assistant(place, record)
        elif kind == "user":
            self._user(place, record)
        else:
            self._other(place, record)

    def _user(self, place: int, record: Record) -> None:
        """Take a line with results or a prompt, or the summary of a compaction."""
        if record.is_compact_summary:
            self._summary(record, place)
            return
        if self._boundary is not None or self._old is not None:
            self._compact()
        message = record.message
        if message is not None and type(message.content) is list:
            for block in message.content:
                if type(block) is ResultBlock:
                    content = answer(block, self._ledger, place)
                    self._builder.result(
                        ToolResult(
                            block.tool_use_id, content, block.is_error is True, time_of(record)
                        ),
                        place,
                    )
        if place in self._said:
            self._prompt(record, self._said[place])

    def _other(self, place: int, record: Record) -> None:
        """Take the boundary of a compaction, or a summary."""
        self._notice(record)
        if record.type == "system":
            if self._boundary is not None:
                self._compact()
            self._boundary = place
            return
        self.summaries.append((place, record))
        if not record.summary or record.summary.isspace():
            return
        # Right behind a compaction it is the older notation of the same one.
        if len(self._builder.turns) == self._told:
            return
        # A summary that names a leaf of another file is the title of another session.
        if record.leaf_uuid is None or self._log.holds(record.leaf_uuid):
            self._old = (place, record)
        elif self._once:
            self._leaves.append(record.leaf_uuid)

    def _notice(self, record: Record) -> None:
        """Note where a record stands that nobody said: forks are looked for behind it."""
        if self._once and record.uuid is not None:
            parent = record.parent_uuid or record.logical_parent_uuid
            self._notices.setdefault(record.uuid, parent)

    def settle(self) -> None:
        """Raise :class:`Again` for a repeated record, or two prompts after the same record.

        Also for a summary whose leaf came only later.
        """
        order = set(self._log.order)
        if len(order) < len(self._log.order) or any(map(self._log.holds, self._leaves)):
            raise Again
        solid = order.difference(self._notices) if self._notices else order
        passed = dict(self._log.passed) | self._notices
        above: dict[str, str | None] = {}
        anchors: set[str] = set()
        for parent in self._parents:
            at, trail = parent, []
            while at is not None and at in passed and at not in solid:
                trail.append(at)
                at = passed.pop(at)
            if at is not None:
                at = above.get(at, at)
            above.update(dict.fromkeys(trail, at))
            if at is not None:
                if at in anchors:
                    raise Again
                anchors.add(at)

    def finish(self) -> list[Turn]:
        """Give the turns."""
        self._old = None
        self._compact()
        turns = self._builder.finish(drop_retries=True)
        if self._twice:
            _settle(turns, self._twice, self._ledger)
        return turns

    def apart(self, entries: list[Entry]) -> list[ToolResult]:
        """Give the results in ``entries`` whose calls stand elsewhere, the first of each call."""
        found: dict[str, ToolResult] = {}
        for place, record in entries:
            content = record.message.content if record.message is not None else None
            for block in content if isinstance(content, list) else ():
                if isinstance(block, ResultBlock) and not self._builder.declared(block.tool_use_id):
                    blocks = answer(block, self._ledger, place)
                    result = ToolResult(
                        block.tool_use_id, blocks, block.is_error is True, time_of(record)
                    )
                    found.setdefault(block.tool_use_id, result)
        return list(found.values())

    def _summary(self, record: Record, place: int) -> None:
        text = joined(record.message.content) if record.message is not None else ""
        self._builder.compaction(
            text, provider=PROVIDER, model=self.model, time=time_of(record), place=place
        )
        # An old summary record beside it notes the same compaction: that is a title only.
        self._boundary = self._old = None
        self._told = len(self._builder.turns)

    def _compact(self) -> None:
        """Apply an old summary record, or a boundary that came without any summary."""
        if self._old is not None:
            place, record = self._old
            self._builder.compaction(
                record.summary or "", provider=PROVIDER, model=self.model, time=time_of(record)
            )
            self.compactions.add(place)
        elif self._boundary is not None:
            self._builder.compaction("", provider=PROVIDER, place=self._boundary)
        self._boundary = self._old = None

    def _prompt(self, record: Record, said: Said) -> None:
        if said.blocks:
            if self._once:
                self._parents.append(record.parent_uuid or record.logical_parent_uuid)
                if len(self._parents) == self._look:
                    # A fork near the beginning is not to cost a whole reading.
                    self.settle()
                    self._look *= 4
            time = time_of(record)
            if self.first_time is None:
                self.first_time = time
            extra: dict[str, Any] = {}
            if record.uuid is not None:
                extra["uuid"] = record.uuid
            if said.kept is not None:
                extra["native"] = said.kept
            self._builder.prompt(said.blocks, time=time, extra=extra or None)
        else:
            self._notice(record)
        if said.interrupted:
            self._builder.abort()

    def _assistant(self, place: int, record: Record) -> None:
        """Take a line of the model: a message, or more of one."""
        if self._boundary is not None or self._old is not None:
            self._compact()
        message = record.message
        if message is None:
            return
        key, content, ledger = message.id, message.content, self._ledger
        kept: dict[str, Any] | None = None
        if not isinstance(content, list):
            blocks: list[Block] = [Text(content)] if content else []
        else:
            blocks, kept = spoken(content, ledger, place)
        step = self._steps.get(key) if key is not None else None
        if step is None:
            step = self._open(record, message, kept)
        else:
            blocks = _more(step, message, blocks, kept, ledger, place=place)
        for block in blocks:
            if type(block) is not ToolCallBlock:
                step.content.append(block)
                continue
            first = self._builder.declare(block, step, place)
            if first is not None:
                answered = any(r.tool_call_id == block.id for r in first.tool_results)
                self._twice.append(_Twice(first, step, block, place, answered))

    def _open(self, record: Record, message: Message, kept: dict[str, Any] | None) -> Step:
        """Open the step of a message with its first line."""
        key, uuid, raw, model = message.id, record.uuid, message.usage, message.model
        time = time_of(record)
        if self.first_time is None:
            self.first_time = time
        if model in _NO_MODEL:
            model = None
        elif self.model is None:
            self.model = model
        extra: dict[str, Any] = {}
        if key is not None:
            extra["id"] = key
        if uuid is not None:
            extra["uuid"] = uuid
        if kept is not None:
            extra["native"] = kept
        if record.cost_usd is not None or record.cost is not None:
            extra["cost"] = record.cost_usd if record.cost_usd is not None else record.cost
        usage = None if raw is None else _usage(raw)
        step = Step([], [], [], time, model, usage, extra or None)
        self._builder.add(step)
        if key is not None:
            self._steps[key] = step
        return step


def time_of(record: Record) -> int | None:
    """Give the time of a record in ms."""
    time = record.timestamp
    return record.ms if time is None else datetime_ms(time)


def _usage(raw: RawUsage) -> Usage | None:
    """Give the buckets; bare zeros are what writers put where they know nothing."""
    if (
        not (raw.input_tokens or raw.output_tokens or raw.cache_creation_input_tokens)
        and raw.cache_read_input_tokens is None
    ):
        return None
    return Usage(
        raw.input_tokens,
        raw.output_tokens,
        raw.cache_read_input_tokens,
        raw.cache_creation_input_tokens,
    )


def _more(
    step: Step,
    message: Message,
    blocks: list[Block],
    kept: dict[str, Any] | None,
    ledger: Ledger,
    *,
    place: int,
) -> list[Block]:
    """Take the next line of a message into its step; give the blocks that are new.

    One line holds one block or several; some writers repeat what they had, or write a
    block again while it grows. The larger output count is the final one.
    """
    raw, old = message.usage, step.usage
    if raw is not None and (old is None or raw.output_tokens >= old.output_tokens):
        step.usage = _usage(raw)
    if step.model is None and message.model not in _NO_MODEL:
        step.model = message.model
    content = step.content
    if kept:
        step.extra = step.extra or {}
        native = step.extra.setdefault("native", {})
        # Where a block stands counts all blocks of the message, also those kept here.
        shift = len(content) + sum(len(values) for values in native.values())
        for name, values in kept.items():
            moved = [{**value, "at": value["at"] + shift} for value in values]
            native.setdefault(name, []).extend(moved)
    if not blocks or not content:
        return blocks
    new, last = blocks[0], content[-1]
    if _same(new, content[0]):
        same = 1
        for one, known in zip(blocks[1:], content[1:], strict=False):
            if not _same(one, known):
                break
            same += 1
        ledger.note("duplicate-record", place, kind="chunk")
        return blocks[same:]
    if _grown(new, last):
        ledger.note("duplicate-record", place, kind="chunk")
        content[-1] = new
        return blocks[1:]
    return blocks


def _grown(new: Block, last: Block) -> bool:
    """Whether a text or reasoning is the last one, written again with more behind it."""
    if type(new) is not type(last) or not isinstance(new, _PROSE) or not isinstance(last, _PROSE):
        return False
    return bool(last.text) and new.text.startswith(last.text)


def _same(new: Block, known: Block) -> bool:
    if type(new) is not type(known):
        return False
    if isinstance(new, ToolCallBlock) and isinstance(known, ToolCallBlock):
        return new.id == known.id
    if isinstance(new, _PROSE) and isinstance(known, _PROSE):
        return new.text == known.text
    return new == known


def _settle(turns: list[Turn], twice: list[_Twice], ledger: Ledger) -> None:
    """Decide what a call id declared again means: a dead retry, or a repetition.

    A step of nothing but calls, none answered yet, all sent again by the next step with
    the same ids, gives way to it. Rule: Interchange v1, section 1.5.
    """
    groups: dict[int, list[_Twice]] = {}
    for found in twice:
        groups.setdefault(id(found.second), []).append(found)
    follows = {
        id(second): (turn, first)
        for turn in turns
        for first, second in zip(turn.steps, turn.steps[1:], strict=False)
    }
    for key, group in groups.items():
        turn, before = follows.get(key, (None, None))
        if turn is not None and before is not None and _dead(before, group):
            after = group[0].second
            after.content += before.content
            after.tool_calls = before.tool_calls + after.tool_calls
            after.tool_results = before.tool_results + after.tool_results
            turn.steps.remove(before)
            ledger.note("retry-dropped", group[0].place)
        else:
            for found in group:
                ledger.note("duplicate-tool-call", found.place)


def _dead(before: Step, group: list[_Twice]) -> bool:
    sent = {(found.block.id, found.block.name, found.block.arguments) for found in group}
    return (
        all(isinstance(block, ToolCallBlock) for block in before.content)
        and not any(found.answered or found.first is not before for found in group)
        and all((call.id, call.name, call.arguments) in sent for call in before.tool_calls)
    )
