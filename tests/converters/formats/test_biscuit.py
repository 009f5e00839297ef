"""The biscuit format: files in, sessions out, dumps and ctx.json written with a true account."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, timedelta, timezone
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.errors import BadInput, DcbError, UsageError
from converters.formats.biscuit import FORMAT, alltxt, ctx, probe
from converters.formats.biscuit.action import actions_of
from converters.formats.biscuit.condense import estimate_tokens, join, split, strip
from converters.formats.biscuit.ctx import parse_ctx
from converters.formats.biscuit.dump import parse
from converters.formats.biscuit.lines import escape, unescape
from converters.formats.biscuit.messages import attached
from converters.formats.biscuit.sieve import sieve
from converters.formats.biscuit.tools import ABSOLUTE, KNOWN, cut, display, summary
from converters.ir import (
    Block,
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
    prompt_of,
)
from converters.ledger import Ledger, Report
from converters.opening import Memory
from converters.text import units
from converters.types import Context, Options
from tests.goldens import cases
from tests.paths import VECTORS, needs_shared
from tests.sinks import written

if TYPE_CHECKING:
    from converters.types import Input

DUMP = """=== F1  2026-08-01 09:15:00 UTC+8 ===
Q: one
A: look
[A → run_command] ls 5c
╔K
a
b
╚
[A → edit_file] /p/a.js 2chg ➜ sha=00112233aabb
A: done

