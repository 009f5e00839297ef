"""OpenAI chat-completions messages: requests, responses, fine-tuning JSONL.

Read: ``{"messages": [...]}`` as a request body, a fine-tuning row or a batch line; a bare
array of messages; one message per line; a response (``choices[].message``, usage, time);
request and response in one object; preference rows (``input.messages``,
``preferred_output``); chat rows under ``conversations`` and similar columns whose items
have ``role``. Single documents, arrays, objects of rows, JSONL.

A record is a message, and in files of many conversations also each row. Kept in
``x-dcb``: system prompts, everything around the messages (``tools``, parameters), names,
message ids, unknown members; they come back when this format is written. Further choices
of a response are branches. Vendor reasoning (``reasoning_content`` and others) is read.

Written: one ``{"messages": [...]}`` per line; a session that was read from a response or a
pair is written as one. Lost: times, usage and models of single steps, error marks of
results, working directory, title. Source: OpenAI API reference, chat completions and
fine-tuning; ``specs/chat/openai-messages``.
"""

from __future__ import annotations

from converters.formats.openai_chat.read import probe, read
from converters.formats.openai_chat.write import write
from converters.types import Capabilities, Format

__all__ = ["FORMAT"]

FORMAT = Format(
    id="openai-chat",
    title="OpenAI chat-completions messages",
    kinds=frozenset({"json", "jsonl"}),
    probe=probe,
    read=read,
    write=write,
    suffix=".jsonl",
    many=True,
    group="chat-json",
    aliases=("openai", "openai-messages", "messages"),
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        branches=True,
        attachments=True,
        timestamps=True,
        usage=True,
        notes={
            "reasoning": "vendor additions such as reasoning_content",
            "branches": "further choices of a response, rejected answers of preference rows",
            "timestamps": "of responses",
            "usage": "of responses",
        },
    ),
)
