"""The version 1 database, the JSON tree and exports: sessions, messages and parts out of each."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio, sqlitedb
from converters.errors import BadInput, DcbError
from converters.formats.opencode.walk import Placed, Walk, text_of
from converters.text import parse_time
from converters.types import Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.types import Context, Input

__all__ = ["cell", "listing", "read_document", "read_tree", "read_v1"]

_MESSAGES: Final = "SELECT * FROM message WHERE session_id IS ? ORDER BY time_created, id"
_PARTS: Final = "SELECT * FROM part WHERE session_id IS ? ORDER BY message_id, time_created, id"


def cell(value: Any) -> dict[str, Any] | None:
    """Parse a JSON cell that holds an object."""
    if isinstance(value, str):
        value = value.encode("utf-8", "replace")
    if not isinstance(value, bytes):
        return None
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def listing(source: Input) -> list[Listed]:
    """List the sessions by their own rows or files."""
    head = source.head
    if head.is_dir:
        found = []
        for file in source.files("session/*/*.json"):
            try:
                found.append(_object(file))
            except DcbError:
                continue
        return [_listed(info) for info in found if "id" in info]
    if not head.is_sqlite:
        return [_listed(_info(_object(source)))]
    connection = source.database()
    try:
        table = "session_v2" if "session_v2" in head.tables else "session"
        sqlitedb.require(connection, table)
        sql = f"SELECT * FROM {table} ORDER BY id"  # noqa: S608 - one of two names
        return [_listed(row) for row in sqlitedb.rows(connection, sql)]
    finally:
        connection.close()


def _listed(info: dict[str, Any]) -> Listed:
    times = info.get("time")
    times = times if isinstance(times, dict) else {}
    updated = info.get("time_updated") or times.get("updated") or info.get("time_created")
    time = parse_time(updated if updated is not None else times.get("created"))
    ms = time.ms if time is not None else None
    return Listed(
        str(info.get("id")), text_of(info.get("title")), text_of(info.get("directory")), ms
    )


def _object(file: Input) -> dict[str, Any]:
    from converters.ledger import Ledger

    value = jsonio.load(file.read(), Ledger(), path=file.name)[0]
    if not isinstance(value, dict):
        raise BadInput("no JSON object", path=file.name)
    return value


def _skip_child(info: dict[str, Any], ctx: Context) -> bool:
    child = text_of(info.get("parent_id")) or text_of(info.get("parentID"))
    return child is not None and ctx.options.subagents == "skip"


def _reverted(info: dict[str, Any]) -> str | None:
    revert = info.get("revert")
    revert = cell(revert) if isinstance(revert, str) else revert
    return text_of(revert.get("messageID")) if isinstance(revert, dict) else None


def _take(
    walk: Walk,
    messages: Iterator[tuple[str, dict[str, Any], list[Placed]]],
    reverted: str | None,
    ctx: Context,
) -> None:
    """Take messages in order; those after a revert are withdrawn."""
    gone = False
    for place, info, parts in messages:
        gone = gone or (reverted is not None and info.get("id") == reverted)
        if gone:
            ctx.ledger.skipped("message-discarded", place, 1 + len(parts), "revert")
        else:
            walk.message(info, parts, place)


def read_v1(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a version 1 database."""
    connection = source.database()
    try:
        connection.execute("BEGIN")
        sqlitedb.require(connection, "session", "message", "part")
        sessions = list(sqlitedb.rows(connection, "SELECT * FROM session ORDER BY id"))
        for info in sessions:
            place = sqlitedb.place(info, "session")
            messages = _v1_messages(connection, info.get("id"), ctx)
            if _skip_child(info, ctx):
                n = sum(1 + len(parts) for _, _, parts in messages)
                ctx.ledger.skipped("subagent-skipped", place, n)
                continue
            walk = Walk(ctx)
            _take(walk, messages, _reverted(info), ctx)
            session = walk.session(info, place)
            if session is not None:
                yield session
    finally:
        connection.close()


