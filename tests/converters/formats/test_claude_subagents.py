"""Claude Code: subagents in files of their own, and how they are tied to their calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.formats.claude import FORMAT
from converters.ir import Text
from tests.converters.formats.claude_records import SID, answer, assistant, call, text, user
from tests.reading import counts, lines, read

MARKS: dict[str, Any] = {"isSidechain": True, "agentId": "abc"}


def own_file() -> list[dict[str, Any]]:
    """Give a subagent's conversation of which one line, the result, bears no mark."""
    return [
        user(1, "dig", None, **MARKS),
        assistant(2, [call("c1")], "m1", **MARKS),
        user(3, [answer("c1", "found")]),
        assistant(4, text("report"), "m2", **MARKS),
    ]


def check_own(session: Any) -> None:
    assert session.meta.id == "abc"
    (turn,) = session.turns
    assert turn.prompt == "dig"
    assert [step.content[0] for step in turn.steps][1] == Text("report")
    assert turn.steps[0].tool_results[0].content == [Text("found")]


@pytest.mark.parametrize("name", ["agent-abc.jsonl", "agent-abc (1).jsonl"])
def test_marked_and_unmarked_lines_of_an_agent_file_are_one_conversation(name: str) -> None:
    sessions, report = read(FORMAT, lines(*own_file()), name)
    (session,) = sessions
    check_own(session)
    assert session.extra is not None
    assert session.extra["parent"] == {"sessionId": SID}
    assert report.records.mapped == 4


def test_a_file_of_marked_lines_says_the_branch_and_the_version() -> None:
    sessions, _ = read(FORMAT, lines(user(1, "dig", None, **MARKS)), "agent-abc.jsonl")
    assert sessions[0].extra == {
        "parent": {"sessionId": SID},
        "git": {"branch": "main"},
        "native": {"version": "2.1.0"},
    }


def test_a_companion_keeps_the_order_of_its_lines() -> None:
    """The results must stand before the message that goes on from them."""
    records = own_file()
    records[2]["message"]["content"].append({"type": "text", "text": "and more"})
    around = {f"{SID}/subagents/agent-abc.jsonl": lines(*records)}
    sessions, report = read(FORMAT, lines(user(1, "go")), f"{SID}.jsonl", around)
    assert [found.meta.id for found in sessions] == [SID, "abc"]
    assert [turn.prompt for turn in sessions[1].turns] == ["dig", "and more"]
    assert sessions[1].turns[1].steps[0].content == [Text("report")]
    assert report.records.mapped == 5


def test_sidechains_without_an_id_in_an_agent_file_are_that_agent() -> None:
    bare = {"isSidechain": True}
    records = [user(1, "dig", None, **bare), user(2, "deeper", None, **bare)]
    for name, around in (
        ("agent-x1.jsonl", {}),
        (f"{SID}.jsonl", {f"{SID}/subagents/agent-x1.jsonl": lines(*records)}),
    ):
        main = lines(user(1, "go")) if around else lines(*records)
        sessions, _ = read(FORMAT, main, name, around)
        assert sessions[-1].meta.id == "x1"
        assert [turn.prompt for turn in sessions[-1].turns] == ["dig", "deeper"]


def test_a_summary_in_an_agent_file_is_its_title() -> None:
    title = {"type": "summary", "summary": "About digging", "leafUuid": "elsewhere"}
    records = [title, *own_file()]
    sessions, report = read(FORMAT, lines(*records), "agent-abc.jsonl")
    check_own(sessions[0])
    assert sessions[0].title == "About digging"
    assert report.records.mapped == 5
    assert read(FORMAT, lines(*records), "agent-abc.jsonl", subagents="skip")[0] == []


def test_an_agent_file_of_titles_holds_no_conversation() -> None:
    title = {"type": "summary", "summary": "About digging", "leafUuid": "elsewhere"}
    name = {"type": "ai-title", "aiTitle": "Digging"}
    sessions, report = read(FORMAT, lines(title, name), "agent-abc.jsonl")
    assert sessions == []
    assert counts(report) == {"record-skipped": 2}


@pytest.mark.parametrize("odd", ["[" * 600 + "]" * 600, "1" * 5000])
@pytest.mark.parametrize("beside", [True, False])
def test_calls_with_arguments_of_any_kind_are_tied_to_their_subagent(
    odd: str, *, beside: bool
) -> None:
    task = json.dumps(assistant(2, [call("c1", "Task", prompt="dig", n="@")])).encode()
    main = [user(1, "go"), task.replace(b'"@"', odd.encode()), user(3, [answer("c1", "ok")])]
    side = lines(user(11, "dig", None, **MARKS))
    around = {f"{SID}/subagents/agent-abc.jsonl": side} if beside else {}
    data = lines(*main) + (b"" if beside else side)
    sessions, report = read(FORMAT, data, f"{SID}.jsonl", around)
    assert odd in sessions[0].turns[0].steps[0].tool_calls[0].arguments
    assert sessions[1].extra is not None
    assert sessions[1].extra["parent"] == {"sessionId": SID, "callId": "c1"}
    assert counts(report) == {}
