"""OpenAI Responses API: requests with ``input`` items, responses with ``output`` items.

Read: ``{"instructions", "input": [...]}`` (a string is one user message), a bare array of
typed items, one item or one conversation per line, response objects (``object:
"response"``, usage, time), request and response in one object. A user message opens a
turn. Reasoning, one assistant message and the calls after it are one step; an output, a
further message, or reasoning after them begins the next. Calls pair with outputs by
``call_id``. Built-in calls (web search, code interpreter, MCP, image generation ...) are
tool calls; those that carry their output give a result too.

A record is an item. Kept in ``x-dcb``: instructions, item ids, ``encrypted_content``,
annotations, built-in items whole, everything around the items. ``previous_response_id``
and item references say that earlier history is missing: ``history-truncated``.

Written: ``{"model", "instructions", "input"}``, one document or an array of them; a session
that was read from a response is written as one. Lost: times, usage and models of single
steps, error marks of results; two steps with nothing between them that the reader could
tell them apart by are joined (``step-merged``). Source: OpenAI API reference, Responses;
``specs/chat/openai-responses``.
"""

from __future__ import annotations

from converters.formats.openai_responses.read import ID, probe, read
from converters.formats.openai_responses.write import write
from converters.types import Capabilities, Format

__all__ = ["FORMAT"]

FORMAT = Format(
    id=ID,
    title="OpenAI Responses API",
    kinds=frozenset({"json", "jsonl"}),
    probe=probe,
    read=read,
    write=write,
    suffix=".json",
    many=True,
    group="chat-json",
    aliases=("responses",),
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        attachments=True,
        timestamps=True,
        usage=True,
        notes={
            "reasoning": "summaries; ciphertext aside",
            "timestamps": "of responses",
            "usage": "of responses",
        },
    ),
)
