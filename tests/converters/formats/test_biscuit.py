"""The biscuit format as a reader meets it: dumps, ctx.json, action lines."""

from __future__ import annotations

import json
from datetime import UTC, timedelta, timezone

import pytest

from converters.errors import BadInput, DcbError
from converters.formats.biscuit import FORMAT, alltxt, ctx, probe
from converters.formats.biscuit.action import actions_of
from converters.formats.biscuit.condense import split
from converters.formats.biscuit.dump import parse
from converters.formats.biscuit.messages import attached
from converters.formats.biscuit.tools import cut, display, summary
from converters.ir import (
    Reasoning,
    Text,
    ToolCall,
)
from converters.ledger import Ledger
from converters.opening import Memory
from converters.types import Context
from tests.converters.formats.biscuit_dumps import DAY, DUMP, read, session_of
from tests.reading import counts
from tests.reading import read as read_raw

# ---------------------------------------------------------------- detection


@pytest.mark.parametrize(
    ("data", "score"),
    [
        (DUMP, 100),
        ("\ufeff" + DUMP.replace("\n", "\r\n"), 100),
        ("=== F1 ===\nQ: old\n", 90),
        ("=== F3  2026-08-01 09:15:00 UTC+8 ===", 70),
        ("═══ COMPRESSED FLOORS F1-F2 (2 floors) ═══\n\n=== F1 ===\nQ: x", 100),
        ("some words\n" + DUMP, 60),
        ('{"biscuitLines":[]}', 100),
        ('{"lastCompressedFloor":3,"biscuitLines":[{"n":1,"te', 100),
        ('{"lastCompressedFloor":3,"x', 90),
        ('{"conversation":[],"houses":[]}', 100),
        ('[{"role":"user","content":"x","_floor":1}]', 100),
        ('[{"role":"system","content":"x","_biscuit":true}]', 100),
        ("floor.3   2026-08-01 09:15:00 UTC+08\n", 100),
        ('[{"role":"user","content":"x"}]', None),
        ('{"messages":[{"role":"user"}]}', None),
        ("=== F2 of something ===\ntext", None),
        ("=== F2 ===\nplain text follows", None),
        ("# Notes\n\nQ: what?\nA: that", None),
        ("", None),
    ],
)
def test_probe(data: str, score: int | None) -> None:
    match = probe(Memory(data.encode(), "x").head)
    assert (match.score if match else None) == score


# ---------------------------------------------------------------- reading


def test_dump_into_turns() -> None:
    session, report = session_of(DUMP)
    first, second = session.turns
    assert (first.prompt, second.prompt) == ("one", "two")
    look, edit, done = first.steps
    assert [block.__struct_config__.tag for block in look.content] == ["text", "tool-call"]
    assert look.tool_calls == [ToolCall("f1-a0", "run_command", '{"command":"ls"}')]
    assert look.tool_results[0].content == [Text("a\nb")]
    assert edit.tool_calls[0].arguments == '{"path":"/p/a.js"}'
    assert edit.tool_results[0].content == [Text("2chg")]
    assert done.time == DAY + 15 * 60_000
    assert (look.time, first.time) == (None, None)
    assert report.records.mapped == 2
    found = counts(report)
    assert found["biscuit-tool-result-missing"] == 1
    assert found["biscuit-time-coarse"] == found["biscuit-question-flattened"] == 2
    assert "biscuit-floor-missing" not in found


def test_zone_of_the_caller() -> None:
    there, _ = session_of(DUMP, tz=timezone(timedelta(hours=2)))
    utc, _ = session_of(DUMP, tz=UTC)
    declared, _ = session_of(DUMP)
    assert (declared.extra, there.extra) == ({"native": {"zone": "declared"}}, None)
    assert there.turns[0].steps[-1].time == DAY + 15 * 60_000 + 6 * 3_600_000
    assert utc.turns[0].steps[-1].time == DAY + 15 * 60_000 + 8 * 3_600_000


