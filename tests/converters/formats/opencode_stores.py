"""OpenCode stores made in memory, for reader tests."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

T = 1767225600000

V1 = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, model TEXT,
  revert TEXT, time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
  data TEXT);
"""
V2 = """
CREATE TABLE session_v2 (id TEXT PRIMARY KEY, title TEXT, directory TEXT, model TEXT,
  parent_id TEXT, time_created INTEGER);
CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER,
  time_created INTEGER, data TEXT);
"""


def database(script: str, **tables: list[tuple[Any, ...]]) -> bytes:
    """Give a database; rows are as long as their tables are wide, objects become JSON."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(script)
    for table, rows in tables.items():
        for row in rows:
            values = [json.dumps(v) if isinstance(v, dict) else v for v in row]
            marks = ",".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608
    connection.commit()
    return connection.serialize()


def v1(
    messages: list[tuple[Any, ...]],
    parts: list[tuple[Any, ...]],
    model: Any = None,
    revert: Any = None,
) -> bytes:
    """Give a version 1 database with the session ``ses_1``."""
    session = ("ses_1", None, "/home/user", "Title", model, revert, T)
    return database(V1, session=[session], message=messages, part=parts)


def v2(*rows: tuple[str, Any], model: Any = None) -> bytes:
    """Give a version 2 database with the session ``ses_1`` of ``(type, data)``."""
    made = [
        (f"msg_{n}", "ses_1", kind, n, T + n, data) for n, (kind, data) in enumerate(rows, start=1)
    ]
    session = ("ses_1", "Title", "/home/user", model, None, T)
    return database(V2, session_v2=[session], session_message=made)


def user(n: int, session: str | None = "ses_1", **more: Any) -> tuple[Any, ...]:
    """Give the row of a human message, ``msg_N``."""
    return (f"msg_{n}", session, T + n, {"role": "user", "time": {"created": T + n}, **more})


def answer(n: int, **more: Any) -> tuple[Any, ...]:
    """Give the row of an assistant message, ``msg_N``."""
    data = {"role": "assistant", "time": {"created": T + n}, "modelID": "demo-model", **more}
    return (f"msg_{n}", "ses_1", T + n, data)


def part(identity: str, message: str, data: Any, session: str | None = "ses_1") -> tuple[Any, ...]:
    """Give the row of a part."""
    return (identity, message, session, T, data)


def text(identity: str, message: str, said: str, **more: Any) -> tuple[Any, ...]:
    """Give the row of a text part."""
    return part(identity, message, {"type": "text", "text": said, **more})
