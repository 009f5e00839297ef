"""OpenAI chat rows with a chosen and a rejected answer beside the messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.registry import lookup
from tests.converters.formats.chat_sessions import essence, load
from tests.reading import counts

(CHAT,) = lookup("openai-chat")
USER = {"role": "user", "content": "q"}


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize("column", ["messages", "conversations"])
@pytest.mark.parametrize(
    ("talk", "chosen", "rejected"),
    [
        ([USER], "good", "bad"),
        ([USER], said("good"), said("bad")),
        ([USER], [said("good")], [said("bad")]),
        ([USER], [USER, said("good")], [USER, said("bad")]),
        ([USER, said("good")], [USER, said("good")], [USER, said("bad")]),
    ],
)
def test_a_chosen_answer_is_the_session_and_a_rejected_one_a_branch(
    column: str, talk: list[Any], chosen: Any, rejected: Any
) -> None:
    row = {"id": "r", column: talk, "chosen": chosen, "rejected": rejected, "model": "m"}
    data = json.dumps(row).encode() + b"\n"
    (session,), report = load(CHAT, data)
    assert essence(session) == [["q", [[["good"], [], []]]]]
    assert session.model == "m"
    assert session.extra is not None
    assert session.extra["branches"] == [{"id": "r~b1", "messages": [said("bad")]}]
    assert counts(report) == {"branch-collapsed": 1}
    one, two = load(CHAT, data, branch="all")[0]
    assert (one.meta.id, two.meta.id) == ("r", "r~b1")
    assert essence(two) == [["q", [[["bad"], [], []]]]]


def test_what_is_no_answer_stays_a_column() -> None:
    row = {"messages": [USER, said("a")], "chosen": 7, "rejected": "bad"}
    (session,), report = load(CHAT, json.dumps(row).encode())
    assert session.extra is not None
    assert session.extra["native"]["envelope"] == {"chosen": 7, "rejected": "bad"}
    assert counts(report) == {}