def test_error_lines_abort_the_turn() -> None:
    session, _ = session_of("=== F1 ===\nQ: a\n[ERR] [09:30] lost\nQ: again\nA: fine")
    first, second = session.turns
    assert (first.aborted, second.aborted) == (True, False)
    assert first.steps[0].content == [Text("lost")]
    assert first.steps[0].extra == {"native": {"error": True, "time": "09:30"}}


def test_floors_of_one_number_have_calls_of_their_own() -> None:
    text = "=== F2 ===\nQ: a\n[A → run_command] x\n\n=== F2 ===\nQ: b\n[A → run_command] y"
    session, report = session_of(text)
    assert [t.steps[0].tool_calls[0].id for t in session.turns] == ["f2-a0", "f2.2-a0"]
    assert "duplicate-tool-call" not in counts(report)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"plain text\n", b"{}", b"[]", b"[1,2]", b"\xff"])
def test_nothing_in_it(data: bytes) -> None:
    assert FORMAT.read is not None
    with pytest.raises(DcbError):
        list(FORMAT.read(Memory(data, "x"), Context(Ledger())))


def test_damaged_ctx_names_the_way_out() -> None:
    with pytest.raises(BadInput, match="damaged") as caught:
        session_of('{"lastCompressedFloor":3,"biscuitLines":[{"n":', "ctx.json")
    assert "all.json" in str(caught.value.hint)
    assert caught.value.path == "ctx.json"


def test_cut_ctx_gives_its_whole_floors() -> None:
    whole = ctx.build_ctx(split(DUMP))
    session, report = session_of(whole[:-60], "ctx.json")
    assert [turn.prompt for turn in session.turns] == ["one"]
    assert counts(report)["truncated-input"] == 1


def test_raw_floors_beside_a_ctx_take_the_place_of_its_floors() -> None:
    raw = {
        "conversation": [
            {"role": "user", "content": "one\nin full", "_floor": 1},
            {"role": "assistant", "content": "an\nanswer", "_floor": 1},
        ],
        "houses": [],
    }
    log = "floor.3   2026-08-01 10:00:00 UTC+08\n\nthird\n"
    around = {
        "f1.a/all.json": json.dumps(raw).encode(),
        "f1.a/all.txt": b"floor.1   2026-08-01 10:00:00 UTC+08\n\nnot this one\n",
        "f3.c/all.txt": log.encode(),
        "f4.d/all.txt": b"no log",
    }
    source = Memory(ctx.build_ctx(split(DUMP)), "ctx.json", around)
    session, report = read(source)
    assert [turn.prompt for turn in session.turns] == ["one\nin full", "two", "third"]
    found = counts(report)
    assert found["duplicate-record"] == 1
    assert found["malformed-record"] == 1
    assert found["biscuit-time-coarse"] == 1
    broken = Memory(b'{"lastComp', "ctx.json", around)
    session, _ = read(broken)
    assert [turn.prompt for turn in session.turns] == ["one\nin full", "third"]


def test_attached_files() -> None:
    text = "\n\n[File: a.md]\n```\nx\n\ny\n```\n[File: b].md]\nno fence\n[File: c]\n````\n```\n````"
    assert attached(text) == [
        ("a.md", "x\n\ny"),
        ("b].md", ""),
        (None, "no fence"),
        ("c", "```"),
    ]


def test_alltxt_ignores_marks_in_results() -> None:
    text = """floor.1   2026-08-01 10:00:00 UTC-07

ask

════ HOUSE 1 ════ 2026-08-01 10:00:01 UTC-07 [5ms] ════
  ── ROOM 1.1  run_command({}) ──
════ HOUSE 7 ════ 2026-08-01 10:00:01 UTC-07 [5ms] ════
  ── ROOM 1.3  x({}) ──
  ── ROOM 2.1  x({}) ──
  ── ROOM 1.2  x(not (json)) ──
  <answer>
no answer

  <answer>
yes
  </answer>

════ HOUSE 2 ════ 2026-08-01 10:00:02 UTC-07 [5ms] ════
  <answer>
end
  </answer>

═══ SYSTEM INJECTIONS ═══
💬 GUIDE (floor 1): quick
"""
    log = alltxt.parse_alltxt(text)
    one, two = log.houses
    assert [room.tool for room in one.rooms] == ["run_command", "x"]
    assert one.rooms[0].result is not None
    assert one.rooms[0].result.count("\n") == 2
    assert one.rooms[1].args is None
    assert one.rooms[1].args_raw == "not (json)"
    assert one.rooms[1].result == "  <answer>\nno answer"
    assert (one.answer, two.answer) == ("yes", "end")
    assert log.started_at == "2026-08-01T10:00:00-07:00"
    assert log.injections == "💬 GUIDE (floor 1): quick"


