"""What the stores say of their sessions, without reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters import jsonio, sqlitedb
from converters.errors import BadInput
from converters.formats.opencode import tables
from converters.formats.opencode.members import text_of, title_of
from converters.formats.opencode.stores import info_of
from converters.formats.opencode.tree import infos, moved, object_in
from converters.ledger import Ledger
from converters.text import parse_time
from converters.types import Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Input

__all__ = ["listing"]


def listing(source: Input) -> list[Listed]:
    """List the sessions by their own rows or files; a tree those that no database beside it has."""
    head = source.head
    if head.is_dir:
        elsewhere = moved(source)
        return [_listed(info) for info in _infos(source) if info["id"] not in elsewhere]
    if not head.is_sqlite:
        root = jsonio.load(source.read(), Ledger(), path=source.name)[0]
        if not isinstance(root, dict):
            raise BadInput("no JSON object", path=source.name)
        return [_listed(info_of(root))]
    connection = source.database()
    try:
        table = "session_v2" if "session_v2" in head.tables else "session"
        sqlitedb.require(connection, table)
        return [_listed(row) for row in tables.sessions(connection, table).values()]
    finally:
        connection.close()


def _infos(source: Input) -> Iterator[dict[str, Any]]:
    for file in infos(source):
        info = object_in(file, Ledger(), file.name)
        if info is not None:
            yield {**info, "id": text_of(info.get("id")) or file.stem}


def _listed(info: dict[str, Any]) -> Listed:
    times = info.get("time")
    times = times if isinstance(times, dict) else {}
    updated = info.get("time_updated") or times.get("updated") or info.get("time_created")
    time = parse_time(updated if updated is not None else times.get("created"))
    ms = time.ms if time is not None else None
    return Listed(str(info.get("id")), title_of(info), text_of(info.get("directory")), ms)
