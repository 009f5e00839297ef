"""Codex: what the writer gives, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from converters.formats.codex import FORMAT, verify
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
from tests.converters.formats.codex_rollouts import DEVIATIONS, SID, START, Rollout
from tests.converters.formats.vectors import (
    check_spoken,
    exports,
    records_of,
    session_of,
    spoken,
    vectors,
)
from tests.paths import needs_shared
from tests.reading import counts, read
from tests.sinks import written


@needs_shared
@pytest.mark.parametrize("vector", vectors("functions", "codex-verify.jsonl"))
def test_verify(vector: dict[str, Any]) -> None:
    found = [{"line": line, "error": code} for line, code in verify(vector["args"][0])]
    assert found == vector["result"].get("errors", [])


EXPORTS = [
    (f"export-{number}", vector["args"][0], records_of(vector["result"]["jsonl"]))
    for number, vector in enumerate(vectors("functions", "codex.jsonl"))
] + [(f"export-{case}", events, records) for case, events, records in exports("codex")]


@needs_shared
@pytest.mark.parametrize(("case", "value", "theirs"), EXPORTS, ids=[row[0] for row in EXPORTS])
def test_exports(case: str, value: dict[str, Any], theirs: list[dict[str, Any]]) -> None:
    """The response items of the reference exporter, one by one; ours has events beside them."""
    session = session_of(value, value["meta"].get("cwd", "/home/user/demo"), SID)
    data = written(FORMAT, [session])
    ours = records_of(data.decode())
    assert verify(data.decode()) == []
    assert (items(ours) == items(theirs)) is (case not in DEVIATIONS)
    assert {"id", "session_id", "timestamp", "originator", "source"} <= ours[0]["payload"].keys()


def items(records: list[dict[str, Any]]) -> list[Any]:
    found = []
    for record in records:
        payload = record["payload"]
        if record["type"] == "response_item" and payload["type"] != "reasoning":
            found.append({name: value for name, value in payload.items() if name != "status"})
    # The reference puts outputs that no one gave at the end, dcb after the calls.
    return sorted(found, key=lambda item: "output" in item)


# writing


def full() -> Session:
    """Give a session that uses everything the format has a place for."""
    call = ToolCall("c1", "shell", '{"command":["ls"]}')
    patch = ToolCall("c2", "apply_patch", '"*** Patch"', {"native": {"type": "custom_tool_call"}})
    return Session(
        meta=Meta(SID, START, "/srv/demo"),
        title="A title",
        provider="codex",
        model="gpt-a",
        turns=[
            Turn(
                "first",
                None,
                [
                    Step(
                        [
                            Reasoning("why"),
                            Text("so"),
                            ToolCallBlock("c1", "shell", '{"command":["ls"]}'),
                            ToolCallBlock("c2", "apply_patch", '"*** Patch"'),
                        ],
                        [call, patch],
                        [
                            ToolResult("c1", [Text("out")], True, START + 3000),
                            ToolResult(
                                "c2",
                                [Text("ok"), Image("iVBORw0KGgo=", "image/png")],
                                False,
                                START + 4000,
                            ),
                        ],
                        START + 2000,
                        "gpt-a",
                        Usage(6, 3, 4, None, 1),
                        {"id": "msg_1", "sealed": [1, "zz"]},
                    )
                ],
                START + 1000,
                aborted=True,
                shadowed=True,
            ),
            Turn(
                "look",
                [Text("look"), Image("iVBORw0KGgo=", "image/png")],
                [Step([Reasoning("loose"), Text("seen")], time=START + 7000, model="gpt-b")],
                START + 6000,
                compaction=Compaction("facts", "codex", "gpt-a", START + 5000),
            ),
        ],
        extra={
            "git": {"branch": "main"},
            "native": {
                "originator": "codex_cli_rs",
                "cli_version": "0.171.0",
                "source": "cli",
                "thread_source": "user",
                "model_provider": "openai",
            },
        },
    )


def test_everything_goes_there_and_back() -> None:
    ledger = Ledger()
    data = written(FORMAT, [full()], ledger)
    assert ledger.report().balanced
    assert counts(ledger.report()) == {}
    sessions, _ = read(FORMAT, data, "rollout.jsonl")
    assert sessions == [full()]
    assert written(FORMAT, sessions) == data


def test_the_list_of_the_tool_finds_its_events() -> None:
    records = records_of(written(FORMAT, [full()]).decode())
    kinds = [(record["type"], record["payload"].get("type")) for record in records]
    prompt = kinds.index(("response_item", "message"))
    assert kinds[prompt + 1] == ("event_msg", "user_message")
    assert ("event_msg", "agent_message") in kinds
    assert all(isinstance(record["timestamp"], str) for record in records)
    call = next(r["payload"] for r in records if r["payload"].get("type") == "function_call")
    assert isinstance(call["arguments"], str)
    assert all(
        "content" not in r["payload"] for r in records if r["payload"].get("type") == "reasoning"
    )


def test_what_has_no_place_is_reported() -> None:
    session = full()
    session.provider = "elsewhere"
    session.meta.id = "no-uuid"
    session.turns[0].steps[0].tool_calls.append(ToolCall("c9", "Odd", "not json"))
    session.turns[0].steps[0].usage = Usage(1, 2, 3, 4)
    session.turns[1].steps[0].tool_results.append(ToolResult("ghost", [Text("boo")]))
    ledger = Ledger()
    written(FORMAT, [session], ledger)
    assert ledger.report().balanced
    assert counts(ledger.report()) == {
        "tool-result-missing": 1,
        "orphan-tool-result": 2,
        "id-minted": 1,
        "usage-dropped": 1,
        "extra-dropped": 4,
        "text-changed": 1,
    }


# properties


@given(spoken(START, "gpt-a"))
def test_prompts_and_answers_survive_unless_reported(turns: list[Turn]) -> None:
    session = Session(meta=Meta(SID, START, "/x"), provider="made", turns=turns)
    check_spoken(FORMAT, session, "session.jsonl")


def test_encrypted_reasoning_keeps_its_order() -> None:
    rollout = Rollout().user("q")
    for sealed in ("E1", "E2"):
        rollout.item("reasoning", summary=[], encrypted_content=sealed)
    rollout.call("c1").output("c1", "ok")
    thought = [{"type": "summary_text", "text": "hm"}]
    rollout.item("reasoning", summary=thought, encrypted_content="E3")
    rollout.item("reasoning", summary=[], encrypted_content="E4").says("a")
    session, _ = rollout.read()
    ledger = Ledger()
    records = records_of(written(FORMAT, [session], ledger).decode())
    items = [r["payload"] for r in records if r["payload"].get("type") == "reasoning"]
    assert [(item["summary"], item["encrypted_content"]) for item in items] == [
        ([], "E1"),
        ([], "E2"),
        (thought, "E3"),
        ([], "E4"),
    ]
    assert "text-changed" not in {entry.rule for entry in ledger.report().entries}


def test_borders_of_steps_that_change_are_named() -> None:
    def call(name: str, *before: Reasoning) -> Step:
        block = ToolCallBlock(name, "sh", "{}")
        result = ToolResult(name, [Text("r")], time=1)
        return Step([*before, block], [ToolCall(name, "sh", "{}")], [result], 1)

    steps = [
        Step([Text("A"), Reasoning("late")], time=1),
        call("c1", Reasoning("R")),
        Step([Text("B")], time=1),
        call("c2", Reasoning("R")),
        call("c3", Reasoning("R")),
        Step([Text("C"), Reasoning("last")], time=1),
    ]
    ledger = Ledger()
    session = Session(meta=Meta(SID, 1), provider="x", turns=[Turn("q", None, steps, 1)])
    data = written(FORMAT, [session], ledger)
    found = {entry.rule: entry.count for entry in ledger.report().entries}
    assert found["order-changed"] == 1
    assert found["text-changed"] == 2
    (again,), _ = read(FORMAT, data, "rollout.jsonl")
    assert [[type(b) for b in step.content] for step in again.turns[0].steps] == [
        [Text, Reasoning, Reasoning, ToolCallBlock],
        [Text, Reasoning, ToolCallBlock],
        [Reasoning, ToolCallBlock],
        [Text, Reasoning],
    ]
