"""The messages of one task on their way into turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio
from converters.formats.cline.carrier import Carrier, carries
from converters.formats.cline.compaction import display_only
from converters.formats.cline.human import cwd_of, take_apart, xml_calls
from converters.ir import Block, Extra, Text, ToolCallBlock, Usage
from converters.shapes import anthropic
from converters.turns import TurnBuilder, sanitize_usage

if TYPE_CHECKING:
    from converters.types import Context

__all__ = ["Taken", "Walk"]

_METRICS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


class Taken(NamedTuple):
    """A message that was taken; ``turn`` is the number of its turn, 0 when it is in none."""

    place: str
    message: dict[str, Any]
    turn: int


class Walk:
    """Takes messages in order; ``turns.finish()`` gives what they made.

    ``classic``: the history of the extension, where the program wraps a human's words in tags
    and results can be texts.
    """

    def __init__(self, ctx: Context, *, classic: bool = False) -> None:
        self.turns = TurnBuilder(ctx.ledger)
        self.taken: list[Taken] = []
        self.cwd: str | None = None
        self.first_time: int | None = None
        self.system: list[str] = []
        self.records: list[Any] = []
        self._ctx = ctx
        self._classic = classic
        self._prompted = False
        self._made = 0

    def take(self, message: dict[str, Any], place: str, *, xml: bool = False) -> None:
        """Take one message and say what became of it; ``xml``: its calls are in its text."""
        ledger = self._ctx.ledger
        fate = self._message(message, place, xml=xml)
        spoken = fate is None and message.get("isSummary") is not True
        self.taken.append(Taken(place, message, len(self.turns.turns) if spoken else 0))
        if fate is None:
            ledger.mapped()
        elif fate == "system-prompt-aside":
            ledger.aside(fate, place)
        elif fate == "unknown-record":
            self.records.append(message)
            ledger.aside(fate, place, kind=str(message.get("type"))[:40])
        else:
            ledger.skipped(fate, place, kind=str(message.get("role"))[:40])

    def _message(self, message: dict[str, Any], place: str, *, xml: bool) -> str | None:
        role = message.get("role") or message.get("type")
        content = message.get("content")
        content = message.get("text") if content is None else content
        time = self._ms(message, place)
        if display_only(message) or message.get("isTruncationMarker") is True:
            return "record-skipped"
        if message.get("isSummary") is True:
            return self._summary(content, time, place)
        if role == "user":
            return self._user(content, time, place)
        if role == "assistant":
            return self._assistant(message, content, time, place, xml=xml)
        if role == "reasoning":
            return self._assistant(
                message, [{"type": "thinking", "thinking": content}], time, place, xml=False
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
        if carries(content, classic=self._classic):
            carrier = Carrier(self.turns, self._ctx.ledger, place, time, classic=self._classic)
            carrier.take(content)
            self.cwd = self.cwd or carrier.cwd
            self._say(carrier.human, time, carrier.injected, place)
            return None
        kept: list[Block] = []
        injected = 0
        for block in self._blocks(content, place):
            if not isinstance(block, Text):
                kept.append(block)
                continue
            self.cwd = self.cwd or cwd_of(block.text)
            said = take_apart(block.text, first=not self._prompted, classic=self._classic)
            injected += said.injected
            if said.human:
                kept.append(Text(said.human, block.extra))
        if kept or not injected:
            self._say(kept, time, injected, place)
            return None if kept else "empty-message"
        # The fate of the message counts one of them.
        self._say(kept, time, injected - 1, place)
        return "injection-skipped"

    def _say(self, human: list[Block], time: int | None, injected: int, place: str) -> None:
        """Open a turn with what a human said, if anything; count the rest."""
        if human:
            self.turns.prompt(human, time=time)
            self._prompted = True
        if injected:
            self._ctx.ledger.note("injection-skipped", place, injected)

    def _assistant(
        self, message: dict[str, Any], content: Any, time: int | None, place: str, *, xml: bool
    ) -> str | None:
        blocks = self._blocks(content, place)
        if xml and not any(isinstance(block, ToolCallBlock) for block in blocks):
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
