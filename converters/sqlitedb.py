"""Opens a foreign SQLite database without touching it, and reads its rows.

A database with a non-empty ``-wal`` or ``-journal`` beside it is copied together
with that file to a private folder and read there: ``immutable=1`` would miss what
stands in the ``-wal``, ``mode=ro`` would create files beside the source. Any other
is opened ``immutable=1``. The schema is not trusted: only tables count, no view
stands in for one, and a query ends after a stated amount of work. Every
:class:`sqlite3.Error` arrives as :class:`BadInput` with the path.

Rules: SQLite's documents on URI file names (``immutable``), on the write-ahead log
(section "Read-Only Databases") and "Defense Against The Dark Arts".
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from converters.errors import BadInput, DcbError, LimitReached
from converters.types import SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from converters.ledger import Ledger

__all__ = [
    "SIDES",
    "Connection",
    "Copy",
    "Text",
    "columns",
    "connect",
    "is_live",
    "place",
    "quote",
    "require",
    "rows",
    "tables",
]

SIDES: Final = ("-wal", "-journal")
"""What belongs to a database beside its main file and holds content."""

_CHUNK: Final = 1 << 20
_TRIES: Final = 8
_STEP: Final = 1_000_000
_STEPS: Final = 50
_STEPS_PER_MIB: Final = 16
_MAX_VALUE: Final = 256 << 20


class Text(bytes):
    """A TEXT value as it is stored; SQLite does not check that it is UTF-8. A BLOB is ``bytes``."""

    __slots__ = ()


@contextlib.contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise LimitReached("a query of this database does not end", path=name) from error
        raise BadInput(f"SQLite: {error}", path=name) from error
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
        raise BadInput(f"SQLite: {error}", path=name) from error
    except MemoryError as error:
        raise LimitReached("SQLite: a value does not fit in memory", path=name) from error


class Cursor(sqlite3.Cursor):
    """A cursor whose errors are :class:`DcbError`."""

    connection: Connection

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run a statement; its amount of work is counted anew."""
        self.connection.work[0] = 0
        with _errors(self.connection.name):
            super().execute(sql, parameters)
        return self

    def __next__(self) -> Any:
        with _errors(self.connection.name):
            return super().__next__()

    def fetchone(self) -> Any:
        """Give the next row, or ``None``."""
        with _errors(self.connection.name):
            return super().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """Give the next rows."""
        with _errors(self.connection.name):
            return super().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Any]:
        """Give all rows that are left."""
        with _errors(self.connection.name):
            return super().fetchall()


class Connection(sqlite3.Connection):
    """A read-only connection; closing it removes the private copy that it reads."""

    name: str = ""
    work: list[int]
    copy: Copy | None = None

    def cursor(self, factory: Any = Cursor) -> Any:
        """Give a cursor whose errors are :class:`DcbError`."""
        with _errors(self.name):
            return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run a statement on a cursor of its own."""
        cursor: Cursor = self.cursor()
        return cursor.execute(sql, parameters)

    def close(self) -> None:
        """Close, and remove the private copy."""
        super().close()
        if self.copy is not None:
            self.copy.remove()
            self.copy = None


class Copy:
    """A private copy of a database; it goes when it is dropped, or when its connection closes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = tempfile.mkdtemp(prefix="dcb-")
        self._path = os.path.join(self._folder, "copy.db")  # noqa: PTH118
        self._sides = False
        self.remove: Callable[[], object] = weakref.finalize(
            self, shutil.rmtree, self._folder, ignore_errors=True
        )

    @classmethod
    def of_streams(
        cls, main: BinaryIO, name: str, sides: Mapping[str, BinaryIO], *, limit: int
    ) -> Copy:
        """Copy from open streams; ``sides`` maps ``-wal`` or ``-journal`` to theirs."""
        copy = cls(name)
        try:
            left = copy.take("", main, limit)
            for suffix, stream in sides.items():
                left = copy.take(suffix, stream, left)
        except DcbError:
            copy.remove()
            raise
        return copy

    @classmethod
    def of_file(cls, path: str, name: str, *, limit: int) -> Copy:
        """Copy a database that may be in use; the copy is one consistent state.

        The main file is copied before its ``-wal``: whatever a checkpoint moves
        into the main file meanwhile is then in the copied ``-wal`` too, unless
        the log was started anew, which its header tells.
        """
        for _ in range(_TRIES):
            before = _headers(path)
            try:
                with contextlib.ExitStack() as stack:
                    opened = [
                        stack.enter_context(open(path + suffix, "rb"))  # noqa: PTH123
                        for suffix in ("", *before)
                    ]
                    sides = dict(zip(before, opened[1:], strict=True))
                    copy = cls.of_streams(opened[0], name, sides, limit=limit)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise BadInput(error.strerror or "cannot be read", path=name) from error
            if _headers(path) == before:
                return copy
            copy.remove()
        raise BadInput(
            "the database changes faster than it can be copied",
            path=name,
            hint="close the program that uses it",
        )

    def take(self, suffix: str, stream: BinaryIO, limit: int) -> int:
        """Copy one file of the database; give what is left of the limit."""
        with open(self._path + suffix, "wb") as out:  # noqa: PTH123
            while piece := stream.read(_CHUNK):
                limit -= len(piece)
                if limit < 0:
                    raise LimitReached(
                        "the database is too large for a private copy",
                        path=self.name,
                        hint="close the program that uses it, so that no -wal file stays beside "
                        "the database, and name the database file itself",
                    )
                out.write(piece)
        self._sides = self._sides or bool(suffix)
        return limit

    def connect(self, *, keep: bool = False) -> Connection:
        """Open the copy; closing the connection removes it unless it is to be kept."""
        copy = None if keep else self
        return _open(self._path, self.name, copy, immutable=not self._sides)