=== F2  2026-08-01 09:20:00 UTC+8 ===
Q: two
A: yes"""
DAY = 1_785_546_000_000
"""2026-08-01 09:00:00 in UTC+8."""


def session_of(data: bytes | str, name: str = "x", **options: Any) -> tuple[Session, Report]:
    return read(Memory(data.encode() if isinstance(data, str) else data, name), **options)


def read(source: Input, **options: Any) -> tuple[Session, Report]:
    ledger = Ledger()
    assert FORMAT.read is not None
    (session,) = FORMAT.read(source, Context(ledger, Options(**options)))
    report = ledger.report()
    assert report.balanced
    assert report.records.total > 0
    return session, report


def text_of(session: Session, ledger: Ledger | None = None, **options: object) -> str:
    return written(FORMAT, [session], ledger, **options).decode()


def rules(report: Report) -> dict[str, int]:
    return {entry.rule: entry.count for entry in report.entries}


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
    found = rules(report)
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
    assert "duplicate-tool-call" not in rules(report)


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
    assert rules(report)["truncated-input"] == 1


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
    found = rules(report)
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


# ---------------------------------------------------------------- vectors through the IR


def vector(case: str, name: str = "dump.txt") -> str:
    return (VECTORS / "biscuit" / case / name).read_bytes().decode()


@needs_shared
@pytest.mark.parametrize(
    "case",
    [
        "01-basic", "02-question-collapsed", "04-box-escaped", "05-cjk", "08-floors-out-of-order",
        "09-fatal-recovered", "10b-mixed-body-cr", "11-all-tools", "13-multi-tool",
        "14-guide-system-facts", "14b-facts-floor-sieved", "15-edit-only", "16-body-capped",
        "17-adjacent-boxes", "18-header-in-box", "22-ctx-only", "24-ctx-damaged",
        "25-vision-and-recovery",
    ],
)  # fmt: skip
def test_dump_there_and_back(case: str) -> None:
    session, _ = session_of(vector(case))
    ledger = Ledger()
    assert text_of(session, ledger) == vector(case)
    assert ledger.report().entries == []


@needs_shared
@pytest.mark.parametrize(
    "case",
    [
        "01-basic", "02-question-collapsed", "04b-box-collision-unescaped", "05-cjk",
        "07-unknown-tools", "11-all-tools", "13-multi-tool", "16-body-capped", "17-adjacent-boxes",
        "18-header-in-box", "25-vision-and-recovery",
    ],
)  # fmt: skip
def test_conversation_through_the_ir_is_sieved_alike(case: str) -> None:
    messages = json.loads(vector(case, "conversation.json"))
    for message in messages:
        # A time text in a question would become the header's time.
        if isinstance(message["content"], str):
            message["content"] = message["content"].replace("TIME: 2026", "TIME: ")
    session, _ = session_of(json.dumps(messages))
    expected = sieve(messages, root="/proj")
    assert text_of(session, root="/proj") == expected


# ---------------------------------------------------------------- writing


def turn(prompt: str, *steps: Step, time: int | None = None) -> Turn:
    return Turn(prompt, None, list(steps), time)


def session(*turns: Turn, **meta: Any) -> Session:
    return Session(meta=Meta("s", **meta), provider="test", turns=list(turns))


def command(text: str, output: str | None) -> Step:
    args = json.dumps({"command": text})
    call = ToolCall("c", "run_command", args)
    results = [] if output is None else [ToolResult("c", [Text(output)])]
    return Step([ToolCallBlock("c", "run_command", args)], [call], results)


def test_written_dump() -> None:
    given = session(
        turn(
            "one\n\ntwo", command("cat x", "╔K\n╚\\\nend\n"), Step([Text("a\tb")]), time=DAY + 999
        ),
        turn("next", Step([Reasoning("hm"), Text("ok")])),
    )
    ledger = Ledger()
    assert text_of(given, ledger) == (
        "=== F1  2026-08-01 09:00:00 UTC+8 ===\n"
        "Q: one two\n"
        "[A → run_command] cat x 10c\n"
        "╔K\n╔K\\\n╚\\\\\nend\n╚\n"
        "A: a b\n"
        "\n"
        "=== F2 ===\n"
        "Q: next\n"
        "A: ok"
    )
    found = rules(ledger.report())
    assert found["biscuit-question-flattened"] == 2  # the prompt and its block
    assert found["biscuit-answer-flattened"] == 1
    assert found["biscuit-reasoning-missing"] == 1
    assert found["biscuit-time-coarse"] == 1


def test_written_ctx() -> None:
    given, _ = session_of(DUMP)
    given.extra = {"native": {}}
    given.extra["native"]["ctx"] = {
        "facts": ["f"],
        "totalFloors": 9,
        "other": 1,
        "compressLevel": "full",
    }
    data = written(FORMAT, [given], form="ctx")
    found = parse_ctx(data)
    assert found.dump == DUMP
    assert (found.last_compressed_floor, found.total_floors) == (2, 9)
    assert (found.compress_level, found.unknown_fields) == ("full", ["other"])
    assert [fact.text for fact in found.facts] == ["f"]
    again, _ = session_of(data, "ctx.json")
    assert again.turns == given.turns


def test_threshold() -> None:
    given, _ = session_of(DUMP)
    tokens = estimate_tokens(DUMP)
    assert text_of(given, threshold=tokens) == text_of(given, threshold=-1) == DUMP
    ledger = Ledger()
    stripped = text_of(given, ledger, threshold=tokens - 1)
    assert stripped == strip(DUMP) == text_of(given, threshold=0)
    report = ledger.report()
    assert report.balanced
    assert rules(report)["biscuit-box-stripped"] == 2  # the result and its text


def test_edit_only() -> None:
    given, _ = session_of(DUMP)
    ledger = Ledger()
    assert text_of(given, ledger, edit_only=True) == (
        "=== F1  2026-08-01 09:15:00 UTC+8 ===\nQ: one\nA: look\n"
        "[A → edit_file] /p/a.js 2chg ➜ sha=00112233aabb\nA: done\n\n"
        "=== F2  2026-08-01 09:20:00 UTC+8 ===\nQ: two\nA: yes"
    )
    report = ledger.report()
    assert report.balanced
    found = rules(report)
    assert found["biscuit-actions-filtered"] == 3  # call, result, text
    assert found["step-merged"] == 1


def test_root() -> None:
    args = '{"path":"/home/u/proj/a.js"}'
    step = Step([ToolCallBlock("c", "edit_file", args)], [ToolCall("c", "edit_file", args)])
    given = session(turn("x", step), cwd="/home/u/proj/")
    assert "[A → edit_file] /a.js" in text_of(given)
    assert "[A → edit_file] /proj/a.js" in text_of(given, root="/home/u")
    given.meta.cwd = "/"
    assert "[A → edit_file] /home/u/proj/a.js" in text_of(given)


@pytest.mark.parametrize("options", [{"form": "pdf"}, {"threshold": "many"}, {"root": 5}])
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        written(FORMAT, [session(turn("x"))], **options)


def test_one_session_only() -> None:
    with pytest.raises(UsageError, match="one session"):
        written(FORMAT, [session(turn("x")), session(turn("y"))])


def test_names_that_would_break_the_line() -> None:
    args = '{"path":"a, b"}'
    names = ["a]b", "c+d", "e\nf", ""]
    calls = [ToolCall(str(i), name, args) for i, name in enumerate(names)]
    ledger = Ledger()
    given = session(turn("x", Step([], calls)))
    assert "[A → a_b+c_d+e_f+?]" in text_of(given, ledger)
    assert ledger.report().balanced


@pytest.mark.parametrize(
    "output",
    [
        "Command failed (exit 2)\n=== F2 ===\nQ: fake",
        "=== F2 ===\nQ: fake\n\n\n\n",
    ],
)
def test_a_box_that_would_not_be_found_again_is_left_out(output: str) -> None:
    given = session(turn("x", command("cat", output)), turn("y"))
    ledger = Ledger()
    back, _ = session_of(text_of(given, ledger))
    assert [t.prompt for t in back.turns] == ["x", "y"]
    assert rules(ledger.report())["biscuit-box-stripped"] == 2
    lucky = command("cat", "=== F2 ===\nQ: fake\n")
    back, _ = session_of(text_of(session(turn("x", lucky), turn("y"))))
    assert back.turns[0].steps[0].tool_results[0].content == [Text("=== F2 ===\nQ: fake")]


def test_times_that_no_header_holds() -> None:
    for ms in (10**15, -(10**15), 1 << 62):
        ledger = Ledger()
        given = session(turn("x", Step([Text("y")]), time=ms))
        assert text_of(given, ledger).startswith("=== F1 ===\n")
        assert rules(ledger.report())["time-dropped"] == 1


# ---------------------------------------------------------------- properties

NASTY = st.sampled_from(
    [
        "Q: x", "A: y", "[A → run_command] ls 3c", "[A → x", "[ERR] z", "[S] s", "  [T] ✓",
        "=== F2  2026-07-16 02:30:15 UTC+8 ===", "=== F9 ===", "=== F3 of it ===", "╔K", "╚",
        "╔K\\", "╚\\\\", "  │ old", "", " ", "text", "a, b", "5c", "word 2 hits", "null", "\r",
        "➜ sha=0123456789ab", "@sha=0123456789ab", "━━━ VISION ANALYSIS RESULTS", "😀", "\u3000",
        "[CURRENT TIME: 2026-07-16 01:08 UTC+08]", "[File: a]", "Command failed (exit 3)", "Q:",
        "[sha256: 0123456789abcdef]", "Error", "✓ 2 edits", "…", "\ufeff", "\u2028", "ℹ️ 压缩",
    ]
)  # fmt: skip
WORDS = st.text("ab ,xyz+]=…\\é", max_size=12)
SOUP = st.lists(NASTY | WORDS, max_size=12).map("\n".join)
PLAIN = st.text("abcdef ,.é漢", min_size=1, max_size=30).map(
    lambda text: " ".join(text.split()) or "x"
)
BODY = st.lists(NASTY | WORDS, min_size=1, max_size=8).map("\n".join)


NASTY_END = st.sampled_from(["", "\n", "\r\n", " "])
"""Ends of an output that the sieve trims; with more, a length cannot vouch for the box."""


@given(st.lists(NASTY | WORDS, max_size=40).map("\n".join))
@settings(max_examples=400)
def test_any_text_parses(text: str) -> None:
    dump = parse(text)
    assert [entry.n for entry in split(text)] == [floor.n for floor in dump.floors]
    for floor in dump.floors:
        parts = (floor.questions, floor.answers, floor.actions, floor.errors, floor.notes)
        assert len(floor.sequence) == sum(len(part) for part in parts)
    codes = {warn.code for warn in dump.warnings}
    if codes & {"stray_text", "orphan_box", "header_like_text", "stray_box_end"}:
        return
    for floor in dump.floors:
        for action in floor.actions:
            action.box = None
    again = parse(strip(text))
    for floor in (*dump.floors, *again.floors):
        floor.line = 0
    assert again.floors == dump.floors


@given(SOUP)
def test_escape_is_undone(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped)[0] == text
    assert not {"╔K", "╚"} & {line.removesuffix("\r") for line in escaped.split("\n")}


OUTPUT = st.tuples(BODY.filter(lambda text: "Command failed" not in text), NASTY_END)


@given(st.lists(st.tuples(PLAIN, OUTPUT), min_size=1, max_size=4))
def test_boxes_of_the_sieve_survive(given_boxes: list[tuple[str, tuple[str, str]]]) -> None:
    messages: list[dict[str, Any]] = []
    for number, (text, (body, end)) in enumerate(given_boxes, 1):
        call = {"id": "c", "function": {"name": "run_command", "arguments": {"command": text}}}
        messages += [
            {"role": "user", "content": "q", "_floor": number},
            {"role": "assistant", "content": "", "tool_calls": [call], "_floor": number},
            {"role": "tool", "tool_call_id": "c", "content": f"{body}.{end}", "_floor": number},
        ]
    dump = parse(sieve(messages, "2026-07-16 01:10:44"))
    for floor, (_, (body, _)) in zip(dump.floors, given_boxes, strict=True):
        box = floor.actions[0].box
        assert box is not None
        assert box.body == f"{body}."
        assert box.length_matches


@st.composite
def canonical(draw: st.DrawFn) -> Session:
    """Sessions that a dump holds exactly: nothing of them may be reported."""
    turns = []
    for n in range(1, draw(st.integers(1, 4)) + 1):
        steps: list[Step] = []
        for index in range(draw(st.integers(1, 4))):
            call_id = f"f{n}-a{sum(len(step.tool_calls) for step in steps)}"
            step = Step([])
            text_only = draw(st.booleans())
            if text_only or draw(st.booleans()):
                step.content.append(Text(draw(PLAIN)))
            after_text = index and steps[-1].content and not steps[-1].tool_calls
            if not text_only and not (after_text and not step.content):
                output = draw(PLAIN)
                args = json.dumps({"command": draw(PLAIN)}, separators=(",", ":"))
                args = json.dumps(json.loads(args), ensure_ascii=False, separators=(",", ":"))
                step.content.append(ToolCallBlock(call_id, "run_command", args))
                step.tool_calls.append(ToolCall(call_id, "run_command", args))
                native = {"summary": f"{units(output)}c", "box": "box"}
                step.tool_results.append(
                    ToolResult(call_id, [Text(output)], extra={"native": native})
                )
            if not step.content:
                step.content.append(Text(draw(PLAIN)))
            steps.append(step)
        if draw(st.booleans()):
            steps[-1].time = draw(st.integers(0, 4_000_000_000)) * 1000
        extra = {"native": {"floor": n, "question": 0}}
        turns.append(Turn(draw(PLAIN), None, steps, extra=extra))
    return Session(meta=Meta("s"), provider="biscuit", turns=turns)


@given(canonical(), st.sampled_from(["dump", "ctx"]))
def test_what_a_dump_can_hold_comes_back(given_session: Session, form: str) -> None:
    ledger = Ledger()
    data = written(FORMAT, [given_session], ledger, form=form)
    assert ledger.report().entries == []
    back, _ = session_of(data)
    assert msgspec.json.encode(back.turns) == msgspec.json.encode(given_session.turns)


TEXTS = SOUP | PLAIN
EXTRA: st.SearchStrategy[Any] = (
    st.none() | st.just({"id": "n"}) | st.fixed_dictionaries({"native": st.just({"k": 1})})
)
TIMES = st.none() | st.integers(-(1 << 45), 1 << 45)
NAMES = st.sampled_from(sorted(KNOWN)) | st.sampled_from(["Bash", "a+b", "x]", "", "日"])
ARGS = st.one_of(
    st.builds(
        lambda name, text: json.dumps({name: text}),
        st.sampled_from(
            ["path", "command", "query", "display", "url", "sha256", "image", "prompt"]
        ),
        TEXTS,
    ),
    TEXTS,
)


@st.composite
def steps(draw: st.DrawFn, number: int) -> Step:
    content: list[Block] = [Text(text, draw(EXTRA)) for text in draw(st.lists(TEXTS, max_size=2))]
    if draw(st.booleans()):
        content.append(Reasoning(draw(TEXTS)))
    if draw(st.booleans()):
        content.append(Image("QUJD", "image/png"))
    calls, results = [], []
    for index in range(draw(st.integers(0, 3))):
        call_id = f"c{number}-{index}"
        call = ToolCall(call_id, draw(NAMES), draw(ARGS), draw(EXTRA))
        calls.append(call)
        content.insert(
            draw(st.integers(0, len(content))), ToolCallBlock(call_id, call.name, call.arguments)
        )
        if draw(st.booleans()):
            blocks: list[Block] = [Text(text) for text in draw(st.lists(TEXTS, max_size=2))]
            native = draw(
                st.none()
                | st.fixed_dictionaries({"summary": TEXTS, "box": st.just("box")})
                | st.just({"sha": "0123456789ab"})
            )
            results.append(
                ToolResult(
                    call_id,
                    blocks,
                    draw(st.booleans()),
                    draw(TIMES),
                    {"native": native} if native else None,
                )
            )
    usage = draw(st.none() | st.just(Usage(1, 2)))
    extra = draw(EXTRA | st.just({"native": {"error": True, "time": "09:30"}}))
    return Step(content, calls, results, draw(TIMES), draw(st.none() | st.just("m")), usage, extra)


@st.composite
def anything(draw: st.DrawFn) -> Session:
    turns = []
    floor = 0
    own = draw(st.booleans())
    for number in range(draw(st.integers(0, 4))):
        extra: dict[str, Any] | None = draw(EXTRA)
        if own:
            floor += draw(st.integers(0, 2))
            question = draw(st.integers(0, 2))
            notes = [{"kind": "system", "text": draw(TEXTS), "before": draw(st.integers(0, 2))}]
            extra = {"native": {"floor": floor, "question": question, "notes": notes}}
        blocks = draw(st.none() | st.lists(st.builds(Text, TEXTS, EXTRA), max_size=3))
        prompt = "\n".join(block.text for block in blocks) if blocks else draw(TEXTS)
        compaction = draw(st.none() | st.builds(Compaction, TEXTS, time=TIMES))
        made = Turn(
            prompt,
            list(blocks) if blocks else None,
            [draw(steps(number * 10 + i)) for i in range(draw(st.integers(0, 3)))],
            draw(TIMES),
            draw(st.booleans()),
            compaction,
            draw(st.booleans()),
            extra,
        )
        turns.append(made)
    meta = Meta("s", created_at=draw(TIMES), cwd=draw(st.none() | st.just("/p")))
    title = draw(st.none() | TEXTS)
    return Session(meta=meta, provider="x", title=title, turns=turns, extra=draw(EXTRA))


def inventory(session: Session) -> dict[str, Counter[str]]:
    """Count what a session holds, by kind and value: what the account must not exceed."""
    found: dict[str, Counter[str]] = {
        kind: Counter()
        for kind in ("prompt", "block.text", "time", "call", "result", "error", "title", "extra")
    }

    def members(value: dict[str, Any] | None) -> None:
        for name, member in (value or {}).items():
            found["extra"][f"{name}={json.dumps(member, sort_keys=True)}"] += 1

    def blocks(given_blocks: list[Block]) -> None:
        for block in given_blocks:
            if isinstance(block, Text):
                found["block.text"][block.text] += 1
            members(block.extra)

    if session.title is not None:
        found["title"][session.title] += 1
    members(session.extra)
    for turn in session.turns:
        if turn.prompt or turn.prompt_blocks:
            found["prompt"][turn.prompt] += 1
        blocks(prompt_of(turn))
        members(turn.extra)
        for step in turn.steps:
            blocks(step.content)
            members(step.extra)
            for call in step.tool_calls:
                try:
                    args = json.dumps(json.loads(call.arguments), sort_keys=True)
                except ValueError:
                    args = call.arguments
                found["call"][f"{call.id} {call.name} {args}"] += 1
                members(call.extra)
            for result in step.tool_results:
                texts = [block.text for block in result.content if isinstance(block, Text)]
                found["result"]["\n".join(texts)] += 1
                found["error"]["error"] += result.is_error
                blocks(result.content)
                members(result.extra)
        times = [turn.time, *(step.time for step in turn.steps)]
        found["time"].update(str(time) for time in times if time is not None)
    return found


@given(anything(), st.sampled_from(["dump", "ctx"]), st.sampled_from([-1, 0]), st.booleans())
@settings(max_examples=400, deadline=None)
def test_kept_is_what_comes_back(
    given_session: Session, form: str, threshold: int, edit_only: bool
) -> None:
    ledger = Ledger()
    data = written(
        FORMAT, [given_session], ledger, form=form, threshold=threshold, edit_only=edit_only
    )
    report = ledger.report()
    assert report.balanced
    before = inventory(given_session)
    try:
        back, _ = session_of(data)
    except BadInput:
        after: dict[str, Counter[str]] = {kind: Counter() for kind in before}
    else:
        after = inventory(back)
    for kind, counted in before.items():
        item = report.items.get(kind)
        kept = item.kept if item else 0
        common = (counted & after[kind]).total()
        assert kept <= common, (kind, kept, common)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | SOUP,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
MEMBERS = (
    "role", "content", "tool_calls", "tool_call_id", "_floor", "_persistent", "_dynamic",
    "_biscuit", "_facts", "_system", "_injected", "_guideAck", "_guideText", "_error", "_errorTime",
    "_compressFloor", "_recovered", "conversation", "houses", "biscuitLines", "facts", "n", "text",
    "narrative", "lastUserInput", "images", "base64", "reasoning", "usage", "ts", "tools", "type",
    "toolResults", "answer", "question", "createdAt", "function", "name", "arguments", "id",
)  # fmt: skip
ROLES = st.sampled_from(["user", "assistant", "tool", "system"])
SHAPED = st.dictionaries(st.sampled_from(MEMBERS), JSON | ROLES | st.lists(JSON), max_size=8)
FILES = st.one_of(
    st.lists(SHAPED | JSON, max_size=6),
    st.fixed_dictionaries({"biscuitLines": st.lists(SHAPED | JSON), "facts": JSON}),
    st.fixed_dictionaries(
        {"conversation": st.lists(SHAPED | JSON), "houses": st.lists(SHAPED | JSON)},
        optional={"lastUserInput": JSON | SHAPED, "createdAt": JSON, "question": JSON},
    ),
)


@given(FILES)
@settings(max_examples=400, deadline=None)
def test_any_json_raises_nothing_but_dcb_errors(value: Any) -> None:
    data = json.dumps(value).encode()
    ledger = Ledger()
    source = Memory(data, "x.json")
    probe(source.head)
    assert FORMAT.read is not None
    try:
        found = list(FORMAT.read(source, Context(ledger)))
    except DcbError:
        return
    assert ledger.report().balanced
    account = Ledger()
    written(FORMAT, found, account)
    assert account.report().balanced


@pytest.mark.parametrize("case", cases("biscuit"), ids=lambda case: case.name)
def test_cut_golden_inputs(case: Any) -> None:
    """A file that ends anywhere gives its whole parts or a clean error."""
    source = case.source if case.source.is_file() else case.source / "ctx.json"
    data = source.read_bytes()
    dice = random.Random(7)
    assert FORMAT.read is not None
    for _ in range(40):
        piece = data[: dice.randrange(len(data) + 1)]
        ledger = Ledger()
        try:
            list(FORMAT.read(Memory(piece, source.name), Context(ledger)))
        except DcbError:
            continue
        assert ledger.report().balanced


@given(st.lists(st.tuples(st.integers(1, 9), PLAIN), max_size=5))
def test_rebuild_is_stable(floors: list[tuple[int, str]]) -> None:
    """What a rebuild gives is what it finds again in the biscuit message."""
    messages = [{"role": "user", "content": text, "_floor": n} for n, text in sorted(floors)]
    first = ctx.rebuild(messages, "2026-07-16 01:10:44")
    biscuit = {"role": "system", "content": first.dump, "_dynamic": True, "_biscuit": True}
    second = ctx.rebuild([biscuit])
    assert second.dump == first.dump
    assert join(second.lines) == first.dump
    assert second.sieved == []


def test_absolute_tools_are_known() -> None:
    assert len(KNOWN) == 20
    assert len(ABSOLUTE) == 5
