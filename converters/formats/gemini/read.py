"""A recording, replayed, into a session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.canonical import js_dumps
from converters.errors import BadInput
from converters.ir import (
    Block,
    Extra,
    Meta,
    Reasoning,
    Session,
    Text,
    ToolCallBlock,
    ToolResult,
    Usage,
)
from converters.shapes import gemini as shape
from converters.text import parse_time
from converters.turns import TurnBuilder, sanitize_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Context, Input

__all__ = ["read"]

_BANNERS: Final = ("info", "error", "warning")
_PREAMBLE: Final = (
    "This is the Gemini CLI. We are setting up the context for our chat",
    "<session_context>",
)
_SUBAGENT: Final = re.compile(r"(?:.*[/!])?chats/([^/!]+)/[^/!]+\.jsonl")
_FAILED: Final = ("error", "cancelled", "canceled")


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a file, in either container."""
    with source.open() as stream:
        start = stream.read(1 << 16)
    first = jsonio.leading_values(start)
    root = first[0] if first else None
    if isinstance(root, dict) and "messages" in root and "$set" not in root:
        document, messages = _document(source, ctx)
    else:
        document, messages = _replay(source, ctx)
    session = _session(document, messages, source, ctx)
    if session is not None:
        yield session


Placed = tuple[str | int, dict[str, Any]]


def _document(source: Input, ctx: Context) -> tuple[dict[str, Any], list[Placed]]:
    root = jsonio.load(source.read(), ctx.ledger, path=source.name)[0]
    if not isinstance(root, dict):
        raise BadInput("no Gemini CLI recording", path=source.name)
    return root, list(jsonio.objects(root.get("messages"), ctx.ledger, "/messages"))


def _replay(source: Input, ctx: Context) -> tuple[dict[str, Any], list[Placed]]:
    """Give metadata and messages after all lines; replaced ones are counted, not given."""
    ledger = ctx.ledger
    document: dict[str, Any] = {}
    kept: dict[str, Placed] = {}
    with source.open() as stream:
        for line, record in jsonio.records(stream, ledger):
            if isinstance(record.get("$set"), dict):
                ledger.mapped()
                _merge(record["$set"], document, kept, line, ctx)
            elif "$rewindTo" in record:
                ledger.mapped()
                _rewind(record["$rewindTo"], kept, ctx)
            elif "type" in record or "content" in record:
                identity = record.get("id")
                key = identity if isinstance(identity, str) else f"line {line}"
                if key in kept:
                    ledger.skipped("duplicate-record", kept[key][0], kind="message")
                kept[key] = (line, record)
            else:
                ledger.mapped()
                _merge(record, document, kept, line, ctx)
    return document, list(kept.values())


def _merge(
    given: dict[str, Any],
    document: dict[str, Any],
    kept: dict[str, Placed],
    line: int,
    ctx: Context,
) -> None:
    """Merge metadata; a list of messages in it takes the place of the ones before."""
    messages = given.get("messages")
    document.update({name: value for name, value in given.items() if name != "messages"})
    if isinstance(messages, list):
        if kept:
            ctx.ledger.skipped("duplicate-record", line, len(kept), kind="message")
            ctx.ledger.note("compacted-unavailable", line)
        kept.clear()
        for index, message in enumerate(messages):
            ctx.ledger.seen()
            if not isinstance(message, dict):
                ctx.ledger.skipped("malformed-record", f"{line}:/messages/{index}", kind="message")
                continue
            identity = message.get("id")
            key = identity if isinstance(identity, str) else f"{line}/{index}"
            if key in kept:
                ctx.ledger.skipped("duplicate-record", line, kind="message")
            kept[key] = (f"{line}:/messages/{index}", message)


def _rewind(target: Any, kept: dict[str, Placed], ctx: Context) -> None:
    """Take back a message and all after it; everything when the id is unknown."""
    names = list(kept)
    start = names.index(target) if isinstance(target, str) and target in kept else 0
    for name in names[start:]:
        place, _ = kept.pop(name)
        ctx.ledger.skipped("message-discarded", place, kind="rewind")


def _session(
    document: dict[str, Any], messages: list[Placed], source: Input, ctx: Context
) -> Session | None:
    walk = _Walk(ctx)
    for place, message in messages:
        fate = walk.message(message, place)
        if fate is None:
            ctx.ledger.mapped()
        elif fate == "unknown-record":
            ctx.ledger.aside(fate, place, kind=str(message.get("type"))[:40])
        else:
            ctx.ledger.skipped(fate, place, kind=str(message.get("type"))[:40])
    turns = walk.turns.finish()
    if not turns:
        return None
    identity = document.get("sessionId")
    own = identity if isinstance(identity, str) and identity else None
    directories = document.get("directories")
    cwd = next((d for d in directories if isinstance(d, str) and d), None) if isinstance(
        directories, list
    ) else None  # fmt: skip
    summary = document.get("summary")
    model = next((step.model for turn in turns for step in turn.steps if step.model), None)
    return Session(
        meta=Meta(own or source.stem, walk.ms(document.get("startTime"), "/startTime"), cwd, own),
        title=summary if isinstance(summary, str) and summary else None,
        provider="gemini",
        model=model,
        turns=turns,
        extra=_extra(document, walk, source),
    )


def _extra(document: dict[str, Any], walk: _Walk, source: Input) -> Extra | None:
    extra: Extra = {}
    native = {
        name: value
        for name in ("projectHash", "lastUpdated", "kind")
        if isinstance(value := document.get(name), str)
    }
    if native:
        extra["native"] = native
    if walk.records:
        extra["records"] = walk.records
    parent = _SUBAGENT.fullmatch(source.name)
    if parent is not None:
        extra["parent"] = {"sessionId": parent[1], "callId": None}
    return extra or None


