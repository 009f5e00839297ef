"""Sessions and messages of the database into the IR; Crush reads by the same rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import sqlitedb
from converters.images import inline_image
from converters.ir import (
    Block,
    Extra,
    Image,
    Meta,
    Reasoning,
    Session,
    Text,
    ToolCallBlock,
    ToolResult,
)
from converters.shapes.attachments import file_block, image_or_file
from converters.shapes.cells import value_of
from converters.text import parse_time
from converters.turns import TurnBuilder
from converters.types import Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ledger import Ledger
    from converters.types import Context, Input

__all__ = ["listing", "read", "read_as"]

_FAILED: Final = ("canceled", "cancelled", "error", "permission_denied")
_TOTALS: Final = ("prompt_tokens", "completion_tokens", "cost")


class _Found(NamedTuple):
    blocks: list[Block]
    results: list[ToolResult]
    finish: Extra


def listing(source: Input) -> list[Listed]:
    """List the sessions by their own rows."""
    connection = source.database()
    try:
        sqlitedb.require(connection, "sessions", "messages")
        found = []
        for row in sqlitedb.rows(connection, "SELECT * FROM sessions ORDER BY id"):
            time = parse_time(row.get("updated_at"))
            ms = time.ms if time is not None else None
            found.append(Listed(str(row.get("id")), _text(row.get("title")), _cwd(source), ms))
        return found
    finally:
        connection.close()


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a database."""
    return read_as(source, ctx, "opencode-go")


def read_as(source: Input, ctx: Context, provider: str) -> Iterator[Session]:
    """Give the sessions of a database of this schema under the name of a tool."""
    connection = source.database()
    ledger = ctx.ledger
    try:
        connection.execute("BEGIN")
        sqlitedb.require(connection, "sessions", "messages")
        known = set()
        sessions = sqlitedb.rows(
            connection, "SELECT * FROM sessions ORDER BY id", (), ledger, table="sessions"
        )
        for info in list(sessions):
            known.add(info.get("id"))
            place = sqlitedb.place(info, "sessions")
            rows = _messages(connection, info.get("id"), ledger)
            if _text(info.get("parent_session_id")) and ctx.options.subagents == "skip":
                ledger.skipped("subagent-skipped", place, sum(1 for _ in rows))
                continue
            walk = _Walk(ctx, provider, info)
            for row in rows:
                walk.row(row)
            session = walk.session(_cwd(source))
            if session is None:
                ledger.note("empty-session", place)
            else:
                yield session
        yield from _orphans(connection, known, ctx, provider)
    finally:
        connection.close()


def _messages(connection: Any, identity: Any, ledger: Ledger) -> Iterator[dict[str, Any]]:
    sql = "SELECT * FROM messages WHERE session_id IS ? ORDER BY created_at, rowid"
    return sqlitedb.rows(connection, sql, (identity,), ledger, table="messages", record=True)


def _orphans(connection: Any, known: set[Any], ctx: Context, provider: str) -> Iterator[Session]:
    """Give the messages whose session row is gone, a session for each lost id."""
    sql = "SELECT DISTINCT session_id FROM messages"
    lost = [
        row.get("session_id")
        for row in sqlitedb.rows(connection, sql)
        if row.get("session_id") not in known
    ]
    for identity in lost:
        walk = _Walk(ctx, provider, {"id": identity})
        for row in _messages(connection, identity, ctx.ledger):
            walk.row(row)
        session = walk.session(None)
        if session is not None:
            ctx.ledger.note("history-truncated", f"messages.session_id={str(identity)[:60]}")
            yield session


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _cwd(source: Input) -> str | None:
    """Give the folder above ``.opencode`` or ``.crush``, where the path names one."""
    path = source.path
    if path is None:
        return None
    parts = path.replace("\\", "/").split("/")
    inside = len(parts) > 2 and parts[-2].startswith(".")
    return "/".join(parts[:-2]) if inside else None