# ---------------------------------------------------------------- actions


def test_the_only_way_to_cut_an_action_line() -> None:
    line = '[A → search_text+run_command+edit_file] "a, b 3 hits" 2 hits, x, y 5c, /c, d 1chg'
    actions, sure = actions_of(line, 0)
    assert sure
    assert [a.args_text for a in actions] == ['"a, b 3 hits"', "x, y", "/c, d"]
    actions, sure = actions_of("[A → x+y] a, b, c", 0)
    assert not sure
    assert [a.args_text for a in actions] == ["a, b, c", None]


def test_a_very_long_action_line_is_not_cut() -> None:
    line = f"[A → {'+'.join(['x'] * 3000)}] {', '.join(['y'] * 4000)}"
    actions, sure = actions_of(line, 0)
    assert len(actions) == 3000
    assert not sure


def test_hostile_numbers() -> None:
    text = f"=== F{'9' * 15} ===\nQ: a\n[A → read_file] /p {'9' * 5000}c\nA: b"
    dump = parse(text)
    assert dump.floors[0].n == 10**15 - 1
    assert len(dump.missing_floors) == 10_000
    assert dump.missing == 10**15 - 2
    assert dump.floors[0].actions[0].chars is None
    assert parse(f"=== F{'9' * 16} ===\nQ: a").floors == []


def test_lengths_are_utf16() -> None:
    assert cut("😀" * 60, 110) == "😀" * 54 + "…"
    assert display("run_command", {"command": "😀" * 60}) == "😀" * 24 + "…" + "😀" * 15
    assert summary("run_command", "😀") == "2c"


def test_what_a_provider_adds_to_a_message_is_kept() -> None:
    function = {"name": "run_command", "arguments": "{}", "strict": True}
    call = {"id": "a", "type": "function", "function": function, "cache": 1}
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "q", "_floor": 1, "_system": False, "name": "ann"},
        {"role": "assistant", "content": None, "reasoning_content": "one call"},
        {"role": "assistant", "content": "t", "tool_calls": [call], "refusal": "no", "audio": None},
        {"role": "tool", "tool_call_id": "a", "content": "out", "exit": 1},
        {"role": "system", "content": "note", "_floor": 1, "level": 2},
        {"role": "assistant", "content": "done", "thinking": "fine", "reasoning": "fine"},
    ]
    (session,), report = read_raw(
        FORMAT, json.dumps([m | {"_floor": 1} for m in messages]).encode()
    )
    (turn,) = session.turns
    assert turn.extra is not None
    native = turn.extra["native"]
    assert native["message"] == {"name": "ann"}
    assert native["notes"][0]["message"] == {"level": 2}
    thought, answer, last = turn.steps
    assert thought.content == [Reasoning("one call")]
    assert answer.extra == {"native": {"message": {"refusal": "no"}}}
    assert answer.tool_calls[0].extra == {"native": {"cache": 1, "strict": True}}
    assert answer.tool_results[0].extra == {"native": {"message": {"exit": 1}}}
    assert [type(block) for block in last.content] == [Reasoning, Text]
    assert report.records.mapped == 5


def test_reasoning_of_a_message_and_its_house_is_one() -> None:
    said = {"role": "assistant", "content": "a", "reasoning_content": "why", "_floor": 1}
    root = {
        "conversation": [{"role": "user", "content": "q", "_floor": 1}, said],
        "houses": [{"index": 1, "type": "final", "reasoning": "why\n"}],
    }
    (session,), _ = read_raw(FORMAT, json.dumps(root).encode(), "all.json")
    assert session.turns[0].steps[0].content == [Reasoning("why"), Text("a")]
