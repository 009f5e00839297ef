"""The database of a store: tables, migrations, connections.

Version 1 is the schema of program 0.2.0, so a store of either program serves both.
What dcb adds lives in tables of its own whose names start with ``dcb_`` and has a
list of versions of its own (``dcb_extensions``), so that a later version 2 of the
program does not meet it.

``dcb_grams`` indexes pairs of characters and single ones, which the trigram index
cannot find. ``dcb_index`` maps a snapshot to its row in both indexes: the program
looks for it by scanning all text. Triggers put what the program writes into
``dcb_pending``; dcb indexes that before its next search or save.

Source: DialogueContextBridge 0.2.0, snapshot format, section 15.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from converters.errors import DcbError, UnsupportedVersion
from dcb.store import index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dcb.history import History

__all__ = ["DATABASE", "Store", "StoreError", "Tokenizer", "open_store", "transaction"]

DATABASE: Final = "snapshots.db"
Tokenizer: TypeAlias = Literal["trigram", "unicode61"]

_BUSY_SECONDS: Final = 120.0
_READ_ONLY: Final = "readonly database"
_PROGRAM: Final = 1
_EXTENSION: Final = 1

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS dcb_migrations(
  version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
);
CREATE TABLE snapshots(
  snapshot_id TEXT PRIMARY KEY NOT NULL,
  source_conversation_id TEXT NOT NULL,
  title TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  tags TEXT NOT NULL DEFAULT '[]',
  schema_version TEXT NOT NULL,
  token_estimate INTEGER NOT NULL DEFAULT 0,
  encrypted INTEGER NOT NULL DEFAULT 0,
  checksum TEXT NOT NULL,
  document TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE INDEX idx_snapshots_created_at ON snapshots(created_at DESC);
CREATE INDEX idx_snapshots_conversation
  ON snapshots(source_conversation_id, created_at DESC);
CREATE VIRTUAL TABLE snapshot_fts USING fts5(
  snapshot_id UNINDEXED, title, description, tags, summary_text, verbatim_text,
  preference_text, tokenize = '{tokenizer}'
);
"""
_GRAM_TABLE: Final = f"""
CREATE VIRTUAL TABLE dcb_grams USING fts5(
  {", ".join(index.GRAM_COLUMNS)}, detail = column, tokenize = {index.GRAM_TOKENIZER}
);
"""
_ADDED: Final = """
CREATE TABLE IF NOT EXISTS dcb_extensions(
  version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
);
CREATE TABLE dcb_index(id INTEGER PRIMARY KEY, snapshot_id TEXT NOT NULL UNIQUE);
CREATE TABLE dcb_pending(snapshot_id TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
"""
_TRIGGERS: Final = """
CREATE TRIGGER dcb_after_insert AFTER INSERT ON snapshots BEGIN
  INSERT OR IGNORE INTO dcb_pending VALUES (NEW.snapshot_id);
END;
CREATE TRIGGER dcb_after_update AFTER UPDATE ON snapshots BEGIN
  INSERT OR IGNORE INTO dcb_pending VALUES (NEW.snapshot_id);
END;
CREATE TRIGGER dcb_after_delete AFTER DELETE ON snapshots BEGIN
  INSERT OR IGNORE INTO dcb_pending VALUES (OLD.snapshot_id);
END;
"""


class StoreError(DcbError):
    """The store cannot be opened or did not take a change."""

    code = "store"