def _v1_messages(
    connection: Any, identity: Any, ctx: Context
) -> Iterator[tuple[str, dict[str, Any], list[Placed]]]:
    ledger = ctx.ledger
    found = sqlitedb.rows(connection, _PARTS, (identity,), ledger, table="part", record=True)
    parts: dict[Any, list[Placed]] = {}
    for message, rows in groupby(found, key=lambda row: row.get("message_id")):
        kept = parts.setdefault(message, [])
        for row in rows:
            place = sqlitedb.place(row, "part")
            data = cell(row.get("data"))
            if data is None:
                ledger.skipped("malformed-record", place, kind="part")
            else:
                kept.append((place, {"id": row.get("id"), **data}))
    messages = sqlitedb.rows(
        connection, _MESSAGES, (identity,), ledger, table="message", record=True
    )
    for row in messages:
        place = sqlitedb.place(row, "message")
        own = parts.pop(row.get("id"), [])
        data = cell(row.get("data"))
        if data is None:
            ledger.skipped("malformed-record", place, 1 + len(own), "message")
            continue
        data.setdefault("time", {"created": row.get("time_created")})
        yield place, {"id": row.get("id"), **data}, own
    for lost in parts.values():
        for place, part in lost:
            ledger.skipped("malformed-record", place, kind=f"{part.get('type')} of no message"[:40])


def read_tree(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a storage folder."""
    for file in source.files("session/*/*.json"):
        place = _inside(source, file)
        try:
            info = _object(file)
        except DcbError:
            ctx.ledger.seen()
            ctx.ledger.skipped("malformed-record", place, kind="session")
            continue
        identity = text_of(info.get("id")) or file.stem
        messages = _tree_messages(source, identity, ctx)
        if _skip_child(info, ctx):
            n = sum(1 + len(parts) for _, _, parts in messages)
            ctx.ledger.skipped("subagent-skipped", place, n)
            continue
        walk = Walk(ctx)
        _take(walk, messages, _reverted(info), ctx)
        session = walk.session({**info, "id": identity}, place)
        if session is not None:
            yield session


def _inside(source: Input, file: Input) -> str:
    """Give the place of a file of the tree: its name below the folder."""
    return file.name.removeprefix(source.name).lstrip("/!")


def _safe(name: str) -> bool:
    return bool(name) and not set(name) & set("/\\*?[]!") and name not in (".", "..")


def _files(source: Input, pattern: str, name: str, ctx: Context, kind: str) -> list[Placed]:
    """Read the files of a message or part folder, in the order of their times and ids."""
    found: list[Placed] = []
    if not _safe(name):
        return found
    for file in source.files(f"{pattern}/{name}/*.json"):
        ctx.ledger.seen()
        place = _inside(source, file)
        try:
            value = _object(file)
        except DcbError:
            ctx.ledger.skipped("malformed-record", place, kind=kind)
            continue
        value.setdefault("id", file.stem)
        found.append((place, value))
    return found


def _created(value: dict[str, Any]) -> tuple[float, str]:
    times = value.get("time")
    created = times.get("created") if isinstance(times, dict) else None
    number = created if isinstance(created, int | float) else 0
    return number, str(value.get("id"))


def _tree_messages(
    source: Input, identity: str, ctx: Context
) -> Iterator[tuple[str, dict[str, Any], list[Placed]]]:
    messages = _files(source, "message", identity, ctx, "message")
    for place, info in sorted(messages, key=lambda item: _created(item[1])):
        parts = _files(source, "part", str(info["id"]), ctx, "part")
        yield place, info, sorted(parts, key=lambda item: str(item[1].get("id")))


def _info(root: dict[str, Any]) -> dict[str, Any]:
    info = root.get("info")
    return info if isinstance(info, dict) else root


def read_document(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of an export."""
    root = jsonio.load(source.read(), ctx.ledger, path=source.name)[0]
    if not isinstance(root, dict):
        raise BadInput("no OpenCode session", path=source.name)
    walk = Walk(ctx)
    info = _info(root)
    found = list(jsonio.objects(root.get("messages"), ctx.ledger, "/messages"))
    messages = (
        (
            place,
            {**message, **_info(message)},
            list(jsonio.objects(message.get("parts"), ctx.ledger, f"{place}/parts")),
        )
        for place, message in found
    )
    _take(walk, messages, _reverted(info), ctx)
    session = walk.session({**info, "id": text_of(info.get("id")) or source.stem}, "/info")
    if session is not None:
        yield session
