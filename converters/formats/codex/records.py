"""The lines of a Codex rollout as types: only the members that the reader needs.

``session_meta`` and everything unforeseen come as untyped objects; :func:`payload_of` makes the
same :class:`Payload` of an object, member by member.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

import msgspec

from converters.text import datetime_ms, number_ms

__all__ = [
    "DECODE",
    "KNOWN",
    "Line",
    "Part",
    "Payload",
    "TokenInfo",
    "Tokens",
    "payload_of",
    "time_ms",
]

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]


class _Wire(msgspec.Struct, gc=False):
    """Common settings: decoded once, never part of a cycle."""


class Part(_Wire):
    """A piece of content; ``kind`` is its ``type``. ``raw`` holds what is no such object."""

    kind: str = msgspec.field(default="", name="type")
    text: str | None = None
    image_url: str | None = None
    filename: str | None = None
    file_data: str | None = None
    file_id: str | None = None
    refusal: str | None = None
    raw: Any = msgspec.field(default=None, name="x-dcb.raw")


class Tokens(_Wire):
    """Token counts of one response or of all so far; input includes cached tokens."""

    input_tokens: _Count = 0
    cached_input_tokens: _Count = 0
    output_tokens: _Count = 0
    reasoning_output_tokens: _Count = 0


class TokenInfo(_Wire):
    """The body of a ``token_count`` event."""

    total_token_usage: Tokens | None = None
    last_token_usage: Tokens | None = None


class FunctionCall(_Wire):
    """A call inside an assistant message, as foreign writers put it."""

    name: str
    arguments: str = "{}"


_Kind: TypeAlias = Literal[
    # items
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "web_search_call",
    "ghost_snapshot",
    "compaction",
    "compaction_summary",
    # events that say something
    "user_message",
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "token_count",
    "turn_aborted",
    "thread_rolled_back",
    "thread_name_updated",
    # events about the run
    "agent_reasoning_section_break",
    "background_event",
    "context_compacted",
    "entered_review_mode",
    "error",
    "exec_command_begin",
    "exec_command_end",
    "exec_command_output_delta",
    "exited_review_mode",
    "item_completed",
    "item_started",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "patch_apply_begin",
    "patch_apply_end",
    "plan_update",
    "stream_error",
    "task_complete",
    "task_started",
    "turn_diff",
    "view_image_tool_call",
    "warning",
    "web_search_begin",
    "web_search_end",
    # a turn context
    "",
]
KNOWN: Final = frozenset(get_args(_Kind))


class Payload(_Wire):
    """A response item, an event or a turn context: one type for all, most members absent.

    An unknown kind is refused, so that its object can be kept whole (``raw``).
    """

    kind: _Kind = msgspec.field(default="", name="type")
    role: str | None = None
    content: str | list[Part] | None = None
    summary: list[Part] | str | None = None
    encrypted_content: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    output: str | list[Part] | None = None
    status: str | None = None
    action: msgspec.Raw | None = None
    function_call: FunctionCall | None = None
    message: str | None = None
    text: str | None = None
    info: TokenInfo | None = None
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    images: list[str] | None = None
    num_turns: int | None = None
    thread_name: str | None = None
    cwd: str | None = None
    model: str | None = None
    success: bool | None = msgspec.field(default=None, name="x-dcb.success")
    action_text: str | None = msgspec.field(default=None, name="x-dcb.action")
    raw: Any = msgspec.field(default=None, name="x-dcb.raw")


class Line(_Wire):
    """One line in its envelope."""

    type: Literal["response_item", "event_msg", "turn_context"]
    payload: Payload
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | float | None = None


DECODE: Final = msgspec.json.Decoder(Line).decode

_TEXTS: Final = (
    "role",
    "encrypted_content",
    "id",
    "call_id",
    "name",
    "input",
    "status",
    "message",
    "text",
    "thread_name",
    "cwd",
    "model",
)


def payload_of(raw: dict[str, Any]) -> Payload:
    """Make a payload of an object that the typed decoder refused.

    Members of another type than expected are left out; ``raw`` keeps the object, so that
    an unknown kind can be kept whole. Results given as objects become text or parts.
    """
    kind = raw.get("type")
    payload = Payload(kind if isinstance(kind, str) else "", raw=raw)  # type: ignore[arg-type]
    for name in _TEXTS:
        value = raw.get(name)
        if isinstance(value, str):
            setattr(payload, name, value)
    payload.content = _parts(raw.get("content"))
    payload.summary = _parts(raw.get("summary"))
    payload.arguments = _text_of(raw.get("arguments"))
    if payload.input is None:
        payload.input = _text_of(raw.get("input"))
    _output(payload, raw.get("output"))
    if isinstance(raw.get("action"), dict):
        payload.action_text = msgspec.json.encode(raw["action"]).decode()
    count = raw.get("num_turns")
    payload.num_turns = count if type(count) is int else None
    payload.function_call = _converted(raw.get("function_call"), FunctionCall)
    payload.info = _converted(raw.get("info"), TokenInfo)
    flat = _converted(raw, Tokens)
    if flat is not None and flat != Tokens():
        payload.input_tokens, payload.output_tokens = flat.input_tokens, flat.output_tokens
    return payload


def _converted(value: Any, kind: Any) -> Any:
    if not isinstance(value, dict):
        return None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def _text_of(value: Any) -> str | None:
    """Give a text as it is, anything else as JSON text; depth was limited when it was read."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _parts(value: Any) -> str | list[Part] | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    return [_part(item) for item in value]


def _part(value: Any) -> Part:
    if isinstance(value, str):
        return Part("text", value)
    if not isinstance(value, dict):
        return Part("malformed", raw=value)
    url = value.get("image_url")
    if isinstance(url, dict):
        value = {**value, "image_url": url.get("url")}
    try:
        part: Part = msgspec.convert(value, Part)
    except msgspec.ValidationError:
        kind = value.get("type")
        return Part(kind if isinstance(kind, str) else "malformed", raw=value)
    part.raw = value
    return part


def _output(payload: Payload, output: Any) -> None:
    """Take the forms of a result: text, parts, or ``{content, success}`` and ``{output}``."""
    if isinstance(output, dict):
        if isinstance(output.get("success"), bool):
            payload.success = output["success"]
        metadata = output.get("metadata")
        code = metadata.get("exit_code") if isinstance(metadata, dict) else None
        if type(code) is int and code:
            payload.success = False
        inner = output.get("content", output.get("output"))
        payload.output = _parts(inner)
        if payload.output is None:
            payload.output = msgspec.json.encode(output).decode()
    elif isinstance(output, str | list):
        payload.output = _parts(output)
    elif output is not None:
        payload.output = msgspec.json.encode(output).decode()


def time_ms(value: datetime | float | None) -> int | None:
    """Give the time of a typed line in ms; foreign writers put seconds as a number."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        return number_ms(value, micro=True)
    return datetime_ms(value)
