"""Codex: vectors, corpus, and every rule of the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import BadInput
from converters.formats.codex import FORMAT, native_id, verify
from converters.formats.codex.human import scan
from converters.formats.codex.script import plain_object
from converters.ir import (
    Compaction,
    Image,
    Meta,
    Reasoning,
    Session,
    Text,
    ToolCallBlock,
    ToolResult,
    Usage,
)
from converters.ledger import Ledger
from converters.types import Head
from tests.converters.formats.codex_rollouts import DEVIATIONS, SID, START, Rollout
from tests.converters.formats.vectors import (
    check_converted,
    scrub,
    vectors,
)
from tests.paths import CORPUS, needs_shared
from tests.reading import counts, lines, read
from tests.sinks import written
from tests.wrong_types import VALUES

# vectors and corpus


@needs_shared
@pytest.mark.parametrize("vector", vectors("converted", "codex.jsonl"), ids=lambda v: v["case"])
def test_vectors(vector: dict[str, Any]) -> None:
    check_converted(FORMAT, vector, DEVIATIONS)


def test_every_deviation_has_its_reason() -> None:
    assert all(row["fields"] and row["reason"] for row in DEVIATIONS.values())


@needs_shared
@pytest.mark.parametrize("path", sorted((CORPUS / "codex").glob("*.json*")), ids=lambda p: p.name)
def test_corpus(path: Path) -> None:
    (session,), report = read(FORMAT, path.read_bytes(), path.name)
    assert report.records.total > 0
    assert not counts(report).keys() & {"unknown-record", "unknown-block"}
    check_round_trip(session)


# reading


def test_steps_results_model_and_usage() -> None:
    session, found = (
        Rollout(git={"branch": "main", "commit_hash": "ab"})
        .model("gpt-a")
        .user("go")
        .item(
            "reasoning", summary=[{"type": "summary_text", "text": "think"}], encrypted_content="zz"
        )
        .says("on it")
        .call("c1", arguments='{"command":["ls"]}')
        .output("c1", '{"output":"README","metadata":{"exit_code":1}}')
        .tokens(
            10, input_tokens=10, cached_input_tokens=4, output_tokens=3, reasoning_output_tokens=1
        )
        .tokens(10, input_tokens=10, cached_input_tokens=4, output_tokens=3)
        .model("gpt-b")
        .says("done")
        .event("task_complete", last_agent_message="done")
        .read()
    )
    assert session.meta == Meta(SID, START, "/srv/demo")
    assert session.extra is not None
    assert session.extra["git"] == {"branch": "main", "commit": "ab"}
    first, second = session.turns[0].steps
    assert first.content == [
        Reasoning("think"),
        Text("on it"),
        ToolCallBlock("c1", "shell", '{"command":["ls"]}'),
    ]
    assert first.extra == {"sealed": [1, "zz"]}
    assert first.tool_results == [ToolResult("c1", [Text("README")], True, START + 6000)]
    assert first.usage == Usage(6, 3, 4, None, 1)
    assert (first.model, second.model, session.model) == ("gpt-a", "gpt-b", "gpt-a")
    assert found == {"record-skipped": 2}


def test_reasoning_goes_with_what_follows() -> None:
    def thought(text: str) -> dict[str, Any]:
        return {"summary": [{"type": "summary_text", "text": text}]}

    session, _ = (
        Rollout()
        .user("go")
        .item("reasoning", **thought("one"))
        .call("c1")
        .output("c1", "r")
        .call("c2")
        .output("c2", "r")
        .item("reasoning", **thought("two"))
        .call("c3")
        .output("c3", "r")
        .item("reasoning", **thought("last"))
        .read()
    )
    contents = [
        [getattr(b, "text", getattr(b, "id", "")) for b in s.content]
        for s in session.turns[0].steps
    ]
    assert contents == [["one", "c1", "c2"], ["two", "c3", "last"]]


def test_an_event_repeats_an_item_or_stands_for_it() -> None:
    both = (
        Rollout()
        .user("hello")
        .event("user_message", message="hello")
        .event("agent_reasoning", text="hm")
        .item("reasoning", summary=[{"type": "summary_text", "text": "hm"}])
        .event("agent_message", message="hi")
        .says("hi")
        .user("hello")
        .event("user_message", message="hello")
    )
    session, found = both.read()
    assert [turn.prompt for turn in session.turns] == ["hello", "hello"]
    assert session.turns[0].steps[0].content == [Reasoning("hm"), Text("hi")]
    assert found == {"duplicate-record": 4}

    alone, found = (
        Rollout()
        .event("user_message", message="hello", images=["data:image/png;base64,iVBORw0KGgo="])
        .event("agent_reasoning", text="hm")
        .event("agent_message", message="hi")
        .event("user_message", message="more")
        .says("yes")
        .event("agent_message", message="yes")
        .read()
    )
    assert [turn.prompt for turn in alone.turns] == ["hello", "more"]
    assert alone.turns[0].prompt_blocks == [Text("hello"), Image("iVBORw0KGgo=", "image/png")]
    assert alone.turns[0].steps[0].content == [Reasoning("hm"), Text("hi")]
    assert found == {"duplicate-record": 1}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("plain", "plain"),
        ("<div>html</div>", "<div>html</div>"),
        ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", None),
        ("<environment_context>x</environment_context>\nfix it", "fix it"),
        ("# AGENTS.md instructions for /x", None),
        ("# A heading of my own", "# A heading of my own"),
        (
            "# Context from my IDE setup:\n\n## Open tabs\n\n## My request for Codex:\nfix it",
            "fix it",
        ),
        ("<image name=[Image #1]>", None),
        ("<user_instructions>never closed", None),
    ],
)
def test_human_part(given: str, wanted: str | None) -> None:
    assert scan(given).text == wanted


def test_injections_are_filtered_by_block_and_an_abort_is_marked() -> None:
    session, found = (
        Rollout()
        .user("<environment_context>x</environment_context>")
        .user("<environment_context>x</environment_context>", "fix it")
        .says("trying")
        .event("turn_aborted", reason="interrupted")
        .user("<turn_aborted>by the person</turn_aborted>")
        .item("message", role="developer", content=[{"type": "input_text", "text": "be brief"}])
        .read()
    )
    assert [(turn.prompt, turn.aborted) for turn in session.turns] == [("fix it", True)]
    assert session.extra is not None
    assert session.extra["system"] == ["be brief"]
    assert found == {"injection-skipped": 3, "system-prompt-aside": 1}


def test_kinds_of_calls() -> None:
    patch = "*** Begin Patch\n*** End Patch"
    rollout = (
        Rollout()
        .user("go")
        .item("custom_tool_call", call_id="p", name="apply_patch", input=patch)
        .item("custom_tool_call_output", call_id="p", output="ok")
        .item("custom_tool_call", call_id="j", name="exec", input='tools.exec_command({cmd: "ls"})')
        .item("local_shell_call", call_id="s", action={"type": "exec", "command": ["ls"]})
        .item(
            "web_search_call", id="w", status="completed", action={"type": "search", "query": "q"}
        )
        .item("local_shell_call", action={"type": "exec", "command": ["pwd"]})
        .call("o", arguments={"patch": "x"})
        .output("s", {"content": "listing", "success": False})
        .output(
            "o", [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "no"}]
        )
        .output("ghost", "x")
    )
    session, found = rollout.read()
    step = session.turns[0].steps[0]
    calls = {call.id: (call.name, call.arguments) for call in step.tool_calls}
    assert calls == {
        "p": ("apply_patch", json.dumps(patch)),
        "j": ("exec", '{"cmd":"ls"}'),
        "s": ("local_shell", '{"type":"exec","command":["ls"]}'),
        "w": ("web_search", '{"type":"search","query":"q"}'),
        "minted-8": ("local_shell", '{"type":"exec","command":["pwd"]}'),
        "o": ("shell", '{"patch":"x"}'),
    }
    results = {result.tool_call_id: result for result in step.tool_results}
    assert results["s"].is_error
    assert results["o"].content[0] == Text("a")
    assert found == {
        "tool-result-missing": 3,
        "attachment-skipped": 1,
        "orphan-tool-result": 1,
        "id-minted": 1,
    }


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("{a: 1}", '{"a":1}'),
        ("tools.x({'a': \"b\\n\", c: [1, -2.5, null]})", '{"a":"b\\n","c":[1,-2.5,null]}'),
        ("(await tools.x({a: true}));", '{"a":true}'),
        ("tools.x({a: f()})", None),
        ("tools.x({a: 1}, 2)", None),
        ("Promise.all([tools.x({a: 1})])", None),
        ("*** Begin Patch", None),
        ("{" * 200, None),
        ("tools.x({a: '\\ud800'})", None),
        ("{a: " + "1" * 5000 + "}", None),
        ("{a: 1e999}", None),
    ],
)
def test_plain_objects(given: str, wanted: str | None) -> None:
    assert plain_object(given) == wanted


def test_compaction_splits_a_turn_and_needs_a_text() -> None:
    session, found = (
        Rollout()
        .user("one")
        .says("a")
        .add("compacted", message="facts")
        .says("b")
        .add("compacted", message="")
        .user("two")
        .read()
    )
    assert [(turn.prompt, turn.shadowed) for turn in session.turns] == [
        ("one", True),
        ("", True),
        ("two", False),
    ]
    assert session.turns[1].compaction == Compaction("facts", "codex", None, START + 3000)
    assert found == {"compacted-unavailable": 1}


def test_turns_rolled_back_are_branches() -> None:
    rollout = (
        Rollout()
        .user("one")
        .says("a")
        .user("two")
        .call("c1")
        .event("thread_rolled_back", num_turns=1)
        .user("three")
        .call("c1")
        .output("c1", "r")
    )
    session, found = rollout.read()
    assert [turn.prompt for turn in session.turns] == ["one", "three"]
    assert session.turns[1].steps[0].tool_results[0].content == [Text("r")]
    assert session.extra is not None
    (branch,) = session.extra["branches"]
    assert (branch["id"], branch["turn"]) == (f"{SID}~b1", 1)
    assert branch["turns"][0]["prompt"] == "two"
    assert found == {"branch-collapsed": 2}
    every, report = read(FORMAT, lines(*rollout.lines), branch="all")
    assert [[turn.prompt for turn in s.turns] for s in every] == [["one", "three"], ["one", "two"]]
    assert every[1].meta.id == f"{SID}~b1"
    assert "branch-collapsed" not in counts(report)
    with pytest.raises(BadInput, match="no branch 4"):
        read(FORMAT, lines(*rollout.lines), branch=4)


@pytest.mark.parametrize(("prompts", "left"), [(1, ["one", "two", "four"]), (2, ["one", "four"])])
def test_a_compaction_outlives_the_turn_that_carried_it(prompts: int, left: list[str]) -> None:
    session, _ = (
        Rollout()
        .user("one")
        .says("a")
        .user("two")
        .says("b")
        .add("compacted", message="facts")
        .user("three")
        .says("c")
        .event("thread_rolled_back", num_turns=prompts)
        .user("four")
        .says("d")
        .read()
    )
    assert [turn.prompt for turn in session.turns] == left
    assert [turn.shadowed for turn in session.turns] == [True] * (len(left) - 1) + [False]
    found = session.turns[-1].compaction
    assert found is not None
    assert found.summary == "facts"


def test_usage_of_a_response_that_is_all_aside() -> None:
    session, _ = (
        Rollout()
        .user("q")
        .item("reasoning", summary=[], encrypted_content="E")
        .item("tool_search_call", call_id="s", status="completed", arguments={})
        .tokens(1000, input_tokens=1000, output_tokens=50)
        .says("done")
        .tokens(2500, input_tokens=1500, output_tokens=30)
        .read()
    )
    found = [
        (step.content, step.usage and step.usage.output_tokens) for step in session.turns[0].steps
    ]
    assert found == [([], 50), ([Text("done")], 30)]
    assert session.turns[0].steps[0].extra == {"sealed": [0, "E"]}


def test_subagents_forks_and_names() -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "parent-1"}}}
    rollout = Rollout(source=spawn).user("dig")
    session, _ = rollout.read()
    assert session.extra is not None
    assert session.extra["parent"] == {"sessionId": "parent-1"}
    sessions, report = read(FORMAT, lines(*rollout.lines), subagents="skip")
    assert not sessions
    assert counts(report) == {"subagent-skipped": 2}

    fork, found = (
        Rollout(forked_from_id="old", history_base="page-1")
        .add("session_meta", id="old")
        .user("x")
        .event("thread_name_updated", thread_name="First")
        .event("thread_name_updated", thread_name="Named")
        .read()
    )
    assert fork.meta.id == SID
    assert fork.title == "Named"
    assert fork.extra is not None
    assert fork.extra["native"]["forked_from_id"] == "old"
    assert found == {"duplicate-record": 1, "record-skipped": 1, "history-truncated": 1}


def test_older_shapes() -> None:
    document = {
        "session": {
            "id": "legacy-1",
            "timestamp": "2025-05-01T10:00:00Z",
            "instructions": "be good",
        },
        "items": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "hello"}],
                "type": "message",
            },
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            {"role": "assistant", "content": "bye", "type": "message"},
            17,
        ],
    }
    (session,), report = read(FORMAT, json.dumps(document, indent=1).encode(), "rollout.json")
    assert session.meta.id == "legacy-1"
    assert session.turns[0].steps[0].tool_results[0].content == [Text("ok")]
    assert session.extra == {"system": ["be good"]}
    assert report.records.total == 6
    assert counts(report)["malformed-record"] == 1

    bare = lines(
        {"id": "bare-1", "timestamp": "2025-06-01T10:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "yo"}],
        },
    )
    (session,), report = read(FORMAT, bare)
    assert session.meta.id == "bare-1"
    assert session.turns[0].steps[0].content == [Text("yo")]
    assert counts(report) == {"cwd-missing": 1, "record-skipped": 1}

    nameless = lines(
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "x"}}
    )
    name = f"rollout-2026-03-02T08-00-00-{SID}.jsonl"
    assert read(FORMAT, nameless, name)[0][0].meta.id == SID
    assert counts(read(FORMAT, nameless, "-")[1])["id-minted"] == 1


def test_tools_flattened_into_text_come_back() -> None:
    text = (
        'looking\n[external_agent_tool_call: Read]\n{"path":"a"}\n[/external_agent_tool_call]\n'
        "[external_agent_tool_result]\ncontents\n[/external_agent_tool_result]\n"
        "[external_agent_tool_result: error]\nnone\n[/external_agent_tool_result]\nso"
    )
    session, found = Rollout().user("go").says(text).read()
    first, second = session.turns[0].steps
    assert first.content[0] == Text("looking")
    assert [(c.name, c.arguments) for c in first.tool_calls] == [("Read", '{"path":"a"}')]
    assert first.tool_results[0].content == [Text("contents")]
    assert second.content == [Text("so")]
    assert found == {"orphan-tool-result": 1, "id-minted": 1}


def test_unknown_things_are_kept() -> None:
    session, found = (
        Rollout()
        .user("go")
        .item("tool_search_call", query="x")
        .item("ghost_snapshot", ghost_commit={})
        .add("hologram", x=1)
        .add("world_state", x=1)
        .event("patch_apply_begin", changes={})
        .read()
    )
    assert session.extra is not None
    assert [record["type"] for record in session.extra["records"]] == ["response_item", "hologram"]
    assert found == {"unknown-record": 2, "record-skipped": 3}


@pytest.mark.parametrize(
    ("data", "score"),
    [
        (lines(*Rollout().lines), 95),
        (lines({"timestamp": "t", "type": "event_msg", "payload": {}}), 85),
        (b'{"type":"session_meta","payload":{"id":"x","instructions":"' + b"x" * 9000, 95),
        (b'{"session":{"id":"x"},"items":[]}', 88),
        (lines({"id": "a", "timestamp": "t", "git": {}}, {"type": "message", "role": "user"}), 80),
        (lines({"type": "user", "message": {}}), None),
        (b'{"items":[]}', None),
    ],
)
def test_probe(data: bytes, score: int | None) -> None:
    found = FORMAT.probe(Head(data, "x.jsonl"))
    assert (found.score if found else None) == score


def check_round_trip(session: Session) -> None:
    """Write and read back: equal up to what the report of the writer names."""
    ledger = Ledger()
    data = written(FORMAT, [session], ledger)
    report = ledger.report()
    assert report.balanced, report
    assert verify(data.decode()) == []
    (back,), _ = read(FORMAT, data, f"rollout-{native_id(session)}.jsonl")
    found = counts(report)
    left, right = (json.loads(msgspec.json.encode(s)) for s in (session, back))
    for value in (left, right):
        scrub(value, {"x-dcb"} | ({"time"} if "time-filled" in found else set()))
        if "id-minted" in found:
            value["meta"].pop("id")
        if "tool-result-missing" in found:
            scrub(value, {"toolResults"})
    assert left == right


_MEMBERS = st.sampled_from(
    ["type", "role", "content", "summary", "call_id", "name", "arguments", "output", "info",
     "message", "action", "id", "encrypted_content", "num_turns", "input", "images"]
)  # fmt: skip


@given(st.lists(st.tuples(_MEMBERS, VALUES), max_size=4), st.integers(0, 8), st.booleans())
def test_any_value_in_any_member_is_accounted(
    changes: list[tuple[str, Any]], at: int, outside: bool
) -> None:
    rollout = (
        Rollout()
        .user("go")
        .item("reasoning", summary=[])
        .says("x")
        .call("c1")
        .output("c1", "r")
        .tokens(3, input_tokens=1, output_tokens=1)
        .event("thread_rolled_back", num_turns=1)
        .user("again")
    )
    record = rollout.lines[at]
    (record if outside else record["payload"]).update(changes)
    read(FORMAT, lines(*rollout.lines))