@dataclass(slots=True)
class Store:
    """An open store. ``warnings`` collects what went wrong beside a save that was done."""

    home: Path
    db: sqlite3.Connection
    tokenizer: Tokenizer
    history: History | None = None
    warnings: list[DcbError] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The database as a name for messages."""
        return str(self.home / DATABASE)

    def close(self) -> None:
        """Close the database; the write-ahead log goes into it with the last connection."""
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_store(
    home: Path,
    *,
    history: History | None = None,
    now_ms: int = 0,
    tokenizer: Tokenizer | None = None,
    create: bool = True,
) -> Store:
    """Open the store in the folder ``home``; a new one is made with mode 0600.

    ``now_ms`` is noted with the migrations. ``tokenizer`` is for a new store; without
    it trigram, where the build of SQLite has it. Without ``create`` a missing store is
    a :class:`StoreError`, as is one that cannot be used; a store of a newer program is
    :class:`UnsupportedVersion`. Without ``create`` a store in a place that cannot be written
    to opens for reading.
    """
    path = home / DATABASE
    if not create and not path.exists():
        raise StoreError("there is no store here", path=str(home), hint="dcb store save makes one")
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(f"cannot make the store: {error.strerror}", path=str(path)) from error
    with _guarded(str(path)):
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            _prepare(db)
            found = _migrate(db, str(path), now_ms, tokenizer)
        except sqlite3.OperationalError as error:
            db.close()
            if create or _READ_ONLY not in str(error) or not _is_settled(path):
                raise
            return _open_read_only(home, path, history)
        except BaseException:
            db.close()
            raise
    store = Store(home, db, found, history)
    with _guarded(str(path)):
        sync(store)
    return store


def _is_settled(path: Path) -> bool:
    """Whether all that was saved is in the database file itself."""
    wal = path.with_name(path.name + "-wal")
    try:
        return wal.stat().st_size == 0
    except OSError:
        return True


def _open_read_only(home: Path, path: Path, history: History | None) -> Store:
    """Open a store that nobody can write to, so that it needs no lock and no file beside it."""
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    db = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        if _versions(db) == (_PROGRAM, _EXTENSION):
            return Store(home, db, _check(db, str(path)), history)
    except BaseException:
        db.close()
        raise
    db.close()
    raise StoreError("the store is read-only and of another version of dcb", path=str(path))


def _prepare(db: sqlite3.Connection) -> None:
    # secure_delete: what is sealed or removed leaves no free page behind. FULL: a
    # commit is on the disk when a save returns.
    for pragma in ("synchronous=FULL", "secure_delete=ON", "foreign_keys=ON", "trusted_schema=OFF"):
        db.execute(f"PRAGMA {pragma}")
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            # SQLite does not wait for its lock when two processes change the mode at once.
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def _migrate(
    db: sqlite3.Connection, path: str, now_ms: int, tokenizer: Tokenizer | None
) -> Tokenizer:
    program, extension = _versions(db)
    if program > _PROGRAM or extension > _EXTENSION:
        found = f"{program}" if program > _PROGRAM else f"extension {extension}"
        raise UnsupportedVersion(
            f"the store has schema version {found}, this release knows "
            f"{_PROGRAM} with extension {_EXTENSION}",
            path=path,
            hint="use a newer release of dcb",
        )
    if (program, extension) != (_PROGRAM, _EXTENSION):
        with _exclusive(db):
            program, extension = _versions(db)
            if program < 1:
                _create(db, path, now_ms, tokenizer)
            _check(db, path)
            if extension < 1:
                for script in (_ADDED, _GRAM_TABLE, _TRIGGERS):
                    _run(db, script)
                db.execute("INSERT INTO dcb_extensions VALUES (1, 'short-terms', ?)", (now_ms,))
                db.execute("INSERT OR IGNORE INTO dcb_pending SELECT snapshot_id FROM snapshots")
    return _check(db, path)


def _versions(db: sqlite3.Connection) -> tuple[int, int]:
    found = []
    for table in ("dcb_migrations", "dcb_extensions"):
        known = db.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
        row = db.execute(f"SELECT max(version) FROM {table}").fetchone() if known else None  # noqa: S608 - our names
        found.append(row[0] if row and isinstance(row[0], int) else 0)
    return found[0], found[1]


def _create(db: sqlite3.Connection, path: str, now_ms: int, tokenizer: Tokenizer | None) -> None:
    others = db.execute("SELECT name FROM sqlite_master WHERE name = 'snapshots'").fetchone()
    if others:
        raise StoreError("a database of something else", path=path)
    _run(db, _TABLES.format(tokenizer=tokenizer or _best_tokenizer(db, path)))
    db.execute("INSERT INTO dcb_migrations VALUES (1, 'create-snapshots-and-fts', ?)", (now_ms,))


def _best_tokenizer(db: sqlite3.Connection, path: str) -> Tokenizer:
    for name in ("trigram", "unicode61"):
        try:
            db.execute(f"CREATE VIRTUAL TABLE temp.dcb_probe USING fts5(x, tokenize = '{name}')")
        except sqlite3.OperationalError:
            continue
        db.execute("DROP TABLE temp.dcb_probe")
        return "trigram" if name == "trigram" else "unicode61"
    raise StoreError(
        f"SQLite {sqlite3.sqlite_version} is built without FTS5",
        path=path,
        hint="the Python of python.org, Debian, Fedora and Homebrew has it",
    )


def _check(db: sqlite3.Connection, path: str) -> Tokenizer:
    """Give the tokenizer of a store; :class:`StoreError` when the tables are not those of one."""
    try:
        db.execute(
            "SELECT snapshot_id, source_conversation_id, title, description, tags, schema_version,"
            " token_estimate, encrypted, checksum, document, created_at, updated_at"
            " FROM snapshots LIMIT 0"
        )
        row = db.execute("SELECT sql FROM sqlite_master WHERE name = 'snapshot_fts'").fetchone()
        db.execute(f"SELECT snapshot_id, {', '.join(index.COLUMNS)} FROM snapshot_fts LIMIT 0")  # noqa: S608 - our names
    except sqlite3.OperationalError as error:
        if "tokenizer" in str(error):
            raise StoreError(
                f"the store needs a tokenizer that SQLite {sqlite3.sqlite_version} lacks",
                path=path,
                hint="SQLite 3.34 and later have trigram",
            ) from error
        raise StoreError(f"not a store: {error}", path=path) from error
    sql = str(row[0]) if row else ""
    return "trigram" if re.search(r"\btrigram\b", sql) else "unicode61"


def _run(db: sqlite3.Connection, script: str) -> None:
    """Run statements one by one: ``executescript`` would end the transaction."""
    statement = ""
    for line in script.split("\n"):
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""


def sync(store: Store) -> None:
    """Index what the program wrote since dcb last looked."""
    db = store.db
    if db.execute("SELECT 1 FROM dcb_pending LIMIT 1").fetchone() is None:
        return
    with _exclusive(db):
        index.adopt(db)


def rebuild(store: Store) -> None:
    """Make dcb's index anew from the index of the program."""
    with transaction(store) as db:
        db.execute("DROP TABLE dcb_grams")
        _run(db, _GRAM_TABLE)
        db.execute("DELETE FROM dcb_index")
        db.execute("INSERT OR IGNORE INTO dcb_pending SELECT snapshot_id FROM snapshots")
        index.adopt(db)


@contextlib.contextmanager
def transaction(store: Store) -> Iterator[sqlite3.Connection]:
    """Hold the write lock of the store; all or nothing of the block is kept."""
    with _guarded(store.path), _exclusive(store.db):
        index.adopt(store.db)
        yield store.db


@contextlib.contextmanager
def _exclusive(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _guarded(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the database says: {error}", path=path, hint=_hint(error)) from error


def reading(store: Store) -> contextlib.AbstractContextManager[None]:
    """Turn errors of SQLite into :class:`StoreError`."""
    return _guarded(store.path)


def _hint(error: sqlite3.Error) -> str | None:
    said = str(error)
    if _READ_ONLY in said:
        return "the place of the store cannot be written to; copy it, or set DCB_HOME"
    if "locked" in said:
        return "another program holds the store; try again"
    if "not a database" in said or "malformed" in said:
        return "the file is damaged or no store; its snapshots may be in the history beside it"
    return None
