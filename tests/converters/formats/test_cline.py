"""Cline: results in user messages, a human's words among tags, compactions, subagents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from converters.ir import Image, Text
from converters.registry import lookup
from tests.reading import counts
from tests.reading import read as read_bytes

if TYPE_CHECKING:
    from converters.ir import Block, Session, Turn
    from converters.ledger import Report

(CLINE,) = lookup("cline")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAA"
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
ENVIRONMENT = (
    "<environment_details>\n# Current Working Directory (/w) Files\n</environment_details>"
)
HEADER = "[read_file for 'a.py'] Result:"
READ = "<read_file>\n<path>a.py</path>\n</read_file>"


def said(role: str, *parts: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
    return {"role": role, "content": content, **more}


def user(*parts: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    return said("user", *parts, **more)


def answer(*parts: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    return said("assistant", *parts, **more)


def call(name: str, identity: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": {}}


def result(identity: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": content}


def read(
    *messages: Any, item: dict[str, Any] | None = None, **options: Any
) -> tuple[list[Session], Report]:
    around = {"history_item.json": json.dumps(item).encode()} if item is not None else None
    data = json.dumps(messages).encode()
    return read_bytes(CLINE, data, "api_conversation_history.json", around, **options)


def turns(*messages: Any, item: dict[str, Any] | None = None) -> list[Turn]:
    ((session,), _) = read(*messages, item=item)
    return session.turns


def sdk(
    *messages: Any, agent: str = "lead", sidecar: Any = None, **options: Any
) -> tuple[list[Session], Report]:
    root = {"version": 1, "agent": agent, "sessionId": "s", "messages": messages}
    around = {"s.compaction.json": json.dumps(sidecar).encode()} if sidecar is not None else None
    # The input's stem is what its name is without the last ending.
    return read_bytes(CLINE, json.dumps(root).encode(), "s.messages.json", around, **options)


def prompts(found: list[Turn]) -> list[str]:
    return [turn.prompt for turn in found]


def shape(blocks: list[Block]) -> list[str]:
    return [b.text if isinstance(b, Text) else type(b).__name__ for b in blocks]


def results(turn: Turn) -> list[list[str]]:
    return [shape(r.content) for step in turn.steps for r in step.tool_results]


def shadowed(found: list[Turn]) -> list[str]:
    return [turn.prompt for turn in found if turn.shadowed]


# Results


def test_texts_behind_a_header_are_its_result() -> None:
    found = turns(
        user("<task>\nfix\n</task>", ENVIRONMENT),
        answer(f"Reading.\n{READ}"),
        user(HEADER, "  one\n", "two", ENVIRONMENT, "not a result"),
        answer("<list_files>\n<path>.</path>\n</list_files>\n" + READ),
        user("[list_files for '.'] Result:\na.py", HEADER, f"three\n\n{ENVIRONMENT}"),
    )
    assert prompts(found) == ["fix"]
    assert results(found[0]) == [["  one\n", "two"], ["a.py"], ["three"]]


def test_environment_inside_a_result_stays() -> None:
    text = f"before\n{ENVIRONMENT}\nafter"
    (turn,) = turns(user("<task>\nfix\n</task>"), answer(READ), user(HEADER, text))
    assert results(turn) == [[text]]


def test_content_may_be_one_part_or_a_text() -> None:
    (turn,) = turns(
        {"role": "user", "content": "<task>\nfix\n</task>"},
        {"role": "assistant", "content": READ},
        {"role": "user", "content": f"{HEADER}\none"},
        answer(call("x", "t1")),
        {"role": "user", "content": result("t1", "two")},
    )
    assert results(turn) == [["one"], ["two"]]


def test_header_of_several_lines() -> None:
    (turn,) = turns(
        user("<task>\nfix\n</task>"),
        answer("<execute_command>\n<command>cd x\nls</command>\n</execute_command>"),
        user("[execute_command for 'cd x\nls'] Result:", "a.py"),
    )
    assert results(turn) == [["a.py"]]


def test_result_goes_to_the_last_answer() -> None:
    """A call that never got a result does not shift the results of later ones."""
    found = turns(
        user("<task>\nfix\n</task>"),
        answer(READ),
        user("<user_message>\ngo on\n</user_message>"),
        answer(READ),
        user(HEADER, "second"),
    )
    assert [results(turn) for turn in found] == [[], [["second"]]]


def test_task_that_goes_on_with_tool_blocks() -> None:
    found = turns(
        user("<task>\nfix\n</task>"),
        answer(READ),
        user(HEADER + "\nold"),
        answer("<read_file> is a tool", call("read_file", "t1")),
        user(result("t1", "new")),
        answer(f"Like so:\n{READ}"),
    )
    assert prompts(found) == ["fix"]
    assert results(found[0]) == [["old"], ["new"]]
    last = found[0].steps[-1]
    assert not last.tool_calls
    assert shape(last.content) == [f"Like so:\n{READ}"]


def test_header_in_the_sdk_is_a_prompt() -> None:
    ((session,), _) = sdk(user("q"), answer("a"), user(HEADER + "\nwhat is this?"))
    assert prompts(session.turns) == ["q", HEADER + "\nwhat is this?"]


@pytest.mark.parametrize("native", [True, False])
def test_picture_belongs_to_the_result_before_it(native: bool) -> None:
    if native:
        calls = answer(call("browser_action", "t1"), call("browser_action", "t2"))
        given = user(result("t1", "one"), PICTURE, result("t2", "two"), ENVIRONMENT)
    else:
        calls = answer("<browser_action>\n<action>x</action>\n</browser_action>\n" + READ)
        given = user("[browser_action for 'x'] Result:", "one", PICTURE, HEADER, "two", ENVIRONMENT)
    (turn,) = turns(user("<task>look</task>"), calls, given)
    assert results(turn) == [["one", "Image"], ["two"]]


def test_picture_before_the_results_is_kept() -> None:
    (turn,) = turns(
        user("<task>look</task>"), answer(call("x", "t1")), user(PICTURE, result("t1", "one"))
    )
    assert results(turn) == [["one", "Image"]]


def test_document_beside_a_result_is_kept() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "inside"}
    (turn,) = turns(
        user("<task>look</task>"),
        answer(call("x", "t1")),
        user(result("t1", "one"), {"type": "document", "title": "n.txt", "source": source}),
    )
    ((_, placeholder),) = results(turn)
    assert placeholder.startswith("[file: n.txt")


def test_picture_behind_words_belongs_to_them() -> None:
    found = turns(
        user("<task>look</task>"),
        answer("<ask_followup_question>\n<question>?</question>\n</ask_followup_question>"),
        user("[ask_followup_question] Result:", "<answer>\nthis\n</answer>", PICTURE),
    )
    assert prompts(found) == ["look", "this"]
    assert isinstance((found[1].prompt_blocks or [])[-1], Image)
    assert results(found[0]) == [["<answer>\nthis\n</answer>"]]


# Words and tags


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("Replace <task>build</task> by <job>run</job>, please", None),
        ("<task>build</task> is the tag", None),
        ("Say <feedback>x</feedback> and <answer>y</answer>", None),
        ("Use:\n<feedback>\nx\n</feedback>\nand stop", None),
        ("Keep <todos>x</todos> in it", None),
        ("<todos>x</todos> stays, too", None),
        ("<task>only the first</task>", None),
        ("<feedback>\nmore\n</feedback>", "more"),
        ("<feedback>a</feedback>\n<feedback>b</feedback>", "a\nb"),
        ("<user_message>\nno </user_message> here\n</user_message>", "no </user_message> here"),
        (f"<feedback>\nmore\n</feedback>\n\n{ENVIRONMENT}", "more"),
        ("You seem to be having trouble proceeding. Help:\n<feedback>\nx\n</feedback>", "x"),
    ],
)
def test_only_the_program_s_tags_are_taken_off(text: str, prompt: str | None) -> None:
    found = turns(user("<task>\nfirst\n</task>"), answer("a"), user(text), answer("b"))
    assert prompts(found) == ["first", text if prompt is None else prompt]


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("<task>Explain <answer>42</answer> in XML</task>", "Explain <answer>42</answer> in XML"),
        ("<task>\nWhat is <task>x</task>\n</task>", "What is <task>x</task>"),
        ('<task>\nlook\n</task>\n\n<file_content path="a">\nA\n</file_content>', "look"),
        ('<explicit_instructions type="x">I</explicit_instructions>\n<task>\nq\n</task>', "q"),
    ],
)
def test_first_prompt(text: str, prompt: str) -> None:
    assert prompts(turns(user(text, ENVIRONMENT), answer("a"))) == [prompt]


def test_words_in_results() -> None:
    """A file that was read may hold the tags itself; the program says whose words they are."""
    denied = "The user denied this operation and said:\n<feedback>\nuse b\n</feedback>"
    file = "<quiz>\n<answer>42</answer>\n<feedback>\nwell done\n</feedback>\n</quiz>"
    found = turns(
        user("<task>\nfix\n</task>"),
        answer(READ),
        user(HEADER, file),
        answer(READ),
        user(HEADER, denied),
        answer(call("ask_followup_question", "t1")),
        user(result("t1", "<answer>\nyes\n</answer>")),
        answer("ok"),
    )
    assert prompts(found) == ["fix", "use b", "yes"]
    assert results(found[0]) == [[file], [denied]]


def test_injection_is_counted_once() -> None:
    _, report = read(user("<task>q</task>"), user(ENVIRONMENT), answer("a"))
    assert counts(report) == {"injection-skipped": 1}


# Compaction

TALK = [user("<task>q1</task>"), answer("a1"), user("q2"), answer("a2"), user("q3"), answer("a3")]


def test_deleted_range_inside_a_turn() -> None:
    steps = [answer(call("x", "t1")), user(result("t1", "r1")), answer(call("x", "t2"))]
    messages = [user("<task>q</task>"), *steps, user(result("t2", "r2")), answer("done")]
    item = {"conversationHistoryDeletedRange": [2, 3]}
    ((session,), report) = read(*messages, item=item)
    assert not shadowed(session.turns)
    assert counts(report) == {"compacted-unavailable": 1, "state-dropped": 2}


@pytest.mark.parametrize(
    ("span", "expected"),
    [([2, 3], ["q2"]), ([0, 5], ["q2", "q3"]), ([2, 10**9], ["q2", "q3"]), ([4, 3], []), (7, [])],
)
def test_deleted_range(span: Any, expected: list[str]) -> None:
    found = turns(*TALK, item={"conversationHistoryDeletedRange": span})
    assert shadowed(found) == expected


def test_deleted_range_counts_what_is_no_message() -> None:
    found = turns(*TALK[:2], 7, 7, *TALK[2:], item={"conversationHistoryDeletedRange": [2, 5]})
    assert shadowed(found) == ["q2"]


def test_deleted_range_of_a_history_that_is_gone() -> None:
    panel = [{"ts": 1, "type": "say", "say": kind, "text": kind} for kind in ("task", "text")]
    ((session,), report) = read(*panel, item={"conversationHistoryDeletedRange": [0, 5]})
    assert not shadowed(session.turns)
    assert counts(report) == {"compacted-unavailable": 1}


def test_condensed() -> None:
    out = {"condenseParent": "c"}
    messages = [
        TALK[0],
        *({**message, **out} for message in TALK[1:4]),
        answer("SUMMARY", isSummary=True, condenseId="c"),
        *TALK[4:],
    ]
    ((session,), report) = read(*messages)
    assert shadowed(session.turns) == ["q2"]
    compaction = session.turns[2].compaction
    assert compaction is not None
    assert compaction.summary == "SUMMARY"
    assert counts(report) == {"state-dropped": 1}
    assert not shadowed(turns(*messages[:4], *messages[5:]))


def test_truncated() -> None:
    out = {"truncationParent": "c"}
    marker = user("[hidden]", isTruncationMarker=True, truncationId="c")
    messages = [TALK[0], *({**m, **out} for m in TALK[1:4]), marker, *TALK[4:]]
    ((session,), report) = read(*messages)
    assert shadowed(session.turns) == ["q2"]
    assert counts(report) == {
        "state-dropped": 1,
        "record-skipped": 1,
        "compacted-unavailable": 1,
    }


SDK = [user("q1"), answer("a1"), user("q2"), answer("a2"), user("q3"), answer("a3")]
SHOWN = [user("n", metadata={"displayOnly": True})] * 2
SUMMARY = user("SUMMARY")


@pytest.mark.parametrize(
    ("messages", "count", "stayed", "expected", "at"),
    [
        (SDK, 2, [], ["q1"], 1),
        ([*SDK[:2], *SHOWN, *SDK[2:]], 4, [], ["q1", "q2"], 2),
        (SDK, 4, SDK[2:4], ["q1"], 1),
        (SDK, 6, SDK[3:6], ["q1"], 1),
        (SDK, 3, [], ["q1"], 1),
        (SDK, 6, [], ["q1", "q2", "q3"], 3),
        (SDK, 9, [], ["q1", "q2", "q3"], 3),
        (SDK, 0, [], [], 0),
        (SDK, -3, [], [], 0),
    ],
)
def test_sidecar(
    messages: list[Any], count: int, stayed: list[Any], expected: list[str], at: int
) -> None:
    sidecar = {"version": 1, "source_message_count": count, "messages": [SUMMARY, *stayed]}
    ((session,), report) = sdk(*messages, sidecar=sidecar)
    assert shadowed(session.turns) == expected
    assert [n for n, turn in enumerate(session.turns) if turn.compaction] == [at]
    assert "compacted-unavailable" not in counts(report)


def test_sidecar_without_a_summary() -> None:
    sidecar = {"source_message_count": 2, "messages": [user("")]}
    ((session,), report) = sdk(*SDK, sidecar=sidecar)
    assert shadowed(session.turns) == ["q1"]
    assert counts(report)["compacted-unavailable"] == 1


def test_companion_that_cannot_be_read_is_counted() -> None:
    data = json.dumps(TALK).encode()
    around = {"history_item.json": b"\x00\x01"}
    _, report = read_bytes(CLINE, data, "api_conversation_history.json", around)
    assert counts(report) == {"malformed-record": 1}


# Subagents


def test_subtask_is_left_out() -> None:
    ((session,), _) = read(*TALK, item={"parentTaskId": "p"})
    assert session.extra == {"parent": {"sessionId": "p", "callId": None}}
    found, report = read(*TALK, 7, item={"parentTaskId": "p"}, subagents="skip")
    assert not found
    assert counts(report) == {"subagent-skipped": 6, "malformed-record": 1}
    assert report.records.mapped == 0


def test_agent_is_left_out() -> None:
    assert sdk(*SDK, agent="researcher")[0]
    found, report = sdk(*SDK, agent="researcher", subagents="skip")
    assert not found
    assert counts(report) == {"subagent-skipped": 6}
    assert report.records.skipped == 6
