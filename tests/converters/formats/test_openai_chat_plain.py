"""The short way for common rows gives what the long way gives: sessions, ids and account."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from converters.errors import BadInput
from converters.formats.openai_chat import plain
from converters.formats.openai_chat.read import SHAPE, read
from converters.ledger import Ledger
from converters.opening import Memory
from converters.shapes.rows import Row
from converters.types import Context

LONG_WAY = replace(SHAPE, typed=None)

ids = st.sampled_from(["a", "b", "c", ""])
texts = st.sampled_from(["", "x", "two\nlines", "\ud83d", "{}", "ok \u0000"])
arguments = st.sampled_from(['{"a":1}', "{}", "", "[1]", "{", "x"])
odd: st.SearchStrategy[Any] = st.sampled_from(
    [None, 1, [], {}, "x", [{"type": "text", "text": "part"}]]
)


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any] = odd) -> Any:
    return st.integers(0, 14).flatmap(lambda n: rare if n == 0 else usual)


calls = st.fixed_dictionaries(
    {
        "id": mostly(ids),
        "type": mostly(st.just("function"), st.sampled_from(["custom", None])),
        "function": mostly(
            st.fixed_dictionaries(
                {"name": mostly(st.sampled_from(["f", "g"]), texts), "arguments": mostly(arguments)}
            )
        ),
    },
)
assistants = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={
        "content": mostly(st.none() | texts),
        "tool_calls": mostly(st.lists(calls, max_size=3), st.none()),
    },
)
tools = st.fixed_dictionaries(
    {"role": st.just("tool"), "tool_call_id": mostly(ids), "content": mostly(texts)}
)
spoken = st.fixed_dictionaries(
    {
        "role": mostly(
            st.sampled_from(["user", "system"]), st.sampled_from(["User", "developer", "x"])
        ),
        "content": mostly(texts),
    }
)
messages = mostly(
    st.one_of(spoken, assistants, tools),
    st.one_of(odd, spoken.map(lambda message: {**message, "name": "n"})),
)
odd_rows = st.fixed_dictionaries({"messages": mostly(st.lists(messages, max_size=8))})


@st.composite
def plain_rows(draw: st.DrawFn) -> dict[str, Any]:
    """A row as tools write it: calls with new ids, each answered at most once, in any order."""
    found: list[dict[str, Any]] = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from("suac"), min_size=1, max_size=7))):
        if kind == "c":
            names = [f"call_{number}_{n}" for n in range(draw(st.integers(1, 3)))]
            made = [
                {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
                for name in names
            ]
            text = draw(st.sampled_from([None, "", "so"]))
            found.append({"role": "assistant", "content": text, "tool_calls": made})
            answered = draw(mostly(st.just(names), st.permutations(names)))
            found += [
                {"role": "tool", "tool_call_id": name, "content": draw(st.sampled_from(["", "r"]))}
                for name in answered[draw(mostly(st.just(0), st.just(1))) :]
            ]
        else:
            role = {"s": "system", "u": "user", "a": "assistant"}[kind]
            found.append({"role": role, "content": f"text {number}"})
    return {"messages": found}


documents = st.one_of(
    plain_rows(),
    plain_rows(),
    odd_rows,
    odd_rows.map(lambda row: {**row, "model": "m"}),
    messages,
)


def outcome(data: bytes, shape: Any) -> tuple[list[Any], Any]:
    """Sessions with the account that was open when each was given, and the whole account.

    Lines of which none is an object or list end in the same error.
    """
    ledger = Ledger("in")
    found: list[Any] = []
    try:
        found.extend(
            (msgspec.to_builtins(session), msgspec.to_builtins(ledger.report()))
            for session in read(Memory(data, "in.jsonl"), Context(ledger), shape)
        )
    except BadInput as error:
        found.append(str(error))
    return found, msgspec.to_builtins(ledger.report())


@settings(max_examples=150, deadline=None)
@example(rows=[None, None], array=False)
@given(rows=st.lists(documents, min_size=1, max_size=14), array=st.booleans())
def test_both_ways_give_the_same(rows: list[Any], array: bool) -> None:
    lines = [json.dumps(row).encode() for row in rows]
    data = b"[" + b",".join(lines) + b"]" if array else b"\n".join(lines) + b"\n"
    assert outcome(data, SHAPE) == outcome(data, LONG_WAY)


@pytest.mark.parametrize(
    "line",
    [
        '{"messages":[{"role":"user","role":"system","content":"x"}]}',
        '{"messages":[{"content":"x","role":"user"},{"content":"y","role":"assistant"}]}',
        '{"messages":[{"role":"user","content":"x","content":"y"}]}',
        '{"messages":[{"role":"user","content":"x"}],"messages":[]}',
        '{"messages":[],"messages":[{"role":"user","content":"x"}]}',
        ' { "messages" : [ {"r\\u006fle":"user","content":"\\ud83d\\ude00"} ] } ',
        '{"messages":[{"role":"user","content":"\\ud83d"}]}',
        '{"messages":[{"role":"user","content":"x"}]}{"messages":[{"role":"user","content":"y"}]}',
        '{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"cut',
        '\ufeff{"messages":[{"role":"user","content":"x"}]}',
    ],
)
def test_both_ways_read_the_same_text(line: str) -> None:
    for data in (f"{line}\n{line}\n".encode(), f"[{line},{line}]".encode(), line.encode()):
        assert outcome(data, SHAPE) == outcome(data, LONG_WAY)


def taken(*messages: dict[str, Any]) -> bool:
    """Whether the short way takes a row of these messages."""
    raw = json.dumps({"messages": list(messages)}).encode()
    try:
        found = plain.DECODER.decode(raw)
    except msgspec.ValidationError:
        return False
    return plain.session(Row(1, found, 0, raw=raw), found, Ledger()) is not None


def call(*names: str, **more: Any) -> dict[str, Any]:
    made = [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}
        for name in names
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "done"}


USER = {"role": "user", "content": "go"}


def test_ordinary_rows_go_the_short_way() -> None:
    assert taken({"role": "system", "content": "be brief"}, USER, call("a"), result("a"))
    assert taken(USER, call("a", "b"), result("a"), result("b"), USER)
    assert taken(USER, call("a", "b"), result("a"))
    assert taken({"role": "assistant", "content": "first"})
    assert taken(USER, {"role": "assistant", "tool_calls": call("a")["tool_calls"]})


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "alone"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": [{"type": "text", "text": "part"}]}],
        [{"role": "user", "content": "go", "name": "ann"}],
        [{"role": "assistant", "content": None}],
        [USER, call("a"), result("a"), call("a")],
        [USER, call("a", "a")],
        [USER, call("")],
        [USER, call("a", index=0)],
        [USER, call("a", type="custom")],
        [USER, result("a")],
        [USER, call("a"), result("a"), result("a")],
        [USER, call("a", "b"), result("b"), result("a")],
    ],
)
def test_rows_that_need_a_decision_do_not(messages: list[dict[str, Any]]) -> None:
    assert not taken(*messages)


def test_calls_of_a_message_without_content_are_read() -> None:
    """``content`` may be absent where there are calls (API reference, chat completions)."""
    message = {"role": "assistant", "tool_calls": call("a")["tool_calls"]}
    data = json.dumps({"messages": [USER, message], "model": "m"}).encode()
    found, report = outcome(data, SHAPE)
    assert found[0][0]["turns"][0]["steps"][0]["toolCalls"][0]["id"] == "a"
    assert [entry["rule"] for entry in report["entries"]] == ["tool-result-missing"]
