"""Trimming to a budget: the vectors, the properties, and the account of what is gone."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.fitting import fit
from converters.formats.interchange import FORMAT
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
)
from converters.ledger import Ledger, count_items
from converters.text import estimate_tokens
from converters.trimming import (
    Trimmed,
    Trimming,
    estimate,
    estimate_turn,
    notice_text,
    trim,
)
from tests.goldens import Case, case_id, cases, read_source
from tests.paths import VECTORS, needs_shared
from tests.sinks import written

# -- the vectors -------------------------------------------------------------------------------


def vectors(name: str) -> list[dict[str, Any]]:
    path = VECTORS / "interchange" / "functions" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.is_file() else []


def reference_notice(so_far: Trimmed) -> str:
    """Give the placeholder of the vectors, made as long as the sentence that stood there.

    Their estimates say: 71 tokens and a quarter for each digit of its five numbers.
    """
    numbers = (
        so_far.original_tokens,
        so_far.budget,
        so_far.dropped_turns,
        so_far.dropped_messages,
        so_far.dropped_tool_calls,
    )
    words = " ".join(map(str, numbers))
    text = f"<trim-notice {words}>"
    return text + "~" * (4 * 71 + len(words) - 4 - len(text))


def of_turns(turns: list[dict[str, Any]]) -> Session:
    document = {"meta": {"id": "s"}, "provider": "p", "turns": turns}
    return msgspec.convert(document, Session)


def plain(session: Session) -> list[dict[str, Any]]:
    """Give the turns as JSON objects as the vectors have them, the notice without its filling."""
    turns: list[dict[str, Any]] = json.loads(msgspec.json.encode(session.turns))
    for turn in turns:
        for step in turn["steps"]:
            for block in step["content"]:
                block["text"] = block["text"].rstrip("~")
            for result in step["toolResults"]:
                # The reference ran without the normalisation that adds the mark.
                assert result.pop("isError") is False
    return turns


def without_notice(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give turns with the placeholder of the generic documents, which leave the numbers out."""
    for turn in turns:
        for step in turn["steps"]:
            for block in step["content"]:
                if block["type"] == "reasoning" and block["text"].startswith("<trim-notice "):
                    block["text"] = "<trim notice>"
    return turns


def member(report: Trimmed | None) -> dict[str, Any] | None:
    return None if report is None else json.loads(msgspec.json.encode(report))


@needs_shared
@pytest.mark.parametrize("case", vectors("trim-turns"))
def test_trim_turns(case: dict[str, Any]) -> None:
    turns, budget = case["args"]
    made = trim(of_turns(turns), budget, notice=reference_notice)
    assert plain(made.session) == case["result"]["turns"]
    assert member(made.report) == case["result"]["trimmed"]


@needs_shared
@pytest.mark.parametrize("case", vectors("apply-budget-trim"))
def test_apply_budget_trim(case: dict[str, Any]) -> None:
    turns, budget = case["args"]
    tokens = int(budget) if str(budget).lstrip("-").isdecimal() else 0
    made = trim(of_turns(turns), tokens, notice=reference_notice)
    assert plain(made.session) == case["result"]["turns"]
    assert member(made.trimmed) == case["result"]["trimmed"]


# -- the rules one by one ----------------------------------------------------------------------


def session_of(*turns: Turn) -> Session:
    return Session(meta=Meta("s"), provider="p", turns=list(turns))


def words(tokens: int) -> str:
    return "word" * tokens


