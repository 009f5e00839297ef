"""Databases of Cursor for the tests, made in memory, and what reading them gives."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from converters.ledger import Ledger
from converters.opening import Memory
from converters.registry import lookup
from converters.types import Context, Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from converters.ir import Session
    from converters.ledger import Report

(CURSOR,) = lookup("cursor")


def database(script: str, rows: Mapping[str, list[tuple[Any, ...]]]) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.executescript(script)
    for sql, values in rows.items():
        connection.executemany(sql, values)
    connection.commit()
    return connection.serialize()


def hashed(n: int) -> str:
    return f"{n:02x}" * 32


def tree(*children: int) -> bytes:
    return b"".join(b"\x0a\x20" + bytes.fromhex(hashed(n)) for n in children)


def store(blobs: list[tuple[int, Any]], meta: Any = None) -> bytes:
    """Build a chat's database; what is no bytes is written as JSON, so is ``meta``, as hex."""
    made = [(hashed(n), b if isinstance(b, bytes) else json.dumps(b).encode()) for n, b in blobs]
    text = meta if isinstance(meta, str) else json.dumps(meta).encode().hex()
    return database(
        "CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB);"
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);",
        {
            "INSERT INTO blobs VALUES (?, ?)": made,
            "INSERT INTO meta VALUES ('0', ?)": [] if meta is None else [(text,)],
        },
    )


def items(kv: list[tuple[str, Any]] | None, table: list[tuple[str, Any]]) -> bytes:
    """Build an editor's database; without ``kv`` it has the older table only."""
    create = "CREATE TABLE {} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);"
    script = create.format("ItemTable")
    rows = {"INSERT INTO ItemTable VALUES (?, ?)": [(k, json.dumps(v)) for k, v in table]}
    if kv is not None:
        script += create.format("cursorDiskKV")
        rows["INSERT INTO cursorDiskKV VALUES (?, ?)"] = [(k, json.dumps(v)) for k, v in kv]
    return database(script, rows)


def read(
    data: bytes,
    name: str = "store.db",
    around: dict[str, bytes] | None = None,
    options: Options | None = None,
) -> tuple[list[Session], Report]:
    ledger = Ledger()
    assert CURSOR.read is not None
    source = Memory(data, name, around)
    sessions = list(CURSOR.read(source, Context(ledger, options or Options())))
    report = ledger.report()
    assert report.balanced
    return sessions, report


def rules(report: Report) -> dict[str, int]:
    return {entry.rule: entry.count for entry in report.entries}
