"""Message lists of the model APIs: one step per message, every member, the right call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from converters.ir import Meta, Session, Step, Text, ToolCall, ToolResult, Turn
from converters.registry import lookup
from tests.converters.formats.chat_sessions import load, rules, save

if TYPE_CHECKING:
    from converters.ledger import Report


def given(name: str, *messages: dict[str, Any], **around: Any) -> tuple[Session, Report]:
    data = json.dumps({"messages": messages, **around}).encode()
    (session,), report = load(lookup(name)[0], data)
    return session, report


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, name: str | None) -> dict[str, Any]:
    about = {"id": name} if name else {}
    return {"role": "assistant", **about, "content": [{"type": "text", "text": text}]}


def texts(session: Session) -> list[list[list[str]]]:
    return [
        [[getattr(block, "text", "") for block in step.content] for step in turn.steps]
        for turn in session.turns
    ]


def test_an_id_used_again_later_is_another_message() -> None:
    session, _ = given(
        "anthropic-messages",
        user("q1"),
        said("A1", "msg_mock"),
        user("q2"),
        said("A2", "msg_mock"),
        said("A3", "other"),
        said("A4", "msg_mock"),
    )
    assert texts(session) == [[["A1"]], [["A2"], ["A3"], ["A4"]]]


def test_records_in_a_row_with_one_id_are_one_message() -> None:
    session, _ = given(
        "anthropic-messages", user("q"), said("A1", "m"), said("A2", "m"), said("A3", None)
    )
    assert texts(session) == [[["A1", "A2"], ["A3"]]]


CALLS = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def back(session: Session, name: str = "openai-chat") -> list[dict[str, Any]]:
    data, _ = save(lookup(name)[0], [session])
    messages = json.loads(data)["messages"]
    assert isinstance(messages, list)
    return messages


def test_calls_without_content_lose_no_other_member() -> None:
    message = {"role": "assistant", "tool_calls": CALLS, "reasoning_content": "why"}
    session, report = given("openai-chat", user("q"), message)
    assert texts(session) == [[["why", ""]]]
    assert report.records.mapped == 2
    assert back(session)[1] == {**message, "content": None}
    named = {"role": "assistant", "tool_calls": CALLS, "name": "me"}
    assert back(given("openai-chat", user("q"), named)[0])[1] == {**named, "content": None}


def test_two_members_with_reasoning_are_two_blocks_one_repeated_text_is_one() -> None:
    two = {"role": "assistant", "content": "done", "reasoning_content": "A", "reasoning": "B"}
    session, _ = given("openai-chat", user("q"), two)
    assert texts(session) == [[["A", "B", "done"]]]
    assert back(session)[1] == two
    same = {**two, "reasoning": "A"}
    session, _ = given("openai-chat", user("q"), same)
    assert texts(session) == [[["A", "done"]]]
    assert back(session)[1] == same


def call(name: str, tool: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": tool, "arguments": arguments}
    return {"id": name, "type": "function", "function": function}


def calls(*made: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(made)}


def tool(name: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": text}


def answers(session: Session) -> list[tuple[str, list[str]]]:
    """Each call's tool name with the texts of its results."""
    return [
        (
            made.name,
            [
                "".join(getattr(block, "text", "") for block in result.content)
                for result in step.tool_results
                if result.tool_call_id == made.id
            ],
        )
        for turn in session.turns
        for step in turn.steps
        for made in step.tool_calls
    ]


def test_an_id_used_again_before_its_answer_is_another_call() -> None:
    session, report = given(
        "openai-chat",
        user("A"),
        calls(call("x", "f")),
        user("again"),
        calls(call("x", "g", '{"k":1}')),
        tool("x", "of g"),
        tool("x", "twice"),
    )
    assert answers(session) == [("f", []), ("g", ["of g"])]
    assert rules(report) == {"id-minted", "tool-result-missing", "duplicate-tool-result"}
    session, _ = given(
        "anthropic-messages",
        user("A"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f"}]},
        user("again"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "g"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "r"}]},
    )
    assert answers(session) == [("f", []), ("g", ["r"])]


def test_calls_of_one_message_that_share_an_id_are_answered_in_order() -> None:
    message = calls(call("x", "f"), call("x", "g"), call("y", "h"))
    results = [tool("x", "of f"), tool("y", "of h"), tool("x", "of g")]
    session, report = given("openai-chat", user("A"), message, *results)
    assert answers(session) == [("f", ["of f"]), ("g", ["of g"]), ("h", ["of h"])]
    assert rules(report) == {"id-minted"}


