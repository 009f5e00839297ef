"""The store: saving, finding, sealing, and what disturbs it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from converters.errors import BadInput, DcbError, UnsupportedVersion, UsageError
from dcb import history, store
from dcb.envelope import is_envelope, seal
from dcb.snapshot import document
from dcb.snapshot.model import Meta, Preference, Snapshot, SummarySection, VerbatimEntry
from dcb.snapshot.profile import PLUGIN
from dcb.store import Sealing, StoreError, index, schema
from dcb.store.search import plan_as_plugin, search_as_plugin
from tests.paths import ROOT, VECTORS, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

PASS = "correct horse battery"  # noqa: S105 - nobody's
NOW = 1_772_323_200_000


def snapshot(
    name: str = "snap_1", text: str = "最终采用方案 A：基于 FTS5 的本地检索。", **meta: Any
) -> Snapshot:
    """A small snapshot whose words are all in ``text``."""
    given_: dict[str, Any] = {
        "title": "登录模块设计",
        "source_conversation_id": "conv-1",
        "created_at": NOW,
    } | meta
    return Snapshot(
        meta=Meta(snapshot_id=name, **given_),
        verbatim=(VerbatimEntry(id="v-001", source_message_id="m1", content=text, created_at=NOW),),
        summary=(SummarySection(heading="背景与目标", bullets=("目标是零丢失。",)),),
        preferences=(
            Preference(scope="style", key="comment-style", value="加详细注释", explicit=True),
        ),
    )


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    with store.open_store(tmp_path / "home", now_ms=NOW) as opened:
        yield opened


@pytest.fixture
def versioned(tmp_path: Path) -> Any:
    home = tmp_path / "home"
    repo = history.open_history(
        home / "snapshots", environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    )
    if repo is None:
        pytest.skip("git is not installed")
    with store.open_store(home, history=repo, now_ms=NOW) as opened:
        yield opened


def ids(found: list[store.Hit]) -> list[str]:
    return [hit.snapshot_id for hit in found]


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


# --------------------------------------------------------------------- search


def search_cases() -> list[Any]:
    path = VECTORS / "dcb" / "search.json"
    if not path.is_file():
        return []
    listed = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=repr(case["input"]["query"])) for case in listed]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The documents of the search vectors, put in as the program would."""
    listed = json.loads((VECTORS / "dcb" / "search.json").read_text(encoding="utf-8"))
    opened = store.open_store(tmp_path_factory.mktemp("search"), now_ms=NOW)
    for doc in listed["documents"]:
        insert_as_program(opened.db, doc)
    yield opened
    opened.close()


def insert_as_program(db: sqlite3.Connection, doc: dict[str, Any], text: str = "") -> None:
    """Save as program 0.2.0 does: an upsert, then the index row anew."""
    tags = json.dumps(doc["tags"], ensure_ascii=False)
    db.execute(
        "INSERT INTO snapshots VALUES (?, 'conv', ?, ?, ?, '1.0', 0, ?, '', ?, ?, ?)"
        " ON CONFLICT(snapshot_id) DO UPDATE SET title = excluded.title, tags = excluded.tags,"
        " description = excluded.description, document = excluded.document,"
        " updated_at = excluded.updated_at",
        (
            doc["id"],
            doc["title"],
            doc["description"],
            tags,
            doc["summary"] is None,
            text,
            doc["at"],
            doc["at"],
        ),
    )
    db.execute("DELETE FROM snapshot_fts WHERE snapshot_id = ?", (doc["id"],))
    if doc["summary"] is not None:
        db.execute(
            "INSERT INTO snapshot_fts VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                doc["id"],
                doc["title"],
                doc["description"],
                " ".join(doc["tags"]),
                doc["summary"],
                doc["verbatim"],
                doc["pref"],
            ),
        )


