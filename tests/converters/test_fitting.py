"""Numbers of turns and steps in what is kept aside, after trimming to a budget."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.fitting import fit
from converters.ledger import Ledger
from converters.registry import lookup
from tests.reading import read
from tests.sinks import written


def fitted(name: str, document: dict[str, Any], budget: int) -> Any:
    record = lookup(name)[0]
    (session,), _ = read(record, json.dumps(document).encode())
    ledger = Ledger()
    data = written(record, [fit(session, budget, ledger)], ledger)
    assert ledger.report().balanced
    return json.loads(data)


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def said(messages: list[dict[str, Any]]) -> list[str]:
    return [str(item["content"]) for item in messages]


def test_a_system_message_stays_before_what_it_stood_before() -> None:
    messages = [message("system", "first")]
    for number in range(12):
        messages += [message("user", f"q{number}"), message("assistant", "word " * 200)]
        if number == 5:
            messages.append(message("system", "in the middle"))
        if number == 9:
            messages.append(message("system", "before q10"))
    found = said(fitted("openai-chat", {"messages": messages}, 2000)["messages"])
    assert "q5" not in found
    assert found[0] == "first"
    assert found[found.index("before q10") + 1] == "q10"
    assert found.index("in the middle") == found.index("q2") + 2


def test_a_system_message_counts_the_steps_that_are_left() -> None:
    steps = [message("assistant", text) for text in ("a", "long " * 900, "b")]
    messages = [message("user", "q"), *steps[:2], message("system", "here"), steps[2]]
    found = said(fitted("openai-chat", {"messages": messages}, 600)["messages"])
    assert found == ["q", "a", "here", "b"]


@pytest.mark.parametrize("history", [True, False])
def test_an_older_answer_is_never_the_response(history: bool) -> None:
    answer = message("assistant", "LAST " * 900)
    messages = [message("user", "q"), message("assistant", "EARLIER"), message("user", "q2")]
    response = {"id": "r", "object": "chat.completion", "choices": [{"message": answer}]}
    pair = {"request": {"messages": messages}, "response": response}
    document = fitted("openai-chat", pair if history else response, 700)
    assert "choices" not in json.dumps(document)
    assert "chat.completion" not in json.dumps(document)
    if history:
        assert said(document["request"]["messages"])[:2] == ["q", "EARLIER"]


def test_the_response_that_is_left_stays_one() -> None:
    messages = [message("user", text) for text in ("q", "q1", "q2")]
    messages.insert(2, message("assistant", "old " * 900))
    response = {"object": "chat.completion", "choices": [{"message": message("assistant", "A")}]}
    document = fitted("openai-chat", {"request": {"messages": messages}, "response": response}, 700)
    assert document["response"]["choices"][0]["message"]["content"] == "A"
    assert "old" not in json.dumps(document)


@pytest.mark.parametrize(("length", "is_left"), [(1, True), (900, False)])
def test_the_items_of_a_response_are_found_again(length: int, is_left: bool) -> None:
    def item(role: str, text: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text}]
        return {"type": "message", "role": role, "content": content}

    given = [item("user", text) for text in ("q", "q1", "q2")]
    given.insert(2, item("assistant", "old " * 900))
    response = {"object": "response", "output": [item("assistant", "A " * length)]}
    document = fitted("openai-responses", {"request": {"input": given}, "response": response}, 700)
    assert ("response" in document) is is_left
    if is_left:
        assert document["response"]["output"][-1]["content"][0]["text"] == "A "
