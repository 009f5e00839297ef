"""Goose's store: cells, what the agent no longer sees, subagents, files left by the migration."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from converters.reading import Reading
from converters.registry import lookup
from dcb.scan import Found, Machine, scan
from tests.reading import counts, lines
from tests.reading import read as read_bytes
from tests.wrong_types import WRONG

if TYPE_CHECKING:
    from converters.ir import Session
    from converters.ledger import Report

(GOOSE,) = lookup("goose")
TABLES = """
    CREATE TABLE schema_version (version INTEGER);
    CREATE TABLE sessions (id, name, session_type, parent_session_id, working_dir, created_at,
                           updated_at, model_config_json);
    CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id, session_id, role, content_json,
                           created_timestamp, metadata_json);
"""
GONE = {"userVisible": True, "agentVisible": False}
MODEL = {"userVisible": False, "agentVisible": True}
NOBODY = {"userVisible": False, "agentVisible": False}


def text(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}]


def message(role: Any, content: Any, metadata: Any = None, session: str = "s") -> tuple[Any, ...]:
    content = content if isinstance(content, str | bytes) else json.dumps(content)
    metadata = json.dumps(metadata) if isinstance(metadata, dict) else metadata
    return (session, role, content, metadata)


def session(name: str = "s", kind: Any = "user", parent: Any = None) -> tuple[Any, ...]:
    return (name, "A name", kind, parent, '{"model_name":"m"}')


def store(messages: list[tuple[Any, ...]], *sessions: tuple[Any, ...]) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    connection.executemany(
        "INSERT INTO sessions VALUES (?, ?, ?, ?, '/w', '2026-01-01 00:00:00', NULL, ?)",
        sessions or [session()],
    )
    connection.executemany(
        "INSERT INTO messages VALUES (NULL, NULL, ?, ?, ?, 1767225600, ?)", messages
    )
    connection.commit()
    return connection.serialize()


def read(*messages: tuple[Any, ...]) -> tuple[Session, Report]:
    (found,), report = read_bytes(GOOSE, store(list(messages)), "sessions.db")
    return found, report


def prompts(found: Session) -> list[tuple[str, bool, str | None]]:
    """Give prompt, whether it is shadowed, and the summary before it, of each turn."""
    return [
        (turn.prompt, turn.shadowed, turn.compaction.summary if turn.compaction else None)
        for turn in found.turns
    ]


def test_cells_may_be_blobs_and_are_repaired() -> None:
    half = '[{"type":"text","text":"half \\ud83d"}]'
    found, report = read(
        message(b"user", json.dumps(text("q")).encode(), b'{"userVisible":true}'),
        message("assistant", half),
        message("assistant", "{oops"),
    )
    assert found.turns[0].prompt == "q"
    assert msgspec.to_builtins(found.turns[0].steps[0].content[0])["text"] == "half \ufffd"
    assert counts(report) == {"lone-surrogate": 1, "malformed-record": 1, "truncated-input": 1}


def test_what_the_agent_no_longer_sees_is_shadowed() -> None:
    found, _ = read(
        message("user", text("q1"), GONE),
        message("assistant", text("a1"), GONE),
        message("user", text("q2")),
        message("assistant", text("a2")),
        message("assistant", text("a note for the person"), GONE),
    )
    assert prompts(found) == [("q1", True, None), ("q2", False, None)]


@pytest.mark.parametrize("words", ["<info-msg>It is 12:00</info-msg>", "Remember the plan."])
@pytest.mark.parametrize("notice", [[{"type": "systemNotification", "msg": "n"}], text("n")])
def test_text_for_the_model_within_a_live_turn_is_no_summary(notice: Any, words: str) -> None:
    found, report = read(
        message("user", text("q1")),
        message("assistant", text("a1")),
        message("assistant", notice, GONE),
        message("user", text(words), MODEL),
        message("user", text("q2")),
    )
    assert prompts(found) == [("q1", False, None), ("q2", False, None)]
    assert counts(report)["injection-skipped"] == 1


def test_two_compactions() -> None:
    """The second hides the summary of the first; the last prompt before it is sent anew."""
    found, report = read(
        message("user", text("q1"), GONE),
        message("assistant", text("a1"), GONE),
        message("user", text("First summary"), NOBODY),
        message("assistant", text("Go on."), NOBODY),
        message("user", text("q2"), GONE),
        message("assistant", text("a2"), GONE),
        message("user", text("q3"), NOBODY),
        message("user", text("<info-msg>now</info-msg>"), MODEL),
        message("user", text("Second summary"), MODEL),
        message("assistant", text("Go on."), MODEL),
        message("user", text("q3")),
        message("assistant", text("a3")),
    )
    assert prompts(found) == [
        ("q1", True, None),
        ("q2", True, "First summary"),
        ("q3", False, "Second summary"),
    ]
    assert counts(report) == {"injection-skipped": 3, "duplicate-record": 1}


def test_subagents_and_hidden_sessions_are_nested() -> None:
    kinds = {"s": "user", "sub": "sub_agent", "hid": "hidden", "job": "scheduled", "kid": "user"}
    sessions = [session(name, kind, "s" if name == "kid" else None) for name, kind in kinds.items()]
    sessions.append(session("none", "hidden"))
    data = store([message("user", text("q"), None, name) for name in kinds], *sessions)
    found, report = read_bytes(GOOSE, data, "sessions.db")
    assert sorted(one.meta.id for one in found) == sorted(kinds)
    assert counts(report) == {"empty-session": 1}
    found, report = read_bytes(GOOSE, data, "sessions.db", subagents="skip")
    assert [one.meta.id for one in found] == ["job", "s"]
    assert counts(report) == {"subagent-skipped": 3}


def old_file() -> bytes:
    return lines(
        {"working_dir": "/w", "description": "d", "message_count": 1},
        {"role": "user", "created": 1750000000, "content": text("q")},
    )


def test_a_file_whose_session_moved_to_the_store_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / ".local/share/goose/sessions"
    folder.mkdir(parents=True)
    moved, left = "20250615_120000", "20250616_120000"
    (folder / "sessions.db").write_bytes(
        store([message("user", text("q"), None, moved)], session(moved))
    )
    for name in (moved, left):
        (folder / f"{name}.jsonl").write_bytes(old_file())
    reading = Reading(tmp_path)
    assert sorted(one.meta.id for one in reading) == [moved, left]
    assert counts(reading.report)["duplicate-record"] == 2
    assert not reading.problems
    assert [one.meta.id for one in Reading(folder / f"{moved}.jsonl")] == [moved]
    listed = scan([GOOSE], Machine(tmp_path, {}, "linux"))
    assert sorted(one.id for one in listed if isinstance(one, Found)) == [moved, left]
    (folder / "sessions.db").write_bytes(b"no store")
    assert sorted(one.meta.id for one in Reading(tmp_path)) == [moved, left]


@pytest.mark.parametrize("column", range(4))
def test_any_value_in_any_cell(column: int) -> None:
    values = [
        *(json.dumps(value) for value in WRONG),
        *(b"\xff", b"[]", None, 1, -1.5, "[7]", "{}"),
    ]
    for value in values:
        row = list(message("user", text("q")))
        row[column] = value
        if value is not None or column:
            read_bytes(GOOSE, store([tuple(row), message("user", text("q2"))]), "sessions.db")
