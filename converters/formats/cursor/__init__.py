r"""Cursor: the editor's database, and the agent's transcripts.

Editor: ``<User>/globalStorage/state.vscdb`` (SQLite; ``<User>`` is ``~/.config/Cursor/User`` on
Linux, ``~/Library/Application Support/Cursor/User`` on macOS, ``%APPDATA%\Cursor\User`` on
Windows), table ``cursorDiskKV``: ``composerData:<id>`` is a session, ``bubbleId:<id>:<bubble>`` a
message. Only these keys are read; the database also holds tokens of the account.
Agent: ``~/.cursor/projects/<project>/agent-transcripts/<id>/<id>.jsonl`` (or ``.txt``), a poorer
copy.

A record is a bubble that a session's headers name (or an inline message of older sessions), and
the session row where it has none; in a transcript, a line.

- The headers give the order. A header without its row, and a bubble that no header names (left by
  an edit), are counted.
- Call and result stand in one bubble (``toolFormerData``). Transcripts have no results, times or
  models at all: each call is a ``tool-result-missing``, ids are made.
- Wrappers of the program (``<user_query>``, ``<attached_files>`` ...) are taken off user text.
- ``[REDACTED]`` in transcripts is text that Cursor withheld; it is taken off and counted.

Not read: the agent's ``store.db`` (no sample is known), the stores before version 0.40, usage of
stores where the counts are zero. Subagents are sessions with ``x-dcb.parent``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.formats.cursor.editor import listing, read_editor
from converters.formats.cursor.transcript import is_text_transcript, read_transcript
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from converters.ir import Session
    from converters.types import Context, Input

__all__ = ["FORMAT"]


def probe(head: Head) -> Match | None:
    """Recognise the table of the editor, or lines with role and message.content."""
    if head.is_sqlite:
        if "cursorDiskKV" in head.tables:
            return Match(92, "table cursorDiskKV")
        return None
    first: Mapping[str, Any] = head.records[0] if head.records else {}
    message = first.get("message")
    if (
        first.get("role") in ("user", "assistant")
        and isinstance(message, dict)
        and "content" in message
        and "type" not in first
    ):
        return Match(88, "lines with role and message.content, without type")
    if is_text_transcript(head.text):
        return Match(70, "text with user: and assistant: lines and a user_query")
    return None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a database or the one of a transcript."""
    if source.head.is_sqlite:
        yield from read_editor(source, ctx)
    else:
        yield from read_transcript(source, ctx)


def _places(user: str) -> tuple[str, ...]:
    agent = ".cursor/projects/*/agent-transcripts"
    return (
        f"{user}/globalStorage/state.vscdb",
        f"{agent}/*/*.jsonl",
        f"{agent}/*.jsonl",
        f"{agent}/*.txt",
        f"{agent}/*/*.txt",
    )


FORMAT = Format(
    id="cursor",
    title="Cursor (editor and agent transcripts)",
    kinds=frozenset({"sqlite", "jsonl", "text"}),
    probe=probe,
    read=read,
    listing=listing,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        cwd=True,
        timestamps=True,
        usage=True,
        compacted=True,
        notes={
            "tool_results": "cursor: the editor's database; transcripts have none",
            "reasoning": "cursor: the editor's database; transcripts have none",
            "cwd": "cursor: the editor's database; transcripts have none",
            "timestamps": "cursor: the editor's database; transcripts have none",
            "usage": "cursor: the editor's database, on the last answer of a turn",
            "compacted": "cursor: latestConversationSummary of the editor's database",
        },
    ),
    places={
        "linux": _places(".config/Cursor/User"),
        "darwin": _places("Library/Application Support/Cursor/User"),
        "win32": _places("AppData/Roaming/Cursor/User"),
    },
)
