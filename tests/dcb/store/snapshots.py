"""Snapshots and stores for tests."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from dcb.snapshot.model import Meta, Preference, Snapshot, SummarySection, VerbatimEntry

if TYPE_CHECKING:
    from dcb import store

PASS = "correct horse battery"  # noqa: S105 - nobody's
NOW = 1_772_323_200_000


def snapshot(
    name: str = "snap_1", text: str = "最终采用方案 A：基于 FTS5 的本地检索。", **meta: Any
) -> Snapshot:
    """A small snapshot whose words are all in ``text``."""
    given_: dict[str, Any] = {
        "title": "登录模块设计",
        "source_conversation_id": "conv-1",
        "created_at": NOW,
    } | meta
    return Snapshot(
        meta=Meta(snapshot_id=name, **given_),
        verbatim=(VerbatimEntry(id="v-001", source_message_id="m1", content=text, created_at=NOW),),
        summary=(SummarySection(heading="背景与目标", bullets=("目标是零丢失。",)),),
        preferences=(
            Preference(scope="style", key="comment-style", value="加详细注释", explicit=True),
        ),
    )


def ids(found: list[store.Hit]) -> list[str]:
    return [hit.snapshot_id for hit in found]


def insert_as_program(db: sqlite3.Connection, doc: dict[str, Any], text: str = "") -> None:
    """Save as program 0.2.0 does: an upsert, then the index row anew."""
    tags = json.dumps(doc["tags"], ensure_ascii=False)
    db.execute(
        "INSERT INTO snapshots VALUES (?, 'conv', ?, ?, ?, '1.0', 0, ?, '', ?, ?, ?)"
        " ON CONFLICT(snapshot_id) DO UPDATE SET title = excluded.title, tags = excluded.tags,"
        " description = excluded.description, document = excluded.document,"
        " updated_at = excluded.updated_at",
        (
            doc["id"],
            doc["title"],
            doc["description"],
            tags,
            doc["summary"] is None,
            text,
            doc["at"],
            doc["at"],
        ),
    )
    db.execute("DELETE FROM snapshot_fts WHERE snapshot_id = ?", (doc["id"],))
    if doc["summary"] is not None:
        db.execute(
            "INSERT INTO snapshot_fts VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                doc["id"],
                doc["title"],
                doc["description"],
                " ".join(doc["tags"]),
                doc["summary"],
                doc["verbatim"],
                doc["pref"],
            ),
        )


DOC: dict[str, Any] = {
    "id": "snap_p", "title": "缓存方案", "description": "d", "tags": ["x"], "at": 5,
    "summary": "背景", "verbatim": "用 LRU 缓存", "pref": "",
}  # fmt: skip
