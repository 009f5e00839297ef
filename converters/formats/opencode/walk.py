"""Messages with parts on their way into turns; the same for database, tree and export."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.opencode.members import (
    error_of,
    file_of,
    is_left_out,
    is_nothing,
    model_of,
    revert_of,
    session_model,
    text_of,
    title_of,
    tool_result,
)
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
from converters.turns import TurnBuilder, sanitize_usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.types import Context

__all__ = ["Message", "Placed", "Walk", "lost_session", "session_of"]

Placed = tuple[str, dict[str, Any]]
Message = tuple[str, dict[str, Any], list[Placed]]
"""The place of a message, its object, and its parts."""

_QUIET: Final = ("step-start", "step-finish", "snapshot", "patch", "agent", "subtask", "retry")
_SUBTASK: Final = ("command", "agent", "description")
_NAMESPACE: Final = uuid.UUID("3d1c5c0e-6a1b-5d53-9f0a-4f2d7f0b8c11")


class Walk:
    """Takes the messages of one session in order."""

    def __init__(self, ctx: Context) -> None:
        self.turns = TurnBuilder(ctx.ledger)
        self.cwd: str | None = None
        self._ctx = ctx
        self._tail: str | None = None
        self._marked = False
        self._turn_of: dict[str, int] = {}

    def take(self, messages: Iterable[Message], info: dict[str, Any], place: str) -> None:
        """Take the messages of a session in order; what its revert withdrew is skipped.

        A revert that names a part leaves the parts before it in place.
        """
        revert = revert_of(info, self._ctx.ledger, place)
        gone = False
        for at, message, parts in messages:
            if revert is not None and not gone and message.get("id") == revert.message:
                gone = True
                if revert.part is not None:
                    self.message(message, self._before(parts, revert.part), at)
                    continue
            if gone:
                self._ctx.ledger.skipped("message-discarded", at, 1 + len(parts), "revert")
            else:
                self.message(message, parts, at)

    def _before(self, parts: list[Placed], identity: str) -> list[Placed]:
        """Give the parts before the one from which on a message was withdrawn."""
        ids = [part.get("id") for _, part in parts]
        end = ids.index(identity) if identity in ids else len(ids)
        for at, _ in parts[end:]:
            self._ctx.ledger.skipped("message-discarded", at, kind="revert")
        return parts[:end]

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
        self.fate(fate, place, str(role)[:40])
        if isinstance(identity, str):
            self._turn_of[identity] = len(self.turns.turns) - 1

    def fate(self, rule: str | None, place: str, kind: str) -> None:
        """Count a message: mapped without a rule, aside, or skipped."""
        if rule is None:
            self._ctx.ledger.mapped()
        elif rule == "record-aside":
            self._ctx.ledger.aside(rule, place, kind=kind)
        else:
            self._ctx.ledger.skipped(rule, place, kind=kind)

    def _native(self, info: dict[str, Any]) -> Extra | None:
        identity = info.get("id")
        return {"id": identity} if isinstance(identity, str) and identity else None

    def _user(self, info: dict[str, Any], parts: list[Placed], ms: int | None) -> str | None:
        ledger = self._ctx.ledger
        blocks: list[Block] = []
        subtasks: list[Placed] = []
        marked = False
        for at, part in parts:
            kind = part.get("type")
            if kind == "subtask":
                subtasks.append((at, part))
            elif kind == "text":
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
        extra = self._native(info)
        tasks = self._subtasks(subtasks, blocks)
        if tasks:
            extra = {**(extra or {}), "subtasks": tasks}
        if not blocks:
            return None if marked else "empty-message"
        self.turns.prompt(blocks, time=ms, extra=extra)
        return None

    def _subtasks(self, parts: list[Placed], blocks: list[Block]) -> list[Extra]:
        """Take the prompts of subtasks where they are all that a message says.

        A typed command that runs as a subagent leaves its message with this part alone.
        """
        alone = not blocks
        tasks: list[Extra] = []
        for at, part in parts:
            text = text_of(part.get("prompt"))
            if not alone or text is None:
                self._other(part, at)
                continue
            blocks.append(Text(text))
            tasks.append({name: found for name in _SUBTASK if (found := text_of(part.get(name)))})
            self._ctx.ledger.mapped()
        return tasks

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
        error = error_of(info.get("error"))
        if not blocks and (usage is None or (error is not None and is_nothing(usage))):
            if error is None:
                return "empty-message"
            self.turns.abort()
            return self.failed(error)
        extra = self._native(info)
        if error is not None:
            extra = {**(extra or {}), "error": error}
        self.turns.step(blocks, time=ms, model=model_of(info), usage=usage, extra=extra)
        for result, at in results:
            self.turns.result(result, at)
        if error is not None:
            self.turns.abort()
        return None

    def failed(self, error: Extra) -> str:
        """Take a message that is an error and nothing else: the open turn keeps it."""
        turn = self.turns.turn
        if turn is None:
            return "record-skipped"
        turn.extra = turn.extra or {}
        turn.extra.setdefault("errors", []).append(error)
        return "record-aside"

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
        summary = "\n".join(texts)
        usage, error = self._usage(info, place), error_of(info.get("error"))
        usage = None if usage is None or is_nothing(usage) else usage
        extra: Extra = {"error": error} if error is not None else {}
        fate = None
        if summary.strip():
            extra |= (usage.extra or {}) if usage is not None else {}
        elif usage is not None:
            # A compaction that came to nothing has no place for what it cost.
            extra |= self._native(info) or {}
            self.turns.step(time=ms, model=model_of(info), usage=usage, extra=extra)
        elif error is not None:
            fate = self.failed(error)
        self.boundary(summary, ms, place, model=model_of(info), extra=extra or None)
        return fate

    def boundary(
        self,
        summary: str,
        ms: int | None,
        place: str,
        *,
        model: str | None = None,
        extra: Extra | None = None,
    ) -> None:
        """Mark a compaction; turns from ``tail_start_id`` on stay in view."""
        self.turns.compaction(
            summary, provider="opencode", model=model, time=ms, extra=extra, place=place
        )
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
        identity = self._identity(info.get("id"), place)
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
            title=title_of(info),
            provider="opencode",
            model=session_model(info, self._ctx.ledger, place) or step_model,
            turns=turns,
            extra=extra or None,
        )  # fmt: skip

    def lost(self, identity: Any, place: str) -> Session | None:
        """Give the session of messages whose own is gone."""
        session = self.session({"id": identity}, place)
        if session is not None:
            self._ctx.ledger.note("history-truncated", place)
        return session

    def _identity(self, identity: Any, place: str) -> str:
        """Give the id of the source; without one (a lost NULL) it is made of the content."""
        if identity is not None:
            return str(identity)
        self._ctx.ledger.note("id-minted", place)
        text = "\n".join(turn.prompt for turn in self.turns.turns[:20])
        return str(uuid.uuid5(_NAMESPACE, text))


def session_of(
    info: dict[str, Any], messages: Iterable[Message], ctx: Context, place: str
) -> Session | None:
    """Give the session of a row or file and its messages; a subagent may be left out."""
    if is_left_out(info, ctx):
        n = sum(1 + len(parts) for _, _, parts in messages)
        ctx.ledger.skipped("subagent-skipped", place, n)
        return None
    walk = Walk(ctx)
    walk.take(messages, info, place)
    return walk.session(info, place)


def lost_session(
    identity: Any, messages: Iterable[Message], ctx: Context, place: str
) -> Session | None:
    """Give the messages whose session is gone as a session of their own."""
    walk = Walk(ctx)
    walk.take(messages, {}, place)
    return walk.lost(identity, place)
