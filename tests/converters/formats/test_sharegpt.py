"""Rows of from and value: results in elements, images at their tokens, rejected answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.ir import Session, Text, prompt_of
from converters.registry import lookup
from tests.converters.formats.chat_sessions import essence, load, rules, save
from tests.reading import counts

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


def addresses(session: Session) -> list[str]:
    """Give the addresses of the images in the prompts and results."""
    blocks = [block for turn in session.turns for block in prompt_of(turn)]
    steps = [step for turn in session.turns for step in turn.steps]
    blocks += [block for step in steps for r in step.tool_results for block in r.content]
    return [block.extra["image"]["url"] for block in blocks if block.extra is not None]


def test_every_message_takes_the_images_of_its_tokens() -> None:
    data = row(
        ("system", "<image> is the logo"),
        ("narrator", "<image>"),
        ("human", "<image>q"),
        ("gpt", CALL),
        ("observation", "out: <image>"),
        ("human", "<image>q"),
        ("gpt", "a"),
        images=["first", "logo", "none", "one", "out", "two", "over"],
        system="first <image>",
    )
    sessions, report = load(SHAREGPT, data)
    assert addresses(sessions[0]) == ["one", "two", "out"]
    assert sessions[0].extra is not None
    assert sessions[0].extra["system"] == ["first <image>", "<image> is the logo"]
    assert counts(report)["attachment-aside"] == 2
    assert counts(report)["attachment-skipped"] == 1 + 1 + 3  # unknown role, over, no bytes
    written, report = save(SHAREGPT, sessions)
    assert "text-changed" not in rules(report)
    assert json.loads(written)["images"] == ["first", "logo", "one", "out", "two"]
    again, _ = load(SHAREGPT, written)
    assert addresses(again[0]) == ["one", "two", "out"]


def test_a_token_in_a_system_prompt_of_another_format_is_counted() -> None:
    messages = [
        {"role": "system", "content": "<image> marks one"},
        {"role": "user", "content": "q"},
    ]
    sessions, _ = load(lookup("openai-chat")[0], json.dumps(messages).encode())
    assert "text-changed" in rules(save(SHAREGPT, sessions)[1])


def answer(text: str) -> dict[str, str]:
    return {"from": "gpt", "value": text}


@pytest.mark.parametrize(
    ("chosen", "rejected"),
    [
        ("good", "bad"),
        (answer("good"), answer("bad")),
        ([answer("good")], [answer("bad")]),
        ([{"from": "human", "value": "q"}, answer("good")], answer("bad")),
    ],
)
def test_a_chosen_answer_is_the_session_and_a_rejected_one_a_branch(
    chosen: Any, rejected: Any
) -> None:
    data = row(("human", "q"), id="r", chosen=chosen, rejected=rejected, score=1)
    (session,), report = load(SHAREGPT, data)
    assert essence(session) == [["q", [[["good"], [], []]]]]
    assert session.extra is not None
    assert session.extra["native"]["envelope"] == {"id": "r", "score": 1}
    assert session.extra["branches"] == [{"id": "r~b1", "messages": [answer("bad")]}]
    assert counts(report) == {"branch-collapsed": 1}
    one, two = load(SHAREGPT, data, branch="all")[0]
    assert (one.meta.id, two.meta.id) == ("r", "r~b1")
    assert essence(two) == [["q", [[["bad"], [], []]]]]


def test_answers_that_repeat_a_conversation_go_their_own_way() -> None:
    human = {"from": "human", "value": "q"}
    data = row(
        ("human", "q"),
        ("gpt", "good"),
        chosen=[human, answer("good")],
        rejected=[human, answer("bad")],
    )
    one, two = load(SHAREGPT, data, branch="all")[0]
    assert essence(one) == [["q", [[["good"], [], []]]]]
    assert essence(two) == [["q", [[["bad"], [], []]]]]
    (two,), report = load(SHAREGPT, data, branch=1)
    assert two.extra is not None
    assert two.extra["native"]["rest"] == [answer("good")]
    assert report.records.aside == 1


def test_what_is_no_answer_stays_a_column() -> None:
    (session,), report = load(SHAREGPT, row(("human", "q"), ("gpt", "a"), chosen=7, rejected="b"))
    assert session.extra is not None
    assert session.extra["native"]["envelope"] == {"chosen": 7, "rejected": "b"}
    assert counts(report) == {}
    assert load(SHAREGPT, row(("human", "q")), branch=1)[0] == []
