"""Contents of the Gemini API: parts, responses of functions, and which call they answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.ir import Image, Reasoning, Text, ToolCallBlock, prompt_of
from converters.registry import lookup
from tests.converters.formats.chat_sessions import PNG, load, rules, save
from tests.reading import counts

(GEMINI,) = lookup("gemini-contents")
IMAGE = {"mimeType": "image/png", "data": PNG}


def document(*contents: tuple[str, list[Any]]) -> bytes:
    """Give a request of contents: role and parts each."""
    return json.dumps(
        {"contents": [{"role": role, "parts": parts} for role, parts in contents]}
    ).encode()


def test_a_text_beside_another_kind_in_one_part_is_kept() -> None:
    call = {"name": "f", "args": {}}
    (session,), report = load(
        GEMINI,
        document(
            ("user", [{"text": "look", "inlineData": IMAGE}]),
            ("model", [{"text": "hm", "thought": True, "functionCall": call}]),
        ),
    )
    (turn,) = session.turns
    assert prompt_of(turn) == [Text("look"), Image(PNG, "image/png")]
    reasoning, block = turn.steps[0].content
    assert reasoning == Reasoning("hm")
    assert isinstance(block, ToolCallBlock)
    assert rules(report) == {"id-minted", "tool-result-missing"}


def test_a_text_of_another_type_beside_another_kind_is_counted() -> None:
    (session,), report = load(GEMINI, document(("user", [{"text": [1], "inlineData": IMAGE}])))
    assert prompt_of(session.turns[0]) == [Image(PNG, "image/png")]
    assert rules(report) == {"malformed-block"}


@pytest.mark.parametrize("nothing", [None, False, ""])
def test_an_error_that_holds_nothing_is_none(nothing: Any) -> None:
    response = {"functionResponse": {"id": "a", "name": "f", "response": {"error": nothing}}}
    call = {"functionCall": {"id": "a", "name": "f", "args": {}}}
    sessions, _ = load(GEMINI, document(("model", [call]), ("user", [response])))
    (result,) = sessions[0].turns[0].steps[0].tool_results
    assert (result.is_error, result.content) == (False, [])
    contents = json.loads(save(GEMINI, sessions)[0])["contents"]
    assert contents[-1]["parts"] == [response]


def answers(*responses: tuple[str | None, str, str]) -> list[Any]:
    """Give a content of responses: id, tool name and text each."""
    return [
        {"functionResponse": {**({"id": i} if i else {}), "name": n, "response": {"output": t}}}
        for i, n, t in responses
    ]


def test_a_response_with_an_id_answers_a_call_without_one_by_name_in_order() -> None:
    calls = [{"functionCall": {"name": name, "args": {}}} for name in "fgf"]
    data = document(
        ("model", [{"functionCall": {"id": "own", "name": "f", "args": {}}}, *calls]),
        ("user", answers(("abc", "f", "1"), ("own", "f", "0"), ("def", "f", "3"))),
        ("user", answers(("ghi", "h", "none"), (None, "g", "2"), ("jkl", "f", "too much"))),
    )
    sessions, report = load(GEMINI, data)
    step = sessions[0].turns[0].steps[0]
    texts = {result.tool_call_id: result.content for result in step.tool_results}
    assert [texts[call.id] for call in step.tool_calls] == [[Text(n)] for n in "0123"]
    assert [result.extra for result in step.tool_results][1] == {"callId": "abc"}
    assert counts(report) == {
        "id-minted": 3,
        "tool-result-text-fallback": 2,
        "orphan-tool-result": 2,
    }
    parts = json.loads(save(GEMINI, sessions)[0])["contents"][1]["parts"]
    assert [part["functionResponse"].get("id") for part in parts] == ["own", "abc", None, "def"]
