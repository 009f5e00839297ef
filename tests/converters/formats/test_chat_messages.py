"""Message lists of the model APIs: one step per message, every member, the right call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from converters.registry import lookup
from tests.converters.formats.chat_sessions import load

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
