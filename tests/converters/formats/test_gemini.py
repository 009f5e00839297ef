"""Gemini CLI: vectors, corpus, every rule of the reader, and any value in any member."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from converters.errors import DcbError
from converters.formats.gemini import FORMAT
from converters.ir import Image, Reasoning, Session, Text, ToolCall, ToolResult, Usage
from converters.ledger import Ledger
from converters.opening import Memory
from converters.reading import COMPANION, Skipped, Unit, read_unit, units
from converters.types import Context, Head, Options
from tests.converters.formats.gemini_recordings import (
    FOLDER,
    HEAD,
    SID,
    START,
    call,
    model,
    one,
    response,
    texts,
    user,
)
from tests.converters.formats.vectors import expected, projection, table, vectors
from tests.paths import CORPUS, GOLDEN, needs_shared
from tests.reading import counts, lines, read
from tests.wrong_types import WRONG, check_survived, places, put

DEVIATIONS = table("deviations_gemini.json")


@needs_shared
@pytest.mark.parametrize("vector", vectors("converted", "gemini.jsonl"), ids=lambda v: v["case"])
def test_vectors(vector: dict[str, Any]) -> None:
    result = vector["result"]
    try:
        sessions, _ = read(FORMAT, vector["inputs"][0].encode(), "session-abc.json")
    except DcbError:
        sessions = []
    assert bool(sessions) == bool(result["turns"])
    if not sessions:
        return
    (session,) = sessions
    found = {"turns": projection(session.turns) == expected(result["turns"])}
    known = DEVIATIONS.get(vector["case"], {"fields": []})
    assert [name for name, same in found.items() if not same] == known["fields"]
    assert session.meta.id == result["meta"]["sourceId"]
    assert session.meta.cwd == result["meta"].get("cwd")
    assert session.meta.created_at == result["meta"]["createdAt"]


def test_every_deviation_has_its_reason() -> None:
    assert all(row["fields"] and row["reason"] for row in DEVIATIONS.values())


@needs_shared
@pytest.mark.parametrize("path", sorted((CORPUS / "gemini").glob("*.json")), ids=lambda p: p.name)
def test_corpus(path: Path) -> None:
    sessions, report = read(FORMAT, path.read_bytes(), path.name)
    assert report.records.total > 0
    assert len(sessions) == (path.name != "av_system_messages.json")


# what is recognised


def score(value: Any, name: str = "x.json", *more: Any) -> int | None:
    data = lines(value, *more) if more else json.dumps(value).encode()
    match = FORMAT.probe(Head(data, name))
    return match.score if match else None


def test_probe() -> None:
    assert score({**HEAD, "messages": [user(1, "x")]}) == 92
    assert score({"sessionId": SID, "messages": [user(1, "x")]}) == 85
    assert score(HEAD, "x.jsonl", user(1, "x")) == 92
    assert score({"sessionId": SID, "messages": [{"role": "user", "content": "x"}]}) is None
    assert score({"sessionId": SID, "type": "user"}) is None
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    assert score(contents) is None
    assert score(contents, "a/checkpoint-x.json") == 85
    environment = {"role": "user", "parts": [{"text": "<session_context>\nlinux"}]}
    assert score([environment, *contents]) == 90
    assert score({"history": [environment]}) == 90


# messages


def test_thoughts_usage_and_model() -> None:
    tokens = {"input": 100, "output": 7, "cached": 60, "thoughts": 5, "tool": 3, "total": 115}
    session, found = one(
        user(1, "q"),
        model(
            2,
            "a",
            tokens=tokens,
            model="model-x",
            thoughts=[{"subject": "S", "description": "d"}, {"subject": 5}, "odd"],
        ),
        model(3, "b", tokens={"input": 0, "output": 0, "total": 0}),
        model(4, "c", tokens={"input": -1, "output": 0}),
    )
    first, second, third = session.turns[0].steps
    assert first.content == [Reasoning("S\nd"), Text("a")]
    assert first.usage == Usage(43, 12, 60, None, 5, {"usage": tokens})
    assert session.model == first.model == "model-x"
    assert second.usage is None
    assert third.usage is None
    assert found == {"usage-invalid": 1, "malformed-block": 2}


def test_lists_that_are_none_are_told() -> None:
    session, found = one(
        user(1, "q"), model(2, "a", toolCalls={"name": "x"}, thoughts="deep"), model(3, "b")
    )
    assert texts(session) == ["q", "a", "b"]
    assert found == {"malformed-member": 2}
    session, found = one(user(1, "q"), model(2, "a", thoughts=[{"subject": "", "timestamp": "x"}]))
    assert found == {}


def test_a_message_of_a_role_has_content_or_parts() -> None:
    session, found = one(
        {
            "messages": [
                {"role": "user", "content": "q"},
                {"role": "model", "parts": [{"text": "a"}]},
            ]
        }
    )
    assert texts(session) == ["q", "a"]
    assert found == {}


def test_results_stand_in_their_calls() -> None:
    calls = [
        call("read", "c1", result=response({"output": "text"}), timestamp=HEAD["startTime"]),
        call("run", "c2", result=response({"error": "boom"})),
        call("stop", "c3", status="cancelled"),
        call("show", "c4", result=[], resultDisplay="shown"),
        call("diff", "c5", resultDisplay={"fileDiff": "+1"}),
        call("wait", "c6", status="executing", agentId="agent-1"),
        call("name", None, result=response({"output": "made"})),
        call("again", "c1", result=response({"output": "twice"})),
        7,
        {"id": "c9"},
    ]
    session, found = one(user(1, "q"), model(2, "", toolCalls=calls))
    (step,) = session.turns[0].steps
    assert [(r.tool_call_id, r.is_error) for r in step.tool_results] == [
        ("c1", False),
        ("c2", True),
        ("c3", True),
        ("c4", False),
        ("c5", False),
        ("call-1", False),
        ("c1-2", False),
    ]
    assert [b.text for r in step.tool_results for b in r.content if isinstance(b, Text)] == [
        "text",
        "boom",
        "shown",
        '{"fileDiff":"+1"}',
        "made",
        "twice",
    ]
    assert step.tool_results[0].time == START
    assert step.tool_results[1].time == START + 2000
    waiting = ToolCall(
        "c6", "wait", '{"a":1}', {"native": {"status": "executing", "agentId": "agent-1"}}
    )
    assert waiting in step.tool_calls
    assert found == {"id-minted": 2, "malformed-call": 2, "tool-result-missing": 1}


def test_parts_that_repeat_the_calls_are_dropped() -> None:
    part = {"functionCall": {"id": "c1", "name": "read", "args": {"a": 1}}}
    session, found = one(
        user(1, "q"), model(2, [{"text": "t"}, part], toolCalls=[call("read", result=[])])
    )
    assert session.turns[0].steps[0].tool_calls == [ToolCall("c1", "read", '{"a":1}')]
    assert found == {"duplicate-tool-call": 1}


def test_results_of_user_messages_find_their_calls() -> None:
    part = {"functionCall": {"name": "read", "args": {}}}
    session, found = one(
        user(1, "q"),
        model(2, [part]),
        user(3, [*response({"output": "r"}, name="read"), {"text": "and more"}]),
        user(4, response({"output": "x"}, id="ghost")),
    )
    assert session.turns[0].steps[0].tool_results == [ToolResult("call-1", [Text("r")], False)]
    assert texts(session) == ["q", "and more"]
    assert found == {"id-minted": 1, "orphan-tool-result": 1}


def test_the_environment_is_no_prompt() -> None:
    session, found = one(
        user(1, "This is the Gemini CLI. We are setting up the context for our chat.\nToday"),
        model(2, "Got it. Thanks for the context!"),
        user(3, "<session_context>x</session_context>\n\nask"),
        model(4, "Got it. Thanks for the question."),
        user(5, [{"text": "<session_context>x"}, {"text": "second part"}]),
        user(6, "Explain <session_context> please"),
        model(7, "Got it. Thanks for the words."),
    )
    assert texts(session) == [
        "ask",
        "second part",
        "Explain <session_context> please",
        "Got it. Thanks for the words.",
    ]
    assert found == {"injection-skipped": 5}


def test_banners_unknown_and_empty_messages() -> None:
    session, found = one(
        user(1, "q"),
        model(2, ""),
        {"id": "i", "type": "info", "content": "Request cancelled."},
        {"id": "w", "type": "warning", "content": "slow"},
        {"id": "x", "type": "telemetry", "content": 1},
        {"content": "no type"},
        user(3, "  "),
        user(4, [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}, {"text": "?"}]),
    )
    assert [turn.aborted for turn in session.turns] == [True, False]
    assert session.turns[1].prompt_blocks == [Image("iVBORw0KGgo=", "image/png"), Text("?")]
    assert session.extra is not None
    assert len(session.extra["records"]) == 2
    assert found == {"record-skipped": 2, "unknown-record": 2, "empty-message": 2}


def test_the_title_is_what_a_person_typed() -> None:
    session, _ = one(user(1, "Read @a\n--- content ---", displayContent="Read @a"), user(2, "x"))
    assert session.title == "Read @a"
    assert session.turns[0].prompt == "Read @a\n--- content ---"
    session, _ = one(user(1, "x", displayContent=[{"text": "a  b"}]))
    assert session.title == "a b"
    session, _ = one(model(1, "hello"), user(2, "x"), user(3, "y", displayContent="z"))
    assert session.title is None
    session, _ = one(model(1, "hello"), user(2, "x and files", displayContent="x"))
    assert session.title == "x"


@pytest.mark.parametrize("content", ["", " ", [], None, [{"text": ""}]])
def test_what_was_typed_counts_where_the_content_is_empty(content: Any) -> None:
    session, found = one(user(1, content, displayContent="typed"), model(2, "a"))
    assert texts(session) == ["typed", "a"]
    assert found == {}


@pytest.mark.parametrize("content", [[{"text": "Request cancelled."}], ["Request cancelled."]])
def test_a_cancelled_request_in_parts(content: Any) -> None:
    session, found = one(user(1, "q"), {"id": "i", "type": "info", "content": content})
    assert session.turns[0].aborted
    assert found == {"record-skipped": 1}


def test_checkpoints() -> None:
    def content(role: str, *parts: Any) -> dict[str, Any]:
        return {"role": role, "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}

    contents = [
        content("user", "old"),
        content("model", "answer"),
        content("user", "<state_snapshot>sum</state_snapshot>"),
        content("model", "Got it. Thanks for the additional context!"),
        content("user", "new"),
        content("model", {"functionCall": {"name": "run", "args": {}}}),
        content("user", *response({"output": "ok"}, name="run")),
    ]
    for root in (contents, {"history": contents}):
        sessions, report = read(FORMAT, json.dumps(root).encode(), "checkpoint-tag.json")
        (session,) = sessions
        assert texts(session) == ["old", "answer", "new"]
        assert [turn.shadowed for turn in session.turns] == [True, False]
        assert session.turns[1].compaction is not None
        assert session.turns[1].compaction.summary == "<state_snapshot>sum</state_snapshot>"
        assert session.turns[1].steps[0].tool_results[0].content == [Text("ok")]
        assert session.extra == {"native": {"tag": "tag"}}
        assert report.records.total == 7
    again, _ = read(FORMAT, json.dumps(contents).encode(), "other.json")
    assert again[0].meta.id == session.meta.id
    long = json.dumps([content("user", "x" * 70_000), content("model", "a")], indent=1).encode()
    for times in (1, 2):
        sessions, report = read(FORMAT, long * times, "checkpoint-tag.json")
        assert texts(sessions[0]) == ["x" * 70_000, "a"]
        assert counts(report).get("text-outside-records", 0) == times - 1


# files beside it


def project(folder: Path) -> Path:
    """Make a store with a session in both containers and a subagent; give its chats."""
    chats = folder / ".gemini" / "tmp" / "boats" / "chats"
    (chats / SID).mkdir(parents=True)
    asked = model(2, "", toolCalls=[call("ask", result=[], agentId="agent-1")])
    (chats / "session-1.json").write_bytes(
        json.dumps({**HEAD, "messages": [user(1, "q")]}).encode()
    )
    (chats / "session-1.jsonl").write_bytes(lines(HEAD, user(1, "q"), asked))
    (chats / SID / "agent-1.jsonl").write_bytes(
        lines({**HEAD, "sessionId": "agent-1", "kind": "subagent"}, user(1, "dig"))
    )
    projects = {"projects": {"/other": "other", FOLDER: "boats"}}
    (folder / ".gemini" / "projects.json").write_bytes(json.dumps(projects).encode())
    return chats


def gather(source: Path, **options: Any) -> tuple[list[Session], list[str], dict[str, int]]:
    sessions: list[Session] = []
    skipped = []
    found: dict[str, int] = {}
    for unit in units(source):
        if isinstance(unit, Skipped):
            skipped.append(Path(unit.name).name)
            continue
        assert isinstance(unit, Unit)
        ledger = Ledger(unit.input.name)
        sessions += read_unit(unit, Context(ledger, Options(**options)))
        report = ledger.report()
        assert report.balanced
        for rule, n in counts(report).items():
            found[rule] = found.get(rule, 0) + n
    return sessions, skipped, found


def test_a_store(tmp_path: Path) -> None:
    project(tmp_path)
    sessions, skipped, found = gather(tmp_path)
    assert [(s.meta.id, s.meta.cwd) for s in sessions] == [("agent-1", FOLDER), (SID, FOLDER)]
    assert sessions[0].extra is not None
    assert sessions[0].extra["parent"] == {"sessionId": SID}
    assert skipped == ["projects.json", "session-1.json"]
    assert found == {}
    sessions, _, found = gather(tmp_path, subagents="skip")
    assert [s.meta.id for s in sessions] == [SID]
    assert found == {"subagent-skipped": 1, "empty-session": 1}


def test_the_log_of_prompts_belongs_to_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / ".gemini" / "tmp" / "boats"
    folder.mkdir(parents=True)
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    (folder / "checkpoint-x.json").write_bytes(json.dumps(contents).encode())
    (folder / "logs.json").write_bytes(json.dumps([{"sessionId": SID, "message": "hi"}]).encode())
    reasons = [unit.reason for unit in units(tmp_path) if isinstance(unit, Skipped)]
    assert reasons == [COMPANION]


def test_a_named_session_brings_its_subagents(tmp_path: Path) -> None:
    chats = project(tmp_path)
    sessions, _, _ = gather(chats / "session-1.jsonl")
    assert [s.meta.id for s in sessions] == [SID, "agent-1"]
    assert sessions[1].extra is not None
    assert sessions[1].extra["parent"] == {"sessionId": SID, "callId": "c1"}
    sessions, _, found = gather(chats / "session-1.jsonl", subagents="skip")
    assert [s.meta.id for s in sessions] == [SID]
    assert found == {"subagent-skipped": 1}
    sessions, _, _ = gather(chats / "session-1.json")
    assert [texts(s) for s in sessions] == [["q"], ["dig"]]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("projects.json", {"projects": {"/made/up": "boats"}}, "/made/up"),
        ("projects.json", {"projects": {"/made/up": "boats", FOLDER: "other"}}, FOLDER),
        ("projects.json", {"projects": {"relative": "boats"}}, None),
        ("projects.json", [1], None),
        ("projects.json", "not json", None),
        ("trustedFolders.json", {FOLDER: "TRUST_FOLDER", "/x": "TRUST_PARENT"}, FOLDER),
    ],
)
def test_working_directories(tmp_path: Path, name: str, text: Any, found: str | None) -> None:
    chats = project(tmp_path)
    (tmp_path / ".gemini" / "projects.json").unlink()
    data = text if isinstance(text, str) else json.dumps(text)
    (tmp_path / ".gemini" / name).write_text(data, encoding="utf-8")
    sessions, _, rules = gather(chats / "session-1.json")
    assert sessions[0].meta.cwd == found
    assert ("cwd-missing" in rules) == (found is None)


def test_a_directory_that_fits_the_hash_counts_first() -> None:
    session, _ = one({"directories": ["/extra", FOLDER]}, user(1, "q"))
    assert session.meta.cwd == FOLDER
    session, _ = one({"directories": ["/extra"]}, user(1, "q"))
    assert session.meta.cwd == "/extra"


# any value in any member


@pytest.mark.parametrize(
    "path", ["plain/input.json", "tools/input.jsonl", "records/input.jsonl", "branches/input.jsonl"]
)
def test_wrong_types_everywhere(path: str) -> None:
    text = (GOLDEN / "gemini" / path).read_text(encoding="utf-8")
    whole = path.endswith(".json")
    root = json.loads(text) if whole else [json.loads(line) for line in text.split("\n") if line]
    for place in places(root):
        for odd in WRONG:
            value = put(root, place, odd)
            data = (
                lines(*value)
                if isinstance(value, list) and not whole
                else json.dumps(value).encode()
            )
            check_survived(FORMAT, data, path.rpartition("/")[2])


def test_a_checkpoint_of_odd_contents() -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()
    picture = {"mimeType": "image/png", "data": data}
    base = [
        {"role": "user", "parts": [{"text": "q"}, {"inlineData": picture}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, {"text": "a"}]},
        {"role": "user", "parts": response({"output": "r"}, name="f")},
    ]
    for place in places(base):
        for odd in WRONG:
            ledger = Ledger()
            source = Memory(json.dumps(put(base, place, odd)).encode(), "checkpoint-x.json")
            FORMAT.probe(source.head)
            assert FORMAT.read is not None
            try:
                msgspec.json.encode(list(FORMAT.read(source, Context(ledger))))
            except DcbError:
                continue
            assert ledger.report().balanced, (place, odd)