class _Walk:
    """The messages of one session on their way into turns."""

    def __init__(self, ctx: Context, provider: str, info: dict[str, Any]) -> None:
        self._ctx = ctx
        self._provider = provider
        self._info = info
        self._turns = TurnBuilder(ctx.ledger)
        self._system: list[str] = []

    def row(self, row: dict[str, Any]) -> None:
        """Take one message and say what became of it."""
        ledger = self._ctx.ledger
        place = sqlitedb.place(row, "messages")
        fate = self._row(row, place)
        if fate is None:
            ledger.mapped()
        elif fate in ("system-prompt-aside", "record-aside"):
            ledger.aside(fate, place)
        else:
            ledger.skipped(fate, place, kind=str(row.get("role"))[:40])

    def _row(self, row: dict[str, Any], place: str) -> str | None:
        found = _parts(row.get("parts"), self._ctx.ledger, place)
        if found is None:
            return "malformed-record"
        role = row.get("role")
        time = self._ctx.ms(row.get("created_at"), place)
        texts = [block.text for block in found.blocks if isinstance(block, Text)]
        summary = row.get("is_summary_message") == 1 or (
            row.get("id") is not None and row.get("id") == self._info.get("summary_message_id")
        )
        if summary:
            text = "\n".join(texts)
            self._turns.compaction(text, provider=self._provider, time=time, place=place)
            return None
        if role == "tool":
            fate = self._beside(found, place)
            if fate is not None:
                return fate
        for result in found.results:
            result.time = time
            self._turns.result(result, place)
        if role == "system":
            self._system += texts
            return "system-prompt-aside" if texts else "empty-message"
        identity = _text(row.get("id"))
        extra: Extra | None = {"id": identity} if identity else None
        if role == "user":
            if not found.blocks:
                return None if found.results else "empty-message"
            self._turns.prompt(found.blocks, time=time, extra=extra)
            return None
        if role == "assistant":
            return self._assistant(row, found, extra, place)
        return None if role == "tool" else "role-unknown"

    def _beside(self, found: _Found, place: str) -> str | None:
        """Put what stands beside the results of a tool message into the last of them.

        A message without a result answers the oldest open call.
        """
        said: list[Block] = []
        for block in found.blocks:
            if isinstance(block, Text | Image):
                said.append(block)
            else:
                self._ctx.ledger.note("unknown-block", place, kind=type(block).__name__)
        if found.results:
            found.results[-1].content += said
            return None
        if not said:
            return "empty-message"
        call = self._turns.unanswered()
        if call is None:
            return "orphan-tool-result"
        self._ctx.ledger.note("tool-result-text-fallback", place)
        found.results.append(ToolResult(call, said))
        return None

    def _assistant(
        self, row: dict[str, Any], found: _Found, extra: Extra | None, place: str
    ) -> str | None:
        finished = row.get("finished_at")
        time = self._ctx.ms(row.get("created_at") if finished is None else finished, place)
        failed = found.finish.get("name") in _FAILED
        said = found.finish if found.finish.keys() - {"name"} else None
        if found.blocks:
            if said is not None:
                extra = {**(extra or {}), "error" if failed else "finish": said}
            model = _text(row.get("model"))
            self._turns.step(found.blocks, time=time, model=model, extra=extra)
        if failed:
            self._turns.abort()
        if found.blocks:
            return None
        fate = "empty-message" if said is None else self._failed(said)
        return None if found.results else fate

    def _failed(self, error: Extra) -> str:
        """Take a message that is an error and nothing else: the open turn keeps it."""
        turn = self._turns.turn
        if turn is None:
            return "record-skipped"
        turn.extra = turn.extra or {}
        turn.extra.setdefault("errors", []).append(error)
        return "record-aside"

    def session(self, cwd: str | None) -> Session | None:
        """Give the session, or ``None`` without a turn."""
        turns = self._turns.finish()
        if not turns:
            return None
        info = self._info
        extra: Extra = {}
        if self._system:
            extra["system"] = self._system
        totals = {
            name: value
            for name in _TOTALS
            if isinstance(value := info.get(name), int | float) and value
        }
        if totals:
            extra["usage"] = totals
        parent = _text(info.get("parent_session_id"))
        identity = str(info.get("id"))
        if parent is not None:
            call = identity.partition("$$")[2] or None
            extra["parent"] = {"sessionId": parent, "callId": call}
        model = next((step.model for turn in turns for step in turn.steps if step.model), None)
        created = self._ctx.ms(info.get("created_at"), f"sessions.id={identity[:60]}")
        return Session(
            meta=Meta(identity, created, cwd, identity),
            title=_text(info.get("title")),
            provider=self._provider,
            model=model,
            turns=turns,
            extra=extra or None,
        )


