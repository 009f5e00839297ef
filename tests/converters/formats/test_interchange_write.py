"""A small session is written in one go, a large one in stretches: the same bytes."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.formats.interchange import FORMAT
from converters.ir import (
    Compaction,
    Image,
    Meta,
    Reasoning,
    Session,
    Step,
    Text,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    Turn,
    Usage,
)
from converters.ledger import Ledger
from converters.types import Context
from tests.sinks import written

SMALL = "converters.formats.interchange.write._write_small"

words = st.sampled_from(["", "a", "b c", '"members":{', "é\n"])
values: st.SearchStrategy[Any] = st.sampled_from([1, 2**70, 1.5, 1e300, None, [1, {"a": "b"}], "x"])
extras = st.none() | st.dictionaries(
    st.sampled_from(["id", "native", "system"]), st.sampled_from([1, "x", {"a": [1.5]}]), min_size=1
)
members = st.builds(lambda extra: {**(extra or {}), "members": {"own": 1}}, extras)
extras = st.one_of(extras, extras, members)
blocks = st.one_of(
    st.builds(Text, words, extras),
    st.builds(Reasoning, words, extras),
    st.builds(ToolCallBlock, words, words, words),
    st.builds(Image, data=words, attachment=st.none() | st.just({"name": "n"}), extra=extras),
)
steps = st.builds(
    Step,
    content=st.lists(blocks, max_size=2),
    tool_calls=st.lists(st.builds(ToolCall, words, words, words, extras), max_size=2),
    tool_results=st.lists(
        st.builds(ToolResult, words, st.lists(blocks, max_size=1), extra=extras), max_size=2
    ),
    usage=st.none() | st.builds(Usage, st.just(1), st.just(2), extra=extras),
    extra=extras,
)
turns = st.builds(
    Turn,
    prompt=words,
    prompt_blocks=st.none() | st.lists(blocks, max_size=1),
    steps=st.lists(steps, max_size=2),
    compaction=st.none() | st.builds(Compaction, st.just("so far"), extra=extras),
    extra=extras,
)
sessions = st.builds(
    Session,
    meta=st.builds(Meta, words, extra=extras),
    provider=st.just("demo"),
    title=st.none() | words,
    turns=st.lists(turns, max_size=3),
    extra=extras | st.just({}) | st.dictionaries(words, values, max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(session=sessions)
def test_both_ways_write_the_same(session: Session) -> None:
    short = written(FORMAT, [session, session], Ledger())
    with mock.patch(SMALL, return_value=False):
        assert short == written(FORMAT, [session, session], Ledger())
    assert short.count(b"\n") == 2


@pytest.mark.parametrize("turn_count", [1, 40])
def test_a_large_session_comes_in_pieces(turn_count: int) -> None:
    """Nothing of the size of the whole session is made at once."""
    text = "x" * (1 << 17)
    session = Session(
        meta=Meta("s"),
        provider="demo",
        turns=[Turn(text, None, [Step([Text(text)])]) for _ in range(turn_count)],
    )
    pieces: list[bytes | bytearray] = []

    class Sink:
        def write(self, data: bytes | bytearray) -> None:
            pieces.append(data)

        def beside(self, name: str, data: bytes) -> None:
            raise AssertionError(name)

    assert FORMAT.write is not None
    FORMAT.write([session], Sink(), Context(Ledger()))
    assert max(map(len, pieces)) < 2 << 20
    assert len(json.loads(b"".join(pieces))["turns"]) == turn_count
