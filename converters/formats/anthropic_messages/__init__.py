"""Anthropic Messages API: request bodies, response messages, pairs of both.

Read: ``{"system", "messages": [...]}``, a bare array of messages, one message or one
conversation per line, response messages (``type: "message"`` with usage), request and
response in one object, batch lines (``params`` aside). A user message that holds only
``tool_result`` blocks is no prompt; text beside results opens a turn. Assistant records in
a row with one message id are one step. Results of server tools go to the step of their call.

Kept in ``x-dcb``: system prompts, signatures of thinking, redacted thinking and where it
stood, citations, message ids, ``stop_reason`` and other members, everything around the
messages. They come back when this format is written. A whole block of ``<system-reminder>``
text was put in by a host, not by a person: ``injection-skipped``.

Written: ``{"model", "system", "messages"}``, one document or an array of them. Lost: times,
and usage and models of single steps unless the session came from this format; compaction
summaries become a system prompt. Source: Anthropic API reference, Messages;
``specs/chat/anthropic-messages``.
"""

from __future__ import annotations

from converters.formats.anthropic_messages.read import ID, probe, read
from converters.formats.anthropic_messages.write import write
from converters.types import Capabilities, Format

__all__ = ["FORMAT"]

FORMAT = Format(
    id=ID,
    title="Anthropic Messages API",
    kinds=frozenset({"json", "jsonl"}),
    probe=probe,
    read=read,
    write=write,
    suffix=".json",
    many=True,
    group="chat-json",
    aliases=("anthropic",),
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        attachments=True,
        usage=True,
        notes={"usage": "of response messages"},
    ),
)