def is_live(path: str) -> bool:
    """Whether a file beside the database holds content that the database file lacks."""
    return bool(_headers(os.path.realpath(path)))


def _headers(path: str) -> dict[str, bytes]:
    """Give the first bytes of each file that holds content beside a database.

    The header of a ``-wal`` holds salts that change when the log is started anew.
    """
    found: dict[str, bytes] = {}
    for suffix in SIDES:
        with contextlib.suppress(OSError), open(path + suffix, "rb") as side:  # noqa: PTH123
            head = side.read(32)
            if head:
                found[suffix] = head
    return found


def connect(path: str, name: str, *, limit: int) -> Connection:
    """Open a database file read-only without a trace beside it; the caller closes it.

    TEXT values come as :class:`Text`, blobs as ``bytes``. ``limit`` bounds a
    private copy (bytes). Raises :class:`BadInput` or :class:`LimitReached`.
    """
    real = os.path.realpath(path)
    if is_live(real):
        return Copy.of_file(real, name, limit=limit).connect()
    return _open(real, name, None, immutable=True)


def _open(path: str, name: str, copy: Copy | None, *, immutable: bool) -> Connection:
    uri = Path(path).as_uri() + ("?mode=ro&immutable=1" if immutable else "?mode=rw")
    try:
        size = os.stat(path).st_size  # noqa: PTH116
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(len(SQLITE))
    except OSError as error:
        raise BadInput(error.strerror or "cannot be read", path=name) from error
    if head != SQLITE:
        raise BadInput("not an SQLite file" if head else "an empty file", path=name)
    with _errors(name):
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, factory=Connection)
    work = [0]
    most = _STEPS + _STEPS_PER_MIB * (size >> 20)

    def tick() -> bool:
        work[0] += 1
        return work[0] > most

    connection.name, connection.work, connection.copy = name, work, copy
    connection.text_factory = Text
    try:
        with _errors(name):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
            connection.set_progress_handler(tick, _STEP)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except DcbError:
        connection.close()
        raise
    return connection


def tables(connection: sqlite3.Connection) -> frozenset[str]:
    """Give the names of the ordinary tables: no views, no virtual tables."""
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    )
    return frozenset(_text(name) for (name,) in found.fetchall() if isinstance(name, bytes | str))


def require(connection: sqlite3.Connection, *names: str) -> None:
    """Raise :class:`BadInput` unless all of the names are ordinary tables."""
    known = tables(connection)
    path = getattr(connection, "name", None)
    for name in names:
        if name in known:
            continue
        other = connection.execute("SELECT type FROM sqlite_master WHERE name = ?", (name,))
        row = other.fetchone()
        kind = _text(row[0]).replace("table", "virtual table") if row else ""
        what = f"is a {kind} and no plain table" if kind else "is missing"
        raise BadInput(f"table {name!r} {what}", path=path)


def columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """Give the names of the columns of a table, in order; none when there is no such table."""
    found = connection.execute(f"PRAGMA table_info({quote(table)})")
    return tuple(_text(row[1]) for row in found.fetchall())


def quote(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def rows(
    connection: sqlite3.Connection,
    sql: str,
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    ledger: Ledger | None = None,
    *,
    table: str = "",
    key: str = "id",
    record: bool = False,
) -> Iterator[dict[str, Any]]:
    """Give the rows of a query as ``{column: value}``; text decoded, blobs as ``bytes``.

    Bytes that are not UTF-8 become U+FFFD, counted as ``encoding-repaired`` at
    ``TABLE.KEY=VALUE``. With ``record`` each row is a record and counts as seen:
    use it for the rows of session, message and part tables, once per row.
    """
    cursor = connection.execute(sql, parameters)
    names = [column[0] for column in cursor.description or ()]
    seen = 0
    try:
        for values in cursor:
            row = dict(zip(names, values, strict=True))
            broken = 0
            for name, value in row.items():
                if type(value) is Text:
                    try:
                        row[name] = value.decode()
                    except UnicodeDecodeError:
                        row[name] = value.decode("utf-8", "replace")
                        broken += 1
            seen += 1
            if broken and ledger is not None:
                ledger.note("encoding-repaired", place(row, table, key, seen), broken)
            yield row
    finally:
        if record and ledger is not None:
            ledger.seen(seen)


def place(row: Mapping[str, Any], table: str, key: str = "id", number: int = 0) -> str:
    """Give ``TABLE.KEY=VALUE``, or the number of the row where there is no key."""
    value = row.get(key)
    if value is None or not table:
        return f"{table or 'row'} {number}"
    return f"{table}.{key}={str(value)[:60]}"


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
