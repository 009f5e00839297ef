"""VS Code's Copilot Chat: rounds beside the panel, summaries, token counts, subagents, twins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from converters.ir import Image, Reasoning, Text, ToolCallBlock
from converters.reading import Reading
from converters.registry import lookup
from dcb.scan import Found, Machine, scan
from tests.paths import GOLDENS
from tests.reading import counts, lines
from tests.reading import read as read_bytes
from tests.wrong_types import WRONG, check_survived, places, put

if TYPE_CHECKING:
    from converters.ir import Session, Step
    from converters.ledger import Report

(COPILOT,) = lookup("copilot-vscode")
PNG = "iVBORw0KGgo="
NODE = {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "toolCallId": "c1"}


def request(text: str, *response: Any, **members: Any) -> dict[str, Any]:
    return {"requestId": text, "message": {"text": text}, "response": list(response), **members}


def rounds(*entries: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"toolCallRounds": list(entries), **metadata}}


def one_round(text: str, *calls: str, **members: Any) -> dict[str, Any]:
    made = [{"id": name, "name": "read_file", "arguments": "{}"} for name in calls]
    return {"id": f"round {text}", "response": text, "toolCalls": made, **members}


def document(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"version": 3, "sessionId": "s", "creationDate": 1767225600000, "requests": requests}


def read(*requests: dict[str, Any], **options: Any) -> tuple[list[Session], Report]:
    return read_bytes(COPILOT, json.dumps(document(*requests)).encode(), "s.json", **options)


def steps(*requests: dict[str, Any]) -> tuple[list[Step], Report]:
    sessions, report = read(*requests)
    return sessions[0].turns[-1].steps, report


def shown(step: Step) -> list[str]:
    """Give the blocks of a step in short."""
    names = {Text: "text", Reasoning: "thought", ToolCallBlock: "call", Image: "image"}
    return [
        f"{names[type(block)]} {block.id if isinstance(block, ToolCallBlock) else block.text}"
        for block in step.content
        if not isinstance(block, Image)
    ]


def test_an_answer_after_the_rounds_is_kept() -> None:
    """References are rendered in another way, so the panel's text does not begin as the rounds."""
    reference = {"kind": "inlineReference", "inlineReference": {"path": "/w/a.py"}}
    edit = {"kind": "textEditGroup", "uri": {"path": "/w/b.py"}, "edits": []}
    found, report = steps(
        request(
            "q",
            {"value": "I will look at "},
            reference,
            {"value": "."},
            NODE,
            edit,
            {"kind": "thinking", "value": "it is clear"},
            {"value": "The answer is in "},
            reference,
            {"value": ", line 3."},
            result=rounds(one_round("I will look at `a.py`.", "c1")),
        )
    )
    assert [shown(step) for step in found] == [
        ["text I will look at `a.py`.", "call c1"],
        ["thought it is clear", "text The answer is in a.py, line 3."],
    ]
    assert counts(report) == {"attachment-skipped": 1, "tool-result-missing": 1}
    assert (report.records.mapped, report.records.skipped) == (9, 1)


@pytest.mark.parametrize(
    ("panel", "said", "rest"),
    [
        (["First.", "Second."], ["First.", "Second."], None),
        (["First.Second."], ["First.", "Second."], None),
        (["Fi", "rst.\n\nSec", "ond."], ["First.", "Second."], None),
        (["First.Second. And more"], ["First.", "Second."], " And more"),
        (["First.Then this."], ["First."], "Then this."),
        (["First."], ["", "First."], None),
        (["Fir"], ["First."], "Fir"),
        (["\u2705"], ["First."], "\u2705"),
        (["First.", "\n\n"], ["First."], None),
    ],
)
def test_texts_of_the_rounds_come_once(panel: list[str], said: list[str], rest: str | None) -> None:
    items = [{"value": text} for text in panel]
    found, report = steps(request("q", *items, result=rounds(*map(one_round, said))))
    texts = [f"text {text}" for text in (*said, rest) if text]
    assert [line for step in found for line in shown(step)] == texts
    assert report.records.skipped == 0


