"""Rows of both generations of the database; columns that a fork lacks are not asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters import sqlitedb

if TYPE_CHECKING:
    from collections.abc import Container

__all__ = ["lost", "query", "sessions"]


def query(connection: Any, table: str, where: str, *order: str) -> str:
    """Give the query for the rows of a table, ordered by those columns that it has."""
    known = sqlitedb.columns(connection, table)
    by = ", ".join(name for name in order if name in known)
    sql = f"SELECT * FROM {table} WHERE {where}"  # noqa: S608 - names and conditions of ours
    return f"{sql} ORDER BY {by}" if by else sql


def sessions(connection: Any, table: str) -> dict[Any, dict[str, Any]]:
    """Give each session's row by its id as it is stored; text that came as a blob is text again.

    Types in SQLite are hints: any column may hold a blob (SQLite, "Datatypes", section 2).
    """
    found: dict[Any, dict[str, Any]] = {}
    for row in sqlitedb.rows(connection, f"SELECT * FROM {table} ORDER BY id"):  # noqa: S608
        found.setdefault(row.get("id"), {name: _text(value) for name, value in row.items()})
    return found


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


def lost(connection: Any, table: str, known: Container[Any]) -> list[Any]:
    """Give the session ids of messages whose session is not known."""
    sql = f"SELECT DISTINCT session_id FROM {table} ORDER BY session_id"  # noqa: S608
    ids = [row["session_id"] for row in sqlitedb.rows(connection, sql)]
    return [identity for identity in ids if identity not in known]
