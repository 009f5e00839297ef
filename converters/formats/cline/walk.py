"""The messages of one task on their way into turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.cline.human import cwd_of, is_result, result_of, take_apart, xml_calls
from converters.ir import Block, Compaction, Extra, Text, ToolCallBlock, ToolResult, Usage
from converters.shapes import anthropic
from converters.turns import TurnBuilder, sanitize_usage

if TYPE_CHECKING:
    from converters.types import Context

__all__ = ["Walk"]

_METRICS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


class Walk:
    """Takes messages in order; ``turns.finish()`` gives what they made."""

    def __init__(self, ctx: Context) -> None:
        self.turns = TurnBuilder(ctx.ledger)
        self.cwd: str | None = None
        self.first_time: int | None = None
        self.system: list[str] = []
        self.records: list[Any] = []
        self.has_tool_blocks = True
        self._ctx = ctx
        self._made = 0
        self._turn_of: list[int] = []

    def take(self, message: dict[str, Any], place: str) -> None:
        """Take one message and say what became of it."""
        ledger = self._ctx.ledger
        fate = self._message(message, place)
        self._turn_of.append(len(self.turns.turns))
        if fate is None:
            ledger.mapped()
        elif fate == "system-prompt-aside":
            ledger.aside(fate, place)
        elif fate == "unknown-record":
            self.records.append(message)
            ledger.aside(fate, place, kind=str(message.get("type"))[:40])
        else:
            ledger.skipped(fate, place, kind=str(message.get("role"))[:40])

    def _message(self, message: dict[str, Any], place: str) -> str | None:
        role = message.get("role") or message.get("type")
        content = message.get("content")
        content = message.get("text") if content is None else content
        time = self._ms(message, place)
        metadata = message.get("metadata")
        if isinstance(metadata, dict) and metadata.get("displayOnly") is True:
            return "record-skipped"
        if message.get("isTruncationMarker") is True:
            return "record-skipped"
        if message.get("isSummary") is True:
            return self._summary(content, time, place)
        if role == "user":
            return self._user(content, time, place)
        if role == "assistant":
            return self._assistant(message, content, time, place)
        if role == "reasoning":
            return self._assistant(
                message, [{"type": "thinking", "thinking": content}], time, place
            )
        if role == "system":
            texts = [b.text for b in self._blocks(content, place) if isinstance(b, Text)]
            self.system += texts
            return "system-prompt-aside" if texts else "empty-message"
        return "unknown-record"

    def _blocks(self, content: Any, place: str) -> list[Block]:
        return anthropic.blocks(content, self._ctx.ledger, place)

    def _ms(self, message: dict[str, Any], place: str) -> int | None:
        value = message.get("ts")
        value = message.get("timestamp") if value is None else value
        ms = self._ctx.ms(value, place)
        self.first_time = ms if self.first_time is None else self.first_time
        return ms

    def _summary(self, content: Any, time: int | None, place: str) -> str | None:
        texts = [b.text for b in self._blocks(content, place) if isinstance(b, Text)]
        self.turns.compaction("\n".join(texts), provider="cline", time=time, place=place)
        return None

    def _user(self, content: Any, time: int | None, place: str) -> str | None:
        found = anthropic.parts(content, self._ctx.ledger, place)
        for given in found.results:
            self._answer(given.call_id, given.content, time, place, is_error=given.is_error)
        carrier = bool(found.results)
        kept: list[Block] = []
        injected = 0
        for block in found.blocks:
            if not isinstance(block, Text):
                kept.append(block)
                continue
            self.cwd = self.cwd or cwd_of(block.text)
            if not self.has_tool_blocks and is_result(block.text):
                carrier = self._xml_result(block.text, time, place) or carrier
                continue
            said = take_apart(block.text)
            injected += said.injected
            if said.human and (said.wrapped or not carrier):
                kept.append(Text(said.human, block.extra))
            elif said.human:
                injected += 1
        if injected:
            self._ctx.ledger.note("injection-skipped", place, injected)
        if any(isinstance(block, Text) for block in kept) or (kept and not carrier):
            self.turns.prompt(kept, time=time)
            return None
        if carrier:
            return None
        return "injection-skipped" if injected else "empty-message"

    def _answer(
        self, call_id: Any, content: list[Block], time: int | None, place: str, *, is_error: bool
    ) -> None:
        known = call_id if isinstance(call_id, str) and call_id else self.turns.unanswered()
        if known is None:
            self._ctx.ledger.note("orphan-tool-result", place)
            return
        self.turns.result(ToolResult(known, content, is_error, time), place)

    def _xml_result(self, text: str, time: int | None, place: str) -> bool:
        """Take a result that is text, and the human's words inside it."""
        name, result = result_of(text)
        said = take_apart(result)
        call = self.turns.unanswered(name) or self.turns.unanswered()
        if call is None:
            self._ctx.ledger.note("orphan-tool-result", place)
            return True
        self._ctx.ledger.note("tool-result-text-fallback", place)
        shown = result if said.wrapped else said.human
        self.turns.result(ToolResult(call, [Text(shown)] if shown else [], time=time), place)
        if said.wrapped and said.human:
            self.turns.prompt([Text(said.human)], time=time)
        return True

    def _assistant(
        self, message: dict[str, Any], content: Any, time: int | None, place: str
    ) -> str | None:
        blocks = self._blocks(content, place)
        if not self.has_tool_blocks:
            blocks = self._with_calls(blocks, place)
        for block in blocks:
            if isinstance(block, ToolCallBlock) and not block.id:
                block.id = self._mint(place)
        usage = self._usage(message.get("metrics"), place)
        if not blocks and usage is None:
            return "empty-message"
        info = message.get("modelInfo")
        info = info if isinstance(info, dict) else {}
        model = info.get("id") or info.get("modelId")
        identity = message.get("id")
        extra: Extra | None = {"id": identity} if isinstance(identity, str) and identity else None
        self.turns.step(
            blocks,
            time=time,
            model=model if isinstance(model, str) else None,
            usage=usage,
            extra=extra,
        )
        return None

    def _mint(self, place: str) -> str:
        self._made += 1
        self._ctx.ledger.note("id-minted", place)
        return f"call-{self._made}"

    def _with_calls(self, blocks: list[Block], place: str) -> list[Block]:
        """Take XML calls out of the text of an answer."""
        made: list[Block] = []
        for block in blocks:
            parts = xml_calls(block.text) if isinstance(block, Text) else []
            if not any(isinstance(part, tuple) for part in parts):
                made.append(block)
                continue
            for part in parts:
                if isinstance(part, str):
                    made.append(Text(part))
                else:
                    text = jsonio.dumps(part[1]).decode()
                    made.append(ToolCallBlock(self._mint(place), part[0], text))
        return made

    def _usage(self, metrics: Any, place: str) -> Usage | None:
        if not isinstance(metrics, dict):
            return None
        counts = {name: metrics.get(name) for name in _METRICS}
        if counts["inputTokens"] is None and counts["outputTokens"] is None:
            return None
        usage = sanitize_usage(counts)
        if usage is None:
            self._ctx.ledger.note("usage-invalid", place)
        elif isinstance(metrics.get("cost"), int | float):
            usage.extra = {"cost": metrics["cost"]}
        return usage

    def deleted(self, span: list[Any]) -> None:
        """Shadow the turns of a deleted range of messages; no summary says what was in it."""
        if len(span) != 2 or not all(isinstance(n, int) for n in span):
            return
        inside = {
            self._turn_of[n] for n in range(max(span[0], 0), min(span[1] + 1, len(self._turn_of)))
        }
        for number, turn in enumerate(self.turns.turns, 1):
            if number in inside:
                turn.shadowed = True
        if inside:
            self._ctx.ledger.note("compacted-unavailable", None)

    def compacted(self, count: int, summary: dict[str, Any]) -> None:
        """Shadow the turns of the first ``count`` messages; the next turn carries the summary."""
        last = self._turn_of[min(count, len(self._turn_of)) - 1] if self._turn_of else 0
        texts = [b.text for b in self._blocks(summary.get("content"), "summary")
                 if isinstance(b, Text)]  # fmt: skip
        for number, turn in enumerate(self.turns.turns, 1):
            if number <= last:
                turn.shadowed = True
        text = "\n".join(texts)
        if text.strip() and last < len(self.turns.turns):
            self.turns.turns[last].compaction = Compaction(text, "cline")
        else:
            self._ctx.ledger.note("compacted-unavailable", None)
