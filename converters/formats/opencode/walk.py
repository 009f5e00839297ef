"""Messages with parts on their way into turns; the same for database, tree and export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.images import inline_image
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
from converters.shapes.attachments import file_block
from converters.turns import TurnBuilder, sanitize_usage

if TYPE_CHECKING:
    from converters.types import Context

__all__ = ["Placed", "Walk", "file_of", "text_of", "tool_result"]

Placed = tuple[str, dict[str, Any]]

_QUIET: Final = ("step-start", "step-finish", "snapshot", "patch", "agent", "subtask", "retry")
_UNTITLED: Final = ("New session - ", "Child session - ")


def text_of(value: Any) -> str | None:
    """Give a text that says something, else ``None``."""
    return value if isinstance(value, str) and value else None


class Walk:
    """Takes the messages of one session in order."""

    def __init__(self, ctx: Context) -> None:
        self.turns = TurnBuilder(ctx.ledger)
        self.cwd: str | None = None
        self._ctx = ctx
        self._tail: str | None = None
        self._marked = False
        self._turn_of: dict[str, int] = {}

    def message(self, info: dict[str, Any], parts: list[Placed], place: str) -> None:
        """Take one message; it and each of its parts get their fate."""
        ledger = self._ctx.ledger
        role = info.get("role")
        time = info.get("time")
        created = time.get("created") if isinstance(time, dict) else info.get("createdAt")
        ms = self._ctx.ms(created, place)
        identity = info.get("id")
        path = info.get("path")
        cwd = path.get("cwd") if isinstance(path, dict) else info.get("cwd")
        self.cwd = self.cwd or text_of(cwd)
        if role == "user":
            fate = self._user(info, parts, ms)
        elif role == "assistant":
            fate = self._assistant(info, parts, ms, place)
        else:
            for at, part in parts:
                ledger.skipped("role-unknown", at, kind=str(part.get("type"))[:40])
            fate = "role-unknown"
        if fate is None:
            ledger.mapped()
        else:
            ledger.skipped(fate, place, kind=str(role)[:40])
        if isinstance(identity, str):
            self._turn_of[identity] = len(self.turns.turns) - 1

    def _native(self, info: dict[str, Any]) -> Extra | None:
        identity = info.get("id")
        return {"id": identity} if isinstance(identity, str) and identity else None

    def _user(self, info: dict[str, Any], parts: list[Placed], ms: int | None) -> str | None:
        ledger = self._ctx.ledger
        blocks: list[Block] = []
        marked = False
        for at, part in parts:
            kind = part.get("type")
            if kind == "text":
                text = text_of(part.get("text"))
                if part.get("synthetic") is True or part.get("ignored") is True:
                    ledger.skipped("injection-skipped", at, kind="synthetic")
                elif text is None:
                    ledger.skipped("empty-message", at, kind="text")
                else:
                    blocks.append(Text(text))
                    ledger.mapped()
            elif kind == "file":
                blocks.append(file_of(part, ledger, at))
                ledger.mapped()
            elif kind == "compaction":
                self._tail = text_of(part.get("tail_start_id"))
                self._marked = marked = True
                ledger.mapped()
            else:
                self._other(part, at)
        content = text_of(info.get("content"))
        if content is not None and not parts:
            blocks.append(Text(content))
        if not blocks:
            return None if marked else "empty-message"
        self.turns.prompt(blocks, time=ms, extra=self._native(info))
        return None

    def _other(self, part: dict[str, Any], place: str) -> None:
        kind = part.get("type")
        rule = "record-skipped" if kind in _QUIET else "unknown-record"
        self._ctx.ledger.skipped(rule, place, kind=str(kind)[:40])

    def _assistant(
        self, info: dict[str, Any], parts: list[Placed], ms: int | None, place: str
    ) -> str | None:
        if info.get("mode") == "compaction" or info.get("summary") is True:
            return self._summary(info, parts, ms, place)
        blocks: list[Block] = []
        results: list[tuple[ToolResult, str]] = []
        for at, part in parts:
            self._answer_part(part, blocks, results, at)
        content = text_of(info.get("content"))
        if content is not None and not parts:
            blocks.append(Text(content))
        usage = self._usage(info, place)
        error = info.get("error")
        name = error.get("name") if isinstance(error, dict) else None
        if not blocks and usage is None:
            if isinstance(name, str):
                self.turns.abort()
                return "record-skipped"
            return "empty-message"
        extra = self._native(info)
        if isinstance(name, str):
            extra = {**(extra or {}), "error": name}
        self.turns.step(blocks, time=ms, model=_model(info), usage=usage, extra=extra)
        for result, at in results:
            self.turns.result(result, at)
        if name == "MessageAbortedError":
            self.turns.abort()
        return None

    def _answer_part(
        self,
        part: dict[str, Any],
        blocks: list[Block],
        results: list[tuple[ToolResult, str]],
        place: str,
    ) -> None:
        ledger = self._ctx.ledger
        kind = part.get("type")
        if kind in ("text", "reasoning"):
            text = text_of(part.get("text"))
            if text is not None:
                blocks.append(Text(text) if kind == "text" else Reasoning(text))
                ledger.mapped()
            elif kind == "reasoning" and part.get("metadata"):
                ledger.skipped("reasoning-encrypted", place)
            else:
                ledger.skipped("empty-message", place, kind=kind)
        elif kind == "tool":
            if self._tool(part, blocks, results, place):
                ledger.mapped()
            else:
                ledger.skipped("malformed-record", place, kind="tool")
        elif kind == "file":
            blocks.append(file_of(part, ledger, place))
            ledger.mapped()
        else:
            self._other(part, place)

    def _tool(
        self,
        part: dict[str, Any],
        blocks: list[Block],
        results: list[tuple[ToolResult, str]],
        place: str,
    ) -> bool:
        name, identity = text_of(part.get("tool")), text_of(part.get("callID"))
        if name is None:
            return False
        taken = any(isinstance(b, ToolCallBlock) and b.id == identity for b in blocks)
        if identity is None or taken or self.turns.declared(identity):
            identity = f"call-{text_of(part.get('id')) or place}"
            self._ctx.ledger.note("id-minted", place)
        state = part.get("state")
        state = state if isinstance(state, dict) else {}
        value = state.get("input")
        arguments = value if isinstance(value, str) else jsonio.dumps(value or {}).decode()
        blocks.append(ToolCallBlock(identity, name, arguments))
        times = state.get("time")
        end = times.get("end") if isinstance(times, dict) else None
        result = tool_result(identity, state, self._ctx.ms(end, place))
        if result is not None:
            files = state.get("attachments")
            for file in files if isinstance(files, list) else ():
                if isinstance(file, dict):
                    result.content.append(file_of(file, self._ctx.ledger, place))
            results.append((result, place))
        return True

    def _summary(
        self, info: dict[str, Any], parts: list[Placed], ms: int | None, place: str
    ) -> str | None:
        texts = []
        for at, part in parts:
            text = text_of(part.get("text")) if part.get("type") == "text" else None
            if text is None:
                self._other(part, at)
            else:
                texts.append(text)
                self._ctx.ledger.mapped()
        self.boundary("\n".join(texts), _model(info), ms, place)
        return None

    def boundary(self, summary: str, model: str | None, ms: int | None, place: str) -> None:
        """Mark a compaction; turns from ``tail_start_id`` on stay in view."""
        self.turns.compaction(summary, provider="opencode", model=model, time=ms, place=place)
        start = self._turn_of.get(self._tail) if self._tail is not None else None
        if start is not None:
            for turn in self.turns.turns[max(start, 0) :]:
                turn.shadowed = False
        self._tail, self._marked = None, False

    def _usage(self, info: dict[str, Any], place: str) -> Usage | None:
        tokens = info.get("tokens")
        if not isinstance(tokens, dict):
            return None
        cache = tokens.get("cache")
        cache = cache if isinstance(cache, dict) else {}
        reasoning = tokens.get("reasoning")
        output = tokens.get("output")
        if isinstance(output, int) and isinstance(reasoning, int):
            output += reasoning
        usage = sanitize_usage(
            {
                "inputTokens": tokens.get("input"),
                "outputTokens": output,
                "cacheReadTokens": cache.get("read"),
                "cacheWriteTokens": cache.get("write"),
                "reasoningTokens": reasoning,
            }
        )
        if usage is None:
            self._ctx.ledger.note("usage-invalid", place)
            return None
        cost = info.get("cost")
        usage.extra = {"usage": tokens} if not cost else {"usage": tokens, "cost": cost}
        return usage

    def session(self, info: dict[str, Any], place: str) -> Session | None:
        """Give the session of what was taken, or ``None`` without a turn."""
        if self._marked:
            self._ctx.ledger.note("compacted-unavailable", place)
        turns = self.turns.finish()
        if not turns:
            self._ctx.ledger.note("empty-session", place)
            return None
        identity = str(info.get("id"))
        title = text_of(info.get("title"))
        if title is not None and title.startswith(_UNTITLED):
            title = None
        time = info.get("time")
        created = time.get("created") if isinstance(time, dict) else None
        created = info.get("time_created", info.get("createdAt")) if created is None else created
        extra: Extra = {}
        parent = text_of(info.get("parent_id")) or text_of(info.get("parentID"))
        if parent is not None:
            extra["parent"] = {"sessionId": parent, "callId": None}
        native = {
            name: value
            for name in ("slug", "version", "project_id", "projectID")
            if (value := text_of(info.get(name))) is not None
        }
        if native:
            extra["native"] = native
        step_model = next((step.model for turn in turns for step in turn.steps if step.model), None)
        return Session(
            meta=Meta(
                identity, self._ctx.ms(created, place), text_of(info.get("directory")) or self.cwd,
                identity,
            ),
            title=title,
            provider="opencode",
            model=_session_model(info) or step_model,
            turns=turns,
            extra=extra or None,
        )  # fmt: skip


def _model(info: dict[str, Any]) -> str | None:
    model = info.get("model")
    inner = (model.get("modelID") or model.get("id")) if isinstance(model, dict) else model
    return text_of(info.get("modelID")) or text_of(inner)


def _session_model(info: dict[str, Any]) -> str | None:
    model = info.get("model")
    if isinstance(model, str) and model.startswith("{"):
        try:
            model = jsonio.loads_exact(model)
        except (ValueError, RecursionError):
            return None
    if isinstance(model, dict):
        return text_of(model.get("id")) or text_of(model.get("modelID"))
    return text_of(model)


def file_of(part: dict[str, Any], ledger: Any, place: str) -> Block:
    """Give the block of a file: an image with bytes, or a placeholder with its entry."""
    media = part.get("mime")
    data = part.get("data") if part.get("data") is not None else part.get("url")
    name = part.get("filename") or part.get("name")
    if isinstance(media, str) and media.startswith("image/"):
        image = inline_image(data, media, name) if _is_bytes(data) else None
        if image is not None:
            image.name = image.name or (name if isinstance(name, str) else None)
            return image
        ledger.note("attachment-skipped", place, kind="image")
        return Text(f"[image] {name}" if isinstance(name, str) and name else "[image]")
    inline = data if _is_bytes(data) else None
    uri = data if inline is None else None
    return file_block(ledger, place, name=name, media=media, data=inline, uri=uri)


def _is_bytes(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    return value.startswith("data:") or not value.startswith(("file:", "http:", "https:", "/"))


def tool_result(identity: str, state: dict[str, Any], ms: int | None) -> ToolResult | None:
    """Give the result of a version 1 tool state; ``None`` while it runs."""
    status = state.get("status")
    output = state.get("output")
    error = state.get("error")
    if status == "error":
        text = error if isinstance(error, str) else output if isinstance(output, str) else ""
        return ToolResult(identity, [Text(text)] if text else [], is_error=True, time=ms)
    if output is None and status != "completed":
        return None
    text = output if isinstance(output, str) else jsonio.dumps(output).decode() if output else ""
    return ToolResult(identity, [Text(text)] if text else [], time=ms)
