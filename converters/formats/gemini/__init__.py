"""Gemini CLI chat recordings and checkpoints.

``~/.gemini/tmp/<project>/chats/session-<time>-<id>.json`` (older builds) or ``.jsonl`` (newer);
``<project>`` is the sha256 of the project root or a short name from ``~/.gemini/projects.json``.
Subagents lie in ``chats/<session id>/<id>.jsonl`` and are sessions of their own. Where a ``.json``
has its ``.jsonl`` beside it, the tool went on in the second, and that counts. ``/chat save TAG``
writes ``checkpoint-TAG.json``, the raw contents of the API. ``~/.gemini`` is shared with
Antigravity, whose files are another format.

A record is a message of ``messages``, a line of the recording or a content of a checkpoint. The
recording is replayed: a line with a known id replaces the message (``duplicate-record``),
``{"$set": {...}}`` merges into the metadata, and ``{"$rewindTo": id}`` takes back that message and
what follows: a branch. A ``messages`` in the metadata replaces the list, as compactions do; what
is gone then stays in front, shadowed, unless it comes back. Within one list nothing replaces
anything, whatever the ids, and an empty id is none. A file whose first line is no whole value
is one document, unless messages follow on lines of their own.

- Tool results stand inside their calls; in checkpoints in the next user content.
- ``thoughts`` become reasoning, subject and description.
- ``tokens.input`` includes cached tokens, which are taken off; ``output`` excludes thoughts, which
  are added. The provider's own numbers stay in ``x-dcb.usage`` of the usage. Zeros are no report.
- ``info``, ``warning`` and ``error`` messages are banners of the program, skipped; "Request
  cancelled." aborts the turn. The environment that the program tells the model is skipped too.
- A ``<state_snapshot>`` is a compaction. A recording rewritten by a compaction has none
  (``compacted-unavailable``).
- The working directory is the folder of ``directories``, ``projects.json`` or
  ``trustedFolders.json`` whose sha256 is ``projectHash``, else the first of ``directories``.

Lost: the display copies of results (``resultDisplay``) where a result is there.
Source: Gemini CLI's ``chatRecordingService``.
"""

from __future__ import annotations

from typing import Any, Final

from converters.formats.gemini.projects import LISTS
from converters.formats.gemini.read import TAGGED, contents_of, read
from converters.formats.gemini.walk import is_preamble
from converters.types import Capabilities, Format, Head, Match

__all__ = ["FORMAT"]

_TYPES: Final = ("user", "gemini", "model", "info", "error", "warning")


def probe(head: Head) -> Match | None:
    """Recognise ``sessionId`` with messages that have a type, or the first line of a recording."""
    contents = contents_of(head.root)
    if contents is not None:
        return _probe_checkpoint(contents, head.name)
    first = head.records[0] if head.records else {}
    if not isinstance(first.get("sessionId"), str):
        return None
    messages = first.get("messages")
    if isinstance(messages, list):
        typed = any(_is_message(message) for message in messages[:20])
        if "projectHash" in first and (typed or not messages):
            return Match(92, "sessionId, projectHash and typed messages")
        return Match(85, "sessionId and messages of type user or gemini") if typed else None
    if "projectHash" in first and "type" not in first:
        return Match(92, "a recording that starts with sessionId and projectHash")
    return None


def _probe_checkpoint(contents: list[Any], name: str) -> Match | None:
    """Recognise a checkpoint by what the program tells the model first, or by its name."""
    first = contents[0]
    parts = first.get("parts") if isinstance(first, dict) else None
    part = parts[0] if isinstance(parts, list) and parts else None
    text = part.get("text") if isinstance(part, dict) else None
    if isinstance(text, str) and is_preamble(text):
        return Match(90, "contents that start with Gemini CLI's environment")
    return Match(85, "contents in a checkpoint") if TAGGED.fullmatch(name) else None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _TYPES and "content" in value


_PLACES: Final = (
    ".gemini/tmp/*/chats/session-*.json",
    ".gemini/tmp/*/chats/session-*.jsonl",
    ".gemini/tmp/*/chats/*/*.jsonl",
    ".gemini/tmp/*/checkpoint-*.json",
    ".gemini/history/*/chats/session-*.json",
    ".gemini/history/*/chats/session-*.jsonl",
)

FORMAT = Format(
    id="gemini",
    title="Gemini CLI session",
    kinds=frozenset({"json", "jsonl"}),
    probe=probe,
    read=read,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        timestamps=True,
        usage=True,
        attachments=True,
        branches=True,
        compacted=True,
        notes={
            "branches": "gemini: rewound messages",
            "compacted": "gemini: the state snapshot of a checkpoint",
            "images": "gemini: inline data of prompts and results",
            "timestamps": "gemini: of each message",
            "usage": "gemini: `tokens` of each message",
            "attachments": "gemini: files kept in x-dcb",
        },
    ),
    aliases=("gemini-cli",),
    places={"linux": _PLACES, "darwin": _PLACES, "win32": _PLACES},
    companions=("{stem}.json", "logs.json", "../logs.json", *LISTS),
    resume="gemini --resume {id}",
)