class _Walk:
    """The messages of one recording on their way into turns."""

    def __init__(self, ctx: Context) -> None:
        self.turns = TurnBuilder(ctx.ledger)
        self.records: list[Any] = []
        self._ctx = ctx

    def ms(self, value: Any, place: str | int) -> int | None:
        if value is None:
            return None
        time = parse_time(value, self._ctx.options.tz)
        if time is None:
            self._ctx.ledger.note("timestamp-invalid", place)
            return None
        if time.assumed:
            self._ctx.ledger.note("tz-assumed", place)
        return time.ms

    def message(self, message: dict[str, Any], place: str | int) -> str | None:
        """Take one message; give the rule under which it is not mapped, or ``None``."""
        kind = message.get("type")
        time = self.ms(message.get("timestamp"), place)
        if kind == "user":
            return self._user(message, place, time)
        if kind in ("gemini", "model"):
            return self._answer(message, place, time)
        if kind in _BANNERS:
            return "record-skipped"
        self.records.append(message)
        return "unknown-record"

    def _user(self, message: dict[str, Any], place: str | int, time: int | None) -> str | None:
        found = shape.parts(message.get("content"), self._ctx.ledger, place)
        for given in found.results:
            self._result(given.call_id, given.content, given.is_error, time, place)
        text = next((block.text for block in found.blocks if isinstance(block, Text)), "")
        if text.lstrip().startswith(_PREAMBLE):
            return "injection-skipped"
        blocks = [b for b in found.blocks if not (isinstance(b, Text) and not b.text)]
        if not blocks:
            return None if found.results else "empty-message"
        self.turns.prompt(blocks, time=time, extra=self._native(message))
        return None

    def _native(self, message: dict[str, Any]) -> Extra | None:
        kept = {
            name: value
            for name in ("id", "displayContent")
            if isinstance(value := message.get(name), str) and value
        }
        return kept or None

    def _result(
        self,
        call_id: str | None,
        content: list[Block],
        is_error: bool,  # noqa: FBT001 - passed on from a shape
        time: int | None,
        place: str | int,
    ) -> None:
        wanted = call_id if call_id and self.turns.declared(call_id) else None
        known = wanted or self.turns.unanswered()
        if known is None:
            self._ctx.ledger.note("orphan-tool-result", place)
            return
        self.turns.result(ToolResult(known, content, is_error, time), place)

    def _answer(self, message: dict[str, Any], place: str | int, time: int | None) -> str | None:
        blocks: list[Block] = list(_thoughts(message.get("thoughts")))
        found = shape.parts(message.get("content"), self._ctx.ledger, place)
        blocks += [b for b in found.blocks if not (isinstance(b, Text) and not b.text)]
        calls = message.get("toolCalls")
        usage = self._usage(message.get("tokens"), place)
        if not blocks and not (isinstance(calls, list) and calls) and usage is None:
            return "empty-message"
        model = message.get("model")
        self.turns.step(
            blocks,
            time=time,
            model=model if isinstance(model, str) and model else None,
            usage=usage,
            extra=self._native(message),
        )
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            self._call(call, f"{place}/toolCalls/{index}", time)
        return None

    def _call(self, call: Any, place: str, time: int | None) -> None:
        name = call.get("name") if isinstance(call, dict) else None
        if not isinstance(name, str) or not name:
            self._ctx.ledger.note("malformed-call", place)
            return
        identity = call.get("id")
        if not isinstance(identity, str) or not identity:
            identity = f"call-{place.replace('/', '-').strip('-')}"
            self._ctx.ledger.note("id-minted", place)
        if self.turns.declared(identity):
            self._ctx.ledger.note("duplicate-tool-call", place)
            return
        args = call.get("args")
        text = args if isinstance(args, str) else "{}" if args is None else js_dumps(args)
        self.turns.block(ToolCallBlock(identity, name, text))
        status = call.get("status")
        content, failed = self._call_result(call, place)
        if content is None:
            return
        when = self.ms(call.get("timestamp"), place) or time
        self.turns.result(ToolResult(identity, content, failed or status in _FAILED, when), place)

    def _call_result(self, call: dict[str, Any], place: str) -> tuple[list[Block] | None, bool]:
        """Give the content of an inline result; ``None`` while the call is pending."""
        result = call.get("result")
        if result is not None:
            found = shape.parts(result, self._ctx.ledger, place)
            content = [*found.blocks]
            for given in found.results:
                content += given.content
            if content or found.results:
                return content, any(given.is_error for given in found.results)
        shown = call.get("resultDisplay")
        if isinstance(shown, str) and shown:
            return [Text(shown)], False
        if isinstance(shown, dict):
            return [Text(js_dumps(shown))], False
        return ([], False) if result is not None else (None, False)

    def _usage(self, tokens: Any, place: str | int) -> Usage | None:
        if not isinstance(tokens, dict):
            if tokens is not None:
                self._ctx.ledger.note("usage-invalid", place)
            return None
        counts = {name: tokens.get(name) or 0 for name in
                  ("input", "output", "cached", "thoughts", "tool")}  # fmt: skip
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in counts.values()):
            self._ctx.ledger.note("usage-invalid", place)
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
            self._ctx.ledger.note("usage-invalid", place)
        else:
            usage.extra = {"usage": tokens}
        return usage


def _thoughts(value: Any) -> list[Reasoning]:
    blocks = []
    for thought in value if isinstance(value, list) else ():
        if isinstance(thought, dict):
            lines = [thought.get("subject"), thought.get("description")]
            text = "\n".join(line for line in lines if isinstance(line, str) and line)
            if text:
                blocks.append(Reasoning(text))
    return blocks
