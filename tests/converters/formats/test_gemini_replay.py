"""Gemini CLI: what a recording or a document says after all of its lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.errors import DcbError
from converters.formats.gemini import FORMAT
from converters.ir import Usage
from tests.converters.formats.gemini_recordings import HASH, HEAD, SID, model, one, texts, user
from tests.reading import counts, lines, read


def test_a_line_with_a_known_id_takes_the_place_of_the_earlier_one() -> None:
    session, found = one(
        user(1, "q"), model(2, "dra"), user(3, "r"), model(2, "draft", tokens={"input": 1})
    )
    assert texts(session) == ["q", "draft", "r"]
    assert session.turns[0].steps[0].usage == Usage(1, 0, 0, None, 0, {"usage": {"input": 1}})
    assert found == {"duplicate-record": 1}


def test_metadata_merges() -> None:
    session, found = one(
        {"lastUpdated": "x"},
        user(1, "q"),
        {"$set": {"summary": "A title", "lastUpdated": "y"}},
        {"$set": 5},
    )
    assert session.title == "A title"
    assert session.extra == {"native": {"projectHash": HASH, "lastUpdated": "y"}}
    assert found == {"malformed-record": 1}


def test_rewound_messages_are_branches() -> None:
    records = [
        user(1, "q"),
        model(2, "a"),
        user(3, "wrong"),
        model(4, "w"),
        {"$rewindTo": "u3"},
        user(5, "right"),
        {"$rewindTo": "nowhere"},
        user(6, "anew"),
        {"$rewindTo": "u6"},
        {"$rewindTo": "u6"},
        user(7, "end"),
    ]
    session, found = one(*records)
    assert texts(session) == ["end"]
    assert found == {"branch-collapsed": 6}
    assert session.extra is not None
    kept = session.extra["branches"]
    assert [[m["id"] for m in branch["messages"]] for branch in kept] == [
        ["u3", "g4"],
        ["u1", "g2", "u5"],
        ["u6"],
    ]
    assert [branch["parent"] for branch in kept] == ["g2", None, None]

    sessions, report = read(FORMAT, lines(HEAD, *records), "session-1.jsonl", branch="all")
    assert [s.meta.id for s in sessions] == [SID, *(f"{SID}~b{n}" for n in (1, 2, 3))]
    assert [texts(s) for s in sessions] == [
        ["end"],
        ["q", "a", "wrong", "w"],
        ["q", "a", "right"],
        ["anew"],
    ]
    assert "branch-collapsed" not in counts(report)

    sessions, report = read(FORMAT, lines(HEAD, *records), "session-1.jsonl", branch=1)
    assert [texts(s) for s in sessions] == [["q", "a", "wrong", "w"]]
    assert sessions[0].extra is not None
    assert sessions[0].extra["branch"] == {"of": SID, "n": 1}
    assert counts(report)["branch-collapsed"] == 3
    assert report.records.mapped == 9


def test_rewinding_takes_linear_time() -> None:
    records: list[Any] = [user(n, f"t{n}") | {"id": f"k{n}"} for n in range(20_000)]
    records += [{"$rewindTo": f"k{number}"} for number in range(19_999, 0, -1)]
    sessions, _ = read(FORMAT, lines(HEAD, *records), "session-1.jsonl")
    assert texts(sessions[0]) == ["t0"]


def test_a_rewritten_history_keeps_what_was_before_shadowed() -> None:
    session, found = one(
        user(1, "old"),
        model(2, "gone"),
        user(3, "kept"),
        {"$set": {"messages": [user(3, "kept"), model(4, "new"), 7]}},
        user(5, "next"),
    )
    assert texts(session) == ["old", "gone", "kept", "new", "next"]
    assert [turn.shadowed for turn in session.turns] == [True, False, False]
    assert found == {"compacted-unavailable": 1, "duplicate-record": 1, "malformed-record": 1}


def test_a_document_on_the_first_line_goes_on_in_the_next_ones() -> None:
    data = lines({**HEAD, "messages": [user(1, "q")]}, model(2, "a"))
    sessions, report = read(FORMAT, data, "session-1.jsonl")
    assert texts(sessions[0]) == ["q", "a"]
    assert report.records.total == 3


@pytest.mark.parametrize("indent", [None, 1])
def test_one_document(indent: int | None) -> None:
    document = {**HEAD, "messages": [user(1, "q"), model(2, "a"), 5]}
    data = json.dumps(document, indent=indent).encode()
    sessions, report = read(FORMAT, data, "session-1.json")
    assert texts(sessions[0]) == ["q", "a"]
    assert report.records.total == 3
    for cut in range(len(data) - 1, data.rindex(b"5"), -1):
        sessions, report = read(FORMAT, data[:cut], "session-1.json")
        assert texts(sessions[0]) == ["q", "a"]


# repeated ids


def document(*messages: Any, **more: Any) -> bytes:
    return json.dumps({**HEAD, **more, "messages": messages}).encode()


@pytest.mark.parametrize("ids", ["", "same", None])
def test_what_a_document_repeats_stays(ids: str | None) -> None:
    said = [user(1, "one"), model(2, "A1"), user(3, "two"), model(4, "A2"), user(3, "two")]
    sessions, report = read(FORMAT, document(*({**m, "id": ids} for m in said)), "session-1.json")
    assert texts(sessions[0]) == ["one", "A1", "two", "A2", "two"]
    assert report.records.mapped == 5
    assert "duplicate-record" not in counts(report)


def test_an_empty_id_is_none() -> None:
    records = [{**record, "id": ""} for record in (user(1, "q"), model(2, "a"), user(3, "r"))]
    session, found = one(*records)
    assert texts(session) == ["q", "a", "r"]
    assert found == {}
    session, found = one(*records, {"$rewindTo": ""}, user(4, "anew"))
    assert texts(session) == ["anew"]
    assert session.extra is not None
    assert session.extra["branches"][0]["parent"] is None
    session, _ = one(*records, user(4, "s"), {"$rewindTo": "u4"}, user(5, "t"))
    assert session.extra is not None
    assert session.extra["branches"][0]["parent"] == "line 4"


def test_a_line_replaces_the_last_message_of_its_id_and_rewinds_to_the_first() -> None:
    start = {**HEAD, "messages": [user(1, "q") | {"id": "1"}, model(2, "dra") | {"id": "1"}]}
    update = model(2, "draft") | {"id": "1"}
    sessions, report = read(FORMAT, lines(start, update), "session-1.jsonl")
    assert texts(sessions[0]) == ["q", "draft"]
    assert counts(report)["duplicate-record"] == 1
    rewound = lines(start, {"$rewindTo": "1"}, user(3, "anew"))
    sessions, report = read(FORMAT, rewound, "session-1.jsonl")
    assert texts(sessions[0]) == ["anew"]
    assert counts(report)["branch-collapsed"] == 2
    later = lines(start, model(3, "a"), user(4, "r") | {"id": "1"}, {"$rewindTo": "g3"}, update)
    sessions, _ = read(FORMAT, later, "session-1.jsonl")
    assert texts(sessions[0]) == ["q", "draft"]


# branches and rewritten histories


def test_a_branch_has_what_was_rewritten_before_it_only() -> None:
    records = [
        user(1, "one"),
        model(2, "A1"),
        {"$set": {"messages": [user(3, "two"), model(4, "A2")]}},
        user(5, "three"),
        {"$rewindTo": "u5"},
        user(6, "four"),
        {"$set": {"messages": [user(6, "four"), model(7, "A4")]}},
    ]
    data = lines(HEAD, *records)
    sessions, report = read(FORMAT, data, "session-1.jsonl", branch=1)
    assert texts(sessions[0]) == ["one", "A1", "two", "A2", "three"]
    assert [turn.shadowed for turn in sessions[0].turns] == [True, False, False]
    assert counts(report)["compacted-unavailable"] == 1
    sessions, report = read(FORMAT, data, "session-1.jsonl", branch="all")
    assert [texts(session) for session in sessions] == [
        ["one", "A1", "two", "A2", "four", "A4"],
        ["one", "A1", "two", "A2", "three"],
    ]
    assert counts(report)["duplicate-record"] == 1


@pytest.mark.parametrize("branch", ["active", "all", 1])
@pytest.mark.parametrize(
    "later",
    [
        [model(2, "full"), user(4, "on")],
        [{"$set": {"messages": [user(1, "q"), model(2, "full"), user(4, "on")]}}],
    ],
)
def test_a_branch_keeps_the_version_that_it_had(branch: str | int, later: list[Any]) -> None:
    records = [user(1, "q"), model(2, "draft"), user(3, "wrong"), {"$rewindTo": "u3"}, *later]
    sessions, report = read(FORMAT, lines(HEAD, *records), "session-1.jsonl", branch=branch)
    active, left = ["q", "full", "on"], ["q", "draft", "wrong"]
    expected = {"active": [active], "all": [active, left], 1: [left]}
    assert [texts(session) for session in sessions] == expected[branch]
    assert report.records.aside == (branch == "active")


def test_what_comes_back_stands_once() -> None:
    session, found = one(
        user(1, "one"),
        model(2, "A1"),
        {"$set": {"messages": [user(3, "two")]}},
        {"$set": {"messages": [user(1, "one"), model(2, "A1"), user(3, "two")]}},
        user(4, "three"),
    )
    assert texts(session) == ["one", "A1", "two", "three"]
    assert not any(turn.shadowed for turn in session.turns)
    assert found == {"duplicate-record": 3}


def test_messages_without_ids_come_again_when_they_are_the_same() -> None:
    old = [{"type": "user", "content": text} for text in ("one", "two", "two")]
    session, found = one(*old, {"$set": {"messages": [*old[1:2], user(4, "next")]}})
    assert texts(session) == ["one", "two", "two", "next"]
    assert [turn.shadowed for turn in session.turns] == [True, True, False, False]
    assert found == {"duplicate-record": 1, "compacted-unavailable": 1}


def test_left_out_messages_of_one_id_are_not_taken_for_each_other() -> None:
    old = [user(1, "one") | {"id": "1"}, model(2, "A1") | {"id": "1"}]
    session, found = one(
        {"messages": old}, {"$set": {"messages": [old[1]]}}, {"$set": {"messages": [old[1]]}}
    )
    assert texts(session) == ["one", "", "A1"]
    assert found == {"duplicate-record": 2, "compacted-unavailable": 1}


def test_other_messages_of_one_id_and_type_stay_left_out() -> None:
    old = [user(number, text) | {"id": "1"} for number, text in enumerate(("one", "two", "three"))]
    session, found = one({"messages": old}, {"$set": {"messages": old[2:]}})
    assert texts(session) == ["one", "two", "three"]
    assert [turn.shadowed for turn in session.turns] == [True, True, False]
    assert found == {"duplicate-record": 1, "compacted-unavailable": 1}


def test_repeated_messages_of_a_subagent_that_is_left_out_are_counted() -> None:
    data = lines({**HEAD, "kind": "subagent"}, user(1, "q"), model(2, "dra"), model(2, "draft"))
    sessions, report = read(FORMAT, data, "session-1.jsonl", subagents="skip")
    assert not sessions
    assert counts(report) == {"duplicate-record": 1, "subagent-skipped": 2}


# lines or a document


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("size", [10, 65_400, 65_536, 200_000])
def test_a_long_first_line_goes_on_in_the_next_ones(encoding: str, size: int) -> None:
    first = {**HEAD, "messages": [user(1, "x" * size), model(2, "a")]}
    data = lines(first, user(3, "r"), model(4, "b")).decode().encode(encoding)
    sessions, report = read(FORMAT, data, "session-1.jsonl")
    assert texts(sessions[0])[1:] == ["a", "r", "b"]
    assert report.records.total == 5
    alone = lines(first).decode().encode(encoding)
    sessions, report = read(FORMAT, alone, "session-1.json")
    assert len(texts(sessions[0])) == report.records.total == 2


def test_a_first_line_as_long_as_the_head_is_whole() -> None:
    base = {**HEAD, "messages": [user(1, "")]}
    for rest in range(-3, 3):
        text = "x" * ((1 << 16) - len(lines(base)) + rest)
        data = lines({**HEAD, "messages": [user(1, text)]}, user(2, "r"))
        sessions, _ = read(FORMAT, data, "session-1.jsonl")
        assert texts(sessions[0]) == [text, "r"]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_may_have_much_before_its_messages(indent: int | None) -> None:
    root = {**HEAD, "summary": "s" * 70_000, "messages": [user(1, "q"), model(2, "a")]}
    data = json.dumps(root, indent=indent).encode()
    sessions, _ = read(FORMAT, data, "session-1.json")
    assert texts(sessions[0]) == ["q", "a"]


def test_a_document_may_have_a_message_on_each_line() -> None:
    data = b'{"sessionId": "s", "messages": [\n%s]}' % b",\n".join(
        json.dumps(m).encode() + b"\n" * (m["id"] == "g2") for m in (user(1, "q"), model(2, "a"))
    )
    sessions, _ = read(FORMAT, data, "session-1.json")
    assert texts(sessions[0]) == ["q", "a"]


def test_a_torn_first_line_does_not_take_the_others_with_it() -> None:
    first = lines({**HEAD, "messages": [user(1, "q"), model(2, "a")]})
    for cut in range(len(first) - 2, 1, -1):
        data = first[:cut] + b"\n" + lines(user(3, "r"), model(4, "b"))
        try:
            sessions, report = read(FORMAT, data, "session-1.jsonl")
        except DcbError:
            sessions = []
        if first[cut - 1 : cut].strip() in (b"{", b"[", b",", b":", b""):
            continue  # looks like a document on several lines
        assert texts(sessions[0])[-2:] == ["r", "b"]
        assert counts(report)["malformed-record"] == 1
