"""Dumps and ctx.json that are written: the vectors through the IR, forms, options."""

from __future__ import annotations

import json
from typing import Any

import pytest

from converters.errors import UsageError
from converters.formats.biscuit import FORMAT
from converters.formats.biscuit.condense import estimate_tokens, strip
from converters.formats.biscuit.ctx import parse_ctx
from converters.formats.biscuit.sieve import sieve
from converters.ir import (
    Meta,
    Reasoning,
    Session,
    Step,
    Text,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    Turn,
)
from converters.ledger import Ledger
from tests.converters.formats.biscuit_dumps import DAY, DUMP, session_of
from tests.paths import VECTORS, needs_shared
from tests.reading import counts
from tests.sinks import written


def text_of(session: Session, ledger: Ledger | None = None, **options: object) -> str:
    return written(FORMAT, [session], ledger, **options).decode()


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
    found = counts(ledger.report())
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
    assert counts(report)["biscuit-box-stripped"] == 2  # the result and its text


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
    found = counts(report)
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
    assert counts(ledger.report())["biscuit-box-stripped"] == 2
    lucky = command("cat", "=== F2 ===\nQ: fake\n")
    back, _ = session_of(text_of(session(turn("x", lucky), turn("y"))))
    assert back.turns[0].steps[0].tool_results[0].content == [Text("=== F2 ===\nQ: fake")]


def test_times_that_no_header_holds() -> None:
    for ms in (10**15, -(10**15), 1 << 62):
        ledger = Ledger()
        given = session(turn("x", Step([Text("y")]), time=ms))
        assert text_of(given, ledger).startswith("=== F1 ===\n")
        assert counts(ledger.report())["time-dropped"] == 1