@needs_shared
@pytest.mark.parametrize("case", search_cases())
def test_search_vectors_as_plugin(filled: store.Store, case: dict[str, Any]) -> None:
    query, wanted = case["input"]["query"], case["output"]
    plan = plan_as_plugin(query, "trigram")
    assert plan.mode == wanted["mode"]
    if "expression" in wanted:
        assert plan.expression == wanted["expression"]
    found = search_as_plugin(filled, query)
    assert [hit.snapshot_id for hit in found] == [hit["id"] for hit in wanted["hits"]]
    for hit, expected in zip(found, wanted["hits"], strict=True):
        assert hit.excerpt == expected["excerpt"]


@needs_shared
def test_expressions_of_unicode61() -> None:
    listed = json.loads((VECTORS / "dcb" / "search.json").read_text(encoding="utf-8"))
    for case in listed["unicode61_expressions"]:
        plan = plan_as_plugin(case["input"]["query"], "unicode61")
        assert (plan.expression or None) == case["output"]["expression"]


@needs_shared
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("登录", {"snap_1", "snap_4"}),
        ("缓存", {"snap_1"}),
        ("检索 FTS5", {"snap_1"}),  # the program drops the first term and also gives snap_3
        ("%", {"snap_3"}),
        ("_", {"snap_3"}),
        ("a_", {"snap_3"}),
        ("100% 与", {"snap_3"}),
        ("🚀🚀", set()),
        ("登录 不存在", set()),
        ("API 桶", set()),
        ("rate LIMIT", {"snap_2", "snap_4"}),
        ("用 中文", {"snap_1"}),
        ('"q', {"snap_4"}),
        ("", set()),
    ],
)
def test_no_term_is_lost(filled: store.Store, query: str, wanted: set[str]) -> None:
    assert set(ids(store.search(filled, query))) == wanted


HOSTILE = ['"', "*", "a-b", "x:y", "NEAR(", "AND", "OR NOT", "@x", "don't", "50%", "/a/b\\c", "^a",
           "{title}:x", "a\0b", "\ud83d", "(((", "\ufeff", "NEAR(a b, 2)", "col : x", "-", "''",
           '""""', "+rowid", "a" * 5000, "中" * 5000, "\x1f", " \u3000 "]  # fmt: skip


@pytest.mark.parametrize("tokenizer", ["trigram", "unicode61"])
def test_query_text_is_data(tmp_path: Path, tokenizer: schema.Tokenizer) -> None:
    with store.open_store(tmp_path, tokenizer=tokenizer) as kept:
        texts = [query.replace("\ud83d", "?").replace("\0", "") for query in HOSTILE]
        made = [snapshot(f"s{i}", f"before {text} after") for i, text in enumerate(texts)]
        store.save(kept, made, now_ms=NOW)
        for i, query in enumerate(HOSTILE):
            found = ids(store.search(kept, query, limit=50))
            if query.strip("\ufeff \u3000\x1f") and query not in ("a\0b", "\ud83d"):
                assert f"s{i}" in found, query
        many = " ".join(f"t{i}" for i in range(200))
        assert store.search(kept, many) == []
        with pytest.raises(UsageError):
            store.search(kept, many + " one-more")


WORDS = st.text(
    st.one_of(
        st.sampled_from("登录模块abcABC%_\"'*()^-{}:.,;!?#🚀Éß"), st.characters(codec="utf-8")
    ),
    min_size=1, max_size=12,
)  # fmt: skip


@pytest.mark.parametrize("tokenizer", ["trigram", "unicode61"])
@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_piece_of_a_text_finds_it(
    tmp_path: Path, tokenizer: schema.Tokenizer, data: st.DataObject
) -> None:
    with store.open_store(tmp_path / tokenizer, tokenizer=tokenizer) as kept:
        text = data.draw(WORDS)
        store.save(kept, [snapshot("s", "x " + text + " y")], now_ms=NOW)
        held = document.parse(store.text_of(kept, "s")).verbatim[0].content
        words = held.replace("\0", " ").replace("\ufeff", " ").split()
        word = data.draw(st.sampled_from(words))
        start = data.draw(st.integers(0, len(word) - 1))
        stop = data.draw(st.integers(start + 1, len(word)))
        found = store.search(kept, f"{word[start:stop]} {words[0]}")
        assert ids(found) == ["s"]


