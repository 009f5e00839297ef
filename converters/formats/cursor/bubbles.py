"""Messages of the editor (bubbles), of every generation, on their way into turns."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.cursor.human import said
from converters.ir import (
    Block,
    Compaction,
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
    from collections.abc import Iterator

    from converters.types import Context

__all__ = ["TEXTS", "TITLES", "Walk", "first_text", "folder_of"]

_USER: Final = (1, "1", "user", "human")
_ASSISTANT: Final = (2, "2", "assistant", "ai", "bot")
TEXTS: Final = ("text", "rawText", "content", "message")
"""The members that hold the text of a message, best first."""

TITLES: Final = ("name", "chatTitle", "title")
"""The members that hold the title of a session."""

_FAILED: Final = ("error", "cancelled", "rejected")
_NONE: Final[dict[str, Any]] = {}


class Walk:
    """The messages of one session on their way into turns."""

    def __init__(self, ctx: Context) -> None:
        self._turns = TurnBuilder(ctx.ledger)
        self._ctx = ctx
        self._cwd: str | None = None
        self._taken = 0

    def take(self, bubble: Any, place: str, header: dict[str, Any] = _NONE) -> None:
        """Take a message, which counts as seen already, and say what became of it."""
        ledger = self._ctx.ledger
        self._taken += 1
        if not isinstance(bubble, dict):
            ledger.skipped("malformed-record", place, kind="bubble")
            return
        fate = self._bubble(bubble, header, place)
        if fate is None:
            ledger.mapped()
        else:
            ledger.skipped(fate, place, kind=str(bubble.get("type"))[:40])

    def _bubble(self, bubble: dict[str, Any], header: dict[str, Any], place: str) -> str | None:
        kind = bubble.get("type", header.get("type", bubble.get("role")))
        if isinstance(kind, list | dict):
            return "malformed-record"
        text = first_text(bubble, TEXTS) or ""
        time = self._time(bubble, place)
        self._cwd = self._cwd or _cwd(bubble)
        found = (bubble.get("bubbleId"), header.get("bubbleId"), bubble.get("id"))
        identity = next((name for name in found if isinstance(name, str) and name), None)
        extra: Extra | None = {"id": identity} if identity is not None else None
        if kind in _USER:
            return self._user(text, bubble, time, extra, place)
        if kind in _ASSISTANT:
            return self._assistant(text, bubble, time, extra, place)
        return "role-unknown"

    def _time(self, bubble: dict[str, Any], place: str) -> int | None:
        value = bubble.get("createdAt")
        value = bubble.get("timestamp") if value is None else value
        return self._ctx.ms(value, place)

    def _user(
        self, text: str, bubble: dict[str, Any], time: int | None, extra: Extra | None, place: str
    ) -> str | None:
        text, dropped = said(text)
        blocks: list[Block] = [Text(text)] if text else []
        blocks += self._selections(bubble.get("selections"), place)
        images = bubble.get("images")
        images = images if isinstance(images, list) else []
        if isinstance(bubble.get("image"), dict):
            images = [*images, bubble["image"]]
        for _ in images:
            blocks.append(Text("[image]"))
            self._ctx.ledger.note("attachment-skipped", place, kind="image")
        if not blocks:
            return "injection-skipped" if dropped else "empty-message"
        if dropped:
            self._ctx.ledger.note("injection-skipped", place, dropped)
        self._turns.prompt(blocks, time=time, extra=extra)
        return None

    def _selections(self, value: Any, place: str) -> Iterator[Text]:
        """Give the pieces of code that the human put beside a prompt, in chats before 0.40."""
        for item in value if isinstance(value, list) else ():
            text = item.get("text") if isinstance(item, dict) else None
            if not isinstance(text, str):
                self._ctx.ledger.note("malformed-block", place, kind="selection")
            elif text:
                uri = item.get("uri")
                name = uri.get("path") if isinstance(uri, dict) else uri
                yield file_block(self._ctx.ledger, place, kind="selection", name=name, text=text)

    def _assistant(
        self, text: str, bubble: dict[str, Any], time: int | None, extra: Extra | None, place: str
    ) -> str | None:
        blocks: list[Block] = []
        thinking = bubble.get("thinking")
        thought = thinking.get("text") if isinstance(thinking, dict) else thinking
        if isinstance(thought, str) and thought:
            signature = thinking.get("signature") if isinstance(thinking, dict) else None
            signed = isinstance(signature, str) and bool(signature)
            blocks.append(Reasoning(thought, {"signature": signature} if signed else None))
        if text:
            blocks.append(Text(text))
        call, result = self._tool(bubble.get("toolFormerData"), time, extra, place)
        if call is not None:
            blocks.append(call)
        usage = self._usage(bubble.get("tokenCount"), place)
        if not blocks and usage is None:
            return "empty-message"
        self._turns.step(blocks, time=time, model=_model(bubble), usage=usage, extra=extra)
        if result is not None:
            self._turns.result(result, place)
        return None

    def _tool(
        self, data: Any, time: int | None, extra: Extra | None, place: str
    ) -> tuple[ToolCallBlock | None, ToolResult | None]:
        if not isinstance(data, dict):
            return None, None
        name = data.get("name")
        name = name if isinstance(name, str) and name else str(data.get("tool", "tool"))
        identity = data.get("toolCallId")
        if not isinstance(identity, str) or not identity or self._turns.declared(identity):
            identity = f"call-{extra['id'][:40] if extra else self._taken}"
            if self._turns.declared(identity):
                identity = f"{identity}-{self._taken}"
            self._ctx.ledger.note("id-minted", place)
        arguments = data.get("rawArgs") or data.get("params")
        if not isinstance(arguments, str):
            arguments = jsonio.dumps({} if arguments is None else arguments).decode()
        call = ToolCallBlock(identity, name, arguments)
        value = data.get("result")
        if value is None:
            return call, None
        text = value if isinstance(value, str) else jsonio.dumps(value).decode()
        failed = data.get("status") in _FAILED
        return call, ToolResult(identity, [Text(text)] if text else [], failed, time)

    def _usage(self, value: Any, place: str) -> Usage | None:
        """Give the counts of an answer; zeros mean that Cursor did not count."""
        if not isinstance(value, dict) or not (
            value.get("inputTokens") or value.get("outputTokens")
        ):
            return None
        usage = sanitize_usage({"inputTokens": 0, "outputTokens": 0, **value})
        if usage is None:
            self._ctx.ledger.note("usage-invalid", place)
        return usage

    def session(
        self,
        data: dict[str, Any],
        identity: str,
        place: str,
        *,
        parent: str | None = None,
        cwd: str | None = None,
    ) -> Session | None:
        """Give the session of ``data``, or ``None`` without a turn.

        ``cwd`` is the folder of the workspace, where no message names one.
        """
        turns = self._turns.finish()
        if not turns:
            self._ctx.ledger.note("empty-session", place)
            return None
        created = self._time(data, place)
        config = data.get("modelConfig")
        model = config.get("modelName") if isinstance(config, dict) else None
        summary = data.get("latestConversationSummary")
        summary = summary.get("summary") if isinstance(summary, dict) else summary
        summary = summary.get("summary") if isinstance(summary, dict) else summary
        if isinstance(summary, str) and summary.strip() and len(turns) > 1:
            # The database keeps the latest summary only, without its place: before the last turn.
            for turn in turns[:-1]:
                turn.shadowed = True
            turns[-1].compaction = Compaction(summary, "cursor")
        extra: Extra = {}
        if parent is not None:
            extra["parent"] = {"sessionId": parent, "callId": None}
        mode = data.get("unifiedMode")
        if isinstance(mode, str) and mode:
            extra["native"] = {"unifiedMode": mode}
        return Session(
            meta=Meta(identity, created, self._cwd or cwd, identity),
            title=first_text(data, TITLES),
            provider="cursor",
            model=model if isinstance(model, str) and model else None,
            turns=turns,
            extra=extra or None,
        )


def _model(bubble: dict[str, Any]) -> str | None:
    info = bubble.get("modelInfo")
    for value in (bubble.get("modelType"), info.get("modelName") if isinstance(info, dict) else 0):
        if isinstance(value, str) and value:
            return value
    return None


def _cwd(bubble: dict[str, Any]) -> str | None:
    """Give the folder that a bubble names: a path, or the first file URI of the workspace."""
    path = bubble.get("workspaceProjectDir")
    if isinstance(path, str) and path:
        return path
    uris = bubble.get("workspaceUris")
    for uri in uris if isinstance(uris, list) else ():
        found = folder_of(uri)
        if found is not None:
            return found
    return None


def folder_of(uri: Any) -> str | None:
    """Give the path of a folder's URI (``file:``, ``vscode-remote:``), else ``None``."""
    if not isinstance(uri, str) or not uri.startswith(("file://", "vscode-remote://")):
        return None
    try:
        found = urllib.parse.unquote(urllib.parse.urlsplit(uri).path)
    except ValueError:
        return None
    drive = len(found) > 2 and found[0] == "/" and found[2] == ":"
    return (found[1:] if drive else found) or None


def first_text(members: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """Give the first of these members that is a text and not empty."""
    return next((v for n in names if isinstance(v := members.get(n), str) and v), None)
