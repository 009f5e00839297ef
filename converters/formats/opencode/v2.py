"""The version 2 database: one row a message, in the order of ``seq``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio, sqlitedb
from converters.formats.opencode import tables
from converters.formats.opencode.members import error_of, file_of, is_left_out, text_of
from converters.formats.opencode.walk import Walk
from converters.ir import Block, Extra, Reasoning, Text, ToolCallBlock, ToolResult
from converters.shapes.cells import object_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.types import Context, Input

__all__ = ["read_v2"]

_INJECTED: Final = ("synthetic", "system", "skill")
_QUIET: Final = ("idle", "agent-switched", "model-switched", "location-switched")


def read_v2(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a version 2 database; then messages that have lost theirs."""
    connection = source.database()
    try:
        connection.execute("BEGIN")
        sqlitedb.require(connection, "session_v2", "session_message")
        sessions = tables.sessions(connection, "session_v2")
        sql = tables.query(
            connection, "session_message", "session_id IS ?", "seq", "time_created", "id"
        )
        for identity, info in sessions.items():
            place = sqlitedb.place(info, "session_v2")
            rows = _rows(connection, sql, identity, ctx)
            if is_left_out(info, ctx):
                ctx.ledger.skipped("subagent-skipped", place, sum(1 for _ in rows))
                continue
            session = _walk(rows, ctx).session(info, place)
            if session is not None:
                yield session
        for identity in tables.lost(connection, "session_message", sessions):
            place = f"session_message.session_id={str(identity)[:60]}"
            session = _walk(_rows(connection, sql, identity, ctx), ctx).lost(identity, place)
            if session is not None:
                yield session
    finally:
        connection.close()


def _rows(connection: Any, sql: str, identity: Any, ctx: Context) -> Iterator[dict[str, Any]]:
    return sqlitedb.rows(
        connection, sql, (identity,), ctx.ledger, table="session_message", record=True
    )


def _walk(rows: Iterator[dict[str, Any]], ctx: Context) -> Walk:
    walk = Walk(ctx)
    for row in rows:
        _row(row, walk, ctx)
    return walk


def _row(row: dict[str, Any], walk: Walk, ctx: Context) -> None:
    place = sqlitedb.place(row, "session_message")
    data = object_of(row.get("data"), ctx.ledger, place)
    kind = row.get("type")
    if data is None:
        ctx.ledger.skipped("malformed-record", place, kind=str(kind)[:40])
        return
    ms = ctx.ms(row.get("time_created"), place)
    identity = text_of(row.get("id"))
    extra: Extra | None = {"id": identity} if identity else None
    fate: str | None
    if kind == "user":
        fate = _user(data, walk, _At(ms, extra, place), ctx)
    elif kind == "assistant":
        fate = _assistant(data, walk, _At(ms, extra, place), ctx)
    elif kind == "compaction":
        fate = _compaction(data, walk, ms, place)
    elif kind == "shell":
        fate = _shell(data, walk, ms, identity or place)
    elif kind in _INJECTED:
        fate = "injection-skipped"
    else:
        fate = "record-skipped" if kind in _QUIET else "unknown-record"
    walk.fate(fate, place, str(kind)[:40])


class _At(NamedTuple):
    """Time (ms), native id and place of a row."""

    ms: int | None
    extra: Extra | None
    place: str


def _user(data: dict[str, Any], walk: Walk, at: _At, ctx: Context) -> str | None:
    text = text_of(data.get("text"))
    blocks: list[Block] = [Text(text)] if text else []
    files = data.get("files")
    blocks += [
        file_of(file, ctx.ledger, at.place)
        for file in (files if isinstance(files, list) else ())
        if isinstance(file, dict)
    ]
    if not blocks:
        return "empty-message"
    walk.turns.prompt(blocks, time=at.ms, extra=at.extra)
    return None


def _assistant(data: dict[str, Any], walk: Walk, at: _At, ctx: Context) -> str | None:
    model = data.get("model")
    blocks: list[Block] = []
    results: list[ToolResult] = []
    content = data.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        text = text_of(part.get("text")) if isinstance(part, dict) else None
        if kind in ("text", "reasoning"):
            if text is not None:
                blocks.append(Text(text) if kind == "text" else Reasoning(text))
            elif kind == "reasoning" and part.get("metadata"):
                ctx.ledger.note("reasoning-encrypted", at.place)
        elif kind == "tool":
            _tool(part, blocks, results, ctx, at.place)
        else:
            ctx.ledger.note("unknown-block", at.place, kind=str(kind)[:40])
    error = error_of(data.get("error"))
    extra = at.extra if error is None else {**(at.extra or {}), "error": error}
    fate = None
    if blocks:
        name = text_of(model.get("id")) if isinstance(model, dict) else None
        walk.turns.step(blocks, time=at.ms, model=name, extra=extra)
        for result in results:
            walk.turns.result(result, at.place)
    else:
        fate = "empty-message" if error is None else walk.failed(error)
    if error is not None:
        walk.turns.abort()
    return fate


def _tool(
    part: dict[str, Any],
    blocks: list[Block],
    results: list[ToolResult],
    ctx: Context,
    place: str,
) -> None:
    name, identity = text_of(part.get("name")), text_of(part.get("id"))
    if name is None or identity is None:
        ctx.ledger.note("malformed-call", place)
        return
    state = part.get("state")
    state = state if isinstance(state, dict) else {}
    value = state.get("input")
    # The input of a call that still streams is an unfinished text.
    arguments = value if isinstance(value, str) else jsonio.dumps(value or {}).decode()
    blocks.append(ToolCallBlock(identity, name, arguments))
    error = state.get("error")
    content = state.get("content")
    if isinstance(error, dict):
        text = text_of(error.get("message"))
        results.append(ToolResult(identity, [Text(text)] if text else [], is_error=True))
    elif isinstance(content, list):
        found: list[Block] = []
        for item in content:
            if isinstance(item, dict) and item.get("type") == "file":
                found.append(file_of(item, ctx.ledger, place))
            elif isinstance(item, dict) and (text := text_of(item.get("text"))):
                found.append(Text(text))
        results.append(ToolResult(identity, found, state.get("status") == "error"))


def _compaction(data: dict[str, Any], walk: Walk, ms: int | None, place: str) -> str | None:
    if data.get("status") != "completed":
        return "record-skipped"
    texts = [text for name in ("summary", "recent") if (text := text_of(data.get(name)))]
    walk.boundary("\n\n".join(texts), ms, place)
    return None


def _shell(data: dict[str, Any], walk: Walk, ms: int | None, identity: str) -> str | None:
    """Take a command that the human ran: a call and its output."""
    command = text_of(data.get("command"))
    if command is None:
        return "empty-message"
    call = f"shell-{identity}"
    arguments = jsonio.dumps({"command": command}).decode()
    walk.turns.step([ToolCallBlock(call, "shell", arguments)], time=ms)
    output = text_of(data.get("output"))
    failed = isinstance(data.get("exit"), int) and data["exit"] != 0
    walk.turns.result(ToolResult(call, [Text(output)] if output else [], failed, ms), identity)
    return None
