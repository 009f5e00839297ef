"""Rows of from and value: results in elements, images at their tokens, rejected answers."""

from __future__ import annotations

import json
from typing import Any

from converters.ir import Text
from converters.registry import lookup
from tests.converters.formats.chat_sessions import load, save

(SHAREGPT,) = lookup("sharegpt")
CALL = '<tool_call>\n{"name":"f","arguments":{}}\n</tool_call>'


def row(*messages: tuple[str, str], **columns: Any) -> bytes:
    """Give a row of messages: from and value each."""
    found = [{"from": name, "value": value} for name, value in messages]
    return json.dumps({"conversations": found, **columns}).encode()


def test_text_and_members_around_a_result_are_kept() -> None:
    first = '<tool_response>\n{"name":"f","content":"one","status":"ok"}\n</tool_response>'
    value = f"before\n{first}\nbetween\n<tool_response>\ntwo\n</tool_response>\n \n"
    sessions, _ = load(SHAREGPT, row(("human", "q"), ("gpt", CALL * 2), ("tool", value)))
    one, two = sessions[0].turns[0].steps[0].tool_results
    assert one.content == [Text("before"), Text("one"), Text("between")]
    assert one.extra == {"response": {"status": "ok"}}
    assert two.content == [Text("two")]
    data, _ = save(SHAREGPT, sessions)
    (again,), _ = load(SHAREGPT, data)
    written = again.turns[0].steps[0].tool_results[0]
    assert written.content == [Text("before\none\nbetween")]
    assert written.extra == one.extra


def test_members_of_a_result_that_are_no_texts_are_kept() -> None:
    value = '<tool_response>{"name":7,"tool_call_id":5,"content":null}</tool_response>'
    (session,), _ = load(SHAREGPT, row(("human", "q"), ("gpt", CALL), ("tool", value)))
    (result,) = session.turns[0].steps[0].tool_results
    assert result.content == [Text("null")]
    assert result.extra == {"response": {"name": 7, "tool_call_id": 5}}
