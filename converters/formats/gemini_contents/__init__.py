"""Gemini API contents: request bodies, responses, pairs of both.

Read: ``{"systemInstruction", "contents": [...]}``, a bare array of contents, one content or
one conversation per line, responses (``candidates`` with ``usageMetadata``), request and
response in one object; camelCase and snake_case member names. ``role`` is ``user``,
``model`` or ``function``. A content of function responses is no prompt; text beside them
opens a turn. A call without an id is paired with the next response of its name.
``executableCode`` and ``codeExecutionResult`` are a call of ``code_execution`` and its result.

Kept in ``x-dcb``: system instructions, thought signatures, everything around the contents.
Further candidates of a response are branches. Consecutive model contents are steps of one
turn. The files of AI Studio (``chunkedPrompt``) are another format.

Written: ``{"model", "systemInstruction", "contents"}``, one document or an array of them; a
session read from a response is written as one. Lost: times, usage and models of single
steps, compaction summaries become a system instruction. Source: Gemini API reference,
``models.generateContent``; ``specs/chat/gemini-contents``.
"""

from __future__ import annotations

from converters.formats.gemini_contents.read import ID, probe, read
from converters.formats.gemini_contents.write import write
from converters.types import Capabilities, Format

__all__ = ["FORMAT"]

FORMAT = Format(
    id=ID,
    title="Gemini API contents",
    kinds=frozenset({"json", "jsonl"}),
    probe=probe,
    read=read,
    write=write,
    evidence="B",
    suffix=".json",
    many=True,
    group="chat-json",
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        branches=True,
        attachments=True,
        timestamps=True,
        usage=True,
        notes={
            "branches": "further candidates of a response",
            "timestamps": "of responses",
            "usage": "of responses",
        },
    ),
)
