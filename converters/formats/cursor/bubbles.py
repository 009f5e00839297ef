"""Messages of the editor (bubbles), of every generation, on their way into turns."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.cursor.human import said
from converters.formats.cursor.richtext import rich_text
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

__all__ = ["CONTENT", "TITLES", "Walk", "first_text", "folder_of"]

_USER: Final = (1, "1", "user", "human")
_ASSISTANT: Final = (2, "2", "assistant", "ai", "bot")
_TEXTS: Final = ("text", "rawText", "richText", "content", "message")
CONTENT: Final = (*_TEXTS, "thinking", "toolFormerData", "images", "selections")
"""The members that make an object a message: those of its text, best first, then the others."""

TITLES: Final = ("name", "chatTitle", "title")
"""The members that hold the title of a session."""

_TOOL: Final = ("name", "tool", "toolCallId", "rawArgs", "params", "result", "error")
_FAILED: Final = ("error", "cancelled", "rejected")
_NONE: Final[dict[str, Any]] = {}


class Walk:
    """The messages of one session on their way into turns."""

    def __init__(self, ctx: Context, data: dict[str, Any]) -> None:
        """Begin a session whose other members are ``data``."""
        self._data = data
        self._summary, self._end = _summary(data)
        self._turns = TurnBuilder(ctx.ledger)
        self._ctx = ctx
        self._cwd: str | None = None
        self._taken = 0

    def take(self, bubble: Any, place: str, header: dict[str, Any] = _NONE) -> None:
        """Take a message, which counts as seen already, and say what became of it."""
        ledger = self._ctx.ledger
        self._taken += 1
        if not isinstance(bubble, dict) or not bubble:
            ledger.skipped("malformed-record", place, kind="bubble")
            return
        fate = self._bubble(bubble, header, place)
        if fate is None:
            ledger.mapped()
        else:
            ledger.skipped(fate, place, kind=str(bubble.get("type"))[:40])
        if self._end is not None and self._end in _names(bubble, header):
            self._turns.compaction(self._summary, provider="cursor", place=place)
            self._summary, self._end = "", None

    def _bubble(self, bubble: dict[str, Any], header: dict[str, Any], place: str) -> str | None:
        kinds = (bubble.get("type"), header.get("type"), bubble.get("role"))
        kind = next((kind for kind in kinds if kind is not None), None)
        if isinstance(kind, list | dict):
            return "malformed-record"
        text = self._text(bubble, place)
        time = self._time(bubble, place)
        self._cwd = self._cwd or _cwd(bubble)
        identity = next(iter(_names(bubble, header)), None)
        extra: Extra | None = {"id": identity} if identity is not None else None
        if kind in _USER:
            return self._user(text, bubble, time, extra, place)
        if kind in _ASSISTANT:
            return self._assistant(text, bubble, time, extra, place)
        return "role-unknown"

    def _text(self, bubble: dict[str, Any], place: str) -> str:
        for name in _TEXTS:
            value = bubble.get(name)
            if name == "richText":
                value = rich_text(value, self._ctx.ledger, place)
            if isinstance(value, str) and value:
                return value
        return ""

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
        blocks += self._thinking(bubble.get("thinking"), place)
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

    def _thinking(self, value: Any, place: str) -> Iterator[Reasoning]:
        """Give the reasoning of an answer; a signature without a text is encrypted reasoning."""
        thinking = {"text": value} if isinstance(value, str) else value
        if not isinstance(thinking, dict):
            if value is not None:
                self._ctx.ledger.note("malformed-block", place, kind="thinking")
            return
        text, signature = (first_text(thinking, (name,)) for name in ("text", "signature"))
        if text is not None:
            yield Reasoning(text, {"signature": signature} if signature is not None else None)
        elif signature is not None:
            self._ctx.ledger.note("reasoning-encrypted", place)

    def _tool(
        self, data: Any, time: int | None, extra: Extra | None, place: str
    ) -> tuple[ToolCallBlock | None, ToolResult | None]:
        if not isinstance(data, dict) or not any(data.get(member) for member in _TOOL):
            if data not in (None, {}):
                self._ctx.ledger.note("malformed-block", place, kind="toolFormerData")
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
        given = [data.get("result"), data.get("error") or None]
        status = data.get("status")
        if given == [None, None] and status not in (*_FAILED, "pending"):
            return call, None
        texts = [
            v if isinstance(v, str) else jsonio.dumps(v).decode() for v in given if v is not None
        ]
        content: list[Block] = [Text(text) for text in texts if text]
        return call, ToolResult(identity, content, status in _FAILED, time)

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
        identity: str,
        place: str,
        *,
        parent: str | None = None,
        subagent: bool = False,
        cwd: str | None = None,
    ) -> Session | None:
        """Give the session, or ``None`` without a turn.

        ``cwd`` is the folder of the workspace, where no message names one.
        """
        data = self._data
        turns = self._turns.finish()
        if not turns:
            self._ctx.ledger.note("empty-session", place)
            return None
        created = self._time(data, place)
        config = data.get("modelConfig")
        model = config.get("modelName") if isinstance(config, dict) else None
        if self._summary:
            # Its place is not known: at the latest before the last turn.
            for turn in turns[:-1]:
                turn.shadowed = True
            turns[-1].compaction = Compaction(self._summary, "cursor")
        extra: Extra = {}
        if parent is not None:
            extra["parent"] = {"sessionId": parent, "callId": None}
        native: Extra = {}
        mode = data.get("unifiedMode")
        if isinstance(mode, str) and mode:
            native["unifiedMode"] = mode
        if subagent and parent is None:
            native["isSubagent"] = True
        if native:
            extra["native"] = native
        return Session(
            meta=Meta(identity, created, self._cwd or cwd, identity),
            title=first_text(data, TITLES),
            provider="cursor",
            model=model if isinstance(model, str) and model else None,
            turns=turns,
            extra=extra or None,
        )


def _names(bubble: dict[str, Any], header: dict[str, Any]) -> list[str]:
    """Give the ids of a message, its own first."""
    found = (
        bubble.get("bubbleId"),
        header.get("bubbleId"),
        bubble.get("id"),
        header.get("serverBubbleId"),
    )
    return [name for name in found if isinstance(name, str) and name]


def _summary(data: dict[str, Any]) -> tuple[str, str | None]:
    """Give the latest summary, empty where there is none, and the last message that it covers.

    ``{summary: {summary, truncationLastBubbleIdInclusive}}``, or both one level up. Source: the
    message ``ConversationSummary`` of Cursor's own protocol, as public readers quote it (2026).
    """
    found = data.get("latestConversationSummary")
    end = None
    for _ in range(2):
        if isinstance(found, dict):
            end = first_text(found, ("truncationLastBubbleIdInclusive",)) or end
            found = found.get("summary")
    text = found if isinstance(found, str) and found.strip() else ""
    return text, end if text else None


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
