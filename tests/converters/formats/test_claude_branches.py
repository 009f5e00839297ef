"""Claude Code: where a conversation forks, and what is kept of the ways not taken."""

from __future__ import annotations

from typing import Any

import pytest

from converters.formats.claude import FORMAT
from tests.converters.formats.claude_records import SID, answer, assistant, call, one, text, user
from tests.reading import counts, lines, read

STOPPED = [{"type": "text", "text": "[Request interrupted by user]"}]


def rewound(between: dict[str, Any], *, new: str) -> list[dict[str, Any]]:
    """Give a rewind whose first prompt goes on from ``between``, its second from ``new``."""
    return [
        user(1, "start"),
        assistant(2, text("a")),
        between,
        user(4, "old", between["uuid"]),
        assistant(5, text("old answer")),
        user(6, "new", new),
        assistant(7, text("new answer")),
    ]


def test_a_record_of_an_unknown_type_is_a_link_of_the_chain() -> None:
    link = {"type": "new-kind", "uuid": "k1", "parentUuid": "r2", "data": {}}
    session, found = one(*rewound(link, new="k1"))
    assert [turn.prompt for turn in session.turns] == ["start", "new"]
    assert found == {"unknown-record": 1, "branch-collapsed": 2}
    assert session.extra is not None
    assert session.extra["records"] == [link]
    # The first of them may be what the conversation begins with.
    root = {"type": "new-kind", "uuid": "k0", "parentUuid": None}
    records = [root, *rewound(link, new="k1")]
    records[1]["parentUuid"] = "k0"
    assert one(*records)[0].turns == session.turns


def test_a_record_beside_the_chain_is_no_second_root() -> None:
    lone = {"type": "new-kind", "uuid": "k0", "parentUuid": None}
    session, _ = one(lone, *rewound(user(3, STOPPED), new="r3"))
    assert [turn.prompt for turn in session.turns] == ["start", "new"]


def test_a_sidechain_goes_on_from_a_record_of_an_unknown_type() -> None:
    side: dict[str, Any] = {"isSidechain": True}
    link = {"type": "new-kind", "uuid": "k1", "parentUuid": "s1", **side}
    first = {**user(11, "dig", None, **side), "uuid": "s1"}
    other = user(12, "look", None, **side)
    more = assistant(13, text("found"), parent="k1", **side)
    sessions, _ = read(FORMAT, lines(user(1, "go"), first, link, other, more))
    assert [[len(turn.steps) for turn in found.turns] for found in sessions] == [[0], [1], [0]]


@pytest.mark.parametrize(
    "notice",
    [
        user(3, STOPPED),
        {"type": "system", "subtype": "compact_boundary", "uuid": "r3", "parentUuid": "r2"},
        {"type": "summary", "summary": "s", "leafUuid": "gone", "uuid": "r3", "parentUuid": "r2"},
    ],
)
@pytest.mark.parametrize("new", ["r2", "r3"])
def test_a_fork_may_go_through_a_notice(notice: dict[str, Any], new: str) -> None:
    """Read straight into turns or into a list first, the session is the same."""
    records = rewound(notice, new=new)
    straight, found = one(*records)
    listed, _ = one(*records, branch=0)
    assert straight == listed
    assert straight.turns[-1].prompt == "new"
    assert found["branch-collapsed"] == 2


def test_a_summary_may_name_a_leaf_that_comes_later() -> None:
    summary = {"type": "summary", "summary": "So far", "leafUuid": "r4"}
    records = [user(1, "a"), assistant(2, text("b")), summary, user(3, "c", "r2"), user(4, "d")]
    straight, _ = one(*records)
    assert straight == one(*records, branch=0)[0]
    assert straight.turns[1].compaction is not None


def kept_branch(records: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, int]]:
    session, found = one(*records)
    assert session.extra is not None
    (branch,) = session.extra["branches"]
    return branch, found


def mixed(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """Give a fork whose first way opens with results of a call before it, and a remark."""
    return [
        user(1, "start"),
        assistant(2, [call("c1")]),
        user(3, [*blocks, *text("old remark")]),
        assistant(4, text("old")),
        user(5, "new remark", "r2"),
        assistant(6, text("new")),
    ]


def test_a_result_whose_call_stands_before_the_fork_is_kept_with_the_branch() -> None:
    branch, found = kept_branch(mixed(answer("c1", "output")))
    (result,) = branch["results"]
    assert (result["toolCallId"], result["content"][0]["text"]) == ("c1", "output")
    assert [turn["prompt"] for turn in branch["turns"]] == ["old remark"]
    assert found == {"branch-collapsed": 2, "tool-result-missing": 1}
    named, _ = read(FORMAT, lines(*mixed(answer("c1", "output"))), branch=1)
    assert named[0].turns[0].steps[0].tool_results[0].tool_call_id == "c1"


def test_what_a_branch_repeats_is_counted() -> None:
    branch, found = kept_branch(mixed(answer("c1", "output"), answer("c1", "again")))
    assert len(branch["results"]) == 1
    assert found["duplicate-tool-result"] == 1


def test_a_summary_among_abandoned_records_is_a_title() -> None:
    summary = {"type": "summary", "summary": "A title", "leafUuid": "r4"}
    records = mixed()
    records.insert(4, summary)
    session, found = one(*records)
    assert session.title == "A title"
    assert found["branch-collapsed"] == 2
    every, report = read(FORMAT, lines(*records), branch="all")
    assert [found.title for found in every] == ["A title", "A title"]
    assert report.records.mapped == 7
    # The last one of the file counts, and the others are named.
    session, found = one(*records, {**summary, "summary": "The last"})
    assert (session.title, found["record-skipped"]) == ("The last", 1)
    # With more behind it, it is a compaction of the branch.
    records.insert(5, user(7, "more", "r4"))
    branch, found = kept_branch(records)
    assert branch["turns"][1]["compaction"]["summary"] == "A title"
    assert found["branch-collapsed"] == 4


def test_a_named_branch_has_the_title_of_the_session() -> None:
    named, report = read(FORMAT, lines(*mixed()), branch=1)
    assert [found.meta.id for found in named] == [f"{SID}~b1"]
    assert named[0].title == "start"
    assert counts(report) == {"tool-result-missing": 1}
