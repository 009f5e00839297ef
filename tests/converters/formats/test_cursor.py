"""Cursor: the agent's database of a chat, chats before 0.40, and what ``dcb scan`` lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.detection import rank
from converters.errors import BadInput, DcbError
from converters.ir import Image, Text
from converters.ledger import Ledger
from converters.opening import Memory
from converters.types import Context, Options
from dcb.scan import Found, Machine, Unreadable, scan
from tests.converters.formats.cursor_databases import (
    CURSOR,
    database,
    hashed,
    items,
    read,
    rules,
    store,
    tree,
)

if TYPE_CHECKING:
    from pathlib import Path

    from converters.ir import Session

PANEL = "workbench.panel.aichat.view.aichat.chatdata"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5E"
    "rkJggg=="
)
MEMBERS = """
    type role content text toolCallId toolName args result output value image data mediaType
    providerOptions cursor bubbleId bubbles tabs conversationMap conversation selections
    toolFormerData tokenCount thinking createdAt tabId uri name status error richText root children
    subComposerIds isSubagent subagentInfo latestConversationSummary summary workspaceIdentifier
"""
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(MEMBERS.split()),
            inner,
            max_size=6,
        )
    ),
    max_leaves=24,
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"<user_query>\n{text}\n</user_query>"}


def answer(*parts: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
    return {"id": "1", "role": "assistant", "content": content}


def prompts(session: Session) -> list[str]:
    return [turn.prompt for turn in session.turns]


TALK = [(1, user("One")), (2, answer("1")), (3, user("Two")), (4, answer("2"))]


def test_the_tree_gives_the_order_and_a_message_sent_twice_stays_twice() -> None:
    ((session,), report) = read(
        store([*TALK, (9, tree(3, 4, 1, 2, 3, 4))], {"latestRootBlobId": hashed(9)})
    )
    assert prompts(session) == ["Two", "One", "Two"]
    assert report.records.mapped == 4
    assert rules(report) == {"record-skipped": 1, "id-minted": 1}


@pytest.mark.parametrize("root", [None, 5, "", hashed(8), hashed(7)])
def test_without_a_readable_root_the_order_of_the_rows_counts(root: Any) -> None:
    rows = [*TALK, (7, b"\x0a\x20short"), (9, tree(4, 3))]
    ((session,), report) = read(store(rows, {"latestRootBlobId": root}))
    assert prompts(session) == ["One", "Two"]
    assert ("history-truncated" in rules(report)) == (root == hashed(8))


def test_messages_outside_of_the_tree() -> None:
    rows = [
        *TALK[:2],
        (5, user("Withdrawn")),
        *TALK[2:],
        (9, tree(1, 2, 3, 4)),
        (6, user("Newer")),
    ]
    ((session,), report) = read(store(rows, {"latestRootBlobId": hashed(9)}))
    assert prompts(session) == ["One", "Two", "Newer"]
    assert rules(report)["message-discarded"] == 1
    ((session,), report) = read(store([*TALK, (9, tree(3, 4))], {"latestRootBlobId": hashed(9)}))
    assert [(t.prompt, t.shadowed) for t in session.turns] == [("One", True), ("Two", False)]
    assert rules(report)["compacted-unavailable"] == 1


def test_a_child_without_its_row_is_counted() -> None:
    ((session,), report) = read(
        store([*TALK[:2], (9, tree(1, 8, 2))], {"latestRootBlobId": hashed(9)})
    )
    assert prompts(session) == ["One"]
    (entry,) = [e for e in report.entries if e.rule == "history-truncated"]
    assert entry.places == [f"blobs.id={hashed(8)}"]


def test_a_tree_that_holds_itself_ends() -> None:
    rows = [*TALK, (8, tree(9, 1, 2)), (9, tree(8, 9, 3, 4))]
    ((session,), _) = read(store(rows, {"latestRootBlobId": hashed(9)}))
    assert prompts(session) == ["One", "Two"]


def test_what_stands_beside_the_database() -> None:
    side = {"cwd": "/home/user/demo", "title": "Beside", "createdAtMs": 1767225600000}
    around = {"meta.json": json.dumps(side).encode()}
    ((session,), _) = read(store(TALK, {"agentId": "chat-1"}), around=around)
    assert session.meta.id == "chat-1"
    assert (session.title, session.meta.cwd) == ("Beside", "/home/user/demo")
    assert session.meta.created_at == 1767225600000
    around = {"meta.json": json.dumps(side | {"isSubagent": True}).encode()}
    ((session,), _) = read(store(TALK, {"name": "Own"}), around=around)
    assert session.title == "Own"
    assert session.extra == {"native": {"isSubagent": True}}
    none, report = read(store(TALK), around=around, options=Options(subagents="skip"))
    assert none == []
    assert rules(report) == {"subagent-skipped": 4}
    ((session,), _) = read(store(TALK), around={"meta.json": b"[broken"})
    assert session.meta.cwd is None


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("Thursday, Jan 1, 2026, 12:00 AM (UTC)", 1767225600000),
        ("Thursday, January 1, 2026, 3:30 AM (UTC+3:30)", 1767225600000),
        ("Jan 1, 2026, 12:00 PM", 1767268800000),
        ("Jan 32, 2026, 12:00 PM (UTC)", None),
        ("Foo 1, 2026, 12:00 PM (UTC)", None),
        ("Sunday" * 20, None),
    ],
)
def test_the_time_before_a_prompt(stamp: str, time: int | None) -> None:
    said = {
        "role": "user",
        "content": f"<timestamp>{stamp}</timestamp>\n<user_query>Hi</user_query>",
    }
    ((session,), report) = read(store([(1, said), (2, answer("Ho"))]))
    assert [(turn.prompt, turn.time) for turn in session.turns] == [("Hi", time)]
    assert ("timestamp-invalid" in rules(report)) == (time is None)


def test_the_folder_of_a_store_is_its_id() -> None:
    ((session,), _) = read(store(TALK), name="home/.cursor/chats/abc/chat-7/store.db")
    assert session.meta.id == "chat-7"
    ((session,), report) = read(store(TALK), name="home/copy.db")
    assert rules(report)["id-minted"] == 1
    assert read(store(TALK), name="other.db")[0][0].meta.id == session.meta.id


def test_meta_in_plain_json_and_a_time_in_digits() -> None:
    plain = json.dumps({"agentId": "chat-2", "createdAt": "1767225600000", "name": "Plain"})
    ((session,), _) = read(store(TALK, plain))
    assert (session.meta.id, session.title) == ("chat-2", "Plain")
    assert session.meta.created_at == 1767225600000


def test_the_key_for_encryption_goes_nowhere() -> None:
    key = "made-up-key-0123456789"
    data = store(TALK, {"agentId": "chat-3", "blobEncryptionKey": key})
    sessions, report = read(data)
    assert key not in repr(sessions) + repr(report)


def test_images_files_and_newer_results() -> None:
    picture = {"type": "image", "image": PNG, "mediaType": "image/png"}
    rows: list[tuple[int, Any]] = [
        (
            1,
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look"},
                    picture,
                    {"type": "image", "image": f"data:image/png;base64,{PNG}"},
                    {"type": "image", "image": "https://example.org/a.png"},
                    {"type": "image", "image": {"0": 137}},
                    {
                        "type": "file",
                        "data": "aGVsbG8=",
                        "mediaType": "text/plain",
                        "filename": "a",
                    },
                ],
            },
        ),
        (
            2,
            answer({"type": "tool-call", "toolCallId": "t1", "toolName": "See", "input": {"p": 1}}),
        ),
        (
            3,
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "t1",
                        "output": {"type": "error-text", "value": "no"},
                        "experimental_content": [
                            {"type": "text", "text": "shown"},
                            {"type": "image", "data": PNG, "mimeType": "image/png"},
                        ],
                    }
                ],
            },
        ),
    ]
    ((session,), report) = read(store(rows))
    blocks = session.turns[0].prompt_blocks or []
    assert [type(block) for block in blocks] == [Text, Image, Image, Text, Text, Text]
    assert [b.media_type for b in blocks if isinstance(b, Image)] == ["image/png"] * 2
    assert isinstance(blocks[5], Text)
    assert blocks[5].text == "[file: a (text/plain, 5 bytes)]"
    assert rules(report)["attachment-skipped"] == 2
    (step,) = session.turns[0].steps
    assert step.tool_calls[0].arguments == '{"p":1}'
    (result,) = step.tool_results
    assert result.is_error
    assert [type(block) for block in result.content] == [Text, Image]


def test_old_chats_take_the_folder_of_their_workspace() -> None:
    tabs = {"tabs": [{"tabId": "t", "bubbles": [{"type": "user", "text": "Hi"}]}]}
    around = {"workspace.json": b'{"folder": "file:///home/user/demo%20two"}'}
    ((session,), _) = read(items(None, [(PANEL, tabs)]), "state.vscdb", around)
    assert session.meta.cwd == "/home/user/demo two"
    around = {"workspace.json": b'{"workspace": 5}'}
    ((session,), _) = read(items(None, [(PANEL, tabs)]), "state.vscdb", around)
    assert session.meta.cwd is None


def test_a_composer_in_both_tables_is_one_session() -> None:
    talk = [{"type": 1, "text": "Hi"}, {"type": 2, "text": "Ho"}]
    composer = {"composerId": "c", "conversation": talk}
    data = items(
        [("composerData:c", composer)], [("composer.composerData", {"allComposers": [composer]})]
    )
    sessions, report = read(data, "state.vscdb")
    assert [session.meta.id for session in sessions] == ["c"]
    assert rules(report) == {"duplicate-record": 2}


def test_made_ids_of_calls_differ() -> None:
    call = {"type": 2, "toolFormerData": {"name": "ls", "result": "a"}, "text": ""}
    data = items(
        [("composerData:c", {"conversation": [{"type": 1, "text": "Hi"}, call, call]})], []
    )
    ((session,), report) = read(data, "state.vscdb")
    ids = [call.id for step in session.turns[0].steps for call in step.tool_calls]
    assert len(set(ids)) == 2
    assert rules(report) == {"id-minted": 2}


@pytest.mark.parametrize(
    ("data", "name", "score"),
    [
        (store(TALK, {"agentId": "x"}), "input.db", 90),
        (store(TALK), "input.db", 72),
        (items([], []), "state.vscdb", 92),
        (items(None, [(PANEL, {})]), "state.vscdb", 80),
        (items(None, []), "/home/user/.config/Cursor/User/workspaceStorage/a/state.vscdb", 45),
        (items(None, []), "/home/user/.config/Code/User/workspaceStorage/a/state.vscdb", 0),
        (database("CREATE TABLE blobs (a); CREATE TABLE meta (b); CREATE TABLE c (d)", {}), "a", 0),
    ],
)
def test_recognised_by_tables(data: bytes, name: str, score: int) -> None:
    head = Memory(data, name).head
    found = [c.score for c in rank(head) if c.format.id == "cursor"]
    assert found == ([score] if score else [])


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE blobs (a); CREATE TABLE meta (b)",
        "CREATE TABLE blobs (id, data); CREATE VIEW meta AS SELECT 1 AS key, 2 AS value",
        "CREATE VIEW ItemTable AS SELECT 1 AS key, 2 AS value",
    ],
)
def test_other_columns_and_views_are_refused(script: str) -> None:
    with pytest.raises(BadInput):
        read(database(script, {}))


@settings(max_examples=60, deadline=None)
@given(st.lists(JSONISH | st.binary(max_size=80), max_size=6), JSONISH)
def test_any_rows_of_a_chat_are_accounted(values: list[Any], meta: Any) -> None:
    rows = list(enumerate(values))
    rows.append((200, tree(*range(len(values)), 201)))
    for root in (meta, {"latestRootBlobId": hashed(200), "agentId": meta}):
        read(store(rows, json.dumps(root).encode().hex()))


@settings(max_examples=60, deadline=None)
@given(JSONISH, st.lists(JSONISH, max_size=5))
def test_any_old_value_is_accounted(value: Any, bubbles: list[Any]) -> None:
    tabs = {"tabs": [{"bubbles": bubbles}, value], "conversationMap": {"a": value, "b": bubbles}}
    composer = {"fullConversationHeadersOnly": bubbles, "conversationMap": value}
    data = items(
        [
            ("composerData:a", value),
            ("composerData:b", tabs),
            ("composerData:c", composer),
            ("bubbleId:c:", value),
        ],
        [
            (PANEL, tabs),
            ("composer.composerData", value),
            ("composer.composerHeaders", {"allComposers": [value, *bubbles]}),
            ("aiService.prompts", value),
        ],
    )
    read(data, "state.vscdb")
    read(data, "state.vscdb", options=Options(subagents="skip"))


CHAT = "11111111-2222-4333-8444-555555555555"
LINES = '{"role": "user", "message": {"content": "Hi"}}\n'


def place(home: Path, name: str, data: bytes | str) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def listed(home: Path) -> list[Found | Unreadable]:
    return list(scan([CURSOR], Machine(home, {}, "linux")))


@pytest.mark.parametrize("name", [f"{CHAT}/{CHAT}.jsonl", f"{CHAT}.jsonl"])
def test_scan_lists_a_chat_once(tmp_path: Path, name: str) -> None:
    place(tmp_path, f".cursor/projects/home-user-demo/agent-transcripts/{name}", LINES)
    place(tmp_path, ".cursor/projects/home-user-demo/agent-transcripts/other.jsonl", LINES)
    chat = f".cursor/chats/{'0' * 32}/{CHAT}"
    meta = {"agentId": CHAT, "name": "A chat", "createdAt": 1767225600000}
    place(tmp_path, f"{chat}/store.db", store(TALK, meta))
    both = [one for one in listed(tmp_path) if isinstance(one, Found)]
    assert sorted((one.id, one.title) for one in both) == [(CHAT, "A chat"), ("other", "Hi")]
    (one,) = [one for one in both if one.id == CHAT]
    assert one.path.endswith("store.db")
    assert one.time == 1767225600000
    side = {"cwd": "/home/user/demo", "updatedAtMs": 1767225660000}
    place(tmp_path, f"{chat}/meta.json", json.dumps(side))
    (one,) = [o for o in listed(tmp_path) if isinstance(o, Found) and o.id == CHAT]
    assert (one.cwd, one.time) == ("/home/user/demo", 1767225660000)


@pytest.mark.parametrize("data", [store([(9, tree(1))], {"agentId": CHAT}), b"broken"])
def test_scan_keeps_the_transcript_of_a_store_without_messages(tmp_path: Path, data: bytes) -> None:
    place(tmp_path, f".cursor/projects/p/agent-transcripts/{CHAT}/{CHAT}.jsonl", LINES)
    place(tmp_path, f".cursor/chats/{'0' * 32}/{CHAT}/store.db", data)
    (one,) = [one for one in listed(tmp_path) if isinstance(one, Found)]
    assert (one.id, one.title) == (CHAT, "Hi")


def test_scan_lists_old_chats_of_a_workspace(tmp_path: Path) -> None:
    folder = ".config/Cursor/User/workspaceStorage/abc"
    tabs = {
        "tabs": [
            {
                "tabId": "t-1",
                "chatTitle": "A tab",
                "lastSendTime": 1717200060000,
                "bubbles": [{"type": "user", "text": "Hi"}],
            },
            {"tabId": "t-2", "bubbles": []},
        ]
    }
    place(tmp_path, f"{folder}/state.vscdb", items([], [(PANEL, tabs)]))
    place(tmp_path, f"{folder}/workspace.json", '{"folder": "file:///home/user/demo"}')
    place(tmp_path, ".config/Cursor/User/workspaceStorage/new/state.vscdb", items(None, []))
    (one,) = listed(tmp_path)
    assert isinstance(one, Found)
    assert (one.id, one.title, one.cwd) == ("t-1", "A tab", "/home/user/demo")
    assert one.time == 1717200060000


def test_listing_names_what_reading_gives() -> None:
    assert CURSOR.listing is not None
    tabs = {"tabs": [{"bubbles": [{"type": "user", "text": t}]} for t in ("a", "b")]}
    data = items([("composerData:c", tabs)], [(PANEL, tabs)])
    for source in (Memory(data, "state.vscdb"), Memory(store(TALK), "copy.db")):
        assert CURSOR.read is not None
        ids = [s.meta.id for s in CURSOR.read(source, Context(Ledger()))]
        assert [one.id for one in CURSOR.listing(source)] == ids
        assert ids


def test_a_named_store_without_messages_is_an_error(tmp_path: Path) -> None:
    from converters.reading import Reading

    place(tmp_path, "store.db", store([(9, tree(1))], {"agentId": CHAT}))
    with pytest.raises(DcbError, match="no session"):
        list(Reading(tmp_path / "store.db"))
