"""Codex: events that repeat an item, and those that stand alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.formats.codex import FORMAT
from converters.ir import Block, Image, Meta, Reasoning, Session, Step, Text, Turn
from tests.converters.formats.codex_rollouts import Rollout
from tests.reading import counts, read
from tests.sinks import written

PNG = "iVBORw0KGgo="
URL = f"data:image/png;base64,{PNG}"


def spoken(session: Session) -> list[tuple[str, list[Any]]]:
    """Give prompts and the texts of their steps."""
    return [
        (turn.prompt, [[getattr(b, "text", b) for b in step.content] for step in turn.steps])
        for turn in session.turns
    ]


def test_texts_of_one_message_in_one_event_or_in_several() -> None:
    def parts(kind: str, *texts: str) -> list[dict[str, str]]:
        return [{"type": kind, "text": text} for text in texts]

    for said in ("Look at thisand this", "Look at this\nand this"):
        for events in (["p1", "p2"], ["p1\np2"], ["p1p2"]):
            rollout = Rollout().user("Look at this", "and this").event("user_message", message=said)
            rollout.item("message", role="assistant", content=parts("output_text", "p1", "p2"))
            for text in events:
                rollout.event("agent_message", message=text)
            session, found = rollout.read()
            assert spoken(session) == [("Look at this\nand this", [["p1", "p2"]])]
            assert found == {"duplicate-record": 1 + len(events)}


@pytest.mark.parametrize("tags", [False, True])
def test_a_prompt_of_nothing_but_an_image(tags: bool) -> None:
    content: list[dict[str, str]] = [{"type": "input_image", "image_url": URL}]
    if tags:
        mark = {"type": "input_text", "text": "<image name=[Image #1]>"}
        content = [mark, *content, {"type": "input_text", "text": "</image>"}]
    rollout = Rollout().item("message", role="user", content=content)
    rollout.event("user_message", message="", images=[URL]).says("a")
    session, found = rollout.read()
    (turn,) = session.turns
    assert turn.prompt_blocks == [Image(PNG, "image/png")]
    assert found["duplicate-record"] == 1


def test_raw_reasoning_and_envelopes_of_other_agents() -> None:
    text = "x\n[external_agent_tool_call: Bash]{}[/external_agent_tool_call]"
    session, found = (
        Rollout()
        .user("q")
        .event("agent_reasoning_raw_content", text="think")
        .item("reasoning", summary=[], content=[{"type": "reasoning_text", "text": "think"}])
        .says(text)
        .event("agent_message", message=text)
        .read()
    )
    thought, *rest = session.turns[0].steps[0].content
    assert isinstance(thought, Reasoning)
    assert [getattr(block, "text", None) for block in rest] == ["x", None]
    assert len(session.turns[0].steps) == 1
    assert found["duplicate-record"] == 2


def test_of_several_events_the_one_next_to_the_item_repeats_it() -> None:
    session, found = (
        Rollout()
        .event("user_message", message="go")
        .says("one")
        .user("go")
        .event("user_message", message="go")
        .says("two")
        .read()
    )
    assert spoken(session) == [("go", [["one"]]), ("go", [["two"]])]
    assert found == {"duplicate-record": 1}


TEXTS = st.text(alphabet=" ab\n", max_size=3)


@given(
    st.lists(TEXTS, min_size=1, max_size=3).filter(lambda texts: any(map(str.strip, texts))),
    st.lists(TEXTS, min_size=1, max_size=3).filter(any),
    st.lists(st.just(Image(PNG, "image/png")), max_size=1),
)
def test_what_is_written_comes_back_once(
    prompt: list[str], answer: list[str], images: list[Image]
) -> None:
    blocks: list[Block] = [*map(Text, prompt), *images]
    turn = Turn("\n".join(prompt), blocks, [Step([*map(Text, answer)])], 1)
    data = written(FORMAT, [Session(meta=Meta("s", 1), provider="codex", turns=[turn] * 2)])
    (session,), report = read(FORMAT, data, "rollout.jsonl")
    said = "\n".join(text for text in prompt if text.strip())
    assert spoken(session) == [(said, [[text for text in answer if text]])] * 2
    assert counts(report)["duplicate-record"] == 2 + 2 * any(map(str.strip, answer))
