"""The version 1 database and exports: sessions, messages and parts out of each."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio, sqlitedb
from converters.errors import BadInput
from converters.formats.opencode import tables
from converters.formats.opencode.members import text_of
from converters.formats.opencode.walk import Message, Placed, Walk, lost_session, session_of
from converters.shapes.cells import object_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.types import Context, Input

__all__ = ["info_of", "read_document", "read_v1"]

_OWN: Final = "message_id IN (SELECT m.id FROM message AS m WHERE m.session_id IS ?)"
_STRAY: Final = (
    "message_id IS NULL OR message_id NOT IN (SELECT m.id FROM message AS m WHERE m.id IS NOT NULL)"
)


def read_v1(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a version 1 database; then messages and parts that have lost theirs."""
    connection = source.database()
    try:
        connection.execute("BEGIN")
        sqlitedb.require(connection, "session", "message", "part")
        sessions = tables.sessions(connection, "session")
        store = _Store(connection, ctx)
        for identity, info in sessions.items():
            place = sqlitedb.place(info, "session")
            session = session_of(info, store.messages(identity), ctx, place)
            if session is not None:
                yield session
        for identity in tables.lost(connection, "message", sessions):
            place = f"message.session_id={str(identity)[:60]}"
            session = lost_session(identity, store.messages(identity), ctx, place)
            if session is not None:
                yield session
        store.strays()
    finally:
        connection.close()


class _Store:
    """The rows of messages and parts. A part belongs to its message, whatever its session says."""

    def __init__(self, connection: Any, ctx: Context) -> None:
        self._connection, self._ledger = connection, ctx.ledger
        self._messages = tables.query(
            connection, "message", "session_id IS ?", "time_created", "id"
        )
        self._parts = tables.query(connection, "part", _OWN, "message_id", "time_created", "id")
        self._taken: set[Any] = set()

    def messages(self, session: Any) -> Iterator[Message]:
        """Give the messages of a session with their parts."""
        ledger = self._ledger
        parts = self._parts_of(session)
        rows = sqlitedb.rows(
            self._connection, self._messages, (session,), ledger, table="message", record=True
        )
        for row in rows:
            place = sqlitedb.place(row, "message")
            own = parts.pop(row.get("id"), [])
            data = object_of(row.get("data"), ledger, place)
            if not data:
                ledger.skipped("malformed-record", place, 1 + len(own), "message")
                continue
            data.setdefault("time", {"created": row.get("time_created")})
            yield place, {"id": row.get("id"), **data}, own

    def _parts_of(self, session: Any) -> dict[Any, list[Placed]]:
        ledger = self._ledger
        parts: dict[Any, list[Placed]] = {}
        found = sqlitedb.rows(self._connection, self._parts, (session,), ledger, table="part")
        for message, rows in groupby(found, key=lambda row: row.get("message_id")):
            if message in self._taken:  # an id that two messages have
                continue
            self._taken.add(message)
            kept = parts[message] = []
            for row in rows:
                ledger.seen()
                place = sqlitedb.place(row, "part")
                data = object_of(row.get("data"), ledger, place)
                if not data:
                    ledger.skipped("malformed-record", place, kind="part")
                else:
                    kept.append((place, {"id": row.get("id"), **data}))
        return parts

    def strays(self) -> None:
        """Count the parts whose message is gone: nothing says whose words they are."""
        sql = tables.query(self._connection, "part", _STRAY, "id")
        for row in sqlitedb.rows(
            self._connection, sql, (), self._ledger, table="part", record=True
        ):
            place = sqlitedb.place(row, "part")
            self._ledger.skipped("malformed-record", place, kind="part of no message")


def info_of(root: dict[str, Any]) -> dict[str, Any]:
    """Give the object that describes a session or message of an export."""
    info = root.get("info")
    return info if isinstance(info, dict) else root


def read_document(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of an export."""
    root = jsonio.load(source.read(), ctx.ledger, path=source.name)[0]
    if not isinstance(root, dict):
        raise BadInput("no OpenCode session", path=source.name)
    walk = Walk(ctx)
    info = info_of(root)
    found = list(jsonio.objects(root.get("messages"), ctx.ledger, "/messages"))
    messages = (
        (
            place,
            {**message, **info_of(message)},
            list(jsonio.objects(message.get("parts"), ctx.ledger, f"{place}/parts")),
        )
        for place, message in found
    )
    walk.take(messages, info, "/info")
    session = walk.session({**info, "id": text_of(info.get("id")) or source.stem}, "/info")
    if session is not None:
        yield session
