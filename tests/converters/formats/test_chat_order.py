"""The order of the parts of a message comes back when its own format is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.registry import lookup
from tests.converters.formats.chat_sessions import load, rules, save

TEXT = {"type": "text", "text": "a"}
SIGNED = {"type": "thinking", "thinking": "t", "signature": "s"}


def hidden(data: str) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": data}


def use(name: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"q": name}}


def found(name: str) -> dict[str, Any]:
    item = {"type": "web_search_result", "url": name}
    return {"type": "web_search_tool_result", "tool_use_id": name, "content": [item]}


def run(code: str) -> dict[str, Any]:
    return {"executableCode": {"language": "PYTHON", "code": code}}


def ran(output: str) -> dict[str, Any]:
    return {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": output}}


SIGNATURE = {"thoughtSignature": "sig"}
ANTHROPIC = [
    [use("1"), found("1"), TEXT],
    [use("1"), use("2"), found("1"), TEXT, found("2")],
    [use("1"), use("2"), found("2"), found("1")],
    [hidden("x"), SIGNED, TEXT],
    [SIGNED, hidden("x"), hidden("y"), TEXT, hidden("z")],
    [use("1"), hidden("x"), found("1"), SIGNED],
    [hidden("x"), use("1"), found("1"), hidden("y"), TEXT],
]
GEMINI = [
    [run("1"), ran("one"), {"text": "a"}],
    [run("1"), {"text": "a"}, ran("one"), {"text": "b"}],
    [run("1"), run("2"), ran("one"), ran("two"), {"text": "a"}],
    [{"text": "a"}, SIGNATURE],
    [SIGNATURE, {"text": "a"}, run("1"), SIGNATURE, ran("one")],
]


def back(name: str, document: dict[str, Any]) -> Any:
    (session,), _ = load(lookup(name)[0], json.dumps(document).encode())
    data, report = save(lookup(name)[0], [session])
    assert not rules(report)
    return json.loads(data)


@pytest.mark.parametrize("content", ANTHROPIC)
def test_parts_of_an_anthropic_message(content: list[dict[str, Any]]) -> None:
    messages = [
        {"role": "user", "content": [TEXT]},
        {"role": "assistant", "content": content},
    ]
    assert back("anthropic-messages", {"messages": messages}) == {"messages": messages}


def test_parts_of_an_anthropic_message_in_records() -> None:
    records = [[hidden("w"), SIGNED], [hidden("x"), TEXT], [use("1"), hidden("y"), found("1")]]
    messages = [
        {"role": "user", "content": [TEXT]},
        *({"role": "assistant", "id": "m", "content": record} for record in records),
    ]
    written = back("anthropic-messages", {"messages": messages})["messages"]
    assert written[1]["content"] == [part for record in records for part in record]
    assert len(written) == 2


@pytest.mark.parametrize("parts", GEMINI)
def test_parts_of_a_gemini_content(parts: list[dict[str, Any]]) -> None:
    contents = [{"role": "user", "parts": [{"text": "q"}]}, {"role": "model", "parts": parts}]
    assert back("gemini-contents", {"contents": contents}) == {"contents": contents}


def test_the_usual_order_is_not_kept_aside() -> None:
    for content in (ANTHROPIC[0], ANTHROPIC[3]):
        document = {"messages": [{"role": "assistant", "content": content}]}
        (session,), _ = load(lookup("anthropic-messages")[0], json.dumps(document).encode())
        assert "layout" not in (session.turns[0].steps[0].extra or {})


@pytest.mark.parametrize("layout", [1, [1], [[9, "1"], [-1, 0], [0, 7], [True, 0], [0, None]]])
def test_a_layout_that_fits_nothing_is_passed_over(layout: Any) -> None:
    document = {"messages": [{"role": "assistant", "content": ANTHROPIC[6]}]}
    record = lookup("anthropic-messages")[0]
    (session,), _ = load(record, json.dumps(document).encode())
    step = session.turns[0].steps[0]
    step.extra = {**(step.extra or {}), "layout": layout}
    data, _ = save(record, [session])
    content = json.loads(data)["messages"][0]["content"]
    assert content == [hidden("x"), hidden("y"), use("1"), found("1"), TEXT]
