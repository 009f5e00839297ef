"""The Go OpenCode (archived; Crush descends from it): one SQLite database per project.

``<project>/.opencode/opencode.db``, tables ``sessions``, ``messages`` (``parts`` is a JSON list of
``{type, data}``) and ``files`` (snapshots of edits, not read). Times are milliseconds; Crush writes
seconds; the size of the number decides.

A record is a row of ``messages``.

- Results are messages of role ``tool``, with ``x-dcb.metadata``; a text beside them belongs to the
  last one, a message of text only answers the oldest open call.
- An answer's ``finish`` part says whether it was cut off: that aborts its turn, and the message and
  details of a failure are ``x-dcb.error {name, message, details}`` of the step. An answer that is
  nothing else is aside in ``x-dcb.errors`` of the turn.
- Files of other types than images (``binary`` parts) are attachments with their bytes.
- The summary message of a compaction is its summary, not dialogue; what came before is shadowed.
- Sessions with a parent are subagents, ``x-dcb.parent``; their id is ``<message>$$<call>``.
- Tokens and cost are totals of a session, kept in ``x-dcb.usage``; a step has none.
- The database does not say its project; the folder above ``.opencode`` is the working directory.
"""

from __future__ import annotations

from converters.formats.opencode_go.read import listing, read
from converters.types import Capabilities, Format, Head, Match

__all__ = ["FORMAT"]


def probe(head: Head) -> Match | None:
    """Recognise sessions and messages with parts, without what only Crush has."""
    if not head.is_sqlite or not {"sessions", "messages"} <= head.tables:
        return None
    if b"parts TEXT" not in head.data or b"is_summary_message" in head.data:
        return None
    return Match(88, "tables sessions and messages (parts) of the Go OpenCode")


FORMAT = Format(
    id="opencode-go",
    title="OpenCode (Go, archived)",
    kinds=frozenset({"sqlite"}),
    probe=probe,
    read=read,
    listing=listing,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        attachments=True,
        compacted=True,
        timestamps=True,
        notes={
            "cwd": "opencode-go: the folder that holds .opencode",
            "compacted": "opencode-go: the summary message",
            "images": "opencode-go: binary parts",
            "attachments": "opencode-go: binary parts",
        },
    ),
)
