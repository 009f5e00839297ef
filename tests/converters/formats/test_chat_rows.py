"""The rows of chat formats: what may hold them, and single rules of their readers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from converters.ir import (
    Meta,
    Session,
    Text,
    Turn,
)
from converters.ledger import Ledger
from converters.opening import Memory
from converters.registry import lookup
from converters.types import Context
from tests.converters.formats.chat_sessions import (
    CASES,
    essence,
    load,
    rules,
    save,
)
from tests.goldens import case_id

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
CHAT = lookup("openai-chat")[0]


def texts(found: list[Session]) -> list[list[str]]:
    return [[turn.prompt for turn in session.turns] for session in found]


@pytest.mark.parametrize(
    ("raw", "expected", "skips"),
    [
        (json.dumps(TALK), [["q"]], set()),
        (json.dumps({"messages": TALK}, indent=2), [["q"]], set()),
        (json.dumps([{"messages": TALK}] * 3, indent=2), [["q"]] * 3, set()),
        (json.dumps([TALK, TALK]), [["q"]] * 2, set()),
        ("\n".join([json.dumps({"messages": TALK})] * 2), [["q"]] * 2, set()),
        ("\n\n".join(json.dumps(m) for m in TALK * 2), [["q", "q"]], set()),
        (json.dumps(TALK) + "\n" + json.dumps(TALK), [["q"]] * 2, set()),
        (json.dumps({"a": {"messages": TALK}, "b": TALK}), [["q"]] * 2, set()),
        (json.dumps({"rows": [{"messages": TALK}] * 2}), [["q"]] * 2, set()),
        ("\ufeff" + json.dumps([{"messages": TALK}]), [["q"]], {"encoding-repaired"}),
        ("rows:\n" + json.dumps({"messages": TALK}), [["q"]], {"text-outside-records"}),
        (
            json.dumps([{"messages": TALK}] * 2)[:-20],
            [["q"]] * 2,
            {"truncated-input", "malformed-record"},
        ),
        (
            json.dumps([{"messages": TALK}, {"x": 1}, 5]),
            [["q"]],
            {"unknown-record", "malformed-record"},
        ),
        (json.dumps([{"messages": TALK}]) + json.dumps({"messages": TALK}), [["q"]] * 2, set()),
        (
            '[{"messages":[{"role":"user","content":NaN}]},{"messages":' + json.dumps(TALK) + "}]",
            [["q"]],
            {"lossy-number", "empty-message", "empty-session"},
        ),
    ],
)
def test_containers(raw: str, expected: list[list[str]], skips: set[str]) -> None:
    found, report = load(CHAT, raw.encode())
    assert texts(found) == expected
    assert rules(report) == skips


def test_utf16_is_read() -> None:
    raw = json.dumps([{"messages": TALK}] * 2).encode("utf-16")
    found, report = load(CHAT, raw)
    assert texts(found) == [["q"], ["q"]]
    assert rules(report) == {"encoding-repaired"}


def test_ids_without_a_source_are_stable_and_differ_by_position() -> None:
    raw = json.dumps([{"messages": TALK}] * 2).encode()
    first, second = (load(CHAT, raw)[0] for _ in range(2))
    assert [s.meta.id for s in first] == [s.meta.id for s in second]
    assert first[0].meta.id != first[1].meta.id


def test_branches_of_a_response() -> None:
    raw = json.dumps(
        {
            "id": "r",
            "object": "chat.completion",
            "choices": [{"message": {"role": "assistant", "content": t}} for t in "abc"],
        }
    ).encode()
    found, report = load(CHAT, raw)
    assert [s.meta.id for s in found] == ["r"]
    assert found[0].extra is not None
    assert [b["id"] for b in found[0].extra["branches"]] == ["r~b1", "r~b2"]
    assert {e.rule: e.count for e in report.entries} == {"branch-collapsed": 2}
    found, _ = load(CHAT, raw, branch="all")
    assert [s.meta.id for s in found] == ["r", "r~b1", "r~b2"]
    found, _ = load(CHAT, raw, branch=2)
    assert [s.meta.id for s in found] == ["r~b2"]
    assert essence(found[0]) == [["", [[["c"], [], []]]]]


def test_a_first_answer_that_was_not_chosen_keeps_its_own_id() -> None:
    choices = [{"message": {"role": "assistant", "content": t}} for t in "ab"]
    candidates = [{"content": {"role": "model", "parts": [{"text": t}]}} for t in "ab"]
    for name, response in (
        ("openai-chat", {"id": "r", "object": "chat.completion", "choices": choices}),
        ("gemini-contents", {"responseId": "r", "candidates": candidates}),
    ):
        (found,), _ = load(lookup(name)[0], json.dumps(response).encode(), branch=1)
        assert found.meta.id == "r~b1"
        assert found.extra is not None
        assert [b["id"] for b in found.extra["branches"]] == ["r"]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "openai-chat",
            [
                {"messages": TALK},
                {"messages": TALK, "tag": 1},
                {"choices": [{"message": {"role": "assistant", "content": t}} for t in "ab"]},
            ],
        ),
        (
            "gemini-contents",
            [
                {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
                {"candidates": [{"content": {"parts": [{"text": t}]}} for t in "ab"]},
            ],
        ),
        (
            "instruction-pairs",
            [{"prompt": "q", "completion": "a"}, {"prompt": "q", "chosen": "a", "rejected": "b"}],
        ),
    ],
)
def test_only_what_has_the_branch_asked_for(name: str, rows: list[dict[str, Any]]) -> None:
    raw = "\n".join(map(json.dumps, rows)).encode()
    (found,), report = load(lookup(name)[0], raw, branch=1)
    assert found.meta.id.endswith("~b1")
    assert [b.text for b in found.turns[-1].steps[-1].content if isinstance(b, Text)] == ["b"]
    assert "branch-collapsed" in rules(report)
    found_none, report = load(lookup(name)[0], raw, branch=2)
    assert found_none == []
    records = report.records
    assert records.total == records.mapped + records.aside + records.skipped > 0


def test_the_result_of_a_function_may_have_an_id_and_no_name() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "function", "content": "x", "id": "m", "tool_call_id": "a"},
    ]
    (found,), _ = load(CHAT, json.dumps({"messages": messages}).encode())
    (result,) = found.turns[0].steps[0].tool_results
    assert result.content == [Text("x")]
    assert result.extra == {"id": "m", "native": {"role": "function"}}


def test_one_text_as_the_system_prompt_is_written_like_a_list_of_one() -> None:
    for prompts in ("Be brief.", ["Be brief."]):
        session = Session(
            meta=Meta("s"), provider="x", turns=[Turn("q", None, [])], extra={"system": prompts}
        )
        written_messages = json.loads(save(CHAT, [session])[0])["messages"]
        assert written_messages[0] == {"role": "system", "content": "Be brief."}


def test_times_without_a_zone_are_in_the_zone_asked_for() -> None:
    zone = timezone(timedelta(hours=2))
    message = {"role": "user", "content": "q", "timestamp": "2026-01-01T10:00:00"}
    response = {
        "object": "chat.completion",
        "created": "2026-01-01T12:00:00",
        "choices": [{"message": {"role": "assistant", "content": "a"}}],
    }
    for value, hour in (({"messages": [message]}, 8), (response, 10)):
        (found,), report = load(CHAT, json.dumps(value).encode(), tz=zone)
        turn = found.turns[0]
        time = turn.steps[0].time if turn.steps else turn.time
        assert time == datetime(2026, 1, 1, hour, tzinfo=UTC).timestamp() * 1000
        assert "tz-assumed" in rules(report)


def test_human_text_beside_results_opens_a_turn() -> None:
    raw = (CASES_BY_ID["anthropic-messages-tools"]).source.read_bytes()
    found, report = load(lookup("anthropic-messages")[0], raw)
    assert [t.prompt for t in found[0].turns] == ["Weather in Oslo and Rome?", "Also Bonn, please."]
    step = found[0].turns[0].steps[0]
    assert [r.tool_call_id for r in step.tool_results] == ["toolu_1", "toolu_2"]
    assert [r.is_error for r in step.tool_results] == [False, True]
    assert {"orphan-tool-result", "duplicate-tool-result"} <= rules(report)


CASES_BY_ID = {case_id(case): case for case in CASES}


def test_usage_buckets_add_up() -> None:
    for name, case in (
        ("openai-chat", "response"),
        ("gemini-contents", "response"),
        ("openai-responses", "response"),
    ):
        data = CASES_BY_ID[f"{name}-{case}"].source.read_bytes()
        found, _ = load(lookup(name)[0], data)
        usage = found[0].turns[-1].steps[-1].usage
        assert usage is not None
        whole = {"openai-chat": 120, "gemini-contents": 100, "openai-responses": 100}[name]
        assert usage.input_tokens + (usage.cache_read_tokens or 0) == whole
        assert usage.output_tokens == 30
        assert usage.reasoning_tokens == 20


def test_an_id_used_again_belongs_to_the_newest_call() -> None:
    data = CASES_BY_ID["openai-chat-tools"].source.read_bytes()
    found, report = load(CHAT, data)
    calls = {
        c.id: (c.arguments, [b.text for b in r.content if isinstance(b, Text)])
        for t in found[0].turns
        for s in t.steps
        for c in s.tool_calls
        for r in s.tool_results
        if r.tool_call_id == c.id
    }
    assert calls["call_1"] == ('{"city":"Oslo"}', ["5 degrees", "rain"])
    renamed = [c for c in calls if c.startswith("call_1-")]
    assert [calls[c] for c in renamed] == [('{"city":"Bonn"}', ["9 degrees"])]
    assert "id-minted" in rules(report)


def test_a_large_array_is_read_one_conversation_at_a_time() -> None:
    raw = json.dumps([{"messages": TALK}] * 500).encode()
    ledger = Ledger("x")
    assert CHAT.read is not None
    reader = CHAT.read(Memory(raw), Context(ledger))
    next(reader)
    # The row and its two messages, not more, have been seen.
    assert ledger.report().records.total == 3
    assert len(list(reader)) == 499
