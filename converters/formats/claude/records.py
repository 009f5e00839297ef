"""The lines of a Claude Code transcript as types: only the members that the reader needs.

Members that are not declared (``toolUseResult`` bodies, snapshots, progress output) are skipped
inside the decoder. What the types refuse comes as an untyped ``dict``; :func:`lenient` makes
the same :class:`Record` of it, member by member.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the decoder reads the annotations
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

import msgspec

from converters.ir import Text

__all__ = [
    "DECODE",
    "AgentRef",
    "Block",
    "DocumentBlock",
    "ImageBlock",
    "Message",
    "Odd",
    "RawUsage",
    "Record",
    "RedactedBlock",
    "ResultBlock",
    "ThinkingBlock",
    "ToolUseBlock",
    "lenient",
]

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]

_Type: TypeAlias = Literal[
    "user",
    "assistant",
    "summary",
    "system",
    "progress",
    "custom-title",
    "ai-title",
    "queue-operation",
    "file-history-snapshot",
    "attachment",
    "last-prompt",
    "mode",
    "permission-mode",
    "permission",
]
_KNOWN: Final = frozenset(get_args(_Type))


class _Wire(msgspec.Struct, gc=False):
    """Common settings: decoded once, never part of a cycle."""


class ThinkingBlock(_Wire, tag="thinking"):
    """Reasoning; the text is empty when only the signature was kept."""

    thinking: str
    signature: str | None = None


class RedactedBlock(_Wire, tag="redacted_thinking"):
    """Reasoning that only the provider can read."""

    data: str | None = None


class ToolUseBlock(_Wire, tag="tool_use"):
    """A call; ``input`` is the JSON text of the line, ``arguments`` the same as text.

    The raw bytes hold the whole line in memory, so the reader replaces them at once.
    """

    id: Annotated[str, msgspec.Meta(min_length=1)]
    name: Annotated[str, msgspec.Meta(min_length=1)]
    input: msgspec.Raw = msgspec.Raw(b"{}")
    arguments: str = msgspec.field(default="", name="x-dcb.arguments")


class Source(_Wire):
    """Where the bytes of an image or document are."""

    type: str | None = None
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class ImageBlock(_Wire, tag="image"):
    """An image."""

    source: Source | None = None


class DocumentBlock(_Wire, tag="document"):
    """A file that the person attached."""

    source: Source | None = None
    title: str | None = None


class ResultBlock(_Wire, tag="tool_result"):
    """The answer to a call."""

    tool_use_id: Annotated[str, msgspec.Meta(min_length=1)]
    content: str | list[Text | ImageBlock | DocumentBlock | str] | None = None
    is_error: bool | None = None


class Odd(_Wire):
    """A block that no type above takes; ``rule`` says which way it is odd."""

    rule: str
    kind: str
    value: Any = None


# A text block is the IR's own: most lines need no conversion at all.
Block: TypeAlias = (
    Text
    | ThinkingBlock
    | RedactedBlock
    | ToolUseBlock
    | ImageBlock
    | DocumentBlock
    | ResultBlock
    | str
)


class RawUsage(_Wire):
    """Token counts of an API message; input excludes both cache buckets."""

    input_tokens: Count
    output_tokens: Count
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None


class Message(_Wire):
    """The API message inside a line. ``odd`` names what :func:`lenient` had to leave out."""

    model: str | None = None
    id: str | None = None
    content: str | list[Block] | None = None
    usage: RawUsage | None = None
    odd: str = msgspec.field(default="", name="x-dcb.odd")


class AgentRef(_Wire, rename="camel"):
    """The member that ties a subagent to the call that started it."""

    agent_id: str | None = None


class Record(_Wire, rename="camel", kw_only=True):
    """One line; ``ms`` is the time of a line that only :func:`lenient` could read.

    The decoder finds members soonest in the order of the fields, which is that of release 2.1.
    """

    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
    session_id: str | None = None
    version: str | None = None
    git_branch: str | None = None
    message: Message | None = None
    type: _Type
    data: AgentRef | None = None
    tool_use_result: AgentRef | list[AgentRef] | str | None = None
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parentToolUseID")
    uuid: str | None = None
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    logical_parent_uuid: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    agent_id: str | None = None
    subtype: str | None = None
    summary: str | None = None
    title: str | None = None
    leaf_uuid: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    cost_usd: float | None = msgspec.field(default=None, name="costUSD")
    cost: float | None = None
    ms: int | None = msgspec.field(default=None, name="x-dcb.ms")


DECODE: Final = msgspec.json.Decoder(Record).decode

_TEXTS: Final = (
    ("uuid", "uuid"),
    ("parent_uuid", "parentUuid"),
    ("logical_parent_uuid", "logicalParentUuid"),
    ("session_id", "sessionId"),
    ("cwd", "cwd"),
    ("version", "version"),
    ("git_branch", "gitBranch"),
    ("agent_id", "agentId"),
    ("subtype", "subtype"),
    ("summary", "summary"),
    ("title", "title"),
    ("leaf_uuid", "leafUuid"),
    ("custom_title", "customTitle"),
    ("ai_title", "aiTitle"),
    ("parent_tool_use_id", "parentToolUseID"),
)
_FLAGS: Final = (
    ("is_sidechain", "isSidechain"),
    ("is_meta", "isMeta"),
    ("is_compact_summary", "isCompactSummary"),
)
_BLOCKS: Final = {
    "thinking": ThinkingBlock,
    "redacted_thinking": RedactedBlock,
    "image": ImageBlock,
    "document": DocumentBlock,
}


def lenient(raw: dict[str, Any], place: int) -> Record | None:
    """Make a record of an object that the typed decoder refused; its time is left to the caller.

    ``None`` when its type is not one of Claude Code's. Members of another type
    than expected are left out; the message says so in ``odd``.
    """
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in _KNOWN:
        return None
    record = Record(type=kind)  # type: ignore[arg-type]
    for attribute, name in _TEXTS:
        value = raw.get(name)
        if isinstance(value, str):
            setattr(record, attribute, value)
    for attribute, name in _FLAGS:
        setattr(record, attribute, raw.get(name) is True)
    cost = raw.get("costUSD", raw.get("cost"))
    record.cost = cost if isinstance(cost, int | float) and -1e300 < cost < 1e300 else None
    record.tool_use_result = _agent(raw.get("toolUseResult"))
    record.data = _agent(raw.get("data"))
    message = raw.get("message")
    if isinstance(message, dict):
        record.message = _message(message, place)
    return record


def _agent(value: Any) -> AgentRef | None:
    agent = value.get("agentId") if isinstance(value, dict) else None
    return AgentRef(agent) if isinstance(agent, str) else None


def _message(raw: dict[str, Any], place: int) -> Message:
    content = raw.get("content")
    message = Message()
    if isinstance(content, str):
        message.content = content
    elif isinstance(content, list):
        message.content = [_block(value, f"{place}-{n}") for n, value in enumerate(content)]  # type: ignore[misc]
    elif content is not None:
        message.odd = "malformed-record"
    for name in ("id", "model"):
        value = raw.get(name)
        if isinstance(value, str):
            setattr(message, name, value)
    usage = raw.get("usage")
    if usage is not None:
        try:
            message.usage = msgspec.convert(usage, RawUsage)
        except msgspec.ValidationError:
            message.usage = _usage(usage)
            message.odd = message.odd or ("usage-invalid" if message.usage is None else "")
    return message


def _usage(raw: Any) -> RawUsage | None:
    """Give the usage when only an optional bucket is bad."""
    if not isinstance(raw, dict):
        return None
    good = {}
    for name in RawUsage.__struct_fields__:
        try:
            good[name] = msgspec.convert(raw.get(name), Count)
        except msgspec.ValidationError:
            continue
    if "input_tokens" not in good or "output_tokens" not in good:
        return None
    return RawUsage(**good)


def _block(raw: Any, mint: str) -> Block | Odd:
    if isinstance(raw, str):
        return raw
    if not isinstance(raw, dict):
        return Odd("malformed-block", type(raw).__name__, raw)
    kind = raw.get("type")
    if kind == "text":
        return _text(raw)
    if kind == "tool_use":
        return _tool_use(raw, mint)
    if kind == "tool_result":
        return _tool_result(raw)
    known = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if known is None:
        rule = "unknown-block" if isinstance(kind, str) else "malformed-block"
        return Odd(rule, kind if isinstance(kind, str) else "no type", raw)
    try:
        found: Block = msgspec.convert(raw, known)
    except msgspec.ValidationError:
        if kind == "image":
            return ImageBlock()
        return Odd("malformed-block", str(kind), raw)
    return found


def _text(raw: dict[str, Any]) -> Block | Odd:
    text = raw.get("text")
    if not isinstance(text, str):
        return Odd("malformed-block", "text", raw)
    citations = raw.get("citations")
    return Text(text, {"citations": citations} if citations else None)


def _tool_use(raw: dict[str, Any], mint: str) -> Block | Odd:
    """Give a call; one without an id gets one made of its place, with a leading ``minted-``."""
    name, identity = raw.get("name"), raw.get("id")
    if not isinstance(name, str) or not name:
        return Odd("malformed-block", "tool_use", raw)
    if not isinstance(identity, str) or not identity:
        identity = f"minted-{mint}"
    # Depth was limited when the line was repaired, so that encoding cannot recurse too far.
    value = raw.get("input")
    body = msgspec.json.encode({} if value is None else value)
    return ToolUseBlock(identity, name, msgspec.Raw(body))


def _tool_result(raw: dict[str, Any]) -> Block | Odd:
    call = raw.get("tool_use_id")
    if not isinstance(call, str) or not call:
        return Odd("orphan-tool-result", "", raw)
    content = raw.get("content")
    parts: Any = None
    if isinstance(content, str):
        parts = content
    elif isinstance(content, list):
        parts = [_block(value, "") for value in content]
    elif content is not None:
        parts = [Odd("malformed-block", "tool_result", content)]
    return ResultBlock(call, parts, raw.get("is_error") is True)
