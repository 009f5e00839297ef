"""Searching the store: vectors, hostile queries, what is found first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from converters.errors import UsageError
from dcb import store
from dcb.snapshot import document
from dcb.snapshot.model import Snapshot
from dcb.store import index, schema
from dcb.store.search import plan_as_plugin, search_as_plugin
from tests.dcb.store.snapshots import NOW, ids, insert_as_program, snapshot
from tests.paths import VECTORS, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

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
