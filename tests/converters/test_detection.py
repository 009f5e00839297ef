"""Detection of objects of rows: what no probe claims as a whole, and each member is claimed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.detection import rank
from converters.types import Head

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
GPT = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
PAIR = {"instruction": "q", "output": "a"}


@pytest.mark.parametrize(
    ("root", "best"),
    [
        ({"a": {"messages": TALK}, "b": {"messages": TALK}}, "openai-chat"),
        ({"a": TALK, "b": {"messages": TALK}, "note": "two", "none": []}, "openai-chat"),
        ({"train": [{"messages": TALK}] * 2, "test": [{"messages": TALK}]}, "openai-chat"),
        ({"data": [{"conversations": GPT}]}, "sharegpt"),
        ({"r": {"conversations": GPT}}, "sharegpt"),
        ({"train": [PAIR], "test": [PAIR]}, "instruction-pairs"),
        ({"a": {"messages": TALK}, "config": {"seed": 1}}, None),
        ({"a": {"messages": TALK}, "b": PAIR}, None),
        ({"history": TALK}, None),
        ({"history": TALK, "trajectory": [{"action": "ls"}]}, None),
        ({"n": 1}, None),
    ],
)
def test_an_object_of_rows(root: dict[str, Any], best: str | None) -> None:
    found = rank(Head(json.dumps(root).encode(), "rows.json"))
    assert (found[0].format.id if found else None) == best


def test_a_claim_of_the_whole_goes_before_its_members() -> None:
    root = {"messages": TALK, "other": {"conversations": GPT}}
    found = rank(Head(json.dumps(root).encode(), "x.json"))
    assert {candidate.format.id for candidate in found} == {"openai-chat", "anthropic-messages"}