def test_a_record_that_repeats_a_call_of_its_message_declares_it_once() -> None:
    use = {"type": "tool_use", "id": "x", "name": "f", "input": {}}
    record = {"role": "assistant", "id": "m", "content": [use]}
    more = {"role": "assistant", "id": "m", "content": [use, {**use, "id": "y"}]}
    session, report = given("anthropic-messages", user("A"), record, more)
    assert [call.id for call in session.turns[0].steps[0].tool_calls] == ["x", "y"]
    assert rules(report) == {"duplicate-tool-call", "tool-result-missing"}


WRITERS = (
    "openai-chat",
    "anthropic-messages",
    "gemini-contents",
    "openai-responses",
    "sharegpt",
)


def made(*names: str) -> list[ToolCall]:
    return [ToolCall(name, "f", "{}") for name in names]


def result(name: str, text: str) -> ToolResult:
    return ToolResult(name, [Text(text)])


def asked(*steps: Step) -> Turn:
    return Turn("q", None, list(steps))


def session_of(provider: str, *turns: Turn) -> Session:
    return Session(meta=Meta("s"), provider=provider, turns=list(turns))


def again(session: Session, name: str) -> tuple[Session, Report]:
    data, report = save(lookup(name)[0], [session])
    (found,), _ = load(lookup(name)[0], data)
    return found, report


@pytest.mark.parametrize("name", WRITERS)
def test_results_are_written_behind_their_call(name: str) -> None:
    session = session_of(
        "interchange",
        asked(Step([], made("a", "b")), Step([Text("x")], [], [result("b", "of b")])),
        asked(Step([Text("y")], [], [result("b", "again"), result("z", "of none")])),
    )
    found, report = again(session, name)
    assert answers(found) == [("f", [""]), ("f", ["of b"])]
    assert found.turns[0].steps[0].tool_results[0].content == []
    assert [len(turn.steps) for turn in found.turns] == [2, 1]
    counts = {entry.rule: entry.count for entry in report.entries}
    assert counts == {
        "order-changed": 1,
        "duplicate-tool-result": 1,
        "orphan-tool-result": 1,
        "block-dropped": 2,
        "tool-result-missing": 1,
    }
    assert report.items["result"].total == 3


@pytest.mark.parametrize("name", WRITERS)
def test_results_stand_in_the_order_of_the_calls(name: str) -> None:
    step = Step([], made("a", "b"), [result("b", "of b"), result("a", "of a")])
    session = session_of("interchange", asked(step))
    data, report = save(lookup(name)[0], [session])
    assert data.index(b"of a") < data.index(b"of b")
    assert rules(report) == {"order-changed"}


@pytest.mark.parametrize("name", WRITERS)
def test_calls_at_the_end_wait_in_their_own_format_only(name: str) -> None:
    session = session_of(name, asked(Step([], made("a"))))
    found, report = again(session, name)
    assert answers(found) == [("f", [])]
    assert not rules(report)
    session.provider = "claude"
    found, report = again(session, name)
    assert answers(found) == [("f", [""])]
    assert rules(report) == {"tool-result-missing"}


def test_what_a_server_runs_gets_no_result_from_the_one_who_asks() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    session, _ = given(
        "anthropic-messages", user("q"), {"role": "assistant", "content": [use]}, user("more")
    )
    messages = back(session, "anthropic-messages")
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


def test_a_result_goes_to_the_newest_call_before_it() -> None:
    session = session_of(
        "interchange",
        asked(Step([], made("a"), [result("c", "of c")])),
        asked(Step([], made("a")), Step([Text("x")], [], [result("a", "of a")])),
        asked(Step([], made("c"))),
    )
    found, _ = again(session, "openai-chat")
    assert answers(found) == [("f", [""]), ("f", ["of a"]), ("f", ["of c"])]


def test_ids_of_files_go_only_to_the_api_that_gave_them() -> None:
    part = {"type": "file", "file": {"filename": "r.pdf", "file_id": "file-1"}}
    session, _ = given("openai-chat", {"role": "user", "content": [part]})
    assert back(session) == [{"role": "user", "content": [part]}]
    data, report = save(lookup("openai-responses")[0], [session])
    assert b'"file_id": "file-1"' in data
    assert not rules(report)
    data, report = save(lookup("anthropic-messages")[0], [session])
    assert b"file-1" not in data
    assert b"[file: r.pdf]" in data
    assert rules(report) == {"extra-dropped"}
    session.provider = "anthropic-messages"
    for name in ("openai-chat", "openai-responses"):
        data, report = save(lookup(name)[0], [session])
        assert b"file-1" not in data
        assert rules(report) == {"extra-dropped"}
