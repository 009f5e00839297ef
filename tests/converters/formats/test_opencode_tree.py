"""OpenCode's JSON tree: its two layouts, damaged files, and the database beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from converters.reading import Reading
from converters.registry import lookup
from dcb.scan import Found, Machine, scan
from tests.converters.formats.opencode_stores import T, text, user, v1
from tests.reading import counts

if TYPE_CHECKING:
    from pathlib import Path

    from converters.ir import Session
    from converters.ledger import Report

SESSION = {"id": "ses_1", "title": "Title", "directory": "/home/user", "time": {"created": T}}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def make(folder: Path, files: dict[str, Any]) -> Path:
    """Write files below a folder; what is no bytes as JSON."""
    for name, value in files.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return folder


def read(folder: Path) -> tuple[list[Session], Report]:
    reading = Reading(folder)
    sessions = list(reading)
    assert not reading.problems
    assert reading.report.balanced
    return sessions, reading.report


def prompts(session: Session) -> list[tuple[str, int]]:
    return [(turn.prompt, len(turn.steps)) for turn in session.turns]


def tree(folder: Path, **more: Any) -> Path:
    files = {
        "session/p/ses_1": SESSION,
        "message/ses_1/msg_1": {"role": "user", "time": {"created": T + 1}},
        "message/ses_1/msg_2": {"role": "assistant"},
        "message/ses_1/msg_3": {"role": "user", "time": {"created": T + 3}},
        "part/msg_1/prt_1": said("q1"),
        "part/msg_2/prt_1": said("a1"),
        "part/msg_3/prt_1": said("q2"),
    }
    return make(folder, {**files, **{name.replace("__", "/"): v for name, v in more.items()}})


def test_ids_say_the_order(tmp_path: Path) -> None:
    (session,), report = read(tree(tmp_path / "storage"))
    assert prompts(session) == [("q1", 1), ("q2", 0)]
    assert not report.entries


def test_damaged_files_are_repaired_and_counted(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        part__msg_2__prt_1=b'{"type": "text", "text": "a1 \\ud83d"}',
        part__msg_2__prt_2=b'{"type": "text", "text": "whole", "time": {"start": 1',
        part__msg_2__prt_3=b"",
        part__msg_2__prt_4=b'\xef\xbb\xbf{"type": "text", "text": "marked"}',
    )
    (session,), report = read(folder)
    texts = [getattr(block, "text", None) for block in session.turns[0].steps[0].content]
    assert texts == ["a1 �", "whole", "marked"]
    entries = {entry.rule: entry.places for entry in report.entries}
    assert entries == {
        "encoding-repaired": [f"{tmp_path}:part/msg_2/prt_4.json"],
        "lone-surrogate": [f"{tmp_path}:part/msg_2/prt_1.json"],
        "malformed-record": [f"{tmp_path}:part/msg_2/prt_3.json"],
        "truncated-input": [f"{tmp_path}:part/msg_2/prt_2.json"],
    }


def test_what_has_lost_its_session_or_message(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        message__ses_gone__msg_7={"role": "user"},
        part__msg_7__prt_1=said("lost"),
        part__msg_gone__prt_1=said("whose"),
        session__p__ses_2=b"",
        message__ses_2__msg_8={"role": "user"},
        part__msg_8__prt_1=said("of a broken file"),
    )
    sessions, report = read(folder)
    assert [(s.meta.id, s.turns[0].prompt) for s in sessions] == [
        ("ses_1", "q1"),
        ("ses_2", "of a broken file"),
        ("ses_gone", "lost"),
    ]
    assert report.records.total == 12
    assert counts(report) == {"history-truncated": 2, "malformed-record": 2}


def test_the_earlier_layout(tmp_path: Path) -> None:
    make(
        tmp_path / "storage" / "session",
        {
            "info/ses_1": SESSION,
            "message/ses_1/msg_1": {"role": "user"},
            "part/ses_1/msg_1/prt_1": said("q1"),
        },
    )
    (session,), report = read(tmp_path / "storage")
    assert prompts(session) == [("q1", 0)]
    assert report.records.mapped == report.records.total == 2


def test_both_layouts_in_one_folder_count_a_file_once(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        session__message__ses_1__msg_1={"role": "user"},
        session__part__ses_1__msg_1__prt_1=said("q1"),
        session__part__ses_1__msg_1__prt_2=said("more"),
    )
    (session,), report = read(folder)
    assert prompts(session) == [("q1\nmore", 1), ("q2", 0)]
    assert counts(report) == {"duplicate-record": 2}


def both(folder: Path) -> Path:
    """Make a folder with a database of ``ses_1`` and a tree of ``ses_1`` and ``ses_2``."""
    tree(
        folder / "storage",
        session__p__ses_2={**SESSION, "id": "ses_2"},
        message__ses_2__msg_4={"role": "user"},
        part__msg_4__prt_1=said("only here"),
    )
    data = v1([user(1)], [text("prt_1", "msg_1", "from the database")])
    (folder / "opencode.db").write_bytes(data)
    return folder


def test_the_database_comes_before_the_tree(tmp_path: Path) -> None:
    sessions, report = read(both(tmp_path))
    assert [(s.meta.id, s.turns[0].prompt) for s in sessions] == [
        ("ses_1", "from the database"),
        ("ses_2", "only here"),
    ]
    assert report.records.total == 10
    assert counts(report) == {"duplicate-record": 6}


def test_a_tree_that_is_named_is_read_whole(tmp_path: Path) -> None:
    sessions, report = read(both(tmp_path) / "storage")
    assert [s.meta.id for s in sessions] == ["ses_1", "ses_2"]
    assert not report.entries


def test_a_scan_lists_a_session_once(tmp_path: Path) -> None:
    both(tmp_path / ".local/share/opencode")
    listed = scan(lookup("opencode"), Machine(tmp_path, {}, "linux"))
    found = [(one.id, one.path.rpartition("/")[2]) for one in listed if isinstance(one, Found)]
    assert found == [("ses_1", "opencode.db"), ("ses_2", "storage")]
