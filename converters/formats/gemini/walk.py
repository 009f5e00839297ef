"""Messages of a recording or a checkpoint into turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.canonical import js_dumps
from converters.ir import Block, Extra, Reasoning, Text, ToolCallBlock, ToolResult, Usage
from converters.shapes import gemini as shape
from converters.shapes.rows import text_of
from converters.shapes.talk import Talk
from converters.text import parse_time
from converters.turns import sanitize_usage

if TYPE_CHECKING:
    from converters.formats.gemini.replay import Placed
    from converters.ir import Turn
    from converters.ledger import Ledger
    from converters.types import Context

__all__ = ["Walk", "is_preamble"]

_BANNERS: Final = ("info", "error", "warning")
_CANCELLED: Final = "Request cancelled."
_PREAMBLE: Final = "This is the Gemini CLI. We are setting up the context for our chat"
_CONTEXT: Final = ("<session_context>", "</session_context>")
_SNAPSHOT: Final = "<state_snapshot>"
_ACKNOWLEDGED: Final = "Got it. Thanks for the "
_FAILED: Final = ("error", "cancelled", "canceled")
_COUNTS: Final = ("input", "output", "cached", "thoughts", "tool")


def is_preamble(text: str) -> bool:
    """Whether a text is the environment that the program tells the model, or starts with it."""
    return text.lstrip().startswith((_PREAMBLE, _CONTEXT[0]))


class Walk:
    """The messages of one path on their way into turns; each gets its fate here.

    ``typed`` is what a person typed as the first prompt, where the prompt has more.
    """

    def __init__(self, ctx: Context, ledger: Ledger) -> None:
        self.records: list[Any] = []
        self._ctx, self._ledger = ctx, ledger
        self._talk = Talk(ledger)
        self._injected = False
        self.typed: str | None = None

    def take(self, placed: Placed, ledger: Ledger | None = None) -> None:
        """Take one message and say what became of it, in the ledger given."""
        place, message = placed
        account = self._ledger if ledger is None else ledger
        fate = self._message(message, place)
        kind = message.get("type") or message.get("role")
        if fate is None:
            account.mapped()
        elif fate == "unknown-record":
            account.aside(fate, place, kind=str(kind)[:40])
        else:
            account.skipped(fate, place, kind=str(kind)[:40])

    def compacted(self, place: str | int) -> None:
        """Shadow what came so far: the program rewrote its history, and kept no summary."""
        self._talk.builder.compaction("", provider="gemini", place=place)

    def finish(self) -> list[Turn]:
        """Give the turns."""
        return self._talk.builder.finish()

    def ms(self, value: Any, place: str | int) -> int | None:
        """Give a time in milliseconds."""
        if value is None:
            return None
        time = parse_time(value, self._ctx.options.tz)
        if time is None:
            self._ledger.note("timestamp-invalid", place)
            return None
        if time.assumed:
            self._ledger.note("tz-assumed", place)
        return time.ms

    def _message(self, message: dict[str, Any], place: str | int) -> str | None:
        """Take one message; give the rule under which it is not mapped, or ``None``."""
        injected, self._injected = self._injected, False
        kind = message.get("type")
        content = message.get("content")
        if kind is None and isinstance(message.get("role"), str):
            kind, content = message["role"], message.get("parts", content)
        if kind in ("user", "function"):
            return self._user(message, content, place)
        if kind in ("gemini", "model"):
            return self._answer(message, content, place, injected=injected)
        if kind in _BANNERS:
            if kind == "info" and _is_cancelled(content):
                self._talk.builder.abort()
            return "record-skipped"
        self.records.append(message)
        return "unknown-record"

    def _user(self, message: dict[str, Any], content: Any, place: str | int) -> str | None:
        time = self.ms(message.get("timestamp"), place)
        found = shape.parts(content, self._ledger, place)
        attached, rules = self._talk.attach(found.results, place)
        blocks = _said(found.blocks)
        if not blocks and not found.results:
            # The text for the model may be empty; this is what was typed.
            blocks = _said(shape.parts(message.get("displayContent"), self._ledger, place).blocks)
        human = _human(blocks)
        self._injected = human != blocks
        first = next((block.text for block in human if isinstance(block, Text)), "")
        if first.lstrip().startswith(_SNAPSHOT):
            self._talk.builder.compaction(first, provider="gemini", time=time, place=place)
            self._injected = True
            human = [b for b in human if not (isinstance(b, Text) and b.text == first)]
            if not human:
                return None
        if human:
            if self._injected:
                self._ledger.note("injection-skipped", place)
            for rule in rules:
                self._ledger.note(rule, place)
            self._prompt(human, message, place, time)
            return None
        if blocks:
            return "injection-skipped"
        for rule in rules[0 if attached else 1 :]:
            self._ledger.note(rule, place)
        return None if attached else rules[0] if rules else "empty-message"

    def _prompt(
        self, blocks: list[Block], message: dict[str, Any], place: str | int, time: int | None
    ) -> None:
        self._talk.name_calls(blocks, place)
        builder = self._talk.builder
        typed = message.get("displayContent")
        if typed is not None and not any(turn.prompt for turn in builder.turns):
            shown = shape.parts(typed, self._ledger, place).blocks
            self.typed = "\n".join(b.text for b in shown if isinstance(b, Text)) or None
        builder.prompt(blocks, time=time, extra=_native(message))

    def _answer(
        self,
        message: dict[str, Any],
        content: Any,
        place: str | int,
        *,
        injected: bool,
    ) -> str | None:
        found = shape.parts(content, self._ledger, place)
        calls = self._listed(message, "toolCalls", place)
        blocks = self._thoughts(message, place)
        for block in found.blocks:
            if isinstance(block, ToolCallBlock) and calls:
                self._ledger.note("duplicate-tool-call", place)
            elif not (isinstance(block, Text) and not block.text):
                blocks.append(block)
        first = blocks[0] if blocks else None
        if injected and isinstance(first, Text) and first.text.startswith(_ACKNOWLEDGED):
            return "injection-skipped"
        usage = self._usage(message.get("tokens"), place)
        attached, rules = self._talk.attach(found.results, place)
        for rule in rules:
            self._ledger.note(rule, place)
        if not blocks and not calls and usage is None:
            return None if attached else "empty-message"
        self._talk.name_calls(blocks, place)
        time = self.ms(message.get("timestamp"), place)
        extra = _native(message) or {}
        if found.opaque:
            extra["opaque"] = found.opaque
        self._talk.builder.step(
            blocks, time=time, model=text_of(message.get("model")), usage=usage, extra=extra or None
        )
        for index, call in enumerate(calls):
            self._call(call, f"{place}/toolCalls/{index}", time)
        return None

    def _listed(self, message: dict[str, Any], name: str, place: str | int) -> list[Any]:
        value = message.get(name)
        if isinstance(value, list):
            return value
        if value is not None:
            self._ledger.note("malformed-member", place, kind=name)
        return []

    def _thoughts(self, message: dict[str, Any], place: str | int) -> list[Block]:
        """Give the summaries of what the model thought: subject and description."""
        blocks: list[Block] = []
        for thought in self._listed(message, "thoughts", place):
            about = thought if isinstance(thought, dict) else {"text": thought}
            lines = [about.get("subject"), about.get("description")]
            text = "\n".join(line for line in lines if isinstance(line, str) and line)
            if text:
                blocks.append(Reasoning(text))
            elif any(value for name, value in about.items() if name != "timestamp"):
                self._ledger.note("malformed-block", place, kind="thought")
        return blocks

    def _call(self, call: Any, place: str, time: int | None) -> None:
        name = text_of(call.get("name")) if isinstance(call, dict) else None
        if name is None:
            self._ledger.note("malformed-call", place)
            return
        args = call.get("args")
        text = args if isinstance(args, str) else "{}" if args is None else js_dumps(args)
        native = {m: v for m in ("status", "agentId") if (v := text_of(call.get(m)))}
        if native.get("status") in ("success", "error"):
            del native["status"]
        extra: Extra | None = {"native": native} if native else None
        identity = text_of(call.get("id")) or ""
        if identity and self._talk.pairing.declare([block := ToolCallBlock(identity, name, text)]):
            block.extra = extra
        else:
            block = ToolCallBlock(identity, name, text, extra)
            self._talk.name_calls([block], place)
        self._talk.builder.block(block, place=place)
        content, failed = self._call_result(call, place)
        if content is None:
            return
        call_id, rule = self._talk.pairing.answer(block.id, name)
        if call_id is None:
            self._ledger.note(rule or "duplicate-tool-result", place)
            return
        when = self.ms(call.get("timestamp"), place) or time
        failed = failed or call.get("status") in _FAILED
        self._talk.builder.result(ToolResult(call_id, content, failed, when), place)

    def _call_result(self, call: dict[str, Any], place: str) -> tuple[list[Block] | None, bool]:
        """Give the content of an inline result; ``None`` while the call is pending."""
        result = call.get("result")
        if result is not None:
            found = shape.parts(result, self._ledger, place)
            content = [block for given in found.results for block in given.content]
            content += [b for b in found.blocks if not isinstance(b, ToolCallBlock)]
            if content or found.results:
                return content, any(given.is_error for given in found.results)
        shown = call.get("resultDisplay")
        if isinstance(shown, str) and shown:
            return [Text(shown)], False
        if isinstance(shown, dict) and shown:
            return [Text(js_dumps(shown))], False
        if result is not None or call.get("status") in _FAILED:
            return [], False
        return None, False

    def _usage(self, tokens: Any, place: str | int) -> Usage | None:
        """Give usage in buckets that add up; zeros only stand for a report that is missing."""
        if tokens is None:
            return None
        counts = (
            {name: tokens.get(name) or 0 for name in _COUNTS} if isinstance(tokens, dict) else {}
        )
        if not counts or not all(type(n) is int and n >= 0 for n in counts.values()):
            self._ledger.note("usage-invalid", place)
            return None
        if not any(counts.values()):
            return None
        usage = sanitize_usage(
            {
                "inputTokens": max(counts["input"] - counts["cached"], 0) + counts["tool"],
                "outputTokens": counts["output"] + counts["thoughts"],
                "cacheReadTokens": counts["cached"],
                "reasoningTokens": counts["thoughts"],
            }
        )
        if usage is None:
            self._ledger.note("usage-invalid", place)
        else:
            usage.extra = {"usage": tokens}
        return usage


def _said(blocks: list[Block]) -> list[Block]:
    return [b for b in blocks if not (isinstance(b, Text) and not b.text.strip())]


def _is_cancelled(content: Any) -> bool:
    """Whether a banner says that the request was cancelled: a text, a part or parts."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return texts == [_CANCELLED]


def _human(blocks: list[Block]) -> list[Block]:
    """Give what a person said: without the environment that the program put in front."""
    human: list[Block] = []
    for block in blocks:
        if not isinstance(block, Text) or not is_preamble(block.text):
            human.append(block)
            continue
        _, closed, rest = block.text.partition(_CONTEXT[1])
        if closed and rest.strip():
            human.append(Text(rest.lstrip(), block.extra))
    return human


def _native(message: dict[str, Any]) -> Extra | None:
    kept = {name: v for name in ("id", "displayContent") if (v := message.get(name))}
    return kept or None