def _parts(value: Any, ledger: Ledger, place: str) -> _Found | None:
    """Parse the parts of a message; ``None`` when the cell is no JSON list."""
    parts = value_of(value, ledger, place)
    if not isinstance(parts, list):
        return None
    blocks: list[Block] = []
    results: list[ToolResult] = []
    finish: Extra = {}
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        data = part.get("data") if isinstance(part, dict) else None
        if not isinstance(data, dict):
            ledger.note("malformed-block", place, kind=str(kind)[:40])
        elif kind == "finish":
            finish = _finish(data)
        elif kind == "tool_result":
            _result(data, results, ledger, place)
        else:
            _block(kind, data, blocks, ledger, place)
    return _Found(blocks, results, finish)


def _finish(data: Extra) -> Extra:
    """Give how an answer ended: the reason as the name, and what it says of a failure."""
    members = {"name": "reason", "message": "message", "details": "details"}
    return {name: text for name, of in members.items() if (text := _text(data.get(of)))}


def _block(
    kind: Any, data: dict[str, Any], blocks: list[Block], ledger: Ledger, place: str
) -> None:
    if kind == "text":
        text = data.get("text")
        if not isinstance(text, str):
            ledger.note("malformed-block", place, kind="text")
        elif text:
            blocks.append(Text(text))
    elif kind == "reasoning":
        text = _text(data.get("thinking"))
        if text is None:
            ledger.note("reasoning-encrypted", place)
        else:
            signature = _text(data.get("signature"))
            blocks.append(Reasoning(text, {"signature": signature} if signature else None))
    elif kind == "tool_call":
        name, identity = _text(data.get("name")), _text(data.get("id"))
        if name is None or identity is None:
            ledger.note("malformed-call", place)
            return
        text = data.get("input") if isinstance(data.get("input"), str) else ""
        blocks.append(ToolCallBlock(identity, name, text or ""))
    elif kind == "binary":
        given = data.get("Data"), data.get("MIMEType"), data.get("Path")
        blocks.append(_file(*given, ledger, place))
    elif kind == "image_url":
        blocks.append(image_or_file(ledger, place, url=data.get("url")))
    elif kind == "shell_command" and _text(data.get("command")):
        blocks.append(Text(f"$ {data['command']}"))
    else:
        ledger.note("unknown-block", place, kind=str(kind)[:40])


def _result(data: dict[str, Any], results: list[ToolResult], ledger: Ledger, place: str) -> None:
    identity = _text(data.get("tool_call_id"))
    if identity is None:
        ledger.note("malformed-result", place)
        return
    text = _text(data.get("content"))
    content: list[Block] = [Text(text)] if text else []
    if data.get("data"):
        content.append(_file(data["data"], data.get("mime_type"), None, ledger, place))
    more = data.get("metadata")
    extra: Extra | None = {"metadata": more} if more else None
    results.append(ToolResult(identity, content, data.get("is_error") is True, extra=extra))


def _file(data: Any, media: Any, path: Any, ledger: Ledger, place: str) -> Block:
    """Give the image of a file's bytes, else the placeholder of the file with its entry."""
    image = inline_image(data, media, path)
    if image is not None:
        return image
    kind = _text(media)
    if kind is None or kind.startswith("image/"):
        return image_or_file(ledger, place, data=data, media=media, name=path)
    return file_block(ledger, place, name=path, media=media, data=data)
