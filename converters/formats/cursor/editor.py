"""The editor's database into sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio, sqlitedb
from converters.errors import DcbError
from converters.formats.cursor.bubbles import TEXTS, TITLES, Walk, first_text, folder_of
from converters.formats.cursor.cells import parsed
from converters.formats.cursor.chats import Chat, chats
from converters.ledger import Ledger
from converters.shapes.rows import mint_id
from converters.text import parse_time
from converters.types import Listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.ir import Session
    from converters.types import Context, Input

__all__ = ["OLD_KEYS", "WORKSPACE", "listing", "read_editor"]

WORKSPACE: Final = "workspace.json"
"""Beside the database of a workspace: which folder it is of."""

_KEYS: Final = ("workbench.panel.aichat.view.aichat.chatdata", "composer.composerData")
_PROMPTS: Final = ("aiService.prompts", "aiService.generations")
OLD_KEYS: Final = (*_KEYS, *_PROMPTS)
"""The keys of ``ItemTable`` that are read; no other is, some hold tokens of the account."""

_SQL: Final = (
    "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' "
    "ORDER BY key"
)
_BUBBLES: Final = "SELECT key, value FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY key"


def listing(source: Input) -> list[Listed]:
    """List the sessions of a database by their own rows."""
    connection = source.database()
    try:
        known = sqlitedb.tables(connection)
        found: dict[str, Listed] = {}
        rows = sqlitedb.rows(connection, _SQL) if "cursorDiskKV" in known else ()
        for row in rows:
            data = parsed(row["value"])
            if not isinstance(data, dict):
                continue
            identity = str(row["key"]).partition(":")[2]
            if _headers(data):
                found[identity] = _listed(identity, data)
            else:
                for chat in _named(chats(data, "", Ledger()), identity):
                    name = chat.identity or identity
                    found.setdefault(name, _listed(name, chat.info))
        if "ItemTable" in known:
            cwd = _workspace(source)
            for key in _KEYS:
                for chat in _named(chats(_item(connection, key), "", Ledger())):
                    name = chat.identity or ""
                    if chat.bubbles:
                        found.setdefault(name, _listed(name, chat.info, cwd))
        return list(found.values())
    finally:
        connection.close()


def _listed(identity: str, info: dict[str, Any], cwd: str | None = None) -> Listed:
    stated = (info.get(name) for name in ("lastUpdatedAt", "lastSendTime", "createdAt"))
    time = parse_time(next((value for value in stated if value), None))
    title = first_text(info, TITLES)
    return Listed(identity, title, cwd, time.ms if time is not None else None)


def _headers(data: dict[str, Any]) -> list[Any]:
    headers = data.get("fullConversationHeadersOnly")
    if not isinstance(headers, list) or not headers:
        headers = data.get("conversation")
    return headers if isinstance(headers, list) else []


def _named(
    found: Iterable[Chat], own: str | None = None, ledger: Ledger | None = None
) -> Iterator[Chat]:
    """Give every conversation an id; ``own`` is that of the first which has none."""
    for index, chat in enumerate(found):
        if chat.identity is not None:
            yield chat
        elif own is not None:
            yield chat._replace(identity=own)
            own = None
        else:
            if ledger is not None:
                ledger.note("id-minted", chat.place)
            yield chat._replace(identity=mint_id(jsonio.dumps(chat.bubbles), index))


def read_editor(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a database, one at a time."""
    connection = source.database()
    try:
        connection.execute("BEGIN")
        known = sqlitedb.tables(connection)
        if "ItemTable" not in known:
            sqlitedb.require(connection, "cursorDiskKV")
        given: set[str] = set()
        if "cursorDiskKV" in known:
            keys = [
                str(row["key"])
                for row in sqlitedb.rows(
                    connection, _SQL.replace("key, value", "key"), ledger=ctx.ledger
                )
            ]
            parents = _parents(connection)
            given.update(key.partition(":")[2] for key in keys)
            for key in keys:
                yield from _composer(connection, key, parents, given, ctx)
        if "ItemTable" in known:
            yield from _items(connection, source, given, ctx)
    finally:
        connection.close()


def _parents(connection: Any) -> dict[str, str]:
    """Give the parent of each subagent that a session names."""
    parents: dict[str, str] = {}
    for row in sqlitedb.rows(connection, _SQL):
        data = parsed(row["value"])
        children = data.get("subComposerIds") if isinstance(data, dict) else None
        for child in children if isinstance(children, list) else ():
            if isinstance(child, str):
                parents[child] = str(row["key"]).partition(":")[2]
    return parents