def test_what_stands_between_rounds_stays_there() -> None:
    thought = {"kind": "thinking", "value": "look first"}
    found, report = steps(
        request(
            "q",
            thought,
            {"value": "One."},
            NODE,
            {"value": "A note of the editor between them."},
            {"value": "Two."},
            {**NODE, "toolCallId": "extra", "toolSpecificData": {"command": "ls"}},
            {"kind": "thinking", "value": "known"},
            {"kind": "hologram"},
            result=rounds(
                one_round("One.", "c1"),
                one_round("Two.", thinking={"text": "known"}),
                toolCallResults={"c1": {"content": [{"value": "ok"}]}},
            ),
        )
    )
    assert [shown(step) for step in found] == [
        ["thought look first", "text One.", "call c1"],
        ["text A note of the editor between them."],
        ["thought known", "text Two."],
        ["call extra"],
    ]
    assert counts(report) == {"tool-result-missing": 1, "unknown-record": 1}


def test_calls_under_ids_of_the_panel_are_those_of_the_rounds() -> None:
    """Older builds give the panel's calls ids of its own: the order tells which they are."""
    output = {"terminalCommandOutput": {"text": "a.txt"}}
    items = [
        {**NODE, "toolCallId": "uuid-1"},
        {**NODE, "toolCallId": "uuid-2", "toolSpecificData": output},
    ]
    given = rounds(one_round("", "c1"), one_round("", "c2"))
    found, report = steps(request("q", *items, result=given))
    assert [shown(step) for step in found] == [["call c1"], ["call c2"]]
    assert found[1].tool_results[0].content == [Text("a.txt")]
    assert counts(report) == {"tool-result-missing": 1}


def test_results_hold_images_and_files() -> None:
    content = [
        {"value": "one"},
        {"value": "two"},
        {"mimeType": "image/png", "data": PNG},
        {"mimeType": "image/png", "data": [137, 80, 78, 71]},
        {"mimeType": "text/csv", "data": "YQ=="},
        {"value": {"node": {"children": []}}},
    ]
    given = rounds(one_round("", "c1"), toolCallResults={"c1": {"content": content}})
    found, report = steps(request("q", result=given))
    blocks = found[0].tool_results[0].content
    assert [type(block) for block in blocks] == [Text, Image, Image, Text]
    assert blocks[0] == Text("one\ntwo")
    assert [block.data for block in blocks if isinstance(block, Image)] == [PNG, "iVBORw=="]
    assert counts(report) == {"attachment-aside": 1, "unknown-block": 1}


@pytest.mark.parametrize(
    "metadata",
    [
        {"summary": {"toolCallRoundId": "round a2", "text": "Before."}},
        {"summary": "Before."},
        {"summaries": [{"toolCallRoundId": "gone", "text": "Before."}]},
        {"toolCallRounds": [one_round("a2", summary="Before.")]},
        {
            "toolCallRounds": [one_round("a2", summary="Before.")],
            "summary": {"toolCallRoundId": "round a2", "text": "Before."},
        },
        {"toolCallRounds": [one_round("a2")], "summary": {"text": "Before."}},
    ],
)
def test_a_summary_is_a_compaction(metadata: dict[str, Any]) -> None:
    answer = request("q2", {"value": "a2"}, result={"metadata": metadata})
    (session,), report = read(request("q1", {"value": "a1"}), answer)
    first, second = session.turns
    assert (first.shadowed, second.shadowed) == (True, False)
    assert second.compaction is not None
    assert (second.compaction.summary, second.compaction.extra) == ("Before.", None)
    assert not report.entries


def test_of_several_summaries_the_last_counts() -> None:
    given = rounds(
        one_round("a", summary="One."),
        one_round("b"),
        summaries=[
            {"toolCallRoundId": "round b", "text": "Two."},
            {"toolCallRoundId": "round a", "text": "One."},
            {"toolCallRoundId": "round a"},
        ],
    )
    (session,), report = read(request("q", result=given))
    found = session.turns[0].compaction
    assert found is not None
    assert (found.summary, found.extra) == ("Two.", {"native": {"summaries": ["One."]}})
    assert counts(report) == {"compacted-unavailable": 1, "record-aside": 1}


