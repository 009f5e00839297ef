"""Claude Code: one session per JSONL file, and its subagents beside it.

Where: ``~/.claude/projects/<slug>/<sessionId>.jsonl`` on every system, ``$CLAUDE_CONFIG_DIR``
moves the root. ``<slug>`` is the working directory with every character but ASCII letters and
digits as ``-``. Subagents: ``<slug>/<sessionId>/subagents/agent-<id>.jsonl`` (2.1), before that
``<slug>/agent-<id>.jsonl`` or lines with ``isSidechain`` in the session's own file.

Versions seen: 1.0 (prompts as plain text), 2.0 (``summary`` records), 2.1 (progress, titles, mode
lines, subagent folders). Source: fact sheet ``claude``; exports of Interchange v1, section 10.

A record is a line. Lines of one API message (same ``message.id``) are one step; its usage is that
of the line with the largest output. Input tokens exclude both cache buckets. Records with a
known uuid and the same content count once. ``summary`` records make a compaction only between
two parts of the conversation; at the top or the end of a file, beside a boundary of 2.1 with its
own summary and at the end of an abandoned branch they are titles. The lines of an agent file are
one conversation, marked as a sidechain or not.

Kept in ``x-dcb``: ``uuid`` and message ``id``, thinking signatures, sealed reasoning and unknown
blocks (``native``), git branch, version, branches off the active path (with ``results`` of calls
that stand before the fork), unknown records, system prompts. Lost, and counted: ``toolUseResult``
(it repeats the result), progress, snapshots, queue and mode records, injected text.

Writing gives a file that ``claude --resume`` opens when it stands under the slug of its working
directory and bears the session's UUID as its name. Results follow the calls that they answer.
Branches, unknown records and system prompts are not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.formats.claude.reader import SUBAGENTS, read
from converters.formats.claude.verify import verify
from converters.formats.claude.writer import native_id, slug, write
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FORMAT", "native_id", "slug", "verify"]

_OWN: Final = frozenset(
    {"file-history-snapshot", "queue-operation", "permission-mode", "last-prompt", "mode"}
)
_SHARED: Final = frozenset(
    {"summary", "progress", "system", "attachment", "ai-title", "custom-title"}
)
_OTHER_TOOLS: Final = frozenset({"workspace-directories", "runtime-config"})
_OTHER_FOLDERS: Final = (".qoder", ".qwenworkcn", ".qwen", ".codebuddy", ".workbuddy")


def probe(head: Head) -> Match | None:
    """Recognise the envelope of user and assistant lines, or the records around them."""
    score, reason = 0, ""
    for record in head.records:
        kind = record.get("type")
        if not isinstance(kind, str):
            continue
        if kind in _OTHER_TOOLS:
            return None
        if kind in ("user", "assistant"):
            found, why = _message(record)
        elif kind in _OWN and (
            "sessionId" in record or "messageId" in record or "snapshot" in record
        ):
            found, why = 85, f"record of type {kind}"
        elif kind == "summary" and "leafUuid" in record:
            found, why = 80, "summary with leafUuid"
        elif kind in _SHARED and ("sessionId" in record or kind == "summary"):
            found, why = 55, f"record of type {kind}"
        else:
            continue
        if found > score:
            score, reason = found, why
    if not score:
        return None
    if any(folder in head.name for folder in _OTHER_FOLDERS):
        return Match(min(score, 60), reason + ", in the folder of another tool")
    return Match(score, reason)


def _message(record: Mapping[str, Any]) -> tuple[int, str]:
    message = record.get("message")
    if not isinstance(message, dict) or not isinstance(record.get("type"), str):
        return 0, ""
    marks = sum(name in record for name in ("sessionId", "uuid", "parentUuid", "isSidechain"))
    if marks >= 2 and (message.get("role") == record["type"] or "content" in message):
        return (90 if marks >= 3 else 80), "user and assistant lines with sessionId and uuid"
    if message.get("role") == record["type"]:
        return 60, "user and assistant lines with a message"
    return 0, ""


_PLACES: Final = ("$CLAUDE_CONFIG_DIR/projects/*/*.jsonl", ".claude/projects/*/*.jsonl")

FORMAT: Final = Format(
    id="claude",
    title="Claude Code",
    kinds=frozenset({"jsonl"}),
    probe=probe,
    read=read,
    write=write,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        branches=True,
        attachments=True,
        compacted=True,
        timestamps=True,
        usage=True,
        notes={
            "branches": "forks at human prompts; the reference reader has none",
            "attachments": "documents, with their bytes",
            "compacted": "boundaries of 2.x, and summary records of 2.0",
        },
    ),
    evidence="A",
    suffix=".jsonl",
    aliases=("claude-code",),
    places=dict.fromkeys(("linux", "darwin", "win32"), _PLACES),
    companions=(SUBAGENTS,),
    resume="claude --resume {id}",
    file_name=native_id,
)