def _composer(
    connection: Any, key: str, parents: dict[str, str], given: set[str], ctx: Context
) -> Iterator[Session]:
    """Give the session of a row, or the conversations that a row of an older version holds."""
    ledger = ctx.ledger
    place = f"cursorDiskKV.key={key[:80]}"
    identity = key.partition(":")[2]
    sql = "SELECT key, value FROM cursorDiskKV WHERE key = ?"
    data = next((parsed(r["value"]) for r in sqlitedb.rows(connection, sql, (key,))), None)
    if not isinstance(data, dict):
        ledger.seen()
        ledger.skipped("malformed-record", place, kind="composerData")
        return
    low, high = f"bubbleId:{identity}:", f"bubbleId:{identity};"
    rows: dict[str, Any] = {}
    for row in sqlitedb.rows(
        connection, _BUBBLES, (low, high), ledger, table="cursorDiskKV", key="key", record=True
    ):
        rows[str(row["key"]).removeprefix(low)] = row["value"]
    if identity in parents and ctx.options.subagents == "skip":
        ledger.skipped("subagent-skipped", place, len(rows))
        return
    headers = _headers(data)
    whole = [] if headers else list(chats(data, place, ledger))
    walk = Walk(ctx)
    inside = data.get("conversationMap")
    held = _Held(low, rows, inside if isinstance(inside, dict) else {})
    for header in headers:
        _header(walk, header, held, ledger)
    for name in rows:
        ledger.skipped("message-discarded", f"cursorDiskKV.key={low}{name[:40]}", kind="bubble")
    if whole:
        given.discard(identity)
        for chat in _named(whole, identity, ledger):
            yield from _chat(chat, given, None, ctx)
        given.add(identity)
        return
    session = walk.session(data, identity, place, parent=parents.get(identity))
    if session is not None:
        yield session


class _Held(NamedTuple):
    """What the headers of a session may name: its rows, and messages inside of its own row."""

    prefix: str
    rows: dict[str, Any]
    inside: dict[str, Any]


def _header(walk: Walk, header: Any, held: _Held, ledger: Ledger) -> None:
    """Take the bubble that a header names, or the inline message that it is."""
    name = header.get("bubbleId") if isinstance(header, dict) else None
    key = name if isinstance(name, str) else ""
    place = f"cursorDiskKV.key={held.prefix}{key[:40]}"
    if key in held.rows:
        walk.take(parsed(held.rows.pop(key)), place, header)
        return
    bubble = header
    if isinstance(header, dict) and not any(member in header for member in TEXTS):
        if key not in held.inside:
            ledger.note("history-truncated", place)
            return
        bubble = held.inside[key]
    ledger.seen()
    walk.take(bubble, place, header if isinstance(header, dict) else {})


def _items(connection: Any, source: Input, given: set[str], ctx: Context) -> Iterator[Session]:
    """Give the conversations that the keys of a workspace hold whole."""
    ledger = ctx.ledger
    cwd = _workspace(source)
    for key in _KEYS:
        place = f"ItemTable.key={key}"
        for chat in _named(chats(_item(connection, key, ctx), place, ledger), None, ledger):
            yield from _chat(chat, given, cwd, ctx)
    for key in _PROMPTS:
        prompts = _item(connection, key, ctx)
        n = len(prompts) if isinstance(prompts, list) else 0
        if n:
            ledger.seen(n)
            ledger.skipped("record-skipped", f"ItemTable.key={key}", n, kind=key)


def _item(connection: Any, key: str, ctx: Context | None = None) -> Any:
    """Give the value of a key of ``ItemTable``, ``None`` where there is none."""
    sql = "SELECT key, value FROM ItemTable WHERE key = ?"
    for row in sqlitedb.rows(connection, sql, (key,)):
        value = parsed(row["value"])
        if value is None and ctx is not None:
            ctx.ledger.seen()
            ctx.ledger.skipped("malformed-record", f"ItemTable.key={key}", kind=key)
        return value
    return None


def _chat(chat: Chat, given: set[str], cwd: str | None, ctx: Context) -> Iterator[Session]:
    """Give a conversation as a session, unless one of its id was given before."""
    identity = chat.identity or ""
    ctx.ledger.seen(len(chat.bubbles))
    if identity in given:
        n = len(chat.bubbles)
        if n:
            ctx.ledger.skipped("duplicate-record", chat.place, n, kind="chat")
        return
    given.add(identity)
    walk = Walk(ctx)
    for index, bubble in enumerate(chat.bubbles):
        walk.take(bubble, f"{chat.place}/{index}")
    session = walk.session(chat.info, identity, chat.place, cwd=cwd)
    if session is not None:
        yield session


def _workspace(source: Input) -> str | None:
    """Give the folder that ``workspace.json`` beside a workspace's database names."""
    for file in source.files(WORKSPACE):
        try:
            data = parsed(file.read())
        except DcbError:
            continue
        if isinstance(data, dict):
            return folder_of(data.get("folder")) or folder_of(data.get("workspace"))
    return None
