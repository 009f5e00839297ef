"""ChatGPT exports: vectors, hostile pack, containers, the tree, and any value in any member."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import BadInput, DcbError
from converters.formats.chatgpt import FORMAT
from converters.formats.chatgpt.tree import tree_of, way_to
from converters.ir import Text
from converters.types import Head
from tests.converters.formats.chatgpt_exports import chain, conversation, dump, node, one
from tests.converters.formats.vectors import expected, projection, table, vectors
from tests.pack import cases, pack
from tests.paths import GOLDEN, needs_shared
from tests.reading import counts, read
from tests.wrong_types import WRONG, check_survived, places, put

DEVIATIONS = table("deviations_chatgpt.json")

# vectors, hostile pack


@needs_shared
@pytest.mark.parametrize("vector", vectors("converted", "chatgpt.jsonl"), ids=lambda v: v["case"])
def test_vectors(vector: dict[str, Any]) -> None:
    try:
        wanted = {"branch": "all"} if vector["args"].get("branch") == "all" else {}
        sessions, _ = read(
            FORMAT, vector["inputs"][0].encode(), "conversations.json", None, **wanted
        )
    except BadInput:
        sessions = []
    theirs = {c["meta"]["sourceId"]: c for c in vector["result"]["conversations"] if c["turns"]}
    ours = {session.meta.id: session for session in sessions}
    found = {"sessions": list(ours) == list(theirs)}
    for name in ours.keys() & theirs.keys():
        session, their = ours[name], theirs[name]
        found["turns"] = found.get("turns", True) and projection(session.turns) == expected(
            their["turns"]
        )
        found["title"] = found.get("title", True) and (session.title or "") == their["title"]
        assert session.meta.created_at == their["meta"]["createdAt"]
    known = DEVIATIONS.get(vector["case"], {"fields": []})
    assert [name for name, same in found.items() if not same] == known["fields"]


def test_every_deviation_has_its_reason() -> None:
    assert all(row["fields"] and row["reason"] for row in DEVIATIONS.values())


@needs_shared
@pytest.mark.parametrize(
    "case",
    [case for case in cases("json") if case["format"] == "chatgpt"],
    ids=lambda case: case["name"],
)
def test_hostile(case: dict[str, Any]) -> None:
    data = (pack() / case["name"]).read_bytes()
    try:
        sessions, report = read(FORMAT, data, Path(case["name"]).name)
    except DcbError:
        assert "clean-error" in (case["expect"], case.get("also"))
        return
    if case["expect"] == "clean-error":
        assert not sessions
        return
    output = msgspec.json.encode(sessions).decode()
    assert not [word for word in case.get("survive", ()) if word not in output]
    if case.get("rules") and not case.get("quiet"):
        assert set(case["rules"]) & counts(report).keys()


# what is recognised


def test_probe() -> None:
    whole = conversation(node("a", None, "user", "hi"))
    for value in ([whole], {"conversations": [whole]}, whole, [None, 5, whole]):
        match = FORMAT.probe(Head(dump(value)))
        assert match is not None
        assert match.score == 90
    empty = FORMAT.probe(Head(dump({"mapping": {}, "title": "x"})))
    assert empty is not None
    assert empty.score == 60
    others: list[Any] = [
        {"mapping": {}},
        {"mapping": {"a": 1}},
        {**whole, "inserted_at": "2026-01-01"},
        [{"role": "user", "content": "hi"}],
        {"conversations": 5},
    ]
    for other in others:
        assert FORMAT.probe(Head(dump(other))) is None


# containers


@pytest.mark.parametrize(
    "wrap",
    [
        lambda c: c,
        lambda c: [c],
        lambda c: {"conversations": [c]},
        lambda c: {"a": 1, "conversations": [c]},
    ],
    ids=["one", "array", "object", "object-late"],
)
def test_containers(wrap: Any) -> None:
    session, found = one(wrap(chain(("user", "q"), ("assistant", "a"))))
    assert session.meta.id == "c-1"
    assert [turn.prompt for turn in session.turns] == ["q"]
    assert found == {}


def test_a_torn_array_keeps_whole_conversations_and_what_is_left_of_the_last() -> None:
    data = dump([chain(("user", "one")), {**chain(("user", "two")), "conversation_id": "c-2"}])
    for cut in range(len(data) - 1, data.index(b'"two"') + 40, -7):
        sessions, report = read(FORMAT, data[:cut], "conversations.json")
        assert [s.turns[0].prompt for s in sessions] == ["one", "two"]
        assert counts(report)["truncated-input"] == 1
    sessions, report = read(FORMAT, data[: data.index(b'"two"') - 120], "conversations.json")
    assert len(sessions) == 1
    assert counts(report)["truncated-input"] == 1


def test_more_after_the_array_is_counted() -> None:
    _, report = read(FORMAT, dump([chain(("user", "one"))]) + b"\n{}", "conversations.json")
    assert counts(report) == {"text-outside-records": 1}


def test_repeated_conversations_count_once() -> None:
    sessions, report = read(FORMAT, dump([chain(("user", "x"))] * 3), "conversations.json")
    assert len(sessions) == 1
    assert counts(report) == {"duplicate-record": 4}


def test_an_id_is_made_of_content_and_place() -> None:
    value = chain(("user", "x"))
    del value["conversation_id"]
    first, report = read(FORMAT, dump([value, value]), "conversations.json")
    again, _ = read(FORMAT, dump([value, value]), "elsewhere.json")
    assert [s.meta.id for s in first] == [s.meta.id for s in again]
    assert first[0].meta.id != first[1].meta.id
    assert counts(report) == {"id-minted": 2}


# the tree


def test_branches_by_request() -> None:
    value = conversation(
        node("u", None, "user", "q"),
        node("a1", "u", "assistant", "first"),
        node("u2", "a1", "user", "more"),
        node("a2", "u", "assistant", "second"),
        current_node="a2",
    )
    session, found = one(value)
    assert [step.content for step in session.turns[0].steps] == [[Text("second")]]
    assert found == {"branch-collapsed": 2}
    assert session.extra is not None
    (branch,) = session.extra["branches"]
    assert (branch["id"], branch["parent"], list(branch["nodes"])) == ("c-1~b1", "u", ["a1", "u2"])

    sessions, report = read(FORMAT, dump(value), "x.json", branch="all")
    assert [s.meta.id for s in sessions] == ["c-1", "c-1~b1"]
    assert sessions[0].extra is None
    assert sessions[1].extra == {"branch": {"of": "c-1", "n": 1}}
    assert [turn.prompt for turn in sessions[1].turns] == ["q", "more"]
    assert sessions[1].turns[0].steps[0].content == [Text("first")]
    assert report.records.mapped == 4
    assert counts(report) == {}

    sessions, report = read(FORMAT, dump(value), "x.json", branch=1)
    assert [s.meta.id for s in sessions] == ["c-1~b1"]
    assert counts(report) == {"branch-collapsed": 1}

    sessions, report = read(FORMAT, dump(value), "x.json", branch=7)
    assert sessions == []
    assert counts(report) == {"branch-collapsed": 4, "empty-session": 1}


def test_without_a_current_node_the_newest_leaf_counts_and_the_deepest_on_ties() -> None:
    nodes = [
        node("u", None, "user", "q", create_time=1.0),
        node("late", "u", "assistant", "late", create_time=9.0),
        node("early", "u", "assistant", "early", create_time=2.0),
    ]
    session, _ = one(conversation(*nodes, current_node="nowhere"))
    assert session.turns[0].steps[0].content == [Text("late")]
    nodes = [
        node("u", None, "user", "q"),
        node("a", "u", "assistant", "shallow"),
        node("b", "u", "assistant", "deep"),
        node("c", "b", None),
        node("d", "u", None),
    ]
    session, _ = one(conversation(*nodes, current_node=None))
    assert session.turns[0].steps[0].content == [Text("deep")]


@pytest.mark.parametrize("current", ["root", "hollow"])
def test_a_current_node_before_everything_said_is_none(current: str) -> None:
    value = conversation(
        node("root", None),
        node("hollow", "root", "system", "be kind"),
        node("u", "hollow", "user", "q", create_time=1.0),
        node("a", "u", "assistant", "old", create_time=2.0),
        node("b", "u", "assistant", "new", create_time=3.0),
        current_node=current,
    )
    session, found = one(value)
    assert session.turns[0].prompt == "q"
    assert session.turns[0].steps[0].content == [Text("new")]
    assert found == {"malformed-member": 1, "branch-collapsed": 1, "system-prompt-aside": 1}
    sessions, _ = read(FORMAT, dump(value), "x.json", branch=1)
    assert [step.content for step in sessions[0].turns[0].steps] == [[Text("old")]]


def test_where_the_newest_leaf_says_nothing_the_newest_message_counts() -> None:
    value = conversation(
        node("root", None),
        node("u", "root", "user", "q", create_time=1.0),
        node("a", "u", "assistant", "yes", create_time=2.0),
        node("late", "root", "user", "", create_time=9.0),
        current_node="late",
    )
    session, found = one(value)
    assert session.turns[0].steps[0].content == [Text("yes")]
    assert found == {"malformed-member": 1, "branch-collapsed": 1}


def test_what_no_session_holds_is_not_aside() -> None:
    value = conversation(
        node("s", None, "system", "be kind"),
        node("r", "s", "narrator", "once"),
        node("x", "s", "narrator", "twice"),
        current_node="r",
    )
    sessions, report = read(FORMAT, dump(value), "x.json")
    assert sessions == []
    assert (report.records.aside, report.records.skipped) == (0, 3)
    assert counts(report) == {
        "system-prompt-aside": 1,
        "role-unknown": 1,
        "branch-collapsed": 1,
        "empty-session": 1,
    }


def test_parts_with_a_lost_parent_are_put_in_by_time() -> None:
    value = conversation(
        node("u", None, "user", "second", create_time=20.0),
        node("lost", "gone", "user", "first", create_time=10.0),
        node("lost2", "lost", "assistant", "yes", create_time=11.0),
        node("a", "u", "assistant", "end", create_time=21.0),
    )
    session, found = one(value)
    assert [turn.prompt for turn in session.turns] == ["first", "second"]
    assert found == {}


_NAMES = st.sampled_from("abcdefgh")
_PARENTS = st.one_of(st.none(), _NAMES, st.just("ghost"), st.integers())


@given(st.dictionaries(_NAMES, _PARENTS, max_size=8), st.one_of(_NAMES, st.none()))
def test_every_node_has_one_place(parents: dict[str, Any], current: str | None) -> None:
    nodes = {name: {"parent": parent} for name, parent in parents.items()}
    tree = tree_of(nodes, current)
    placed = tree.path + [name for branch in tree.branches for name in branch.own]
    assert sorted(placed) == sorted(nodes)
    if current in nodes:
        end = way_to(current, nodes)
        at = tree.path.index(end[0])
        assert tree.path[at : at + len(end)] == end


def test_a_wide_and_deep_tree_takes_linear_time() -> None:
    nodes: dict[str, dict[str, Any]] = {"0": {"parent": None}}
    for number in range(1, 20_000):
        nodes[str(number)] = {"parent": str(number - 1)}
        nodes[f"leaf{number}"] = {"parent": str(number)}
    tree = tree_of(nodes, None)
    assert len(tree.path) + sum(len(b.own) for b in tree.branches) == len(nodes)


# any value in any member


@pytest.mark.parametrize("case", ["tools", "records", "branches"])
def test_wrong_types_everywhere(case: str) -> None:
    root = json.loads((GOLDEN / "chatgpt" / case / "input.json").read_text(encoding="utf-8"))
    for path in places(root):
        for odd in WRONG:
            check_survived(FORMAT, dump(put(root, path, odd)), "conversations.json")


def test_stray_brackets_between_conversations() -> None:
    first, second = chain(("user", "one")), {**chain(("user", "two")), "conversation_id": "c-2"}
    data = b"[" + dump(first) + b"}, :, " + dump(second) + b"]"
    sessions, report = read(FORMAT, data, "conversations.json")
    assert [s.turns[0].prompt for s in sessions] == ["one", "two"]
    assert counts(report).keys() == {"malformed-record"}
