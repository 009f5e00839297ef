"""Saving, finding and listing snapshots; the envelope of the program."""

from __future__ import annotations

import pytest

from converters.errors import BadInput, UsageError
from dcb import store
from dcb.envelope import seal
from dcb.snapshot import document
from dcb.snapshot.profile import PLUGIN
from dcb.store import Sealing, StoreError
from tests.dcb.store.snapshots import DOC, NOW, PASS, ids, insert_as_program, snapshot


def test_save_and_get_back_in_the_published_dialect(kept: store.Store) -> None:
    given_ = snapshot(description="一句话", tags=("auth", "缓存"))
    (saved,) = store.save(kept, [given_], now_ms=NOW)
    assert saved == ("snap_1", False, "new", 0)
    text = store.text_of(kept, "snap_1")
    assert 'dcb_schema: "1.0"' in text
    assert document.verify(text)
    assert document.parse(text).verbatim == given_.verbatim
    row = store.find(kept, "snap_1")
    assert (row.title, row.tags, row.conversation, row.sealed, row.updated_at) == (
        "登录模块设计",
        ("auth", "缓存"),
        "conv-1",
        False,
        NOW,
    )
    assert row.checksum == document.parse(text).meta.checksum
    assert store.save(kept, [given_], now_ms=NOW + 5)[0].state == "same"
    assert store.find(kept, "snap_1").updated_at == NOW
    changed = snapshot(text="另一个决定")
    assert store.save(kept, [changed], now_ms=NOW + 9)[0].state == "changed"
    assert store.find(kept, "snap_1").updated_at == NOW + 9
    assert ids(store.search(kept, "FTS5")) == []
    assert store.integrity(kept) == []


def test_files_are_private(kept: store.Store) -> None:
    store.save(kept, [snapshot()], now_ms=NOW)
    for path in kept.home.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_batch_is_all_or_nothing(kept: store.Store) -> None:
    store.save(kept, [snapshot("taken")], now_ms=NOW, sealing=Sealing(PASS))
    batch = [snapshot("new_1"), snapshot("taken", "other words"), snapshot("new_2")]
    with pytest.raises(StoreError, match="sealed"):
        store.save(kept, batch, now_ms=NOW)
    assert [row.snapshot_id for row in store.listing(kept)] == ["taken"]
    assert ids(store.search(kept, "other words")) == []


def test_what_cannot_be_saved_is_left_out_where_failures_are_taken(kept: store.Store) -> None:
    store.save(kept, [snapshot("taken")], now_ms=NOW, sealing=Sealing(PASS))
    batch = [snapshot(""), snapshot("new"), snapshot("taken"), snapshot("old", schema_version="9")]
    failed: list[tuple[int, str]] = []
    saved = store.save(
        kept, batch, now_ms=NOW, on_error=lambda place, error: failed.append((place, error.code))
    )
    assert [one.state for one in saved] == ["failed", "new", "failed", "failed"]
    assert failed == [(0, "bad-input"), (2, "store"), (3, "unsupported-version")]
    assert store.find(kept, "taken").sealed
    assert store.save(kept, batch[:1], now_ms=NOW, on_error=lambda *_: None)[0].state == "failed"


def test_what_is_there_is_replaced_or_left(kept: store.Store) -> None:
    store.save(kept, [snapshot("taken")], now_ms=NOW)
    batch = [snapshot("new"), snapshot("taken", "other words")]
    saved = store.save(kept, batch, now_ms=NOW, replace_existing=False)
    assert [one.state for one in saved] == ["new", "refused"]
    assert ids(store.search(kept, "other words")) == []
    saved = store.save(kept, batch, now_ms=NOW)
    assert [one.state for one in saved] == ["same", "changed"]
    assert ids(store.search(kept, "other words")) == ["taken"]


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 300, "\x1b[31m"])
def test_ids_that_cannot_be_shown_are_refused(kept: store.Store, name: str) -> None:
    with pytest.raises(BadInput):
        store.save(kept, [snapshot(name)], now_ms=NOW)


def test_find_by_prefix(kept: store.Store) -> None:
    store.save(kept, [snapshot("snap_a1"), snapshot("snap_a2"), snapshot("snap")], now_ms=NOW)
    assert store.find(kept, "snap_a1").snapshot_id == "snap_a1"
    assert store.find(kept, "snap").snapshot_id == "snap"
    with pytest.raises(UsageError):
        store.find(kept, "snap_")
    for unknown in ("", "%", "_nap", "nope", "\ud800"):
        with pytest.raises(BadInput):
            store.find(kept, unknown)


def test_the_beginning_of_an_id_is_taken_letter_for_letter(kept: store.Store) -> None:
    store.save(kept, [snapshot("A_B1"), snapshot("a_b2"), snapshot("é*")], now_ms=NOW)
    assert store.find(kept, "A_").snapshot_id == "A_B1"
    assert store.find(kept, "a_b").snapshot_id == "a_b2"
    assert store.find(kept, "é").snapshot_id == "é*"
    for unknown in ("A_b", "a_B2", "*", "É", "a\0"):
        with pytest.raises(BadInput):
            store.find(kept, unknown)


def test_list_newest_first(kept: store.Store) -> None:
    made = [snapshot(f"s{i}", created_at=NOW + i) for i in (2, 1, 3)]
    store.save(kept, made, now_ms=NOW)
    assert [row.snapshot_id for row in store.listing(kept)] == ["s3", "s2", "s1"]
    assert len(store.listing(kept, limit=2)) == 2


def test_a_large_batch_leaves_the_settings_of_the_index_as_they_were(kept: store.Store) -> None:
    store.save(kept, [snapshot(f"s{i}", f"word{i} 词{i}") for i in range(150)], now_ms=NOW)
    for table in ("snapshot_fts_config", "dcb_grams_config"):
        found = dict(kept.db.execute(f"SELECT k, v FROM {table}"))  # noqa: S608
        assert (found["automerge"], found["crisismerge"], found["hashsize"]) == (4, 16, 1 << 20)
    assert ids(store.search(kept, "word149 词")) == ["s149"]
    assert len(store.search(kept, "词", limit=200)) == 150
    assert store.integrity(kept) == []


def test_a_frequent_term_shows_where_it_matters_first(kept: store.Store) -> None:
    """The title of an old snapshot counts more than the body of a hundred new ones."""
    old = [snapshot("title", "x", title="Redis"), snapshot("tags", "x", tags=("redis",))]
    new = [snapshot(f"s{i}", "about redis and more") for i in range(250)]
    store.save(kept, [*old, *new], now_ms=NOW)
    assert ids(store.search(kept, "redis"))[:3] == ["title", "tags", "s249"]
    assert ids(store.search(kept, "re"))[:3] == ["title", "tags", "s249"]
    assert ids(store.search(kept, "redis x"))[:2] == ["title", "tags"]
    assert len(store.search(kept, "redis", limit=1000)) == 252


def test_envelope_of_the_program_is_read(kept: store.Store) -> None:
    """A sealed row of the program keeps the checksum of the body in clear."""
    text = document.serialize(snapshot("snap_s"), PLUGIN)
    sealed = seal(text.encode(), PASS, salt=bytes(16), iv=bytes(12))
    doc = DOC | {"id": "snap_s", "summary": None}
    insert_as_program(kept.db, doc, sealed)
    kept.db.execute("UPDATE snapshots SET checksum = 'sha256:00' WHERE snapshot_id = 'snap_s'")
    assert store.text_of(kept, "snap_s", PASS) == text
    assert store.integrity(kept, PASS) == []
