"""The turns IR: Interchange v1 as types.

The same classes are the in-memory form and, through msgspec, the wire form:
one human prompt is one :class:`Turn`, one assistant message with its tool
calls and their results is one :class:`Step`. Field names on the wire are
camelCase; times are integer milliseconds since the Unix epoch, UTC.

``extra`` is the member ``x-dcb``: what a source carries and Interchange v1 has
no field for. Names in use:

on a session
    ``system`` (list of prompts), ``parent`` ``{sessionId, callId}``,
    ``branches``, ``branch``, ``attachments``, ``git``, ``records`` (raw records
    kept aside), ``native`` (ids and envelope fields the tool wants back),
    ``cost``, ``tags``.
on a turn, step, call, result, block
    ``id`` (native id), ``native``, ``signature``, ``citations``, ``usage``
    (the provider's own numbers), ``attachments``.
anywhere
    ``members``: unknown members of an interchange document, written back in place.

Source: Interchange v1, sections 1 and 5 (published format), and the converters
of dsh-chat-import.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

__all__ = [
    "MARKER",
    "VERSION",
    "Block",
    "Compaction",
    "Extra",
    "Image",
    "Meta",
    "Reasoning",
    "Session",
    "Step",
    "Text",
    "ToolCall",
    "ToolCallBlock",
    "ToolResult",
    "Turn",
    "Usage",
    "prompt_of",
]

MARKER = "dsh-chat-import"
VERSION = 1

Extra: TypeAlias = dict[str, Any]


def _marker() -> Literal["dsh-chat-import"]:
    return "dsh-chat-import"


def _version() -> Literal[1]:
    return 1


def _empty() -> list[Any]:
    # A factory of its own: msgspec leaves out a default made by ``list``, and
    # Interchange v1 always writes these members.
    return []


def _extra() -> Any:
    return msgspec.field(default=None, name="x-dcb")


class _Struct(
    msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """Common settings: camelCase on the wire, absent instead of null, no GC tracking."""


class Text(_Struct, tag="text"):
    """Readable text, Markdown as the source had it."""

    text: str
    extra: Extra | None = _extra()


class Reasoning(_Struct, tag="reasoning"):
    """Reasoning that the source shows in clear text."""

    text: str
    extra: Extra | None = _extra()


class ToolCallBlock(_Struct, tag="tool-call"):
    """The place of a tool call inside an assistant message."""

    id: str
    name: str
    arguments: str
    extra: Extra | None = _extra()


class Image(_Struct, tag="image"):
    """An image: base64 bytes (``data`` with ``media_type``) or a reference (``attachment``)."""

    data: str | None = None
    media_type: str | None = None
    name: str | None = None
    attachment: dict[str, Any] | None = None
    extra: Extra | None = _extra()


Block: TypeAlias = Text | Reasoning | ToolCallBlock | Image


class ToolCall(_Struct):
    """A call: ``arguments`` is the JSON text (or raw text) that the model wrote."""

    id: str
    name: str
    arguments: str
    extra: Extra | None = _extra()


class ToolResult(_Struct):
    """The answer to a call of the same session, found by ``tool_call_id``."""

    tool_call_id: str
    content: list[Block] = msgspec.field(default_factory=_empty)
    is_error: bool = msgspec.field(default_factory=bool)
    time: int | None = None
    extra: Extra | None = _extra()


class Usage(_Struct):
    """Tokens of one step. Buckets add up: ``input_tokens`` excludes cached ones."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    extra: Extra | None = _extra()


class Compaction(_Struct):
    """A compaction that the source made before the turn; ``summary`` is never blank."""

    summary: str
    provider: str = msgspec.field(default_factory=lambda: "generic")
    model: str | None = None
    time: int | None = None
    extra: Extra | None = _extra()


class Step(_Struct):
    """One assistant message with its calls and their results."""

    content: list[Block] = msgspec.field(default_factory=_empty)
    tool_calls: list[ToolCall] = msgspec.field(default_factory=_empty)
    tool_results: list[ToolResult] = msgspec.field(default_factory=_empty)
    time: int | None = None
    model: str | None = None
    usage: Usage | None = None
    extra: Extra | None = _extra()


class Turn(_Struct):
    """One human prompt and the steps that answer it.

    ``prompt`` is the text projection; ``prompt_blocks`` is there when the
    prompt holds more than one text block. ``shadowed``: covered by a later
    compaction, kept in the log only.
    """

    prompt: str
    prompt_blocks: list[Block] | None = None
    steps: list[Step] = msgspec.field(default_factory=_empty)
    time: int | None = None
    aborted: bool = False
    compaction: Compaction | None = None
    shadowed: bool = False
    extra: Extra | None = _extra()


class Meta(_Struct):
    """Identity of a session. ``id`` is the source's own id."""

    id: str
    created_at: int | None = None
    cwd: str | None = None
    source_id: str | None = None
    extra: Extra | None = _extra()


class Session(_Struct, kw_only=True):
    """One conversation: an Interchange v1 document."""

    interchange: Literal["dsh-chat-import"] = msgspec.field(default_factory=_marker)
    version: Literal[1] = msgspec.field(default_factory=_version)
    meta: Meta
    title: str | None = None
    provider: str
    model: str | None = None
    turns: list[Turn] = msgspec.field(default_factory=_empty)
    extra: Extra | None = _extra()


def prompt_of(turn: Turn) -> list[Block]:
    """Give the prompt as blocks: ``prompt_blocks``, else one text block, else nothing."""
    if turn.prompt_blocks:
        return turn.prompt_blocks
    return [Text(turn.prompt)] if turn.prompt else []
