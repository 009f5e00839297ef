"""The version 2 database: one row a message, in the order of ``seq``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio, sqlitedb
from converters.formats.opencode.stores import cell
from converters.formats.opencode.walk import Walk, file_of, text_of
from converters.ir import Block, Extra, Reasoning, Text, ToolCallBlock, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.types import Context, Input

__all__ = ["read_v2"]

_ROWS: Final = "SELECT * FROM session_message WHERE session_id IS ? ORDER BY seq, id"
_INJECTED: Final = ("synthetic", "system", "skill")
_QUIET: Final = ("idle", "agent-switched", "model-switched", "location-switched")


def read_v2(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a version 2 database."""
    connection = source.database()
    try:
        connection.execute("BEGIN")
        sqlitedb.require(connection, "session_v2", "session_message")
        sessions = list(sqlitedb.rows(connection, "SELECT * FROM session_v2 ORDER BY id"))
        for info in sessions:
            place = sqlitedb.place(info, "session_v2")
            rows = sqlitedb.rows(
                connection, _ROWS, (info.get("id"),), ctx.ledger,
                table="session_message", record=True,
            )  # fmt: skip
            if text_of(info.get("parent_id")) and ctx.options.subagents == "skip":
                ctx.ledger.skipped("subagent-skipped", place, sum(1 for _ in rows))
                continue
            walk = Walk(ctx)
            for row in rows:
                _row(row, walk, ctx)
            session = walk.session(info, place)
            if session is not None:
                yield session
    finally:
        connection.close()


def _row(row: dict[str, Any], walk: Walk, ctx: Context) -> None:
    place = sqlitedb.place(row, "session_message")
    data = cell(row.get("data"))
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
    if fate is None:
        ctx.ledger.mapped()
    else:
        ctx.ledger.skipped(fate, place, kind=str(kind)[:40])


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
        elif kind == "tool":
            _tool(part, blocks, results, ctx, at.place)
        else:
            ctx.ledger.note("unknown-block", at.place, kind=str(kind)[:40])
    if not blocks:
        return "empty-message"
    name = text_of(model.get("id")) if isinstance(model, dict) else None
    walk.turns.step(blocks, time=at.ms, model=name, extra=at.extra)
    for result in results:
        walk.turns.result(result, at.place)
    return None


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
    walk.boundary("\n\n".join(texts), None, ms, place)
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