def test_title_first_then_the_newest_for_short_terms(kept: store.Store) -> None:
    made = [
        snapshot("old", "缓存 in the body"),
        snapshot("title", "nothing", title="缓存设计"),
        snapshot("tag", "nothing", tags=("缓存",)),
        snapshot("new", "缓存 in the body"),
    ]
    for one in made:
        store.save(kept, [one], now_ms=NOW)
    assert ids(store.search(kept, "缓存")) == ["title", "tag", "new", "old"]
    assert ids(store.search(kept, "缓存", limit=2)) == ["title", "tag"]


def test_excerpt_marks_every_term(kept: store.Store) -> None:
    store.save(kept, [snapshot("s", "前文 " * 40 + "用 Redis 做缓存 and more " * 9)], now_ms=NOW)
    (hit,) = store.search(kept, "redis 缓存")
    assert "\n" not in hit.excerpt
    assert hit.excerpt.startswith("…")
    assert {hit.excerpt[a:b] for a, b in hit.marks} == {"Redis", "缓存"}


def test_without_trigram_chinese_is_found(tmp_path: Path) -> None:
    with store.open_store(tmp_path, tokenizer="unicode61") as kept:
        store.save(
            kept, [snapshot("a", "登录模块的设计"), snapshot("b", "登录 与 模块")], now_ms=NOW
        )
        assert set(ids(store.search(kept, "录模块"))) == {"a", "b"}  # b by its title
        assert ids(store.search(kept, "录模块的")) == ["a"]
        assert ids(store.search(kept, "模块登录")) == []


def test_index_text_vectors() -> None:
    path = VECTORS / "dcb" / "index_text.json"
    if not path.is_file():
        pytest.skip("the shared vectors are not beside the checkout")
    import msgspec

    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        words = index.words_of(msgspec.convert(case["input"], Snapshot))
        assert case["output"] == {
            "summaryText": words.summary,
            "verbatimText": words.verbatim,
            "preferenceText": words.preference,
        }


# --------------------------------------------------------------------- schema


