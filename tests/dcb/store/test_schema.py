"""The database of the store: that of the program, newer ones, damage."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from converters.errors import UnsupportedVersion
from dcb import store
from dcb.snapshot import document
from dcb.snapshot.profile import PLUGIN
from dcb.store import Sealing, StoreError, schema
from tests.dcb.store.snapshots import DOC, NOW, PASS, ids, insert_as_program, snapshot

if TYPE_CHECKING:
    from pathlib import Path

# --------------------------------------------------------------------- schema


def program_store(home: Path) -> sqlite3.Connection:
    """A store as program 0.2.0 makes it."""
    home.mkdir(parents=True)
    db = sqlite3.connect(home / store.DATABASE, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    schema._run(db, schema._TABLES.format(tokenizer="trigram"))
    db.execute("INSERT INTO dcb_migrations VALUES (1, 'create-snapshots-and-fts', 1)")
    return db


def test_a_store_of_the_program_opens_and_is_usable(tmp_path: Path) -> None:
    db = program_store(tmp_path / "home")
    text = document.serialize(snapshot("snap_p"), PLUGIN)
    insert_as_program(db, DOC, text)
    insert_as_program(db, DOC | {"id": "snap_sealed", "summary": None}, "dcb1.x.x.x.x")
    with store.open_store(tmp_path / "home", now_ms=NOW) as kept:
        assert ids(store.search(kept, "缓存")) == ["snap_p"]
        assert ids(store.search(kept, "LRU 缓存")) == ["snap_p"]
        assert store.text_of(kept, "snap_p") == text
        assert store.find(kept, "snap_sealed").sealed
        store.save(kept, [snapshot("snap_d")], now_ms=NOW)
        # The program goes on beside dcb: it changes, adds and removes.
        insert_as_program(db, DOC | {"title": "换了", "verbatim": "换成 Redis"}, text)
        insert_as_program(db, DOC | {"id": "snap_q", "title": "另一", "at": 9}, text)
        assert ids(store.search(kept, "换成")) == ["snap_p"]
        assert set(ids(store.search(kept, "缓存"))) == {"snap_q"}
        db.execute("DELETE FROM snapshots WHERE snapshot_id = 'snap_q'")
        db.execute("DELETE FROM snapshot_fts WHERE snapshot_id = 'snap_q'")
        insert_as_program(db, DOC | {"id": "snap_r", "verbatim": "乙方"}, text)  # takes its row
        assert ids(store.search(kept, "缓存")) == ["snap_r"]
        assert ids(store.search(kept, "乙方")) == ["snap_r"]
        store.save(kept, [snapshot("snap_e", "独特的词")], now_ms=NOW)
        assert ids(store.search(kept, "独特")) == ["snap_e"]
        assert ids(store.search(kept, "乙方")) == ["snap_r"]
    found = db.execute("SELECT snapshot_id FROM snapshot_fts WHERE snapshot_fts MATCH '独特的'")
    assert found.fetchall() == [("snap_e",)]
    db.close()


@pytest.mark.parametrize("table", ["dcb_migrations", "dcb_extensions"])
def test_a_newer_store_is_refused_and_not_touched(tmp_path: Path, table: str) -> None:
    store.open_store(tmp_path, now_ms=NOW).close()
    db = sqlite3.connect(tmp_path / store.DATABASE)
    db.execute(f"INSERT INTO {table} VALUES (99, 'future', 1)")  # noqa: S608
    db.commit()
    db.close()
    before = (tmp_path / store.DATABASE).read_bytes()
    with pytest.raises(UnsupportedVersion, match="99"):
        store.open_store(tmp_path)
    assert (tmp_path / store.DATABASE).read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 500]
)
def test_what_is_no_store_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / store.DATABASE).write_bytes(content)
    with pytest.raises(StoreError):
        store.open_store(tmp_path)
    assert (tmp_path / store.DATABASE).read_bytes() == content


def test_a_database_of_something_else_is_an_error(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / store.DATABASE)
    db.execute("CREATE TABLE snapshots(x)")
    db.close()
    with pytest.raises(StoreError):
        store.open_store(tmp_path)


def test_reading_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        store.open_store(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError):
        store.open_store(tmp_path / "file" / "home")


def test_integrity_names_what_is_damaged(kept: store.Store) -> None:
    store.save(kept, [snapshot(f"s{i}") for i in range(4)], now_ms=NOW)
    store.save(kept, [snapshot("sealed")], now_ms=NOW, sealing=Sealing(PASS))
    assert store.integrity(kept) == []
    assert store.integrity(kept, PASS) == []
    change = "UPDATE snapshots SET document = replace(document, ?, ?) WHERE snapshot_id = ?"
    kept.db.execute(change, ("零丢失", "全丢失", "s1"))
    kept.db.execute("UPDATE snapshots SET encrypted = 1 WHERE snapshot_id = 's2'")
    kept.db.execute("UPDATE snapshots SET document = document || 'A' WHERE snapshot_id = 'sealed'")
    kept.db.execute("DELETE FROM dcb_index WHERE snapshot_id = 's3'")
    found = {one.snapshot_id: one.what for one in store.integrity(kept)}
    assert set(found) >= {"s1", "s2", "s3", "sealed"}
    assert "checksum" in found["s1"]


def test_vacuum_gives_room_back_and_loses_nothing(kept: store.Store) -> None:
    store.save(kept, [snapshot(f"s{i}", f"word{i} " * 500) for i in range(200)], now_ms=NOW)
    store.remove(kept, [f"s{i}" for i in range(1, 200)])
    before, after = store.vacuum(kept)
    assert after < before / 2
    assert ids(store.search(kept, "word0")) == ids(store.search(kept, "登录")) == ["s0"]
    assert b"word199" not in (kept.home / store.DATABASE).read_bytes()
    assert store.integrity(kept) == []
    store.save(kept, [snapshot("again")], now_ms=NOW)
    assert "again" in ids(store.search(kept, "登录"))


def test_a_store_that_cannot_be_written_to_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a ?home#1"
    with store.open_store(home, now_ms=NOW) as kept:
        store.save(kept, [snapshot("snap_a", "独特的词")], now_ms=NOW)

    def refuse(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    # As the file system would, if these tests did not run as root.
    monkeypatch.setattr(schema, "_prepare", refuse)
    with store.open_store(home, create=False) as kept:
        assert ids(store.search(kept, "独特")) == ["snap_a"]
        assert [row.snapshot_id for row in store.listing(kept)] == ["snap_a"]
        assert "独特的词" in store.text_of(kept, "snap_a")
        with pytest.raises(StoreError) as caught:
            store.remove(kept, ["snap_a"])
        assert "cannot be written to" in str(caught.value.hint)
    assert [path.name for path in home.iterdir()] == [store.DATABASE]
    with pytest.raises(StoreError, match="readonly"):
        store.open_store(home)
    (home / f"{store.DATABASE}-wal").write_bytes(b"x")
    with pytest.raises(StoreError, match="readonly"):
        store.open_store(home, create=False)