@pytest.mark.parametrize(
    ("members", "usage", "own"),
    [
        ({"promptTokens": 7, "completionTokens": 8}, (7, 8), None),
        ({"usage": {"promptTokens": 7, "completionTokens": 8}}, (7, 8), None),
        (
            {
                "completionTokens": 8,
                "result": {"metadata": {"promptTokens": 7, "outputTokens": 9}},
            },
            (7, 9),
            None,
        ),
        ({"completionTokens": 8}, None, {"completionTokens": 8}),
        ({"promptTokens": 7}, None, {"promptTokens": 7}),
        ({"usage": {"completionTokens": 8}}, None, {"completionTokens": 8}),
        (
            {"promptTokens": "7", "completionTokens": "8"},
            None,
            {"promptTokens": "7", "completionTokens": "8"},
        ),
        ({"result": {"usage": {"words": 3}}}, None, None),
    ],
)
@pytest.mark.parametrize("response", [[{"value": "a"}], []])
def test_token_counts(
    response: list[Any], members: dict[str, Any], usage: Any, own: dict[str, Any] | None
) -> None:
    found, report = steps(request("q", *response, **members))
    last = found[-1] if found else None
    given = None if last is None or last.usage is None else last.usage
    assert (given and (given.input_tokens, given.output_tokens)) == usage
    assert (last.extra if last else None) == ({"usage": own} if own else None)
    assert counts(report) == ({} if usage else {"usage-invalid": 1})


def nested() -> dict[str, Any]:
    about = {"kind": "subagent", "description": "Look", "prompt": "Find it", "result": "Found"}
    return request(
        "q",
        {**NODE, "toolId": "runSubagent", "toolCallId": "p1", "toolSpecificData": about},
        {**NODE, "toolCallId": "n1", "subAgentInvocationId": "p1"},
        {**NODE, "toolCallId": "n2", "subAgentInvocationId": "p1"},
        {"value": "done"},
    )


def test_a_subagent_is_a_session_of_its_own() -> None:
    (main, side), report = read(nested())
    assert [shown(step) for step in main.turns[0].steps] == [["call p1"], ["text done"]]
    (call,) = main.turns[0].steps[0].tool_calls
    assert json.loads(call.arguments) == {"description": "Look", "prompt": "Find it"}
    assert main.turns[0].steps[0].tool_results[0].content == [Text("Found")]
    assert (side.meta.id, side.title, side.turns[0].prompt) == ("s~s1", "Look", "Find it")
    assert side.extra == {"parent": {"sessionId": "s", "callId": "p1"}}
    assert [shown(step) for step in side.turns[0].steps] == [["call n1", "call n2"]]
    assert counts(report) == {"tool-result-missing": 2}
    (main,), report = read(nested(), subagents="skip")
    assert len(main.turns[0].steps) == 2
    assert counts(report) == {"subagent-skipped": 2}


def test_a_log_counts_what_it_leaves_out() -> None:
    data = lines({"kind": 0, "v": document(nested())})
    (main,), report = read_bytes(COPILOT, data, "s.jsonl", subagents="skip")
    assert len(main.turns[0].steps) == 2
    assert (report.records.total, counts(report)) == (1, {"subagent-skipped": 2})


def test_the_log_of_a_session_counts_where_its_document_is_left(tmp_path: Path) -> None:
    folder = tmp_path / ".config/Code/User/workspaceStorage/h1/chatSessions"
    folder.mkdir(parents=True)
    old, new = document(request("q")), document(request("q"), request("q2"))
    (folder / "s.json").write_text(json.dumps(old), encoding="utf-8")
    (folder / "s.jsonl").write_bytes(lines({"kind": 0, "v": new}))
    (folder / "t.json").write_text(json.dumps({**old, "sessionId": "t"}), encoding="utf-8")
    reading = Reading(folder)
    assert [(one.meta.id, len(one.turns)) for one in reading] == [("s", 2), ("t", 1)]
    assert [Path(str(one.name)).name for one in reading.skipped] == ["s.json"]
    listed = list(scan([COPILOT], Machine(tmp_path, {}, "linux")))
    assert [one.path.rpartition("/")[2] for one in listed if isinstance(one, Found)] == [
        "s.jsonl",
        "t.json",
    ]


@pytest.mark.parametrize("case", ["all-records", "tools", "compaction", "subagent"])
def test_wrong_types_everywhere(case: str) -> None:
    if case == "subagent":
        good: Any = document(nested())
    else:
        folder = next(base for base in GOLDENS if (base / "copilot-vscode").is_dir())
        good = json.loads((folder / "copilot-vscode" / case / "input.json").read_bytes())
    for path in places(good):
        for value in WRONG:
            check_survived(COPILOT, msgspec.json.encode(put(good, path, value)), "s.json")
