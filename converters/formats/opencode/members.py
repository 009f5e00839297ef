"""What single members of sessions, messages and parts say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio
from converters.images import data_url
from converters.ir import Text, ToolResult
from converters.shapes.attachments import file_block, image_or_file
from converters.shapes.cells import object_of

if TYPE_CHECKING:
    from converters.ir import Block, Extra, Usage
    from converters.ledger import Ledger
    from converters.types import Context

__all__ = [
    "Revert",
    "error_of",
    "file_of",
    "is_left_out",
    "is_nothing",
    "model_of",
    "revert_of",
    "session_model",
    "text_of",
    "title_of",
    "tool_result",
]

_UNTITLED: Final = re.compile(r"(?:New|Child) session - \d{4}-\d\d-\d\dT")


class Revert(NamedTuple):
    """From where on a session was withdrawn: a message, or a part of it."""

    message: str
    part: str | None


def text_of(value: Any) -> str | None:
    """Give a text that says something, else ``None``."""
    return value if isinstance(value, str) and value else None


def title_of(info: dict[str, Any]) -> str | None:
    """Give the title of a session, but not the one with a time that stands in for none."""
    title = text_of(info.get("title"))
    return None if title is None or _UNTITLED.match(title) else title


def is_left_out(info: dict[str, Any], ctx: Context) -> bool:
    """Whether a session is a subagent's and those are not wanted."""
    child = text_of(info.get("parent_id")) or text_of(info.get("parentID"))
    return child is not None and ctx.options.subagents == "skip"


def revert_of(info: dict[str, Any], ledger: Ledger, place: str) -> Revert | None:
    """Give from where on a session was withdrawn: an object, in a database a cell of JSON."""
    found: Any = info.get("revert")
    if isinstance(found, str | bytes) and found:
        found = object_of(found, ledger, place)
        if found is None:
            ledger.note("malformed-member", place, kind="revert")
    message = text_of(found.get("messageID")) if isinstance(found, dict) else None
    return None if message is None else Revert(message, text_of(found.get("partID")))


def model_of(info: dict[str, Any]) -> str | None:
    """Give the model of a message."""
    model = info.get("model")
    inner = (model.get("modelID") or model.get("id")) if isinstance(model, dict) else model
    return text_of(info.get("modelID")) or text_of(inner)


def session_model(info: dict[str, Any], ledger: Ledger, place: str) -> str | None:
    """Give the model of a session: a name, or ``{id, providerID}``, in a database as a cell."""
    model = info.get("model")
    if isinstance(model, bytes) or (isinstance(model, str) and model.startswith("{")):
        model = object_of(model, ledger, place)
        if model is None:
            ledger.note("malformed-member", place, kind="model")
    if isinstance(model, dict):
        return text_of(model.get("id")) or text_of(model.get("modelID"))
    return text_of(model)


def is_nothing(usage: Usage) -> bool:
    """Whether a usage counts nothing: what a message that failed at once is stored with."""
    cost = (usage.extra or {}).get("cost")
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
    return not (any(counts) or usage.cache_write_tokens or cost)


def error_of(value: Any) -> Extra | None:
    """Give name and message of the error of an answer.

    Version 1: ``{name, data: {message}}``; version 2: ``{type, message}``.
    """
    if not isinstance(value, dict):
        return None
    data = value.get("data")
    message = data.get("message") if isinstance(data, dict) else None
    found = {
        "name": text_of(value.get("name")) or text_of(value.get("type")),
        "message": text_of(message) or text_of(value.get("message")),
    }
    return {name: text for name, text in found.items() if text is not None} or None


def file_of(part: dict[str, Any], ledger: Ledger, place: str) -> Block:
    """Give the block of a file: an image with bytes, or a placeholder with its entry.

    ``data`` is base64 (version 2); ``url`` is a URL (version 1), of which ``data:`` has bytes.
    """
    media, data, url = part.get("mime"), text_of(part.get("data")), part.get("url")
    name = part.get("filename") or part.get("name")
    if data is not None and ":" in data:  # no character of base64
        data, url = None, data
    inline = data_url(url) if data is None else None
    if inline is not None:
        media, data = media if isinstance(media, str) else inline[0], inline[1]
    if isinstance(media, str) and media.startswith("image/"):
        return image_or_file(ledger, place, url=url, data=data, media=media, name=name)
    uri = url if data is None else None
    return file_block(ledger, place, name=name, media=media, data=data, uri=uri)


def tool_result(identity: str, state: dict[str, Any], ms: int | None) -> ToolResult | None:
    """Give the result of a version 1 tool state; ``None`` while it runs."""
    status = state.get("status")
    output = state.get("output")
    error = state.get("error")
    if status == "error":
        text = error if isinstance(error, str) else output if isinstance(output, str) else ""
        return ToolResult(identity, [Text(text)] if text else [], is_error=True, time=ms)
    if output is None and status != "completed":
        return None
    text = output if isinstance(output, str) else jsonio.dumps(output).decode() if output else ""
    return ToolResult(identity, [Text(text)] if text else [], time=ms)
