"""Message lists of the model APIs: one step per message, every member, the right call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from converters.registry import lookup
from tests.converters.formats.chat_sessions import load, save

if TYPE_CHECKING:
    from converters.ir import Session
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