def program_store(home: Path) -> sqlite3.Connection:
    """A store as program 0.2.0 makes it."""
    home.mkdir(parents=True)
    db = sqlite3.connect(home / store.DATABASE, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    schema._run(db, schema._TABLES.format(tokenizer="trigram"))
    db.execute("INSERT INTO dcb_migrations VALUES (1, 'create-snapshots-and-fts', 1)")
    return db


DOC: dict[str, Any] = {
    "id": "snap_p", "title": "缓存方案", "description": "d", "tags": ["x"], "at": 5,
    "summary": "背景", "verbatim": "用 LRU 缓存", "pref": "",
}  # fmt: skip


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


# -------------------------------------------------------------------- sealing

SECRETS = ("零丢失目标秘密", "SECRET-TOKEN-42", "persona-secret-value", "confidential heading")


def secret() -> Snapshot:
    return Snapshot(
        meta=Meta(
            snapshot_id="snap_s",
            source_conversation_id="conv-clear",
            title="公开的标题",
            description=SECRETS[0],
            tags=("opentag",),
            created_at=NOW,
        ),
        verbatim=(VerbatimEntry(id="v-001", content=f"the key is {SECRETS[1]}"),),
        summary=(SummarySection(heading=SECRETS[3], bullets=(SECRETS[0],)),),
        preferences=(Preference(scope="role", key="persona", value=SECRETS[2], explicit=True),),
    )


def everything(home: Path) -> bytes:
    """All bytes of a store: database, log, and the git objects unpacked."""
    parts = []
    for path in sorted(home.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            parts.append(data)
            if "objects" in path.parts and len(path.name) == 38:
                parts.append(zlib.decompress(data))
    return b"\0".join(parts)


def leaks(home: Path) -> list[str]:
    data = everything(home)
    folded = data.lower()
    found = [text for text in SECRETS if text.encode() in data or text.lower().encode() in folded]
    # Pairs of characters that stand nowhere else would show in the index of pairs.
    return found + [pair for pair in ("秘密", "密目") if pair.encode() in folded]


def test_sealed_store_leaks_no_body(versioned: store.Store) -> None:
    store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    assert versioned.warnings == []
    assert leaks(versioned.home) == []
    assert (versioned.home / "snapshots" / "snap_s.md").read_text().startswith("dcb1.")
    assert is_envelope(store.stored_text(versioned, "snap_s"))
    assert document.parse(store.text_of(versioned, "snap_s", PASS)).verbatim == secret().verbatim
    assert ids(store.search(versioned, "公开 opentag")) == ["snap_s"]
    assert store.search(versioned, "SECRET") == []
    row = store.find(versioned, "snap_s")
    assert (row.sealed, row.title, row.tags, row.description) == (
        True,
        "公开的标题",
        ("opentag",),
        "",
    )
    assert "公开的标题".encode() in everything(versioned.home)  # the test can see


def test_the_leak_test_sees_what_is_in_clear(versioned: store.Store) -> None:
    store.save(versioned, [secret()], now_ms=NOW)
    assert set(leaks(versioned.home)) >= {SECRETS[0], SECRETS[1], SECRETS[2], "秘密"}


def test_seal_metadata_too(versioned: store.Store) -> None:
    hidden = Sealing(PASS, metadata=True)
    store.save(versioned, [secret()], now_ms=NOW, sealing=hidden)
    data = everything(versioned.home)
    for text in ("公开的标题", "opentag", "conv-clear", *SECRETS):
        assert text.encode() not in data
    assert store.search(versioned, "公开") == []
    # What is hidden stays hidden, whoever saves or changes it next.
    store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    store.set_weight(versioned, "snap_s", 3, now_ms=NOW, sealing=Sealing(PASS))
    assert "公开的标题".encode() not in everything(versioned.home)
    assert document.parse(store.text_of(versioned, "snap_s", PASS)).meta.weight == 3


def test_index_plaintext_finds_all(kept: store.Store) -> None:
    store.save(kept, [secret()], now_ms=NOW, sealing=Sealing(PASS, index=True))
    assert ids(store.search(kept, "SECRET-TOKEN")) == ["snap_s"]
    assert is_envelope(store.stored_text(kept, "snap_s"))
    # Taking it back leaves nothing.
    store.save(kept, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    assert leaks(kept.home) == []


def test_sealing_what_was_clear_wipes_the_database(versioned: store.Store) -> None:
    others = [snapshot(f"s{i}") for i in range(20)]
    store.save(versioned, [secret(), *others], now_ms=NOW)
    store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    database = b"".join(path.read_bytes() for path in versioned.home.glob("snapshots.db*"))
    for text in (*SECRETS, "秘密"):
        assert text.encode() not in database
    assert ids(store.search(versioned, "FTS5", limit=50)) != []
    assert "readable in the history" in str(versioned.warnings[0])
    assert store.integrity(versioned, PASS) == []


def test_clear_text_never_replaces_sealed_text(kept: store.Store) -> None:
    store.save(kept, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    with pytest.raises(StoreError, match="sealed"):
        store.save(kept, [secret()], now_ms=NOW)
    with pytest.raises(StoreError, match="sealed"):
        store.set_weight(kept, "snap_s", 2, now_ms=NOW)
    with pytest.raises(StoreError, match="sealed"):
        store.text_of(kept, "snap_s")
    with pytest.raises(DcbError, match="wrong passphrase"):
        store.text_of(kept, "snap_s", "not the passphrase")
    assert leaks(kept.home) == []


def test_sealing_the_same_again_changes_nothing(versioned: store.Store) -> None:
    store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    before = store.stored_text(versioned, "snap_s")
    (saved,) = store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    assert saved.state == "same"
    assert store.stored_text(versioned, "snap_s") == before
    assert len(store.versions(versioned, "snap_s")) == 1


# -------------------------------------------------------------------- history


def test_rollback_goes_back_and_is_a_version_itself(versioned: store.Store) -> None:
    for i in range(3):
        store.save(versioned, [snapshot("s", f"version {i}")], now_ms=NOW + i)
    saved, ref = store.rollback(versioned, "s", now_ms=NOW + 10)
    assert (saved.state, saved.sealed) == ("changed", False)
    assert "version 1" in store.text_of(versioned, "s")
    assert ids(store.search(versioned, "version 1")) == ["s"]
    found = store.versions(versioned, "s")
    assert [version.subject for version in found] == ["snapshot s: save"] * 4
    assert ref == found[2].ref
    store.rollback(versioned, "s", found[-1].ref, now_ms=NOW + 11)
    assert "version 0" in store.text_of(versioned, "s")
    with pytest.raises(BadInput):
        store.rollback(versioned, "s", "nope", now_ms=NOW)
    with pytest.raises(BadInput):
        store.rollback(versioned, "unknown", now_ms=NOW)


def test_rollback_brings_a_removed_snapshot_back(versioned: store.Store) -> None:
    store.save(versioned, [snapshot("s", "the last words")], now_ms=NOW)
    store.remove(versioned, ["s"])
    assert store.listing(versioned) == []
    assert store.search(versioned, "words") == []
    assert [version.removed for version in store.versions(versioned, "s")] == [True, False]
    saved, _ = store.rollback(versioned, "s", now_ms=NOW)
    assert saved.state == "new"
    assert ids(store.search(versioned, "last words")) == ["s"]


def test_rollback_keeps_the_sealed_flag_right(versioned: store.Store) -> None:
    sealing = Sealing(PASS)
    store.save(versioned, [snapshot("s", "first text")], now_ms=NOW)  # clear
    store.save(versioned, [snapshot("s", "second text")], now_ms=NOW, sealing=sealing)
    store.save(versioned, [snapshot("s", "third text")], now_ms=NOW, sealing=sealing)
    with pytest.raises(StoreError, match="sealed"):
        store.rollback(versioned, "s", now_ms=NOW)
    second = (versioned.home / "snapshots" / ".git", store.versions(versioned, "s")[1].ref)
    saved, ref = store.rollback(versioned, "s", now_ms=NOW, sealing=sealing)
    assert (saved.sealed, ref) == (True, second[1])
    assert store.find(versioned, "s").sealed
    assert "second text" in store.text_of(versioned, "s", PASS)
    assert versioned.history is not None
    assert store.stored_text(versioned, "s") == history.content(versioned.history, "s", ref)
    # A clear version of what is sealed now comes back sealed.
    oldest = store.versions(versioned, "s")[-1].ref
    saved, _ = store.rollback(versioned, "s", oldest, now_ms=NOW, sealing=sealing)
    assert saved.sealed
    assert store.find(versioned, "s").sealed
    assert is_envelope(store.stored_text(versioned, "s"))
    assert "first text" in store.text_of(versioned, "s", PASS)
    assert store.search(versioned, "first") == []
    assert store.integrity(versioned, PASS) == []


def test_a_batch_is_one_commit(versioned: store.Store) -> None:
    store.save(versioned, [snapshot(f"s{i}") for i in range(30)], now_ms=NOW)
    assert len(store.versions(versioned, "s7")) == 1
    assert store.versions(versioned, "s7")[0].ref == store.versions(versioned, "s8")[0].ref


def test_without_history_the_store_works(kept: store.Store) -> None:
    store.save(kept, [snapshot("s")], now_ms=NOW)
    assert not (kept.home / "snapshots").exists()
    with pytest.raises(StoreError, match="history is off"):
        store.versions(kept, "s")
    with pytest.raises(StoreError, match="history is off"):
        store.rollback(kept, "s", now_ms=NOW)


def test_a_failing_git_is_a_warning_and_the_save_stands(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho 'fatal: no' >&2\nexit 128\n")
    program.chmod(0o755)
    repo = history.open_history(tmp_path / "h" / "snapshots", environ={"PATH": str(tmp_path)})
    with store.open_store(tmp_path / "h", history=repo) as kept:
        store.save(kept, [snapshot("s")], now_ms=NOW)
        assert "fatal: no" in str(kept.warnings[0])
        assert store.find(kept, "s")


def test_weight(kept: store.Store) -> None:
    store.save(kept, [snapshot("s")], now_ms=NOW)
    store.set_weight(kept, "s", 7, now_ms=NOW)
    assert document.parse(store.text_of(kept, "s")).meta.weight == 7
    assert document.verify(store.text_of(kept, "s"))


# ------------------------------------------------------------ several at once

WORKER = """
    import sys
    from pathlib import Path
    import os
    sys.path.insert(0, {root!r})
    from dcb import history, store
    from dcb.store import Sealing
    from tests.dcb.test_store import NOW, PASS, snapshot
    home, name, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    env = {{"PATH": os.environ["PATH"], "HOME": str(home)}}
    repo = history.open_history(home / "snapshots", environ=env) if "git" in sys.argv else None
    print("go", flush=True)
    for i in range(n):
        with store.open_store(home, history=repo, now_ms=NOW) as kept:
            store.save(kept, [snapshot(f"{{name}}-{{i}}", f"共同 text {{name}} {{i}}")], now_ms=NOW)
            assert not kept.warnings, kept.warnings
            found = store.search(kept, f"共同 {{name}}", limit=100)
            assert len(found) == i + 1, (len(found), i)
            print(i, flush=True)
"""


def worker(home: Path, name: str, n: int, *more: str) -> subprocess.Popen[str]:
    code = textwrap.dedent(WORKER.format(root=str(ROOT)))
    return subprocess.Popen(
        [sys.executable, "-c", code, home, name, str(n), *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def test_four_processes_save_and_search_at_once(tmp_path: Path) -> None:
    more = ["git"] if shutil.which("git") else []
    started = [worker(tmp_path, f"w{k}", 12, *more) for k in range(4)]
    for process in started:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
    with store.open_store(tmp_path) as kept:
        assert len(store.listing(kept, limit=-1)) == 48
        assert len(store.search(kept, "共同", limit=100)) == 48
        assert store.integrity(kept) == []
    if more:
        listed = subprocess.run(
            ["git", "-C", tmp_path / "snapshots", "rev-list", "--count", "HEAD"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert listed.stdout.strip() == "48"


def test_killed_while_saving_it_stays_whole(tmp_path: Path) -> None:
    more = ["git"] if shutil.which("git") else []
    dice = random.Random(7)
    told: set[str] = set()
    for k in range(12):
        process = worker(tmp_path, f"k{k}", 200, *more)
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(dice.uniform(0.01, 0.5))
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        told |= {f"k{k}-{line}" for line in out.split()}
    with store.open_store(tmp_path) as kept:
        assert store.integrity(kept) == []
        names = {row.snapshot_id for row in store.listing(kept, limit=-1)}
        assert told <= names  # what a save returned from is there
        assert len(store.search(kept, "共同", limit=9999)) == len(names)
    last = worker(tmp_path, "last", 2, *more)
    _, errors = last.communicate(timeout=120)
    assert last.returncode == 0, errors


def test_a_reader_sees_no_half_batch(tmp_path: Path) -> None:
    with store.open_store(tmp_path) as one, store.open_store(tmp_path) as other:
        with schema.transaction(one):
            one.db.execute("DELETE FROM snapshots")
            assert store.listing(other) == []
        store.save(one, [snapshot("a"), snapshot("b")], now_ms=NOW)
        assert len(store.listing(other)) == 2


def test_envelope_of_the_program_is_read(kept: store.Store) -> None:
    """A sealed row of the program keeps the checksum of the body in clear."""
    text = document.serialize(snapshot("snap_s"), PLUGIN)
    sealed = seal(text.encode(), PASS, salt=bytes(16), iv=bytes(12))
    doc = DOC | {"id": "snap_s", "summary": None}
    insert_as_program(kept.db, doc, sealed)
    kept.db.execute("UPDATE snapshots SET checksum = 'sha256:00' WHERE snapshot_id = 'snap_s'")
    assert store.text_of(kept, "snap_s", PASS) == text
    assert store.integrity(kept, PASS) == []
