"""OpenCode: what its databases hold, damaged cells and rows that have lost theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from converters.ir import Image, Session, Text
from converters.registry import lookup
from tests.converters.formats.opencode_stores import (
    V1,
    V2,
    T,
    answer,
    database,
    part,
    text,
    user,
    v1,
    v2,
)
from tests.reading import counts, read

if TYPE_CHECKING:
    from converters.ledger import Report

(OPENCODE,) = lookup("opencode")
JPEG = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcG"
ZERO = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
SPENT = {"input": 50000, "output": 900, "reasoning": 0, "cache": {"read": 7, "write": 0}}


def of(data: bytes, **options: Any) -> tuple[list[Session], Report]:
    sessions, report = read(OPENCODE, data, "opencode.db", **options)
    msgspec.json.encode(sessions)  # also: valid UTF-8 in all of it
    return sessions, report


def places(report: Report, rule: str) -> list[str]:
    return [place for entry in report.entries if entry.rule == rule for place in entry.places]


def said(session: Session) -> list[tuple[str, list[str]]]:
    """Give each prompt with the texts of its answers."""
    return [
        (turn.prompt, [b.text for s in turn.steps for b in s.content if isinstance(b, Text)])
        for turn in session.turns
    ]


def test_half_a_pair_in_a_cell_costs_no_record() -> None:
    half = '{"type": "text", "text": "long \\ud83d end"}'
    data = v1([user(1), answer(2)], [text("prt_1", "msg_1", "hi"), part("prt_2", "msg_2", half)])
    (session,), report = of(data)
    assert said(session) == [("hi", ["long � end"])]
    assert report.records.mapped == report.records.total == 4
    assert places(report, "lone-surrogate") == ["opencode.db:part.id=prt_2"]
    (session,), report = of(v2(("user", '{"text": "half \\ud83d"}')))
    assert said(session) == [("half �", [])]
    assert places(report, "lone-surrogate") == ["opencode.db:session_message.id=msg_1"]


def test_half_a_pair_in_the_model_of_a_session() -> None:
    rows = [user(1)], [text("prt_1", "msg_1", "hi")]
    for model in ('{"id": "m\\ud83d"}', b'{"id": "m\\ud83d"}'):
        (session,), report = of(v1(*rows, model=model))
        assert session.model == "m�"
        assert places(report, "lone-surrogate") == ["opencode.db:session.id=ses_1"]
    (session,), report = of(v2(("user", {"text": "hi"}), model='{"id": "m\\ud83d"}'))
    assert session.model == "m�"
    assert counts(report) == {"lone-surrogate": 1}
    assert of(v1(*rows, model="plain"))[0][0].model == "plain"
    (session,), report = of(v1(*rows, model=b"\xfa", revert="7"))
    assert session.model is None
    assert counts(report)["malformed-member"] == 2


def test_blobs_stand_in_any_column() -> None:
    session = (b"ses_1", None, b"/home/user", b"Title", None, b'{"messageID": "msg_2"}', T)
    message = ("msg_1", b"ses_1", T, b'{"role": "user"}')
    rows = [message, ("msg_2", b"ses_1", T + 1, b'{"role": "assistant"}')]
    parts = [part("prt_1", "msg_1", b'{"type": "text", "text": "hi"}')]
    (found,), report = of(database(V1, session=[session], message=rows, part=parts))
    assert (found.meta.id, found.title, found.meta.cwd) == ("ses_1", "Title", "/home/user")
    assert said(found) == [("hi", [])]
    assert counts(report) == {"message-discarded": 1}


def test_messages_of_no_session_are_a_session() -> None:
    data = database(
        V1,
        session=[("ses_1", None, None, "Title", None, None, T)],
        message=[user(1), user(2, "ses_gone"), user(3, None)],
        part=[
            text("prt_1", "msg_1", "hi"),
            part("prt_2", "msg_2", {"type": "text", "text": "lost"}, "ses_gone"),
            part("prt_3", "msg_3", {"type": "text", "text": "of none"}, None),
            part("prt_4", "msg_1", {"type": "text", "text": "there"}, None),
            part("prt_5", "msg_gone", {"type": "text", "text": "whose"}),
            part("prt_6", "msg_gone", {"type": "text", "text": "whose"}, "ses_gone"),
        ],
    )
    sessions, report = of(data)
    assert [said(session) for session in sessions] == [
        [("hi\nthere", [])],
        [("of none", [])],
        [("lost", [])],
    ]
    assert [s.meta.id for s in sessions[::2]] == ["ses_1", "ses_gone"]
    assert len(sessions[1].meta.id) == 36
    assert report.records.total == 9
    assert counts(report) == {"history-truncated": 2, "id-minted": 1, "malformed-record": 2}


def test_version_2_messages_of_no_session() -> None:
    rows = [
        ("msg_1", "ses_1", "user", 1, T, {"text": "hi"}),
        ("msg_2", "ses_gone", "user", 1, T, {"text": "lost"}),
    ]
    session = ("ses_1", None, None, None, None, T)
    sessions, report = of(database(V2, session_v2=[session], session_message=rows))
    assert [(s.meta.id, said(s)) for s in sessions] == [
        ("ses_1", [("hi", [])]),
        ("ses_gone", [("lost", [])]),
    ]
    assert report.records.mapped == report.records.total == 2
    assert counts(report) == {"history-truncated": 1}


def test_a_message_id_that_comes_twice_counts_its_parts_once() -> None:
    script = V1.replace(" PRIMARY KEY", "")
    sessions = [(name, None, None, None, None, None, T) for name in ("ses_1", "ses_1", "ses_2")]
    messages = [user(1), user(1), user(1, "ses_2")]
    parts = [text("prt_1", "msg_1", "hi")]
    found, report = of(database(script, session=sessions, message=messages, part=parts))
    assert [said(session) for session in found] == [[("hi", [])]]
    assert report.records.total == 4
    assert counts(report) == {"empty-message": 2, "empty-session": 1}


def test_a_fork_without_columns_of_time() -> None:
    script = """CREATE TABLE session (id TEXT, title TEXT);
        CREATE TABLE message (id TEXT, session_id TEXT, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);"""
    messages = [(f"msg_{n}", "ses_1", {"role": "user"}) for n in (2, 1)]
    parts = [(f"prt_{n}", f"msg_{n}", "ses_1", {"type": "text", "text": f"q{n}"}) for n in (2, 1)]
    (session,), report = of(
        database(script, session=[("ses_1", "Title")], message=messages, part=parts)
    )
    assert said(session) == [("q1", []), ("q2", [])]
    assert not report.entries
    script = """CREATE TABLE session_v2 (id TEXT);
        CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, data TEXT);"""
    rows = [(f"msg_{n}", "ses_1", "user", {"text": f"q{n}"}) for n in (2, 1)]
    (session,), _ = of(database(script, session_v2=[("ses_1",)], session_message=rows))
    assert said(session) == [("q1", []), ("q2", [])]


def test_a_file_of_version_2_is_base64_however_it_starts() -> None:
    files = [
        {"data": JPEG, "mime": "image/jpeg", "name": "a.jpg"},
        {"data": "/9j/AAAA", "mime": "application/octet-stream", "name": "x.bin"},
        {"data": "data:image/png;base64,iVBORw0KGgo=", "mime": "image/png", "name": "b.png"},
        {"data": "file:///home/user/c.png", "mime": "image/png", "name": "c.png"},
    ]
    shown = {"type": "file", "data": JPEG, "mime": "image/jpeg", "name": "r.jpg"}
    state = {"status": "completed", "input": {}, "content": [shown]}
    call = {"type": "tool", "id": "c1", "name": "read", "state": state}
    data = v2(("user", {"text": "look", "files": files}), ("assistant", {"content": [call]}))
    (session,), report = of(data)
    _, jpeg, raw, png, linked = session.turns[0].prompt_blocks or []
    assert isinstance(jpeg, Image)
    assert (jpeg.data, jpeg.media_type, jpeg.name) == (JPEG, "image/jpeg", "a.jpg")
    assert isinstance(raw, Text)
    (entry,) = (raw.extra or {})["attachments"]
    assert (entry["data"], entry["size"], "uri" in entry) == ("/9j/AAAA", 6, False)
    assert isinstance(png, Image)
    assert (png.data, png.name) == ("iVBORw0KGgo=", "b.png")
    assert isinstance(linked, Text)
    assert (linked.extra or {})["image"]["url"] == "file:///home/user/c.png"
    (block,) = session.turns[0].steps[0].tool_results[0].content
    assert isinstance(block, Image)
    assert block.data == JPEG
    assert counts(report) == {"attachment-skipped": 1, "attachment-aside": 1}


def test_bytes_that_are_no_image_of_the_ir_are_an_attachment() -> None:
    svg = {
        "type": "file",
        "mime": "image/svg+xml",
        "filename": "a.svg",
        "url": "data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=",
    }
    (session,), report = of(v1([user(1)], [part("prt_1", "msg_1", svg)]))
    (block,) = session.turns[0].prompt_blocks or []
    assert isinstance(block, Text)
    (entry,) = (block.extra or {})["attachments"]
    assert (entry["name"], entry["data"]) == ("a.svg", "PHN2Zz48L3N2Zz4=")
    assert counts(report) == {"attachment-aside": 1}


def test_a_command_that_runs_as_a_subagent_opens_a_turn() -> None:
    subtask = {
        "type": "subtask",
        "prompt": "Review the diff",
        "description": "review",
        "agent": "general",
        "command": "review",
    }
    data = v1(
        [user(1), answer(2), user(3), answer(4), user(5)],
        [
            text("prt_1", "msg_1", "first"),
            text("prt_2", "msg_2", "one"),
            part("prt_3", "msg_3", subtask),
            text("prt_4", "msg_4", "two"),
            text("prt_5", "msg_5", "with words"),
            part("prt_6", "msg_5", subtask),
        ],
    )
    (session,), report = of(data)
    assert said(session) == [
        ("first", ["one"]),
        ("Review the diff", ["two"]),
        ("with words", []),
    ]
    extra = session.turns[1].extra or {}
    assert extra["subtasks"] == [{"command": "review", "agent": "general", "description": "review"}]
    assert places(report, "record-skipped") == ["opencode.db:part.id=prt_6"]


@pytest.mark.parametrize(
    ("part_id", "kept", "discarded"),
    [("prt_b2", ["kept"], 3), (None, None, 5), ("prt_none", ["kept", "gone"], 2)],
)
def test_a_revert_keeps_what_is_before_it(
    part_id: str | None, kept: list[str] | None, discarded: int
) -> None:
    data = v1(
        [user(1), answer(2), user(3)],
        [
            text("prt_a1", "msg_1", "q"),
            text("prt_b1", "msg_2", "kept"),
            text("prt_b2", "msg_2", "gone"),
            text("prt_c1", "msg_3", "gone too"),
        ],
        revert={"messageID": "msg_2", **({"partID": part_id} if part_id else {})},
    )
    (session,), report = of(data)
    assert said(session) == [("q", kept or [])]
    assert counts(report) == {"message-discarded": discarded}


def test_an_answer_that_is_an_error_aborts_its_turn() -> None:
    limit = {"name": "APIError", "data": {"message": "429", "responseHeaders": {"x": "y"}}}
    data = v1(
        [
            user(1),
            answer(2, error=limit, tokens=ZERO, cost=0),
            user(3),
            answer(4, error={"name": "MessageOutputLengthError"}, tokens=SPENT),
        ],
        [
            text("prt_1", "msg_1", "q1"),
            text("prt_3", "msg_3", "q2"),
            text("prt_4", "msg_4", "half"),
        ],
    )
    (session,), report = of(data)
    first, second = session.turns
    assert (first.aborted, first.steps) == (True, [])
    assert (first.extra or {})["errors"] == [{"name": "APIError", "message": "429"}]
    assert second.aborted
    assert (second.steps[0].extra or {})["error"] == {"name": "MessageOutputLengthError"}
    assert places(report, "record-aside") == ["opencode.db:message.id=msg_2"]
    (session,), report = of(
        v2(
            ("user", {"text": "q1"}),
            ("assistant", {"content": [], "error": {"type": "aborted", "message": "stop"}}),
            ("user", {"text": "q2"}),
            (
                "assistant",
                {"content": [{"type": "text", "text": "half"}], "error": {"message": "stop"}},
            ),
        )
    )
    first, second = session.turns
    assert (first.aborted, second.aborted) == (True, True)
    assert (first.extra or {})["errors"] == [{"name": "aborted", "message": "stop"}]
    assert (second.steps[0].extra or {})["error"] == {"message": "stop"}
    assert counts(report) == {"record-aside": 1}


def test_a_compaction_keeps_what_it_cost() -> None:
    rows = [user(1), answer(2), user(3)]
    parts = [
        text("prt_1", "msg_1", "q1"),
        text("prt_2", "msg_2", "a1"),
        part("prt_3", "msg_3", {"type": "compaction", "auto": True}),
        text("prt_5", "msg_5", "q2"),
    ]
    made = {"mode": "compaction", "summary": True, "tokens": SPENT, "cost": 0.5}
    data = v1([*rows, answer(4, **made), user(5)], [*parts, text("prt_4", "msg_4", "Sum")])
    (session,), report = of(data)
    compaction = session.turns[1].compaction
    assert compaction is not None
    assert (compaction.summary, compaction.extra) == ("Sum", {"usage": SPENT, "cost": 0.5})
    assert not report.entries
    (session,), report = of(v1([*rows, answer(4, **made), user(5)], parts))
    _, step = session.turns[0].steps
    assert step.usage is not None
    assert (step.usage.output_tokens, step.content) == (900, [])
    assert counts(report) == {"compacted-unavailable": 1}
    failed = {"summary": True, "error": {"name": "MessageAbortedError"}}
    (session,), report = of(v1([*rows, answer(4, **failed), user(5)], parts))
    assert (session.turns[0].extra or {})["errors"] == [{"name": "MessageAbortedError"}]
    assert not session.turns[0].aborted
    assert counts(report) == {"compacted-unavailable": 1, "record-aside": 1}


def test_encrypted_reasoning_of_version_2_is_counted() -> None:
    thought = {"type": "reasoning", "text": "", "metadata": {"encrypted": "z"}}
    content = [thought, {"type": "text", "text": "a"}]
    _, report = of(v2(("user", {"text": "q"}), ("assistant", {"content": content})))
    assert counts(report) == {"reasoning-encrypted": 1}


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("New session - 2026-01-01T00:00:00.000Z", None),
        ("Child session - 2026-01-01T00:00:00.000Z", None),
        ("New session - planning the move", "New session - planning the move"),
    ],
)
def test_only_a_title_with_a_time_stands_in_for_none(title: str, kept: str | None) -> None:
    session = ("ses_1", None, None, title, None, None, T)
    rows = {"message": [user(1)], "part": [text("prt_1", "msg_1", "hi")]}
    (found,), _ = of(database(V1, session=[session], **rows))
    assert found.title == kept
