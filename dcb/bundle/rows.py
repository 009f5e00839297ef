"""The rows of a foreign database that belong to one session, as JSON, and back.

No format says which rows those are, so they are found by value: rows that name the
session's id, then what belongs to those rows, then what those rows refer to.
:func:`rebuild` makes a database of them, so that the exporter can prove by reading
that they are enough.
"""

from __future__ import annotations

import base64
import re
import sqlite3
from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import sqlitedb
from converters.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Slices", "Table", "dump", "rebuild"]

_LONG: Final = 8
_KEY: Final = 256
_OWN: Final = ("id", "uuid")
_TOKEN: Final = re.compile(r"[\w.-]{8,}", re.ASCII)
_REFERENCE: Final = re.compile(r"(?:.*_)?(?:id|uuid|key|parent|session)|.*Id\Z", re.IGNORECASE)
_STEP: Final = 1_000_000
_STEPS: Final = 50
_CELLS: Final = 10_000
_DEFINING: Final = frozenset(
    {
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_INDEX,  # of UNIQUE and PRIMARY KEY
        sqlite3.SQLITE_FUNCTION,  # named in CHECK and DEFAULT, not run
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_UPDATE,
    }
)
"""What the making of a plain table asks leave for: itself, and its entry in the schema."""

Place = tuple[int, int]
"""The number of a table and of a row in it."""


class Table(msgspec.Struct):
    """One table: how it was made, its columns, and rows (blobs as ``{"base64": ...}``)."""

    name: str
    sql: str
    columns: list[str]
    rows: list[list[Any]]


class Slices:
    """Finds the rows of each of the sessions of one database; everything is looked at once."""

    def __init__(self, tables: list[Table], session_ids: Iterable[str]) -> None:
        self._tables = tables
        ids = frozenset(session_ids)
        self._named: dict[str, list[Place]] = {}
        self._index: dict[str, list[tuple[Place, str]]] = {}
        for i, table in enumerate(tables):
            for j, row in enumerate(table.rows):
                for column, value in zip(table.columns, row, strict=True):
                    self._take((i, j), column, value, ids)

    def _take(self, place: Place, column: str, value: Any, ids: frozenset[str]) -> None:
        if isinstance(value, int):
            value = str(value)
            if value in ids and _REFERENCE.fullmatch(column):
                self._named.setdefault(value, []).append(place)
        elif isinstance(value, str) and value:
            if len(value) <= _KEY:
                self._index.setdefault(value, []).append((place, column))
            for name in {value, *_TOKEN.findall(value)} & ids:
                self._named.setdefault(name, []).append(place)

    def of(self, session_id: str) -> list[Table]:
        """Give the tables with the rows of a session; an empty table comes as its schema."""
        chosen = dict.fromkeys(self._named.get(session_id, ()))
        fresh = list(chosen)
        while fresh:
            fresh = [
                place
                for key in self._own_keys(fresh)
                for place, column in self._index.get(key, ())
                if place not in chosen and column.lower() not in _OWN
            ]
            chosen.update(dict.fromkeys(fresh))
        for key in self._references(chosen):
            for place, column in self._index.get(key, ()):
                if column.lower() in _OWN:
                    chosen[place] = None
        return [
            Table(t.name, t.sql, t.columns, [r for j, r in enumerate(t.rows) if (i, j) in chosen])
            for i, t in enumerate(self._tables)
        ]

    def _cells(self, places: Iterable[Place]) -> Iterator[tuple[str, str]]:
        for i, j in places:
            table = self._tables[i]
            for column, value in zip(table.columns, table.rows[j], strict=True):
                if isinstance(value, str) and value:
                    yield column, value

    def _own_keys(self, places: Iterable[Place]) -> set[str]:
        """Give the ids of rows, where they are long enough to be told from other words."""
        return {
            value
            for column, value in self._cells(places)
            if column.lower() in _OWN and _LONG <= len(value) <= _KEY
        }

    def _references(self, places: Iterable[Place]) -> set[str]:
        return {value for column, value in self._cells(places) if _REFERENCE.fullmatch(column)}


def dump(connection: sqlite3.Connection) -> list[Table]:
    """Give every ordinary table with all its rows."""
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY name"
    )
    tables = []
    for raw_name, raw_sql in found.fetchall():
        name, sql = _text(raw_name), _text(raw_sql)
        if name.startswith("sqlite_"):
            continue
        columns = list(sqlitedb.columns(connection, name))
        rows = connection.execute(f"SELECT * FROM {sqlitedb.quote(name)}")  # noqa: S608 - quoted
        tables.append(Table(name, sql, columns, [[_plain(v) for v in row] for row in rows]))
    return tables


def rebuild(tables: list[Table]) -> bytes:
    """Give a database file that holds the tables; raises :class:`BadInput` where SQLite refuses."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        # No check is worth running what a foreign file says; the rows were in a database.
        connection.execute("PRAGMA ignore_check_constraints=ON")
        for table in tables:
            _define(connection, table)
            if not table.rows:
                continue
            marks = ", ".join("?" * len(table.columns))
            names = ", ".join(map(sqlitedb.quote, table.columns))
            statement = f"INSERT INTO {sqlitedb.quote(table.name)} ({names}) VALUES ({marks})"  # noqa: S608
            _bound(connection, len(table.rows) * len(table.columns))
            connection.executemany(statement, ([_value(v) for v in row] for row in table.rows))
        return bytes(connection.serialize())
    except (sqlite3.Error, sqlite3.Warning, LookupError, OverflowError, ValueError, TypeError) as e:
        raise BadInput(f"the rows do not make a database: {e}"[:200]) from e
    finally:
        connection.close()


def _define(connection: sqlite3.Connection, table: Table) -> None:
    """Make a table out of text that came from elsewhere, and nothing but a plain table.

    Where every column is given its value and none is computed, no expression of the
    definition ever runs.
    """
    refused: list[int] = []

    def allow(action: int, *_: str | None) -> int:
        if action in _DEFINING:
            return sqlite3.SQLITE_OK
        refused.append(action)
        return sqlite3.SQLITE_DENY

    plain = table.sql.lstrip().upper().startswith("CREATE TABLE")
    if plain:
        _bound(connection, 0)
        connection.set_authorizer(allow)
        try:
            connection.execute(table.sql)
        except sqlite3.Error:
            if not refused:
                raise
        finally:
            connection.set_authorizer(None)
    if refused or not plain:
        raise BadInput(f"table {table.name!r} has no plain definition")
    found = connection.execute(f"PRAGMA table_xinfo({sqlitedb.quote(table.name)})").fetchall()
    if any(hidden for *_, hidden in found):
        raise BadInput(f"table {table.name!r} has columns that are computed")
    if [name for _, name, *_ in found] != table.columns:
        raise BadInput(f"table {table.name!r} has other columns than its definition")


def _bound(connection: sqlite3.Connection, cells: int) -> None:
    """End what follows after more work than so many cells can take."""
    left = iter(range(_STEPS + cells // _CELLS))
    connection.set_progress_handler(lambda: next(left, None) is None, _STEP)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _plain(value: Any) -> Any:
    if isinstance(value, sqlitedb.Text):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"text": base64.b64encode(value).decode("ascii")}
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    return value


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "text" in value:
        return base64.b64decode(value["text"], validate=True).decode("utf-8", "replace")
    return base64.b64decode(value["base64"], validate=True)
