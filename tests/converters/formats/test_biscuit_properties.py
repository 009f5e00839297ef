"""The biscuit format against any text, any session and any JSON."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.errors import BadInput, DcbError
from converters.formats.biscuit import FORMAT, ctx, probe
from converters.formats.biscuit.condense import join, split, strip
from converters.formats.biscuit.dump import parse
from converters.formats.biscuit.lines import escape, unescape
from converters.formats.biscuit.sieve import sieve
from converters.formats.biscuit.tools import ABSOLUTE, KNOWN
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
from converters.ledger import Ledger
from converters.opening import Memory
from converters.text import units
from converters.types import Context
from tests.converters.formats.biscuit_dumps import session_of
from tests.goldens import cases
from tests.sinks import written

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
