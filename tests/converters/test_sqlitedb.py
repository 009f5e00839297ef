from __future__ import annotations

import contextlib
import gc
import io
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from converters import opening, sqlitedb
from converters.errors import BadInput, DcbError, LimitReached
from converters.ledger import Ledger
from converters.opening import Memory, Stored, open_inputs
from converters.types import Limits
from tests.converters.opening_sources import digest, tarred, zipped, zstd
from tests.pack import cases, pack

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 2 << 30


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where private copies come into being; it is empty again after the test."""
    folder = tmp_path / "private"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def make(path: Path, *, wal: bool = False, rows: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as db:
        if wal:
            db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE messages (id TEXT PRIMARY KEY, n INTEGER, body)")
        db.executemany(
            "INSERT INTO messages VALUES (?,?,?)", [(f"m{n}", n, f"keep-{n}") for n in range(rows)]
        )
        db.commit()
    return path


def live(path: Path) -> Path:
    """A database whose last row stands in the -wal only."""
    make(path, wal=True)
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("INSERT INTO messages VALUES ('live', 9, 'keep-live')")
    db.commit()
    saved = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")}
    db.close()
    for suffix, data in saved.items():
        Path(f"{path}{suffix}").write_bytes(data)
    Path(f"{path}-shm").unlink(missing_ok=True)
    return path


def only(source: Any, **how: Any) -> Stored:
    (item,) = list(open_inputs(source, **how))
    if isinstance(item, DcbError):
        raise item
    assert isinstance(item, Stored)
    return item


def ids(item: Any) -> list[str]:
    with contextlib.closing(item.database()) as db:
        return [row["id"] for row in sqlitedb.rows(db, "SELECT id FROM messages ORDER BY n")]


class TestOpening:
    def test_a_closed_database_is_read_in_place(self, tmp_path: Path, private: Path) -> None:
        for wal in (False, True):
            path = make(tmp_path / f"src{wal}" / "x.db", wal=wal)
            before = digest(path.parent)
            item = only(path)
            assert item.head.is_sqlite
            assert item.head.tables == {"messages"}
            with contextlib.closing(item.database()) as db:
                assert list(private.iterdir()) == []
                assert db.execute("SELECT count(*) FROM messages").fetchone() == (2,)
            assert digest(path.parent) == before

    def test_what_stands_in_the_log_is_read(self, tmp_path: Path, private: Path) -> None:
        path = live(tmp_path / "src" / "x.db")
        before = digest(path.parent)
        item = only(path)
        assert item.head.tables == {"messages"}
        with contextlib.closing(item.database()) as db:
            assert len(list(private.iterdir())) == 1
            rows = sqlitedb.rows(db, "SELECT id FROM messages ORDER BY n")
            found = [row["id"] for row in rows]
            assert found == ["m0", "m1", "live"]
        assert list(private.iterdir()) == []
        assert digest(path.parent) == before
        assert ids(only(path.parent)) == ["m0", "m1", "live"]

    def test_a_hot_journal_is_rolled_back_in_the_copy(self, tmp_path: Path, private: Path) -> None:
        path = make(tmp_path / "src" / "x.db", rows=500)
        script = (
            "import sqlite3,sys,os\n"
            "db=sqlite3.connect(sys.argv[1],isolation_level=None)\n"
            "db.execute('PRAGMA cache_size=1'); db.execute('BEGIN')\n"
            "db.execute(\"UPDATE messages SET body='torn'||hex(zeroblob(300))\")\n"
            "os._exit(0)\n"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        assert Path(f"{path}-journal").stat().st_size > 0
        before = digest(path.parent)
        with contextlib.closing(only(path).database()) as db:
            found = db.execute("SELECT count(*) FROM messages WHERE body LIKE 'keep-%'").fetchone()
        assert found == (500,)
        assert digest(path.parent) == before

    def test_copies_go_with_the_input(self, tmp_path: Path, private: Path) -> None:
        item: Stored | None = only(live(tmp_path / "src" / "x.db"))
        assert item is not None
        assert item.head.tables == {"messages"}
        assert len(list(private.iterdir())) == 1
        item = None
        gc.collect()
        assert list(private.iterdir()) == []
        db: sqlite3.Connection | None = only(tmp_path / "src" / "x.db").database()
        assert db is not None
        assert len(list(private.iterdir())) == 1
        db.close()
        assert list(private.iterdir()) == []

    def test_members_and_packed_databases(self, tmp_path: Path, private: Path) -> None:
        path = live(tmp_path / "src" / "x.db")
        files = [(f"d/x.db{side}", Path(f"{path}{side}").read_bytes()) for side in ("", "-wal")]
        for data in (zipped(*files), tarred(*files)):
            item = only(data)
            assert item.name == "-!d/x.db"
            assert item.head.tables == {"messages"}
            assert ids(item) == ["m0", "m1", "live"]
        item = only(zstd(files[0][1]))
        assert item.head.tables == {"messages"}
        assert ids(item) == ["m0", "m1"]
        assert ids(Memory(files[0][1])) == ["m0", "m1"]
        assert Memory(files[0][1]).head.tables == {"messages"}
        del item
        gc.collect()
        assert list(private.iterdir()) == []

    def test_the_limit_of_a_copy(self, tmp_path: Path, private: Path) -> None:
        path = live(tmp_path / "src" / "x.db")
        item = only(path, limits=replace(Limits(), database=5000))
        assert item.head.tables == frozenset()
        with pytest.raises(LimitReached) as caught:
            item.database()
        assert caught.value.path == str(path)
        assert caught.value.hint is not None
        assert list(private.iterdir()) == []

    def test_a_path_is_no_uri(self, tmp_path: Path) -> None:
        path = make(tmp_path / "odd name?mode=rwc#x%20" / "a?b#c.db")
        before = sorted(tmp_path.rglob("*"))
        assert ids(only(path)) == ["m0", "m1"]
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_writer_at_work(self, tmp_path: Path) -> None:
        path = make(tmp_path / "x.db", wal=True, rows=0)
        script = (
            "import sqlite3,sys\n"
            "db=sqlite3.connect(sys.argv[1],isolation_level=None)\n"
            "db.execute('PRAGMA wal_autocheckpoint=20')\n"
            "n=0\n"
            "while True:\n"
            "  db.execute('BEGIN')\n"
            "  db.execute(\"INSERT INTO messages VALUES('a'||?,?,'x')\",(n,n))\n"
            "  db.execute(\"INSERT INTO messages VALUES('b'||?,?,'x')\",(n,n))\n"
            "  db.execute('COMMIT'); n+=1\n"
            "  if n==50: print('go',flush=True)\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert child.stdout is not None
            child.stdout.readline()
            read = 0
            for _ in range(10):
                try:
                    db = only(path).database()
                except BadInput as error:
                    assert "faster than" in error.message
                    continue
                with contextlib.closing(db):
                    assert db.execute("PRAGMA integrity_check").fetchone()[0] == b"ok"
                    pairs = db.execute("SELECT n, count(*) FROM messages GROUP BY n").fetchall()
                    assert len(pairs) >= 50
                    assert {count for _, count in pairs} == {2}
                    read += 1
            assert read
        finally:
            child.kill()
            child.communicate()

    @pytest.mark.parametrize(
        "data",
        [b"", b"SQLite format 3\0", b"hello\n" * 1000, b"SQLite format 3\0" + b"\xa5" * 5000],
    )
    def test_what_is_no_database(self, tmp_path: Path, data: bytes) -> None:
        path = tmp_path / "x.db"
        path.write_bytes(data)
        with pytest.raises(BadInput) as caught:
            only(path).database()
        assert caught.value.path == str(path)
        assert only(path).head.tables == frozenset()
        with pytest.raises(BadInput):
            Memory(data, "x.db").database()

    def test_a_folder_is_none(self, tmp_path: Path) -> None:
        (folder,) = open_inputs(tmp_path, is_unit=lambda _: True)
        assert isinstance(folder, opening.Folder)
        with pytest.raises(BadInput):
            folder.database()

    def test_damage_anywhere(self, tmp_path: Path) -> None:
        whole = make(tmp_path / "x.db", rows=300).read_bytes()
        for place in range(0, len(whole), 512):
            data = whole[:place] + b"\xa5" * 16 + whole[place + 16 :]
            item = Memory(data, "x.db")
            try:
                with contextlib.closing(item.database()) as db:
                    for table in sqlitedb.tables(db):
                        sqlitedb.columns(db, table)
                        query = f"SELECT * FROM {sqlitedb.quote(table)}"  # noqa: S608 - it is quoted
                        list(sqlitedb.rows(db, query))
            except DcbError as error:
                assert error.path == "x.db"


class TestQueries:
    @pytest.fixture
    def db(self, tmp_path: Path) -> Iterator[sqlite3.Connection]:
        path = make(tmp_path / "x.db")
        with contextlib.closing(sqlite3.connect(path)) as own:
            own.executescript(
                "CREATE VIEW endless AS WITH RECURSIVE c(x) AS "
                "(SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT x FROM c;"
                'CREATE TABLE "odd "" name" (a, b);'
                "CREATE VIRTUAL TABLE search USING fts5(body);"
                "INSERT INTO messages VALUES ('x1', 1, CAST(X'61B2FF' AS TEXT));"
                "INSERT INTO messages VALUES ('b1', 1.5, X'61B2FF');"
                "INSERT INTO messages VALUES (NULL, 'soon', NULL);"
                "INSERT INTO messages VALUES ('nul', 3, 'a' || char(0) || 'b');"
            )
        with contextlib.closing(only(path).database()) as connection:
            yield connection

    def test_tables_are_tables(self, db: sqlite3.Connection) -> None:
        assert {"messages", 'odd " name'} <= sqlitedb.tables(db)
        assert not {"endless", "search"} & sqlitedb.tables(db)
        assert sqlitedb.columns(db, "messages") == ("id", "n", "body")
        assert sqlitedb.columns(db, 'odd " name') == ("a", "b")
        assert sqlitedb.columns(db, "nothing") == ()

    def test_a_view_is_refused(self, db: sqlite3.Connection) -> None:
        sqlitedb.require(db, "messages")
        for name, what in (
            ("endless", "a view"),
            ("search", "a virtual table"),
            ("parts", "missing"),
        ):
            with pytest.raises(BadInput, match=what) as caught:
                sqlitedb.require(db, "messages", name)
            assert str(caught.value.path).endswith("x.db")

    def test_values(self, db: sqlite3.Connection) -> None:
        ledger = Ledger("x.db")
        query = "SELECT * FROM messages ORDER BY rowid"
        found = list(sqlitedb.rows(db, query, (), ledger, table="messages", record=True))
        assert found[0] == {"id": "m0", "n": 0, "body": "keep-0"}
        assert [row["body"] for row in found[2:]] == ["a\ufffd\ufffd", b"a\xb2\xff", None, "a\0b"]
        assert found[3]["n"] == 1.5
        assert found[4] == {"id": None, "n": "soon", "body": None}
        report = ledger.report()
        assert report.records.total == len(found) == 6
        (entry,) = report.entries
        assert (entry.rule, entry.places) == ("encoding-repaired", ["x.db:messages.id=x1"])
        assert sqlitedb.place(found[4], "messages", number=5) == "messages 5"

    def test_rows_that_are_no_records(self, db: sqlite3.Connection) -> None:
        ledger = Ledger()
        rows = sqlitedb.rows(db, "SELECT n FROM messages WHERE id = ?", ("m1",), ledger)
        assert list(rows) == [{"n": 1}]
        assert ledger.report().records.total == 0

    def test_a_query_that_does_not_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlitedb, "_STEPS", 2)
        path = make(tmp_path / "x.db")
        with contextlib.closing(sqlite3.connect(path)) as own:
            own.execute(
                "CREATE VIEW endless AS WITH RECURSIVE c(x) AS "
                "(SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT x FROM c"
            )
        with contextlib.closing(only(path).database()) as db:
            for _ in range(2):
                with pytest.raises(LimitReached) as caught:
                    db.execute("SELECT count(*) FROM endless").fetchone()
                assert caught.value.path == str(path)
                assert db.execute("SELECT 1").fetchone() == (1,)

    @pytest.mark.parametrize(
        "sql", ["SELECT nothing FROM messages", "oops", "DELETE FROM messages"]
    )
    def test_errors_are_ours(self, db: sqlite3.Connection, sql: str) -> None:
        with pytest.raises(BadInput, match="SQLite"):
            db.execute(sql)
        with pytest.raises(BadInput, match="SQLite"):
            list(sqlitedb.rows(db, sql))

    def test_nothing_can_be_written(self, tmp_path: Path) -> None:
        for path in (make(tmp_path / "a" / "x.db"), live(tmp_path / "b" / "x.db")):
            with contextlib.closing(only(path).database()) as db, pytest.raises(BadInput):
                db.execute("CREATE TABLE t (x)")


def test_streams_make_a_copy(private: Path, tmp_path: Path) -> None:
    data = make(tmp_path / "x.db").read_bytes()
    copy = sqlitedb.Copy.of_streams(io.BytesIO(data), "name", {}, limit=LIMIT)
    with contextlib.closing(copy.connect(keep=True)) as db:
        assert sqlitedb.tables(db) == {"messages"}
    with contextlib.closing(copy.connect()) as db:
        assert sqlitedb.tables(db) == {"messages"}
    assert list(private.iterdir()) == []


@pytest.mark.parametrize("case", cases("sqlite"), ids=lambda case: case["name"])
def test_hostile_databases(case: dict[str, Any], private: Path) -> None:
    path = pack() / case["name"]
    before = digest(path.parent)
    ledger, text, error = Ledger(), "", None
    try:
        with contextlib.closing(only(path).database()) as db:
            sqlitedb.require(db, "sessions", "messages")
            for row in sqlitedb.rows(db, "SELECT * FROM messages", (), ledger, table="messages"):
                text += str(row["parts"])
    except DcbError as problem:
        error = problem
    assert digest(path.parent) == before
    assert list(private.iterdir()) == []
    if error is not None:
        assert "clean-error" in (case["expect"], case.get("also"))
        assert error.path == str(path)
    else:
        assert "ok-with-report" in (case["expect"], case.get("also"))
        if case["expect"] == "ok-with-report":
            assert all(mark in text for mark in case["survive"])
        if case.get("where"):
            places = [place for entry in ledger.report().entries for place in entry.places]
            assert case["where"] in places
