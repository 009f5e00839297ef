"""The group chat-json: corpus, round trips, conversions into each other, wrong types."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from converters.detection import pick, rank
from converters.errors import DcbError
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
)
from converters.ledger import count_items
from converters.opening import Memory
from converters.registry import lookup, target
from converters.turns import project
from tests.converters.formats.chat_sessions import (
    BORDERS,
    CASES,
    FORMATS,
    IDS,
    PNG,
    essence,
    load,
    plain,
    rules,
    save,
)
from tests.goldens import Case, case_id
from tests.paths import CORPUS, needs_shared
from tests.wrong_types import WRONG, places, put

if TYPE_CHECKING:
    from converters.types import Format


@needs_shared
@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("chat-openai-messages", "openai-chat"),
        ("chat-openai-responses", "openai-responses"),
        ("chat-anthropic-messages", "anthropic-messages"),
    ],
)
def test_the_corpus_reads_accounted(folder: str, name: str) -> None:
    files = sorted((CORPUS / folder).glob("*.json"))
    assert files
    for path in files:
        data = path.read_bytes()
        found, report = load(lookup(name)[0], data, path.name)
        assert report.records.total > 0
        if path.name == "agent_launch_tool_result.json":
            # Nothing but a result whose call is not in the fragment.
            assert found == []
            assert rules(report) == {"orphan-tool-result"}
            continue
        assert len(found) == 1
        assert found[0].turns
        again, _ = load(lookup(name)[0], save(lookup(name)[0], found)[0])
        assert plain(again[0]) == plain(found[0])


@needs_shared
def test_the_corpus_is_recognised() -> None:
    for folder, name in (
        ("chat-openai-messages", "openai-chat"),
        ("chat-openai-responses", "openai-responses"),
    ):
        for path in sorted((CORPUS / folder).glob("*.json")):
            assert pick(Memory(path.read_bytes(), path.name).head, FORMATS).format.id == name
    tool = CORPUS / "chat-anthropic-messages" / "agent_launch_tool_result.json"
    assert pick(Memory(tool.read_bytes()).head, FORMATS).format.id == "anthropic-messages"


@needs_shared
def test_no_probe_wins_over_a_more_specific_format() -> None:
    for path in sorted(CORPUS.rglob("*.json*")):
        folder = path.relative_to(CORPUS).parts[0]
        if folder in ("chat-openai-messages", "chat-openai-responses", "chat-anthropic-messages"):
            continue
        data = path.read_bytes()
        scores = {c.format.id: c.score for c in rank(Memory(data, path.name).head, FORMATS)}
        assert all(score <= 80 for score in scores.values()), (path, scores)


def test_the_group_and_its_default() -> None:
    assert {record.id for record in lookup("chat-json")} >= set(IDS)
    assert target("chat-json").id == "openai-chat"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_written_and_read_again_is_the_same(case: Case) -> None:
    record = lookup(case.format)[0]
    found, _ = load(record, case.source.read_bytes(), case.source.name)
    for session in found:
        data, report = save(record, [session])
        again, reading = load(record, data)
        assert len(again) == 1
        if rules(report):
            if not rules(report) & BORDERS:
                assert essence(again[0]) == essence(session)
            continue
        assert essence(again[0]) == essence(session)
        assert count_items(again[0]) == count_items(session)
        back = plain(again[0])
        assert back == plain(session) or "id-minted" in rules(reading)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_what_a_format_reads_without_loss_it_writes_without_loss(case: Case) -> None:
    """A second round changes nothing more: the same bytes, nothing more is lost."""
    record = lookup(case.format)[0]
    found, _ = load(record, case.source.read_bytes(), case.source.name)
    data, _ = save(record, found)
    again, _ = load(record, data)
    assert len(again) == len(found)
    data, _ = save(record, again)
    third, _ = load(record, data)
    assert save(record, third)[0] == data


@pytest.mark.parametrize("to", FORMATS, ids=lambda record: record.id)
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_each_converts_into_each_other(case: Case, to: Format) -> None:
    found, _ = load(lookup(case.format)[0], case.source.read_bytes(), case.source.name)
    data, report = save(to, found)
    again, _ = load(to, data)
    assert len(again) == len(found)
    for kind, item in report.items.items():
        assert item.total == sum(count_items(s)[kind] for s in found)
    if not rules(report) & BORDERS:
        tools = to.id != "instruction-pairs"
        assert [essence(s, tools=tools) for s in again] == [essence(s, tools=tools) for s in found]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_wrong_types_raise_nothing_but_errors_of_ours(case: Case) -> None:
    data = case.source.read_bytes()
    record = lookup(case.format)[0]
    try:
        document = json.loads(data)
    except ValueError:
        documents = []
        for line in data.split(b"\n"):
            try:
                documents.append(json.loads(line))
            except ValueError:
                continue
        document = documents
    for path in places(document):
        for new in WRONG:
            raw = json.dumps(put(document, path, new)).encode()
            try:
                found, _ = load(record, raw)
                for session in found:
                    save(record, [session])
                    msgspec.json.decode(msgspec.json.encode(session), type=Session)
            except DcbError:
                continue
            rank(Memory(raw).head, FORMATS)


@pytest.mark.parametrize("record", FORMATS, ids=lambda record: record.id)
def test_strange_extras_do_not_break_a_writer(record: Format) -> None:
    """What another tool put into ``x-dcb`` may have any type."""
    for native in (
        *WRONG,
        {"envelope": 5, "system": "x", "request": 7, "response": ["response", 3], "column": []},
        {"response": [], "choice": 1, "candidate": 1, "outputAt": [1, 0], "systemColumn": 1},
        {"request": ["body"], "envelope": {"body": 3}, "columns": {}, "input": 4, "item": 1},
        {"member": "refusal", "type": [], "kind": {}, "function": 3, "parts": "x", "content": 1},
    ):
        extra: Any = native if isinstance(native, dict) else {"native": native}
        for holder in (extra, {"native": native, "system": native, "attachments": native}):
            call = ToolCall("c", "n", "{}", copy.deepcopy(holder))
            content: list[Block] = [
                Reasoning("r", copy.deepcopy(holder)),
                Text("t", copy.deepcopy(holder)),
                Image(PNG, "image/png", None, None, copy.deepcopy(holder)),
                ToolCallBlock("c", "n", "{}"),
            ]
            result = ToolResult("c", [Text("t", copy.deepcopy(holder))], extra=holder)
            step = Step(content, [call], [result], extra=copy.deepcopy(holder))
            turn = Turn("q", None, [step, Step([Text("end")])], extra=copy.deepcopy(holder))
            session = Session(
                meta=Meta("s"), provider=record.id, turns=[turn], extra=copy.deepcopy(holder)
            )
            data, _ = save(record, [session])
            load(record, data)


# Properties

TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30
) | st.sampled_from(
    ["<image>", "<think>x</think>", "<tool_call>\n{}\n</tool_call>", "[image]", "{}", "\n", " "]
)
EXTRAS = st.none() | st.dictionaries(
    st.sampled_from(["native", "signature", "id", "citations", "thoughtSignature", "usage"]),
    st.text(max_size=3) | st.dictionaries(st.sampled_from(["a", "type"]), st.integers(0, 9)),
    max_size=2,
)
PARTS = st.builds(Text, TEXTS, EXTRAS) | st.builds(
    Image, st.sampled_from([None, PNG]), st.just("image/png"), st.none(), st.none(), EXTRAS
)
TIMES = st.none() | st.integers(0, 4_102_444_800_000)
USAGES = st.none() | st.builds(
    Usage, st.integers(0, 999), st.integers(0, 999), st.none() | st.integers(0, 99)
)


@st.composite
def steps(draw: st.DrawFn, number: int) -> Step:
    content: list[Block] = draw(st.lists(PARTS | st.builds(Reasoning, TEXTS, EXTRAS), max_size=3))
    calls, results = [], []
    for index in range(draw(st.integers(0, 2))):
        call_id = f"call_{number}_{index}"
        text = draw(st.sampled_from(["{}", '{"a":1}', '{"a": "<image>"}', "raw text", "[1]", ""]))
        content.append(ToolCallBlock(call_id, "tool", text))
        calls.append(ToolCall(call_id, "tool", text, draw(EXTRAS)))
        if draw(st.booleans()):
            inner: list[Block] = draw(st.lists(PARTS, max_size=2))
            results.append(
                ToolResult(call_id, inner, draw(st.booleans()), draw(TIMES), draw(EXTRAS))
            )
    return Step(
        content,
        calls,
        results,
        draw(TIMES),
        draw(st.sampled_from([None, "m"])),
        draw(USAGES),
        draw(EXTRAS),
    )


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    turns = []
    for number in range(draw(st.integers(1, 3))):
        blocks: list[Block] = draw(st.lists(PARTS, max_size=2))
        text, kept = project(blocks)
        made = [draw(steps(number * 10 + index)) for index in range(draw(st.integers(0, 2)))]
        turns.append(
            Turn(
                text,
                kept,
                made,
                draw(TIMES),
                draw(st.booleans()),
                draw(st.none() | st.builds(Compaction, TEXTS, st.just("x"), st.just("m"), TIMES)),
                draw(st.booleans()),
                draw(EXTRAS),
            )
        )
    return Session(
        meta=Meta("s", draw(TIMES), draw(st.sampled_from([None, "/w"]))),
        title=draw(st.sampled_from([None, "T"])),
        provider=draw(st.sampled_from([*IDS, "other"])),
        model=draw(st.sampled_from([None, "m"])),
        turns=turns,
        extra=draw(st.none() | st.just({"system": ["one", "two"], "cost": 1})),
    )


def typed(provider: str, kind: Any) -> Session:
    """A session whose native members say that its parts are of another type."""
    extra: Any = {"native": {"type": kind}}
    step = Step([Reasoning("r", extra), Text("a", extra)], extra=extra)
    turn = Turn("q", [Text("q", extra)], [step], extra=extra)
    return Session(meta=Meta("s"), provider=provider, turns=[turn])


@pytest.mark.parametrize("record", FORMATS, ids=lambda record: record.id)
@settings(max_examples=60, deadline=None)
@given(session=sessions())
@example(Session(meta=Meta("s"), provider="openai-chat", turns=[Turn("0", steps=[Step()])]))
@example(typed("openai-chat", 0))
@example(typed("openai-responses", 0))
def test_every_item_is_kept_or_reported(record: Format, session: Session) -> None:
    before = msgspec.json.encode(session)
    data, report = save(record, [session])
    assert msgspec.json.encode(session) == before
    assert {k: i.total for k, i in report.items.items() if i.total} == count_items(session)
    again, _ = load(record, data)
    if any(t.prompt or t.prompt_blocks for t in session.turns):
        assert len(again) == 1
    if not again or rules(report) & BORDERS:
        return
    tools = record.id != "instruction-pairs"
    assert essence(again[0], tools=tools) == essence(session, tools=tools)


@pytest.mark.parametrize("record", FORMATS, ids=lambda record: record.id)
@settings(max_examples=15, deadline=None)
@given(found=st.lists(sessions(), min_size=2, max_size=4))
def test_many_sessions_in_one_file(record: Format, found: list[Session]) -> None:
    data, _ = save(record, found)
    again, report = load(record, data)
    empty = sum(e.count for e in report.entries if e.rule == "empty-session")
    assert len(again) + empty == len(found)
