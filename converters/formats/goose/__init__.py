r"""Goose sessions: the SQLite store since 1.10, and the JSON Lines files before it.

Store: ``~/.local/share/goose/sessions/sessions.db`` (Linux),
``~/Library/Application Support/Block/goose/sessions/sessions.db`` (macOS),
``%APPDATA%\Block\goose\data\sessions\sessions.db`` (Windows), or below
``$GOOSE_PATH_ROOT/data`` where that is set. Older builds: ``sessions/<date>_<time>.jsonl`` beside
it, which stay after the migration: found in a folder, one whose session the store beside it holds
is left out (``duplicate-record``).
Seen: schema versions up to 16, columns vary.

A record is a row of ``messages`` (or ``sessions`` without messages), or a line.

- A user message that holds tool responses carries results; text beside them is a prompt.
- ``metadata.agentVisible: false`` marks what a compaction took out of the context: a turn of which
  the agent sees nothing is shadowed. ``userVisible: false`` is text for the model only: a
  compaction summary where the agent sees nothing of what came before, else an injection. A prompt
  that nobody sees and that comes again is the one that a compaction keeps (``duplicate-record``).
- Subagents (``parent_session_id``) are sessions with ``x-dcb.parent``; hidden, scheduled and other
  kinds keep ``session_type`` in ``x-dcb.native``. ``--subagents skip`` leaves out the first, and
  sessions of type ``sub_agent`` and ``hidden``.
- Token counts exist per session only and stay in ``x-dcb.usage``: a step has none.
- ``created_timestamp`` is in seconds, in some rows milliseconds.

Source: Goose's session manager (schema version 16) and its ``context_mgmt``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from converters.formats.goose.read import listing, read
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from typing import Any

__all__ = ["FORMAT"]

_STORE: Final = "sessions/sessions.db"
_OLD: Final = "sessions/*.jsonl"


def probe(head: Head) -> Match | None:
    """Recognise the tables of the store, or the first line of an older file."""
    if head.is_sqlite:
        if {"sessions", "messages", "schema_version"} <= head.tables:
            score = 90 if b"content_json" in head.data else 60
            return Match(score, "tables sessions, messages (content_json) and schema_version")
        if {"sessions", "messages"} <= head.tables and b"content_json" in head.data:
            return Match(88, "tables sessions and messages (content_json)")
        return None
    first: dict[str, Any] = head.records[0] if head.records else {}
    if "working_dir" in first and "message_count" in first:
        return Match(90, "a first line with working_dir and message_count")
    return None


def _places(*roots: str) -> tuple[str, ...]:
    roots = (*roots, "$GOOSE_PATH_ROOT/data")
    return tuple(f"{root}/{part}" for root in roots for part in (_STORE, _OLD))


FORMAT = Format(
    id="goose",
    title="Goose session store",
    kinds=frozenset({"sqlite", "jsonl"}),
    probe=probe,
    read=read,
    listing=listing,
    evidence="B",
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        attachments=False,
        compacted=True,
        timestamps=True,
        notes={
            "images": "goose: image blocks with inline data",
            "compacted": "goose: messages that the agent no longer sees are shadowed",
            "usage": "goose: session totals only, kept in x-dcb.usage",
        },
    ),
    places={
        "linux": _places(".local/share/goose"),
        "darwin": _places("Library/Application Support/Block/goose", ".local/share/goose"),
        "win32": _places("AppData/Roaming/Block/goose/data"),
    },
    resume="goose session --resume --session-id {id}",
)