def said(prompt: str, answer: str, **more: Any) -> Turn:
    return Turn(prompt, steps=[Step([Text(answer)])], **more)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("字", 1), ("字a", 2), ("、。（", 3),
        ("\U00020000\U0002a6df", 2), ("\U0002a6e0", 1), ("\U0001f600" * 4, 1), ("é" * 5, 2),
        ("\u3400\u4dbf\u4e00\u9fff\uf900\ufaff\u3000\u303f\uff00\uffef", 10),
        ("\u33ff\u4dc0\ua000\uf8ff", 1), ("\ud800", 1),
    ],
)  # fmt: skip
def test_estimate_of_texts(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_estimate_of_a_turn() -> None:
    call = ToolCall("c", "read", words(7))
    turn = Turn(
        words(2),
        [Text(words(3)), Image("AAAA", "image/png")],
        [
            Step(
                [Text(words(5)), Reasoning(words(6)), ToolCallBlock("c", "read", words(7))],
                [call, ToolCall("d", "read", words(20)), ToolCall("e", "read", "{}")],
                [ToolResult("c", [Text(words(11)), Image("AAAA", "image/png")])],
            )
        ],
        compaction=Compaction(words(99)),
    )
    # promptBlocks stand for the prompt; a call counts once, with a block or without.
    assert estimate_turn(turn) == 3 + 800 + 5 + 6 + 7 + 20 + 11 + 800


def test_long_texts_lose_their_middle() -> None:
    letters = "".join(chr(0x4E00 + n % 5000) for n in range(50_000))
    result = ToolResult("c", [Text(letters), Text("short"), Image("AAAA", "image/png")])
    whole = ToolResult("d", [Text("x" * 40_000)])
    step = Step(
        [Text(letters), Reasoning("😀" * 16_001), Text("y" * 16_000)],
        [ToolCall("c", "n", "z" * 20_000), ToolCall("d", "n", "{}")],
        [result, whole],
    )
    made = trim(session_of(Turn("p" * 20_000, steps=[step])), 10**6)
    assert made.report.cropped_blocks == 3
    assert [change.place for change in made.changes] == [
        "/turns/0/steps/0/content/0",
        "/turns/0/steps/0/content/1",
        "/turns/0/steps/0/toolResults/0/content/0",
    ]
    (turn,) = made.session.turns
    (now,) = turn.steps
    assert turn.prompt == "p" * 20_000
    assert now.tool_calls == step.tool_calls
    for block, was, limit in (
        (now.content[0], step.content[0], 16_000),
        (now.content[1], step.content[1], 16_000),
        (now.tool_results[0].content[0], result.content[0], 40_000),
    ):
        assert isinstance(block, Text | Reasoning)
        assert isinstance(was, Text | Reasoning)
        assert type(block) is type(was)
        assert limit - 5 < len(block.text) <= limit
        head, rest = block.text.split("\n[... ")
        number, tail = rest.split(" characters left out ...]\n")
        assert was.text.startswith(head)
        assert was.text.endswith(tail)
        assert len(head) + int(number) + len(tail) == len(was.text)
        assert abs(len(head) - 3 * len(tail)) <= 3
    assert now.content[2] is step.content[2]
    assert now.tool_results[0].content[1:] == result.content[1:]
    assert now.tool_results[1] is whole
    assert made.report.estimated_tokens == estimate(made.session.turns)


def test_a_crop_that_fits_drops_nothing() -> None:
    made = trim(session_of(said("q", "字" * 90_000), said("q", "a")), 20_000)
    assert made.report.dropped_turns == 0
    assert not made.report.summary_inserted
    assert made.report.original_tokens == 90_003
    assert made.report.estimated_tokens <= 16_003


def test_the_last_turns_come_before_the_first_three() -> None:
    turns = [said(words(10), words(10)) for _ in range(2)]
    big, last = said(words(300), words(300)), said("last", "answer")
    made = trim(session_of(turns[0], big, last), 600)
    assert [turn.prompt for turn in made.session.turns] == [words(10), "last"]
    assert made.report.dropped_turns == 1


def test_the_notice_says_what_is_gone() -> None:
    turns = [said(f"q{n}", words(100)) for n in range(30)]
    made = trim(session_of(*turns), 1000)
    (first,) = [t for t in made.session.turns if isinstance(t.steps[0].content[0], Reasoning)]
    block = first.steps[0].content[0]
    assert isinstance(block, Reasoning)
    for number in (made.report.original_tokens, 1000, made.report.dropped_turns):
        assert f" {number}" in block.text
    assert f"({made.report.dropped_messages} messages" in block.text
    assert made.session.turns.index(first) == 3 or first is made.session.turns[-1]


def test_the_notice_is_short() -> None:
    huge = 2**53
    counts = Trimmed(huge, huge, huge, huge, huge, huge, huge, huge, huge)
    assert estimate_tokens(notice_text(counts)) < 512


def test_a_turn_without_steps_gets_one_for_the_notice() -> None:
    made = trim(session_of(Turn("q"), *(said("q", words(400)) for _ in range(3))), 600)
    assert made.session.turns[0].prompt == "q"
    (step,) = made.session.turns[0].steps
    assert isinstance(step.content[0], Reasoning)


def test_an_oversized_prompt_takes_its_turn_along() -> None:
    turns = [said("q0", "a0"), said(words(1100), "a1"), said("q2", "a2"), said("q3", words(900))]
    made = trim(session_of(*turns, said("q4", "a4")), 2000)
    assert [turn.prompt for turn in made.session.turns] == ["q0", "q2", "q4"]
    report = made.report
    assert (report.dropped_turns, report.dropped_messages, report.dropped_oversized) == (2, 4, 1)


def test_shadowed_turns_at_the_start_are_left_alone() -> None:
    covered = [said(words(500), "字" * 50_000, shadowed=True) for _ in range(3)]
    after = [said(f"q{n}", words(100)) for n in range(20)]
    made = trim(session_of(*covered, *after), 1000)
    assert made.session.turns[:3] == covered
    assert all(a is b for a, b in zip(made.session.turns, covered, strict=False))
    assert made.report.original_tokens == estimate(after) == 20 * 101
    assert made.report.estimated_tokens == estimate(made.session.turns[3:]) <= 1000
    assert made.report.cropped_blocks == 0
    whole = trim(session_of(*covered), 10)
    assert whole.trimmed is None
    assert whole.report.original_tokens == 0


def test_a_result_goes_with_its_call() -> None:
    asked = Turn("q1", steps=[Step([Text(words(700))], [ToolCall("c", "n", "{}")])])
    results = [ToolResult("c", [Text("r")]), ToolResult("d", [Text("r")])]
    late = Turn("q2", steps=[Step([Text("a")], [ToolCall("d", "n", "{}")], results)])
    made = trim(session_of(said("q0", "a0"), asked, late, said("q3", words(600))), 1300)
    assert [(change.what, change.place) for change in made.changes] == [
        ("turn", "/turns/3"),
        ("notice", "/turns/2"),
        ("step", "/turns/1/steps/0"),
        ("result", "/turns/2/steps/0/toolResults/0"),
    ]
    assert [t.prompt for t in made.session.turns] == ["q0", "q1", "q2"]
    assert [r.tool_call_id for r in made.session.turns[2].steps[0].tool_results] == ["d"]
    assert (made.report.dropped_tool_calls, made.report.dropped_tool_results) == (1, 1)


def test_a_turn_that_lost_everything_goes_too() -> None:
    silent = Turn("", steps=[Step([Text(words(700))])], time=5)
    turns = [said("q0", "a0"), silent, said("q2", "a2")]
    assert trim(session_of(*turns), 1250).trimmed is None
    session = session_of(*turns, said("q3", words(600)))
    made = trim(session, 1300)
    assert [turn.prompt for turn in made.session.turns] == ["q0", "q2"]
    assert made.report.dropped_turns == 2
    assert accounted(session, 1300)


def test_something_is_always_left() -> None:
    made = trim(session_of(Turn("", steps=[Step([Text(words(700))])])), 1000)
    assert made.trimmed is None
    made = trim(session_of(Turn("", steps=[Step([Text(words(700))])], time=5)), 600)
    (turn,) = made.session.turns
    assert turn.time == 5
    assert isinstance(turn.steps[0].content[0], Reasoning)
    assert made.report.dropped_turns == 0
    silent = Turn("", steps=[Step([Text(words(700))])], time=5)
    assert accounted(session_of(silent), 600)
    # The notice that went with the only step comes back, once.
    assert accounted(session_of(silent, said("q", "a")), 600)


@pytest.mark.parametrize("budget", [0, -5])
def test_no_budget_no_change(budget: int) -> None:
    session = session_of(said("q", "a" * 50_000))
    made = trim(session, budget)
    assert made.session is session
    assert made.trimmed is None


# -- properties --------------------------------------------------------------------------------

sizes = st.one_of(st.integers(0, 8), st.integers(0, 400))
contents: st.SearchStrategy[Block] = st.one_of(
    sizes.map(lambda n: Text(words(n))),
    sizes.map(lambda n: Reasoning("字" * n)),
    st.just(Image("AAAA", "image/png")),
    st.sampled_from([Text("字" * 16_500), Text("x" * 41_000)]),
)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    turns: list[Turn] = []
    open_calls: list[str] = []
    number = 0
    shadowed = draw(st.integers(0, 2)) if draw(st.booleans()) else 0
    for _ in range(draw(st.integers(0, 12))):
        steps = []
        for _ in range(draw(st.integers(0, 3))):
            calls = []
            content = draw(st.lists(contents, max_size=2))
            for _ in range(draw(st.integers(0, 2))):
                number += 1
                call = ToolCall(f"c{number}", "n", words(draw(sizes)))
                calls.append(call)
                open_calls.append(call.id)
                if draw(st.booleans()):
                    content.append(ToolCallBlock(call.id, call.name, call.arguments))
            results = [
                ToolResult(name, draw(st.lists(contents, max_size=2)), draw(st.booleans()))
                for name in draw(st.lists(st.sampled_from(open_calls), max_size=2))
            ] if open_calls else []  # fmt: skip
            steps.append(Step(content, calls, results, draw(st.none() | st.just(7))))
        compaction = draw(st.none() | st.just(Compaction("summary", time=3)))
        prompt = words(draw(sizes))
        blocks = draw(st.none() | st.lists(contents, min_size=1, max_size=2)) if prompt else None
        turn = Turn(prompt, blocks, steps, draw(st.none() | st.just(1)), compaction=compaction)
        turn.shadowed = len(turns) < shadowed
        turns.append(turn)
    return session_of(*turns)


budgets = st.one_of(st.integers(1, 3000), st.integers(1, 40_000))


def cost_of_notices(made: Trimming) -> int:
    return sum(
        estimate_tokens(block.text)
        for turn in made.session.turns
        for step in turn.steps
        for block in step.content
        if isinstance(block, Reasoning) and block.text.startswith("[This conversation")
    )


def calls_in(turns: list[Turn]) -> set[str]:
    return {call.id for turn in turns for step in turn.steps for call in step.tool_calls}


@given(sessions(), budgets)
def test_properties(session: Session, budget: int) -> None:
    before = msgspec.json.encode(session)
    made = trim(session, budget)
    assert msgspec.json.encode(session) == before
    report = made.report
    covered = next((n for n, t in enumerate(session.turns) if not t.shadowed), len(session.turns))
    given_turns, left = session.turns[covered:], made.session.turns[covered:]
    assert report.original_tokens == estimate(given_turns)
    assert report.estimated_tokens == estimate(left)
    assert report.estimated_tokens - cost_of_notices(made) <= report.original_tokens
    assert report.estimated_tokens <= budget or len(left) == 1
    assert len(left) == len(given_turns) - report.dropped_turns
    assert bool(left) == bool(given_turns)
    assert made.session.turns[:covered] == session.turns[:covered]
    kept = calls_in(made.session.turns)
    for turn in left:
        for step in turn.steps:
            assert all(result.tool_call_id in kept for result in step.tool_results)
    # What is left stands in the order of the source.
    given_order = [call.id for t in given_turns for s in t.steps for call in s.tool_calls]
    left_order = [call.id for t in left for s in t.steps for call in s.tool_calls]
    rest = iter(given_order)
    assert all(name in rest for name in left_order)
    assert len(given_order) - len(left_order) == report.dropped_tool_calls
    results = [sum(len(s.tool_results) for t in ts for s in t.steps) for ts in (given_turns, left)]
    assert results[0] - results[1] == report.dropped_tool_results
    if given_turns and not left[0].compaction and given_turns[0].prompt:
        assert left[0].prompt == given_turns[0].prompt
    if made.trimmed is None:
        assert made.session is session
    elif not report.dropped_turns + report.dropped_messages:
        again = trim(made.session, budget)
        assert again.session is made.session


@given(sessions(), budgets)
def test_kept_and_reported_are_the_total(session: Session, budget: int) -> None:
    accounted(session, budget)


def accounted(session: Session, budget: int) -> bool:
    """Trim and write a session as ``dcb convert`` does, and check the account of both."""
    ledger = Ledger("in")
    made = fit(session, budget, ledger)
    assert written(FORMAT, [made], ledger)
    report = ledger.report()
    assert report.balanced
    notices = ledger.count("budget-notice")
    total = Counter({kind: item.total for kind, item in report.items.items() if item.total})
    assert total == count_items(session) + Counter({"block.reasoning": notices})
    kept = Counter({kind: item.kept for kind, item in report.items.items() if item.kept})
    assert kept == +count_items(made)
    trimmed = trim(session, budget).report
    assert ledger.count("budget-turn-dropped") == trimmed.dropped_turns
    assert ledger.count("budget-exceeded") == (trimmed.estimated_tokens > budget)
    return True


def test_each_change_is_named_with_its_place() -> None:
    turns = [said(f"q{n}", words(60)) for n in range(10)]
    turns[0].steps[0].tool_calls.append(ToolCall("c", "n", "{}"))
    turns[0].steps[0].tool_results.append(ToolResult("c", [Text(words(450))], is_error=True))
    turns[0].steps.append(Step([Text(words(420))], time=3))
    turns[0].steps.append(Step([Reasoning("x" * 16_004)]))
    ledger = Ledger("in.json")
    made = fit(session_of(*turns), 800, ledger)
    entries = {entry.rule: entry for entry in ledger.report().entries}
    assert len(made.turns) == 1
    assert entries["budget-turn-dropped"].count == 9
    assert entries["budget-turn-dropped"].places == [f"in.json:s/turns/{n}" for n in range(1, 6)]
    assert entries["budget-result-dropped"].places == ["in.json:s/turns/0/steps/0/toolResults/0"]
    assert entries["budget-step-dropped"].places == [
        "in.json:s/turns/0/steps/1",
        "in.json:s/turns/0/steps/2",
    ]
    assert entries["budget-notice"].places == ["in.json:s/turns/0"]
    # The text that was cropped first is not in the output at all.
    assert "budget-cropped" not in entries
    items = entries["budget-item-dropped"].kinds
    assert items == {
        "prompt": 9, "block.text": 9 + 9 + 1 + 1, "block.reasoning": 1, "result": 1, "error": 1,
        "time": 1,
    }  # fmt: skip


def test_a_session_that_stays_too_long_is_named() -> None:
    ledger = Ledger()
    fit(session_of(Turn(words(50), steps=[Step([Text(words(30))]) for _ in range(9)])), 100, ledger)
    report = ledger.report()
    assert [entry.rule for entry in report.entries] == ["budget-exceeded"]
    assert report.degraded


def test_large_sessions_take_linear_time() -> None:
    many = session_of(*(said("question", "answer") for _ in range(50_000)))
    made = trim(many, 10_000)
    assert made.report.estimated_tokens <= 10_000
    one = session_of(*(Turn(str(n), steps=[Step([Text("字a" * 5_000_000)])]) for n in range(2)))
    assert trim(one, 50_000).report.estimated_tokens <= 50_000
    steps = [
        Step([Text("a")], [ToolCall(f"c{n}", "n", "{}")], [ToolResult(f"c{n}", [Text("r")])])
        for n in range(50_000)
    ]
    assert trim(session_of(Turn("q", steps=steps)), 1000).report.dropped_messages == 0


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_golden_sessions(case: Case) -> None:
    for session in read_source(case.source).sessions:
        tokens = estimate(session.turns)
        for budget in {1, tokens // 3, tokens // 2 + 300, tokens} - {0}:
            accounted(session, budget)
