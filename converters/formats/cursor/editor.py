"""The editor's database into sessions."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio, sqlitedb
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
from converters.text import parse_time
from converters.turns import TurnBuilder, sanitize_usage
from converters.types import Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Context, Input

__all__ = ["listing", "read_editor"]

_USER: Final = (1, "1", "user", "human")
_ASSISTANT: Final = (2, "2", "assistant", "ai", "bot")
_TEXTS: Final = ("text", "rawText", "content", "message")
_FAILED: Final = ("error", "cancelled", "rejected")
_SQL: Final = (
    "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' "
    "ORDER BY key"
)
_BUBBLES: Final = "SELECT key, value FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY key"


def _json(value: Any) -> Any:
    """Parse a cell, text or blob; ``None`` when it is no JSON."""
    if isinstance(value, str):
        value = value.encode("utf-8", "replace")
    if not isinstance(value, bytes):
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError):
        try:
            return jsonio.loads_exact(value)
        except (ValueError, RecursionError):
            return None


def listing(source: Input) -> list[Listed]:
    """List the sessions by their own rows; transcripts by reading them."""
    if not source.head.is_sqlite:
        from converters.formats.cursor.transcript import read_transcript
        from converters.ledger import Ledger
        from converters.types import Context as Plain

        return [
            Listed(s.meta.id, s.turns[0].prompt or None)
            for s in read_transcript(source, Plain(Ledger()))
        ]
    connection = source.database()
    try:
        sqlitedb.require(connection, "cursorDiskKV")
        found = []
        for row in sqlitedb.rows(connection, _SQL):
            data = _json(row["value"])
            if isinstance(data, dict) and _headers(data):
                time = parse_time(data.get("lastUpdatedAt") or data.get("createdAt"))
                name = data.get("name")
                found.append(
                    Listed(
                        str(row["key"]).partition(":")[2],
                        name if isinstance(name, str) and name else None,
                        time=time.ms if time is not None else None,
                    )
                )
        return found
    finally:
        connection.close()


def _headers(data: dict[str, Any]) -> list[dict[str, Any]]:
    headers = data.get("fullConversationHeadersOnly")
    if not isinstance(headers, list) or not headers:
        headers = data.get("conversation")
    return [h for h in headers if isinstance(h, dict)] if isinstance(headers, list) else []


def read_editor(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a database, one at a time."""
    connection = source.database()
    try:
        connection.execute("BEGIN")
        sqlitedb.require(connection, "cursorDiskKV")
        keys = [
            str(row["key"])
            for row in sqlitedb.rows(
                connection, _SQL.replace("key, value", "key"), ledger=ctx.ledger
            )
        ]
        parents = _parents(connection)
        for key in keys:
            session = _composer(connection, key, parents, ctx)
            if session is not None:
                yield session
    finally:
        connection.close()


def _parents(connection: Any) -> dict[str, str]:
    """Give the parent of each subagent that a session names."""
    parents: dict[str, str] = {}
    for row in sqlitedb.rows(connection, _SQL):
        data = _json(row["value"])
        children = data.get("subComposerIds") if isinstance(data, dict) else None
        for child in children if isinstance(children, list) else ():
            if isinstance(child, str):
                parents[child] = str(row["key"]).partition(":")[2]
    return parents


def _composer(connection: Any, key: str, parents: dict[str, str], ctx: Context) -> Session | None:
    ledger = ctx.ledger
    place = f"cursorDiskKV.key={key[:80]}"
    identity = key.partition(":")[2]
    sql = "SELECT key, value FROM cursorDiskKV WHERE key = ?"
    data = next((_json(r["value"]) for r in sqlitedb.rows(connection, sql, (key,))), None)
    if not isinstance(data, dict):
        ledger.seen()
        ledger.skipped("malformed-record", place, kind="composerData")
        return None
    headers = _headers(data)
    low, high = f"bubbleId:{identity}:", f"bubbleId:{identity};"
    rows: dict[str, Any] = {}
    for row in sqlitedb.rows(
        connection, _BUBBLES, (low, high), ledger, table="cursorDiskKV", key="key", record=True
    ):
        rows[str(row["key"]).removeprefix(low)] = row["value"]
    if identity in parents and ctx.options.subagents == "skip":
        ledger.skipped("subagent-skipped", place, len(rows))
        return None
    walk = _Walk(ctx)
    for header in headers:
        walk.header(header, rows, low)
    for name in rows:
        ledger.skipped("message-discarded", f"cursorDiskKV.key={low}{name[:40]}", kind="bubble")
    return walk.session(data, identity, parents.get(identity), place)


