"""Claude Code: vectors, corpus and hostile pack, and what the writer gives back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given

from converters.formats.claude import FORMAT, native_id, slug, verify
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
from tests.converters.formats.claude_records import SID, START
from tests.converters.formats.vectors import (
    check_converted,
    check_spoken,
    exports,
    records_of,
    scrub,
    session_of,
    spoken,
    table,
    vectors,
)
from tests.pack import cases, pack
from tests.paths import CORPUS, needs_shared
from tests.reading import counts, read
from tests.sinks import MemorySink, written

DEVIATIONS = table("deviations_claude.json")


@needs_shared
@pytest.mark.parametrize("vector", vectors("converted", "claude.jsonl"), ids=lambda v: v["case"])
def test_vectors(vector: dict[str, Any]) -> None:
    check_converted(FORMAT, vector, DEVIATIONS)


def test_every_deviation_has_its_reason() -> None:
    assert all(row["fields"] and row["reason"] for row in DEVIATIONS.values())


@needs_shared
@pytest.mark.parametrize("path", sorted((CORPUS / "claude").glob("*.jsonl")), ids=lambda p: p.name)
def test_corpus(path: Path) -> None:
    sessions, report = read(FORMAT, path.read_bytes(), path.name)
    assert report.records.total > 0
    assert len(sessions) == (path.name != "edge_empty_session.jsonl")
    for session in sessions:
        check_round_trip(session)


@needs_shared
@pytest.mark.parametrize("case", cases("jsonl"), ids=lambda case: case["name"])
def test_hostile(case: dict[str, Any]) -> None:
    data = (pack() / case["name"]).read_bytes()
    sessions, report = read(FORMAT, data, Path(case["name"]).name)
    output = json.dumps(msgspec.to_builtins(sessions), ensure_ascii=False)
    if case["expect"] == "clean-error":
        assert not sessions
        return
    assert len(sessions) == 1
    survive = [*case.get("survive", ()), *case.get("should", ())]
    # The second result of a call is dropped and counted: the first one wins.
    assert not [word for word in survive if word not in output and word != "keep-r2"]
    if case.get("rules") and not case.get("quiet"):
        assert set(case["rules"]) & counts(report).keys()


@needs_shared
@pytest.mark.parametrize("vector", vectors("functions", "claude-slug.jsonl"), ids=str)
def test_slug(vector: dict[str, Any]) -> None:
    assert slug(str(vector["args"][0])) == vector["result"]


@needs_shared
@pytest.mark.parametrize("vector", vectors("functions", "claude-verify.jsonl"))
def test_verify(vector: dict[str, Any]) -> None:
    found = [{"line": line, "error": code} for line, code in verify(vector["args"][0])]
    assert found == vector["result"].get("errors", [])


EXPORTS = [
    (f"export-{number}", vector["args"][0], records_of(vector["result"]["jsonl"]))
    for number, vector in enumerate(vectors("functions", "claude.jsonl"))
    if "result" in vector
] + [(f"export-{case}", events, records) for case, events, records in exports("claude")]


@needs_shared
@pytest.mark.parametrize(("case", "value", "theirs"), EXPORTS, ids=[row[0] for row in EXPORTS])
def test_exports(case: str, value: dict[str, Any], theirs: list[dict[str, Any]]) -> None:
    """What the reference exporter writes, message by message; its envelope is part of ours."""
    session = session_of(
        value, value.get("cwd") or "/home/user/demo", value.get("sessionUuid", SID)
    )
    data = written(FORMAT, [session])
    ours = records_of(data.decode())
    assert not [problem for problem in verify(data.decode()) if problem.code != "last-line-no-uuid"]
    assert (said(ours) == said(theirs)) is (case not in DEVIATIONS)
    envelope = {"sessionId", "uuid", "parentUuid", "timestamp", "message", "type"}
    assert all(envelope <= record.keys() for record in ours if "message" in record)


def said(records: list[dict[str, Any]]) -> list[Any]:
    """Give what the records of a transcript say, in the form that both exporters share."""
    found: list[Any] = []
    late: list[Any] = []
    for record in records:
        if record["type"] not in ("user", "assistant"):
            continue
        content = record["message"]["content"]
        blocks = [content] if isinstance(content, str) else content
        for block in blocks:
            if isinstance(block, str):
                found.append(("text", block))
            elif block["type"] == "tool_result":
                # The reference puts results that no one gave at the end, dcb after the call.
                late.append(
                    (block["tool_use_id"], texts_of(block["content"]), block.get("is_error"))
                )
            elif block["type"] == "text":
                found.append(("text", block["text"]))
            elif block["type"] == "thinking":
                found.append(("thinking", block["thinking"]))
            elif block["type"] == "tool_use":
                found.append(("tool_use", block["id"], block["name"]))
            else:
                found.append(("text", "[image]"))
    return [*found, *sorted(late, key=str)]


def texts_of(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content] if content else []
    return [part if isinstance(part, str) else part.get("text", "[image]") for part in content]


def full() -> Session:
    """Give a session that uses everything the format has a place for."""
    return Session(
        meta=Meta(SID, START, "/srv/demo"),
        title="A title",
        provider="claude-code",
        model="model-x",
        turns=[
            Turn(
                "first",
                None,
                [
                    Step(
                        [
                            Reasoning("because", {"signature": "sig"}),
                            Text("so"),
                            ToolCallBlock("c1", "Bash", '{"command":"ls"}'),
                        ],
                        [ToolCall("c1", "Bash", '{"command":"ls"}')],
                        [ToolResult("c1", [Text("out")], True, START + 2000)],
                        START + 1000,
                        "model-x",
                        Usage(3, 5, 7, 9),
                        {
                            "id": "msg_1",
                            "uuid": "u-2",
                            "native": {
                                "sealed": [{"at": 0, "type": "redacted_thinking", "data": "zz"}]
                            },
                        },
                    )
                ],
                START,
                aborted=True,
                shadowed=True,
                extra={"uuid": "u-1"},
            ),
            Turn(
                "look",
                [Text("look"), Image("iVBORw0KGgo=", "image/png")],
                [
                    Step(
                        [Text("seen")],
                        time=START + 5000,
                        model="model-y",
                        usage=Usage(1, 2),
                        extra={"id": "msg_2", "uuid": "u-4"},
                    )
                ],
                START + 4000,
                compaction=Compaction("facts", "claude-code", "model-x", START + 3000),
                extra={"uuid": "u-3"},
            ),
        ],
        extra={"git": {"branch": "main"}, "native": {"version": "2.1.5"}},
    )


def check_round_trip(session: Session) -> list[Session]:
    """Write and read back: equal up to what the report of the writer names."""
    ledger = Ledger()
    data = written(FORMAT, [session], ledger)
    report = ledger.report()
    assert report.balanced, report
    sessions, _ = read(FORMAT, data, f"{native_id(session)}.jsonl")
    assert len(sessions) == 1
    left, right = (json.loads(msgspec.json.encode(s)) for s in (session, sessions[0]))
    allowed = forgiven(counts(report).keys())
    for value in (left, right):
        scrub(value, allowed)
    assert left == right
    return sessions


def forgiven(rules: Any) -> set[str]:
    """Give the members that a report allows to differ; native ids are made where none are."""
    members = {"x-dcb"}
    for rule, names in {
        "id-minted": {"id"},
        "time-filled": {"time", "createdAt"},
        "usage-dropped": {"usage"},
        "tool-result-missing": {"toolResults"},
        "state-dropped": {"shadowed", "aborted"},
        "text-changed": {"arguments"},
    }.items():
        if rule in rules:
            members |= names
    return members


def test_everything_goes_there_and_back() -> None:
    ledger = Ledger()
    data = written(FORMAT, [full()], ledger)
    assert ledger.report().balanced
    assert counts(ledger.report()) == {}
    sessions, _ = read(FORMAT, data, f"{SID}.jsonl")
    assert sessions == [full()]
    assert verify(data.decode()) == []
    assert written(FORMAT, sessions) == data


def test_lines_carry_the_whole_envelope() -> None:
    records = [json.loads(line) for line in written(FORMAT, [full()]).decode().split("\n")[:-1]]
    assert records[0]["type"] == "mode"
    chained = [record for record in records if record["type"] in ("user", "assistant")]
    for record in chained:
        assert record["sessionId"] == SID
        assert {"uuid", "parentUuid", "timestamp", "cwd", "version", "userType"} <= record.keys()
    message = next(r["message"] for r in chained if r["type"] == "assistant")
    assert {"id", "type", "role", "model", "stop_reason", "stop_sequence"} <= message.keys()
    assert message["stop_reason"] == "tool_use"
    assert message["content"][0] == {"type": "redacted_thinking", "data": "zz"}


def test_what_has_no_place_is_reported() -> None:
    session = full()
    session.provider = "elsewhere"
    session.meta.id = "no-uuid"
    session.turns[0].steps[0].tool_calls.append(ToolCall("c2", "Odd", "not json"))
    session.turns[0].steps[0].usage = None
    session.turns[1].steps[0].tool_results.append(ToolResult("ghost", [Text("boo")]))
    ledger = Ledger()
    data = written(FORMAT, [session], ledger)
    assert ledger.report().balanced
    assert counts(ledger.report()) == {
        "tool-result-missing": 1,
        "orphan-tool-result": 2,
        "usage-unknown": 1,
        "id-minted": 1,
        "extra-dropped": 9,
        "text-changed": 2,
    }
    back, _ = read(FORMAT, data, "x.jsonl")
    arguments = {call.id: call.arguments for call in back[0].turns[0].steps[0].tool_calls}
    assert arguments["c2"] == '{"input":"not json"}'


def test_subagents_are_written_beside() -> None:
    side = Session(
        meta=Meta("a77", START, "/srv/demo"),
        provider="claude-code",
        turns=[Turn("dig", None, [], START)],
        extra={"parent": {"sessionId": SID, "callId": "c1"}},
    )
    sink = MemorySink()
    assert FORMAT.write is not None
    ledger = Ledger()
    FORMAT.write([full(), side], sink, Context(ledger))
    assert ledger.report().balanced
    assert list(sink.files) == [f"{SID}/subagents/agent-a77.jsonl"]
    sessions, _ = read(FORMAT, bytes(sink.data), f"{SID}.jsonl", sink.files)
    assert [found.meta.id for found in sessions] == [SID, "a77"]
    assert sessions[1].extra is not None
    assert sessions[1].extra["parent"] == {"sessionId": SID}
    assert counts(ledger.report()) == {"extra-dropped": 1}


def late_result() -> Session:
    """Give a session where the result of a call stands in the step after it."""
    calls = [ToolCall("c1", "sh", "{}"), ToolCall("c2", "sh", "{}")]
    blocks = [ToolCallBlock(call.id, call.name, call.arguments) for call in calls]
    second = ToolResult("c2", [Text("two")])
    late = ToolResult("c1", [Text("one")])
    steps = [Step([Text("A"), *blocks], calls, [second]), Step([Text("B")], [], [late])]
    turns = [Turn("q", None, steps), Turn("p", None, [])]
    return Session(meta=Meta(SID, START, "/x"), provider="made", turns=turns)


def test_a_result_in_a_later_step_cuts_nothing_out_of_the_chain() -> None:
    ledger = Ledger()
    records = records_of(written(FORMAT, [late_result()], ledger).decode())
    assert ledger.report().balanced
    assert counts(ledger.report())["order-changed"] == 1
    known = {record["uuid"]: record for record in records if "uuid" in record}
    way = [records[-1]]
    while way[-1]["parentUuid"] is not None:
        way.append(known[way[-1]["parentUuid"]])
    said = [json.dumps(record["message"]["content"]) for record in reversed(way)]
    assert [any(f'"{word}"' in line for line in said) for word in "qABp"] == [True] * 4
    answers = [record["message"]["content"][0] for record in records if "sourceTool" in str(record)]
    assert [block["tool_use_id"] for block in answers] == ["c1", "c2"]


def test_an_interruption_of_nothing_is_not_given_to_the_turn_before() -> None:
    session = full()
    session.turns[1] = Turn("", None, [], aborted=True, compaction=session.turns[1].compaction)
    session.turns[0].aborted = False
    ledger = Ledger()
    sessions, _ = read(FORMAT, written(FORMAT, [session], ledger), f"{SID}.jsonl")
    assert ledger.report().balanced
    assert counts(ledger.report())["state-dropped"] == 1
    assert not any(turn.aborted for turn in sessions[0].turns)


@given(spoken(START, "model-x", "model-y"))
def test_prompts_and_answers_survive_unless_reported(turns: list[Turn]) -> None:
    session = Session(meta=Meta(SID, START, "/x"), provider="made", turns=turns)
    check_spoken(FORMAT, session, f"{SID}.jsonl")


# the tool's own loader


@pytest.mark.clients
def test_the_sdk_reads_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk does not install here")
    folder = tmp_path / "projects" / slug("/srv/demo")
    folder.mkdir(parents=True)
    (folder / f"{SID}.jsonl").write_bytes(written(FORMAT, [full()]))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    info = sdk.get_session_info(SID)
    assert info is not None
    assert info.session_id == SID
    assert "A title" in (info.custom_title or "", info.summary or "")
    messages = sdk.get_session_messages(SID)
    roles = [message.type for message in messages]
    assert "assistant" in roles
    output = json.dumps([message.message for message in messages], default=str)
    assert "seen" in output
    assert [listed.session_id for listed in sdk.list_sessions()] == [SID]
