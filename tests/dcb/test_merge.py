"""Merging snapshots: the reference vectors, and where the published rules differ."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import UsageError
from dcb.snapshot import document
from dcb.snapshot.merge import POLICIES, merge
from dcb.snapshot.model import Meta, Preference, Snapshot, SummarySection, VerbatimEntry
from dcb.snapshot.profile import PLUGIN
from dcb.snapshot.tokens import estimate_snapshot
from tests.paths import VECTORS, needs_shared


def cases() -> list[Any]:
    path = VECTORS / "dcb" / "fuse.json"
    if not path.is_file():
        return []
    listed = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["name"]) for case in listed]


@needs_shared
@pytest.mark.parametrize("case", cases())
def test_vectors(case: dict[str, Any]) -> None:
    base, overlay = (msgspec.convert(case["input"][n], Snapshot) for n in ("base", "overlay"))
    merged = merge(base, overlay, case["input"]["policy"], PLUGIN)
    wanted = msgspec.convert(case["output"]["snapshot"], Snapshot)
    assert merged.snapshot == wanted
    assert msgspec.to_builtins(list(merged.conflicts)) == case["output"]["conflicts"]


def wish(
    key: str, value: str, at: int = 0, *, scope: Any = "style", sure: bool = True
) -> Preference:
    return Preference(scope=scope, key=key, value=value, explicit=sure, created_at=at)


def entry(content: str, kind: str = "decision", n: int = 1) -> VerbatimEntry:
    return VerbatimEntry(id=f"v-{n:03}", kind=kind, content=content)


def snapshot(name: str, *wishes: Preference, weight: int = 0, **layers: Any) -> Snapshot:
    meta = Meta(snapshot_id=name, title=f"title {name}", weight=weight, created_at=len(name))
    return Snapshot(meta=meta, preferences=wishes, **layers)


def test_scope_and_key_name_a_preference() -> None:
    base = snapshot("base", wish("language", "中文"), wish("persona", "a", scope="role"))
    overlay = snapshot("over", wish("language", "Go", scope="constraint"))
    merged = merge(base, overlay)
    assert [p.value for p in merged.snapshot.preferences] == ["中文", "a", "Go"]
    assert merged.conflicts == ()


def test_keys_of_both_dialects_meet() -> None:
    base = snapshot("base", wish("style.code-comments", "many"))
    overlay = snapshot("over", wish("comment-style", "few"))
    merged = merge(base, overlay)
    assert [(p.key, p.value) for p in merged.snapshot.preferences] == [("comment-style", "few")]
    (conflict,) = merged.conflicts
    assert (conflict.scope, conflict.base_value, conflict.resolved_value) == (
        "style",
        "many",
        "few",
    )


@pytest.mark.parametrize(
    ("policy", "base", "overlay", "weights", "wanted"),
    [
        ("newWins", wish("k", "b", 9), wish("k", "o", 1), (9, 1), ("o", "newWins")),
        ("snapshotWins", wish("k", "b", 1), wish("k", "o", 9), (1, 9), ("b", "snapshotWins")),
        ("timestamp", wish("k", "b", 9), wish("k", "o", 1), (0, 0), ("b", "timestamp-newer")),
        (
            "timestamp",
            wish("k", "b", 5),
            wish("k", "o", 5, sure=False),
            (0, 0),
            ("b", "timestamp-tie-explicit"),
        ),
        ("timestamp", wish("k", "b", 5), wish("k", "o", 5), (0, 0), ("o", "timestamp-tie")),
        ("weighted", wish("k", "b", 1), wish("k", "o", 9), (2, 1), ("b", "weighted")),
        ("weighted", wish("k", "b", 1), wish("k", "o", 9), (1, 1), ("o", "weighted-tie")),
    ],
)
def test_policies(
    policy: str,
    base: Preference,
    overlay: Preference,
    weights: tuple[int, int],
    wanted: tuple[str, str],
) -> None:
    merged = merge(
        snapshot("b", base, weight=weights[0]), snapshot("o", overlay, weight=weights[1]), policy
    )
    value, reason = wanted
    assert [p.value for p in merged.snapshot.preferences] == [value]
    assert [(c.resolved_value, c.reason) for c in merged.conflicts] == [(value, reason)]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="newwins"):
        merge(snapshot("a"), snapshot("b"), "newwins")


def test_code_that_differs_in_blanks_or_case_stays() -> None:
    base = snapshot("b", verbatim=(entry("if x:\n  y()", "code"), entry("Use  Redis", n=2)))
    overlay = snapshot(
        "o",
        verbatim=(
            entry("if x:\n y()", "code"),
            entry("IF x:\n  y()", "code", 2),
            entry("use Redis", n=3),
            entry("use Redis", "directive", 4),
        ),
    )
    merged = merge(base, overlay)
    contents = [e.content for e in merged.snapshot.verbatim]
    assert contents == ["if x:\n  y()", "Use  Redis", "if x:\n y()", "IF x:\n  y()", "use Redis"]
    assert merged.doubles == 1
    assert [e.id for e in merged.snapshot.verbatim] == [f"v-00{n}" for n in range(1, 6)]


def test_result_is_a_snapshot_of_its_own() -> None:
    base = snapshot("base", wish("k", "v"), verbatim=(entry("one"),), weight=3)
    overlay = snapshot("overlay", verbatim=(entry("two"),))
    merged = merge(base, overlay).snapshot
    assert merged.meta.snapshot_id not in ("base", "overlay", "")
    assert merged == merge(base, overlay).snapshot
    assert merged.meta.snapshot_id != merge(overlay, base).snapshot.meta.snapshot_id
    assert merged.meta.token_estimate == estimate_snapshot(merged)
    assert merged.meta.created_at == overlay.meta.created_at
    text = document.serialize(merged)
    assert document.verify(text)
    assert document.parse(text).verbatim == merged.verbatim
    again = merge(merged, overlay).snapshot
    assert again.meta.title == "融合上下文：title base"


def test_the_result_keeps_to_a_budget_and_says_what_that_left_out() -> None:
    base = snapshot("b", wish("k", "v"), verbatim=(entry("old " * 90), entry("must", "directive")))
    overlay = snapshot("o", verbatim=(entry("new " * 90, "code"),))
    whole = merge(base, overlay, max_tokens=300)
    assert (whole.budget, whole) == (None, merge(base, overlay))
    merged = merge(base, overlay, max_tokens=150)
    assert [e.id for e in merged.snapshot.verbatim] == ["v-001", "v-002"]
    assert merged.budget is not None
    assert [(d.item, d.reason) for d in merged.budget.dropped] == [("v-003", "does-not-fit")]
    assert merged.snapshot.meta.token_estimate == estimate_snapshot(merged.snapshot) <= 150
    assert merged.snapshot.meta.snapshot_id != whole.snapshot.meta.snapshot_id
    plugin = merge(base, overlay, profile=PLUGIN, max_tokens=150)
    assert (plugin.budget, len(plugin.snapshot.verbatim)) == (None, 3)


TEXT = st.text(st.sampled_from("ab X|\n中`#"), min_size=1, max_size=8)
WISHES = st.builds(wish, st.sampled_from(["k", "l"]), TEXT, st.integers(0, 3))
SNAPSHOTS = st.builds(
    lambda wishes, texts, bullets: snapshot(
        "s",
        *wishes,
        verbatim=tuple(entry(text, kind) for text, kind in texts),
        summary=(SummarySection(heading="h", bullets=tuple(bullets)),) if bullets else (),
    ),
    st.lists(WISHES, max_size=3),
    st.lists(st.tuples(TEXT, st.sampled_from(["code", "decision"])), max_size=4),
    st.lists(TEXT, max_size=4),
)


@given(base=SNAPSHOTS, overlay=SNAPSHOTS, policy=st.sampled_from(POLICIES))
def test_nothing_is_lost_uncounted(base: Snapshot, overlay: Snapshot, policy: str) -> None:
    merged = merge(base, overlay, policy)
    before = [
        len(s.verbatim) + sum(len(part.bullets) for part in s.summary) for s in (base, overlay)
    ]
    after = len(merged.snapshot.verbatim) + sum(len(p.bullets) for p in merged.snapshot.summary)
    assert after + merged.doubles == sum(before)
    names = [(p.scope, p.key) for p in merged.snapshot.preferences]
    assert sorted(names) == sorted(
        {(p.scope, p.key) for p in base.preferences + overlay.preferences}
    )


@given(base=SNAPSHOTS, policy=st.sampled_from(POLICIES))
def test_merging_with_itself_finds_no_conflict(base: Snapshot, policy: str) -> None:
    distinct = {(p.scope, p.key): p for p in base.preferences}
    same = msgspec.structs.replace(base, preferences=tuple(distinct.values()))
    merged = merge(same, same, policy)
    assert merged.conflicts == ()
    assert len(merged.snapshot.verbatim) == len(base.verbatim)
