"""The editor's database into sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio, sqlitedb
from converters.errors import DcbError
from converters.formats.cursor.bubbles import CONTENT, TITLES, Walk, first_text, folder_of
from converters.formats.cursor.chats import MAP, Chat, chats, is_chat
from converters.formats.cursor.family import INDEX, Family, family_of
from converters.ledger import Ledger
from converters.shapes.cells import object_of, value_of
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
"""The keys of ``ItemTable`` that hold conversation; of others (some hold tokens of the account)
only :data:`INDEX` is read."""

_SQL: Final = (
    "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' "
    "ORDER BY key"
)
_BUBBLE_KEYS: Final = (
    "SELECT key FROM cursorDiskKV WHERE key >= 'bubbleId:' AND key < 'bubbleId;' ORDER BY key"
)
_BUBBLES: Final = "SELECT key, value FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY key"

_MANY: Final = 4096
_NAMES: Final = "fullConversationHeadersOnly"
_NAME: Final = {"bubbleId", "serverBubbleId", "type"}
"""The members of what only names a message."""


def listing(source: Input) -> list[Listed]:
    """List the sessions of a database by their own rows."""
    connection = source.database()
    unread = Ledger()
    try:
        known = sqlitedb.tables(connection)
        found: dict[str, Listed] = {}
        rows = sqlitedb.rows(connection, _SQL) if "cursorDiskKV" in known else ()
        for row in rows:
            data = object_of(row["value"], unread, "")
            if data is None:
                continue
            identity = str(row["key"]).partition(":")[2]
            headers = _headers(data)
            if headers:
                found[identity] = _listed(identity, data)
            for chat in _named(_whole(data, "", unread), None if headers else identity):
                name = chat.identity or identity
                found.setdefault(name, _listed(name, chat.info))
        if "ItemTable" in known:
            cwd = _workspace(source, unread)
            for key in _KEYS:
                for chat in _named(chats(_item(connection, key, unread), "", unread)):
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
    """Give what orders a session: the names of its messages, or in older ones the messages."""
    headers = data.get(_NAMES)
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
            index = _item(connection, INDEX, ctx.ledger) if "ItemTable" in known else None
            family = family_of(sqlitedb.rows(connection, _SQL), index, connection)
            given.update(key.partition(":")[2] for key in keys)
            told: set[str] = set()
            for key in keys:
                yield from _composer(connection, key, _Known(family, given, told), ctx)
            _orphans(connection, told, ctx.ledger)
        if "ItemTable" in known:
            yield from _items(connection, source, given, ctx)
    finally:
        connection.close()


class _Known(NamedTuple):
    """Which sessions are subagents, which ids are given, whose messages were taken."""

    family: Family
    given: set[str]
    told: set[str]


def _orphans(connection: Any, told: set[str], ledger: Ledger) -> None:
    """Count the messages whose session has no row, or one that cannot be read.

    There may be very many keys; they are looked at as bytes, and none of their values.
    """
    known = {identity.encode() for identity in told}
    deep = tuple(b"bubbleId:%b:" % identity for identity in known if b":" in identity)
    cursor = connection.execute(_BUBBLE_KEYS)
    while keys := cursor.fetchmany(_MANY):
        for (key,) in keys:
            _, identity, *rest = key.split(b":", 2)
            if (rest and identity in known) or key.startswith(deep):
                continue
            ledger.seen()
            place = f"cursorDiskKV.key={key[:110].decode('utf-8', 'replace')}"
            ledger.skipped("malformed-record", place, kind="bubble of no session")


def _composer(connection: Any, key: str, known: _Known, ctx: Context) -> Iterator[Session]:
    """Give the session of a row, and the conversations that a row of an older version holds."""
    ledger = ctx.ledger
    place = f"cursorDiskKV.key={key[:80]}"
    identity = key.partition(":")[2]
    sql = "SELECT key, value FROM cursorDiskKV WHERE key = ?"
    found = sqlitedb.rows(connection, sql, (key,), ledger, table="cursorDiskKV", key="key")
    data = next((object_of(row["value"], ledger, place) for row in found), None)
    if not data:  # no JSON, or torn before its first member
        ledger.seen()
        ledger.skipped("malformed-record", place, kind="composerData")
        return
    known.told.add(identity)
    headers = _headers(data)
    held = _held(connection, identity, data, ledger)
    whole = _whole(data, place, ledger)
    family = known.family
    if identity in family.subagents and ctx.options.subagents == "skip":
        _left_out(headers, held, whole, place, ledger)
        return
    walk = Walk(ctx, data)
    for header in headers:
        _header(walk, header, held, ledger)
    _unnamed(held, ledger)
    if headers:
        session = walk.session(
            identity,
            place,
            parent=family.parents.get(identity),
            subagent=identity in family.subagents,
            cwd=family.folders.get(identity),
        )
        if session is not None:
            yield session
    elif whole:
        known.given.discard(identity)
    else:
        ledger.note("empty-session", place)
    for chat in _named(whole, None if headers else identity, ledger):
        yield from _chat(chat, known.given, family.folders.get(identity), ctx)
    known.given.add(identity)


def _whole(data: dict[str, Any], place: str, ledger: Ledger) -> list[Chat]:
    """Give the conversations that stand whole in a row; with headers, its map is theirs."""
    own = f"{place}/{MAP}" if _headers(data) else None
    return [chat for chat in chats(data, place, ledger) if chat.place != own]


class _Held(NamedTuple):
    """What the headers of a session may name: its rows, and messages inside of its own row.

    ``inline``: what stands for the headers are messages. ``taken``: the names of those taken.
    """

    prefix: str
    rows: dict[str, Any]
    inside: dict[str, Any]
    inline: bool
    taken: set[str]


def _held(connection: Any, identity: str, data: dict[str, Any], ledger: Ledger) -> _Held:
    low, high = f"bubbleId:{identity}:", f"bubbleId:{identity};"
    rows: dict[str, Any] = {}
    for row in sqlitedb.rows(
        connection, _BUBBLES, (low, high), ledger, table="cursorDiskKV", key="key", record=True
    ):
        rows[str(row["key"]).removeprefix(low)] = row["value"]
    inside: dict[str, Any] = {}
    headers = _headers(data)
    inline = headers is data.get("conversation")
    mapped = data.get(MAP)
    if headers and isinstance(mapped, dict):
        inside.update((name, entry) for name, entry in mapped.items() if not is_chat(entry))
    messages = data.get("conversation")
    if headers and not inline and isinstance(messages, list):
        for number, message in enumerate(messages):
            name = message.get("bubbleId") if isinstance(message, dict) else None
            key = name if isinstance(name, str) and name else f"conversation/{number}"
            if key in inside:
                ledger.seen()
                ledger.skipped(
                    "duplicate-record", f"cursorDiskKV.key={low}{key[:40]}", kind="bubble"
                )
            inside[key] = message
    return _Held(low, rows, inside, inline, set())


def _is_message(header: Any, held: _Held) -> bool:
    """Whether what stands for a header is a message itself, and more than the name of one."""
    if not isinstance(header, dict):
        return True
    if held.inline:
        return not header.keys() <= _NAME
    return any(member in header for member in CONTENT)


def _header(walk: Walk, header: Any, held: _Held, ledger: Ledger) -> None:
    """Take the bubble that a header names, or the inline message that it is."""
    names = header if isinstance(header, dict) else {}
    key = first_text(names, ("bubbleId",)) or ""
    place = f"cursorDiskKV.key={held.prefix}{key[:40]}"
    if key and key in held.rows:
        held.taken.add(key)
        walk.take(value_of(held.rows.pop(key), ledger, place), place, names)
        if _is_message(header, held):
            ledger.seen()
            ledger.skipped("duplicate-record", place, kind="bubble")
        return
    bubble = header
    if not _is_message(header, held):
        if key and key in held.inside and key not in held.taken:
            bubble = held.inside.pop(key)
            held.taken.add(key)
        else:
            known = key in held.taken
            ledger.note("duplicate-record" if known else "history-truncated", place)
            return
    ledger.seen()
    walk.take(bubble, place, names)


def _unnamed(held: _Held, ledger: Ledger) -> None:
    """Count the messages that no header names (left by an edit), and second copies."""
    for name in held.rows:
        place = f"cursorDiskKV.key={held.prefix}{name[:40]}"
        ledger.skipped("message-discarded", place, kind="bubble")
    ledger.seen(len(held.inside))
    for name in held.inside:
        rule = "duplicate-record" if name in held.taken else "message-discarded"
        ledger.skipped(rule, f"cursorDiskKV.key={held.prefix}{name[:40]}", kind="bubble")


def _left_out(
    headers: list[Any], held: _Held, whole: list[Chat], place: str, ledger: Ledger
) -> None:
    """Count all messages of a subagent that is left out by request."""
    inside = len(held.inside) + sum(len(chat.bubbles) for chat in whole)
    inside += sum(_is_message(header, held) for header in headers)
    ledger.seen(inside)
    if held.rows or inside:
        ledger.skipped("subagent-skipped", place, len(held.rows) + inside)


def _items(connection: Any, source: Input, given: set[str], ctx: Context) -> Iterator[Session]:
    """Give the conversations that the keys of a workspace hold whole."""
    ledger = ctx.ledger
    cwd = _workspace(source, ledger)
    for key in _KEYS:
        place = f"ItemTable.key={key}"
        for chat in _named(chats(_item(connection, key, ledger), place, ledger), None, ledger):
            yield from _chat(chat, given, cwd, ctx)
    for key in _PROMPTS:
        prompts = _item(connection, key, ledger)
        n = len(prompts) if isinstance(prompts, list) else 0
        if n:
            ledger.seen(n)
            ledger.skipped("record-skipped", f"ItemTable.key={key}", n, kind=key)


def _item(connection: Any, key: str, ledger: Ledger) -> Any:
    """Give the value of a key of ``ItemTable``, ``None`` where there is none."""
    sql = "SELECT key, value FROM ItemTable WHERE key = ?"
    place = f"ItemTable.key={key}"
    for row in sqlitedb.rows(connection, sql, (key,), ledger, table="ItemTable", key="key"):
        torn = ledger.count("truncated-input")
        value = value_of(row["value"], ledger, place)
        if value is None or (not value and ledger.count("truncated-input") > torn):
            ledger.seen()
            ledger.skipped("malformed-record", place, kind=key)
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
    walk = Walk(ctx, chat.info)
    for index, bubble in enumerate(chat.bubbles):
        walk.take(bubble, f"{chat.place}/{index}")
    session = walk.session(identity, chat.place, cwd=cwd)
    if session is not None:
        yield session


def _workspace(source: Input, ledger: Ledger) -> str | None:
    """Give the folder that ``workspace.json`` beside a workspace's database names."""
    for file in source.files(WORKSPACE):
        try:
            data = object_of(file.read(), ledger, WORKSPACE)
        except DcbError:
            continue
        if data is not None:
            return folder_of(data.get("folder")) or folder_of(data.get("workspace"))
    return None
