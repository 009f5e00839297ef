"""Gemini CLI chat recordings.

``~/.gemini/tmp/<project>/chats/session-<time>-<id>.json`` (older builds) or ``.jsonl`` (newer);
``<project>`` is the sha256 of the project root or a short name from ``~/.gemini/projects.json``.
Subagents lie in ``chats/<session id>/<id>.jsonl``. ``~/.gemini`` is shared with Antigravity, whose
files are another format.

A record is a message of ``messages``, or a line of the recording. The recording is replayed: a line
with a known id replaces the message, ``{"$set": {...}}`` merges into the metadata (a ``messages``
in it replaces the list), ``{"$rewindTo": id}`` takes back that message and what follows. What was
replaced is counted as ``duplicate-record``, what was taken back as ``message-discarded``.

- Tool results stand inside their calls. ``thoughts`` become reasoning, subject and description.
- ``tokens.input`` includes cached tokens, they are taken off; ``output`` excludes thoughts, they are
  added. The provider's own numbers stay in ``x-dcb.usage`` of the usage.
- ``info``, ``warning`` and ``error`` messages are banners of the program, skipped.
- The working directory is known only where ``directories`` has one.

When both a ``.json`` and its ``.jsonl`` of one session exist, the tool went on in the second.
Source: Gemini CLI's ``chatRecordingService``.
"""

from __future__ import annotations

from typing import Any, Final

from converters.formats.gemini.read import read
from converters.types import Capabilities, Format, Head, Match

__all__ = ["FORMAT"]

_TYPES: Final = ("user", "gemini", "model", "info", "error", "warning")


def probe(head: Head) -> Match | None:
    """Recognise ``sessionId`` with messages that have a type, or the first line of a recording."""
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


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _TYPES and "content" in value


_PLACES: Final = (
    ".gemini/tmp/*/chats/session-*.json",
    ".gemini/tmp/*/chats/session-*.jsonl",
    ".gemini/tmp/*/chats/*/*.jsonl",
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
        notes={
            "images": "gemini: inline data of prompts and results",
            "timestamps": "gemini: of each message",
            "usage": "gemini: `tokens` of each message",
            "attachments": "gemini: files kept in x-dcb",
        },
    ),
    aliases=("gemini-cli",),
    places={"linux": _PLACES, "darwin": _PLACES, "win32": _PLACES},
    resume="gemini --resume {id}",
)
