"""Cursor: the editor's database of 0.40 and later; what is damaged, left over or nested."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from converters.ir import Reasoning, Text
from converters.opening import Memory
from converters.types import Options
from tests.converters.formats.cursor_databases import (
    CURSOR,
    database,
    items,
    read,
    rules,
    store,
    tree,
)

if TYPE_CHECKING:
    from converters.ir import Session
    from converters.ledger import Report

SKIP = Options(subagents="skip")
TABLES = "CREATE TABLE {} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);"


def composer(name: str, *ids: str, **members: Any) -> tuple[str, Any]:
    """Give a session row whose headers name bubbles: ``u...`` of the human, others of the agent."""
    headers = [{"bubbleId": i, "type": 1 if i.startswith("u") else 2} for i in ids]
    data = {"composerId": name, "fullConversationHeadersOnly": headers, **members}
    return f"composerData:{name}", data


def bubble(of: str, name: str, text: str = "", **members: Any) -> tuple[str, Any]:
    kind = 1 if name.startswith("u") else 2
    return f"bubbleId:{of}:{name}", {"bubbleId": name, "type": kind, "text": text, **members}


def talk(of: str, **members: Any) -> list[tuple[str, Any]]:
    return [composer(of, "u", "a", **members), bubble(of, "u", "Hi"), bubble(of, "a", "Ho")]


def editor(
    rows: list[tuple[str, Any]], *table: tuple[str, Any], options: Options | None = None
) -> tuple[list[Session], Report]:
    return read(items(rows, list(table)), "state.vscdb", options=options)


def places(report: Report, rule: str) -> list[str]:
    return [place for entry in report.entries if entry.rule == rule for place in entry.places]


def test_a_lone_surrogate_costs_no_session() -> None:
    rows = [(k, json.dumps(v)) for k, v in talk("c")]
    rows[2] = (rows[2][0], '{"type":2,"text":"half \\ud83d end"}')
    rows.append(("composerData:d", '{"conversation":[{"type":1,"text":"\\udc00"}]}'))
    data = database(TABLES.format("cursorDiskKV"), {"INSERT INTO cursorDiskKV VALUES (?, ?)": rows})
    sessions, report = read(data, "state.vscdb")
    assert sessions[0].turns[0].steps[0].content == [Text("half \ufffd end")]
    assert sessions[1].turns[0].prompt == "\ufffd"
    assert rules(report) == {"lone-surrogate": 2}
    assert places(report, "lone-surrogate") == [
        "cursorDiskKV.key=bubbleId:c:a",
        "cursorDiskKV.key=composerData:d",
    ]


def test_a_lone_surrogate_in_a_chat_of_the_agent() -> None:
    message = b'{"role": "user", "content": "half \\ud83d"}'
    ((session,), report) = read(store([(1, message), (9, tree(1))], {"agentId": "x"}))
    assert session.turns[0].prompt == "half \ufffd"
    assert places(report, "lone-surrogate") == [f"blobs.id={'01' * 32}"]


def test_what_cannot_be_read_is_counted() -> None:
    rows: list[tuple[str, Any]] = [(k, json.dumps(v)) for k, v in talk("c")]
    rows += [("composerData:n", None), ("composerData:t", "{oops"), ("composerData:x", b"\xff")]
    rows[2] = (rows[2][0], "{oops")
    rows.append(("bubbleId:t:u", '{"type": 1, "text": "Of a row that is torn"}'))
    data = database(TABLES.format("cursorDiskKV"), {"INSERT INTO cursorDiskKV VALUES (?, ?)": rows})
    _, report = read(data, "state.vscdb")
    (entry,) = [e for e in report.entries if e.rule == "malformed-record"]
    assert entry.kinds == {"bubble": 1, "composerData": 3, "bubble of no session": 1}


def test_messages_whose_session_row_is_gone() -> None:
    lost = [bubble("gone", "u", "Lost"), bubble("gone", "a", "Lost too"), ("bubbleId:c", {})]
    _, report = editor([*talk("c"), *lost, *talk("x:y")])
    assert report.records.total == 7
    assert places(report, "malformed-record") == [
        "cursorDiskKV.key=bubbleId:c",
        "cursorDiskKV.key=bubbleId:gone:a",
        "cursorDiskKV.key=bubbleId:gone:u",
    ]


@pytest.mark.parametrize(
    ("data", "content", "failed"),
    [
        ({"status": "error"}, [], True),
        ({"status": "error", "error": '{"message":"no"}'}, ['{"message":"no"}'], True),
        ({"status": "error", "error": {"message": "no"}}, ['{"message":"no"}'], True),
        ({"status": "error", "result": "half", "error": "no"}, ["half", "no"], True),
        ({"status": "cancelled"}, [], True),
        ({"status": "pending"}, [], False),
        ({"status": "completed", "result": "yes", "error": ""}, ["yes"], False),
        ({"status": "completed"}, None, False),
    ],
)
def test_the_result_of_a_call(
    data: dict[str, Any], content: list[str] | None, failed: bool
) -> None:
    call = {"name": "ls", "toolCallId": "t", "rawArgs": "{}", **data}
    rows = [composer("c", "u", "a"), bubble("c", "u", "Hi"), bubble("c", "a", toolFormerData=call)]
    ((session,), report) = editor(rows)
    (step,) = session.turns[0].steps
    found = [(result.content, result.is_error) for result in step.tool_results]
    assert found == ([] if content is None else [([Text(t) for t in content], failed)])
    assert rules(report) == ({"tool-result-missing": 1} if content is None else {})


def test_a_tool_record_without_a_call_makes_none() -> None:
    rows = [composer("c", "u", "a", "b"), bubble("c", "u", "Hi"), bubble("c", "a", "Ho")]
    rows[2][1]["toolFormerData"] = {}
    rows.append(bubble("c", "b", "Ha", toolFormerData={"additionalData": {"status": "error"}}))
    ((session,), report) = editor(rows)
    assert [step.tool_calls for step in session.turns[0].steps] == [[], []]
    assert rules(report) == {"malformed-block": 1}


def test_a_signature_without_a_text_is_encrypted_reasoning() -> None:
    signed = bubble("c", "b", thinking={"text": "hm", "signature": "s"})
    rows = [composer("c", "u", "a", "b"), bubble("c", "u", "Hi"), signed]
    rows.append(bubble("c", "a", "Ho", thinking={"text": "", "signature": "s"}))
    ((session,), report) = editor(rows)
    assert session.turns[0].steps[1].content == [Reasoning("hm", {"signature": "s"})]
    assert places(report, "reasoning-encrypted") == ["cursorDiskKV.key=bubbleId:c:a"]


def lexical(*blocks: Any) -> str:
    return json.dumps({"root": {"type": "root", "children": list(blocks)}})


def paragraph(*texts: str) -> dict[str, Any]:
    inner: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    return {"type": "paragraph", "children": inner}


BROKEN = {"type": "paragraph", "children": [{"type": "linebreak"}, {"type": "text", "text": "d"}]}
LISTED = {"type": "list", "children": [{"type": "listitem", "children": [paragraph("x")]}, 5]}


@pytest.mark.parametrize(
    ("rich", "prompt"),
    [
        (lexical(paragraph("a ", "b"), paragraph(), paragraph("c"), BROKEN), "a b\n\nc\n\nd"),
        (lexical(LISTED), "x"),
        (json.loads(lexical(paragraph("as an object"))), "as an object"),
        ("plain words", "plain words"),
        ("{plain words", "{plain words"),
        ('{"root": 5}', '{"root": 5}'),
        (lexical(paragraph("half \ud83d")), "half \ufffd"),
    ],
)
def test_a_prompt_in_rich_text_only(rich: Any, prompt: str) -> None:
    rows = [composer("c", "u"), bubble("c", "u", richText=rich)]
    ((session,), report) = editor(rows)
    assert session.turns[0].prompt == prompt
    assert rules(report) == ({"lone-surrogate": 1} if "\ufffd" in prompt else {})


def test_rich_text_after_raw_text_and_before_content() -> None:
    rich = lexical(paragraph("rich"))
    rows = [
        composer("c", "u1", "u2", "u3"),
        bubble("c", "u1", rawText="raw", richText=rich),
        bubble("c", "u2", richText=rich, content="content"),
        bubble("c", "u3", richText=lexical(paragraph()), content="content"),
    ]
    ((session,), _) = editor(rows)
    assert [turn.prompt for turn in session.turns] == ["raw", "rich", "content"]


def test_rich_text_may_be_deep_and_long() -> None:
    deep = '{"root":{"children":[' + '{"children":[' * 50_000 + "]}" * 50_000 + "]}}"
    wide = lexical(*[paragraph("w")] * 50_000)
    rows = [composer("c", "u1", "u2"), bubble("c", "u1", richText=deep)]
    start = time.monotonic()
    ((session,), _) = editor([*rows, bubble("c", "u2", richText=wide)])
    assert time.monotonic() - start < 30
    assert session.turns[0].prompt == deep
    assert session.turns[1].prompt == "\n".join(["w"] * 50_000)


def test_inline_messages_without_text_are_messages() -> None:
    call = {"name": "read", "toolCallId": "x", "rawArgs": "{}", "result": "RES"}
    inline = [
        {"type": 1, "bubbleId": "u", "text": "Hi"},
        {"type": 2, "bubbleId": "t", "toolFormerData": call},
        {"type": 2, "bubbleId": "k", "thinking": {"text": "Hm"}},
        {"type": 2, "bubbleId": "e", "capabilityType": 15},
        {"type": 2, "bubbleId": "n"},
        {"type": 2, "bubbleId": "a", "text": "Ho"},
    ]
    ((session,), report) = editor([("composerData:c", {"conversation": inline})])
    (turn,) = session.turns
    assert [len(step.tool_results) for step in turn.steps] == [1, 0, 0]
    assert turn.steps[1].content == [Reasoning("Hm")]
    assert (report.records.total, report.records.mapped) == (5, 4)
    assert rules(report) == {"empty-message": 1, "history-truncated": 1}


def test_messages_inside_of_a_row_with_headers() -> None:
    inside = {"m": {"type": 2, "text": "Of the map"}, "a": {"type": 2, "text": "A copy"}}
    more = [{"bubbleId": "a", "text": "A copy"}, {"bubbleId": "o", "type": 1, "text": "Left"}, 5]
    tab = {"tabId": "t", "bubbles": [{"type": "user", "text": "Of a tab"}]}
    chat = {"bubbles": [{"type": "user", "text": "Of the map"}]}
    members = {"conversationMap": {**inside, "k": chat}, "conversation": more, "tabs": [tab]}
    rows = [composer("c", "u", "a", "m", "a", **members), *talk("c")[1:]]
    sessions, report = editor(rows)
    assert [s.meta.id for s in sessions] == ["c", "t", "k"]
    assert [step.content for step in sessions[0].turns[0].steps] == [
        [Text("Ho")],
        [Text("Of the map")],
    ]
    assert rules(report) == {"duplicate-record": 3, "message-discarded": 2}
    assert CURSOR.listing is not None
    listed = CURSOR.listing(Memory(items(rows, []), "state.vscdb"))
    assert [one.id for one in listed] == ["c", "t", "k"]


def test_a_message_in_its_session_row_and_in_a_row_of_its_own_is_one() -> None:
    inline = [{"type": 1, "bubbleId": "u", "text": "Hi"}, {"type": 2, "bubbleId": "a"}]
    rows = [("composerData:c", {"conversation": inline}), *talk("c")[1:]]
    ((session,), report) = editor(rows)
    assert shape(session) == [("Hi", 1, False, False)]
    assert rules(report) == {"duplicate-record": 1}


def test_the_type_of_a_header_counts_where_the_message_has_none() -> None:
    rows = [composer("c", "u"), ("bubbleId:c:u", {"type": None, "text": "Hi"})]
    ((session,), _) = editor(rows)
    assert session.turns[0].prompt == "Hi"


def summary(**members: Any) -> dict[str, Any]:
    return {"latestConversationSummary": {"summary": {"summary": "So far.", **members}}}


def shape(session: Session) -> list[tuple[str, int, bool, bool]]:
    return [(t.prompt, len(t.steps), t.shadowed, t.compaction is not None) for t in session.turns]


def test_the_summary_of_a_session_of_one_turn() -> None:
    ((session,), _) = editor(talk("c", **summary()))
    assert shape(session) == [("Hi", 1, False, True)]


@pytest.mark.parametrize(
    ("end", "turns"),
    [
        ("u1", [("One", 0, True, False), ("", 1, False, True), ("Two", 1, False, False)]),
        ("a1", [("One", 1, True, False), ("Two", 1, False, True)]),
        ("server", [("One", 1, True, False), ("Two", 1, False, True)]),
        ("a2", [("One", 1, True, False), ("Two", 1, True, False), ("", 0, False, True)]),
        ("gone", [("One", 1, True, False), ("Two", 1, False, True)]),
        (5, [("One", 1, True, False), ("Two", 1, False, True)]),
    ],
)
def test_the_last_message_that_a_summary_covers(end: Any, turns: list[Any]) -> None:
    members = summary(truncationLastBubbleIdInclusive=end)
    row = composer("c", "u1", "a1", "u2", "a2", **members)
    row[1]["fullConversationHeadersOnly"][1]["serverBubbleId"] = "server"
    said = {"u1": "One", "a1": "1", "u2": "Two", "a2": "2"}
    ((session,), _) = editor([row, *(bubble("c", n, text) for n, text in said.items())])
    assert shape(session) == turns


CHILD = {"isSubagent": True, "subagentInfo": {"parentComposerId": "c1"}}
INDEX = "composer.composerHeaders"


@pytest.mark.parametrize(
    ("first", "second", "index", "parent"),
    [
        ({"subComposerIds": ["c2"]}, {}, [], "c1"),
        ({"subagentComposerIds": ["c2"]}, {}, [], "c1"),
        ({}, CHILD, [], "c1"),
        ({}, {"isSubagent": True}, [], None),
        ({}, {}, [{"composerId": "c2", **CHILD}], "c1"),
        ({}, {}, [{"composerId": "c2", "isSubagent": True}, {}, 5], None),
        ({"subComposerIds": ["c2", 5]}, {"isSubagent": True}, [], "c1"),
    ],
)
def test_subagents(first: Any, second: Any, index: list[Any], parent: str | None) -> None:
    rows = [*talk("c1", **first), *talk("c2", **second)]
    sessions, _ = editor(rows, (INDEX, {"allComposers": index}))
    assert [s.meta.id for s in sessions] == ["c1", "c2"]
    assert sessions[0].extra is None
    mark = {"native": {"isSubagent": True}}
    told = {"parent": {"sessionId": parent, "callId": None}}
    assert sessions[1].extra == (mark if parent is None else told)
    sessions, report = editor(rows, (INDEX, {"allComposers": index}), options=SKIP)
    assert [s.meta.id for s in sessions] == ["c1"]
    assert rules(report) == {"subagent-skipped": 2}


def test_subagents_of_the_newer_index() -> None:
    rows = [(k, json.dumps(v)) for n in ("c1", "c2", "c3") for k, v in talk(n)]
    told = {"subagentInfo": {"parentComposerId": "c1"}}
    data = database(
        TABLES.format("cursorDiskKV")
        + "CREATE TABLE composerHeaders (composerId TEXT, isSubagent INTEGER, value TEXT);",
        {
            "INSERT INTO cursorDiskKV VALUES (?, ?)": rows,
            "INSERT INTO composerHeaders VALUES (?, ?, ?)": [
                ("c1", 0, "{}"),
                ("c2", 1, json.dumps(told)),
                ("c3", 1, "broken"),
            ],
        },
    )
    sessions, _ = read(data, "state.vscdb")
    assert [s.extra for s in sessions] == [
        None,
        {"parent": {"sessionId": "c1", "callId": None}},
        {"native": {"isSubagent": True}},
    ]


URI = "vscode-remote://ssh-remote%2Bbox/home/me/my%20app"


@pytest.mark.parametrize(
    ("workspace", "cwd"),
    [
        (
            {"id": "w", "uri": {"fsPath": "/home/me/app", "path": "/x", "scheme": "file"}},
            "/home/me/app",
        ),
        ({"id": "w", "uri": "file:///home/me/app"}, "/home/me/app"),
        ({"id": "w", "uri": URI}, "/home/me/my app"),
        ({"id": "empty-window"}, None),
        (5, None),
    ],
)
def test_the_folder_of_a_session(workspace: Any, cwd: str | None) -> None:
    ((session,), _) = editor(talk("c", workspaceIdentifier=workspace))
    assert session.meta.cwd == cwd
    entry = {"composerId": "c", "workspaceIdentifier": workspace}
    ((session,), _) = editor(talk("c"), (INDEX, {"allComposers": [entry]}))
    assert session.meta.cwd == cwd
    rows = [composer("c", "u", workspaceIdentifier=workspace)]
    rows.append(bubble("c", "u", "Hi", workspaceUris=["file:///of/the/bubble"]))
    ((session,), _) = editor(rows)
    assert session.meta.cwd == "/of/the/bubble"


def test_a_subagent_left_out_is_counted_with_its_inline_messages() -> None:
    inline = [{"type": 1, "bubbleId": "u", "text": "Hi"}, {"type": 2, "text": "Ho"}]
    rows = [*talk("c1"), ("composerData:c2", {"isSubagent": True, "conversation": inline})]
    _, report = editor(rows, options=SKIP)
    assert rules(report) == {"subagent-skipped": 2}
    assert report.records.total == 4


def test_an_index_that_cannot_be_read_is_counted() -> None:
    rows = [(k, json.dumps(v)) for k, v in talk("c")]
    data = database(
        TABLES.format("cursorDiskKV") + TABLES.format("ItemTable"),
        {
            "INSERT INTO cursorDiskKV VALUES (?, ?)": rows,
            "INSERT INTO ItemTable VALUES (?, ?)": [(INDEX, "broken")],
        },
    )
    (session,), report = read(data, "state.vscdb")
    assert session.meta.id == "c"
    assert places(report, "malformed-record") == [f"ItemTable.key={INDEX}"]


def test_listing_tolerates_what_reading_tolerates() -> None:
    rows = [("composerData:c", '{"name":"\\ud83d","conversation":[{"type":1,"text":"Hi"}]}')]
    data = database(TABLES.format("cursorDiskKV"), {"INSERT INTO cursorDiskKV VALUES (?, ?)": rows})
    assert CURSOR.listing is not None
    (one,) = CURSOR.listing(Memory(data, "state.vscdb"))
    assert (one.id, one.title) == ("c", "\ufffd")
