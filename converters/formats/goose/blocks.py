"""Content blocks of Goose messages into IR blocks and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from converters.canonical import js_dumps
from converters.images import degraded, inline_image
from converters.ir import Block, Reasoning, Text, ToolCallBlock, ToolResult

if TYPE_CHECKING:
    from converters.ledger import Ledger, Place

__all__ = ["Found", "blocks_of"]

_NOTICES = (
    "toolConfirmationRequest",
    "frontendToolRequest",
    "actionRequired",
    "systemNotification",
    "contextLengthExceeded",
    "summarizationRequested",
    "conversationCompacted",
)


class Found(NamedTuple):
    """The content of one message."""

    blocks: list[Block]
    results: list[ToolResult]


def blocks_of(content: Any, ledger: Ledger, place: Place) -> Found:
    """Give blocks and results of a message's content (a list of blocks, or text)."""
    found = Found([], [])
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        if content is not None:
            ledger.note("malformed-block", place)
        return found
    for item in content:
        if isinstance(item, dict):
            _block(item, found, ledger, place)
        else:
            ledger.note("malformed-block", place)
    return found


def _block(item: dict[str, Any], found: Found, ledger: Ledger, place: Place) -> None:
    kind = item.get("type")
    if kind == "text":
        _text(item.get("text"), found, ledger, place)
    elif kind in ("thinking", "reasoning"):
        text = item.get("thinking") or item.get("text")
        if isinstance(text, str) and text:
            signature = item.get("signature")
            signed = isinstance(signature, str) and bool(signature)
            found.blocks.append(Reasoning(text, {"signature": signature} if signed else None))
        else:
            ledger.note("reasoning-encrypted", place)
    elif kind == "redactedThinking":
        ledger.note("reasoning-encrypted", place)
    elif kind == "toolRequest":
        _request(item, found, ledger, place)
    elif kind == "toolResponse":
        _response(item, found, ledger, place)
    elif kind == "image":
        found.blocks.append(_image(item, ledger, place))
    elif kind in _NOTICES:
        ledger.note("record-skipped", place, kind=str(kind))
    else:
        ledger.note("unknown-block", place, kind=str(kind)[:40])


def _text(text: Any, found: Found, ledger: Ledger, place: Place) -> None:
    if not isinstance(text, str):
        ledger.note("malformed-block", place, kind="text")
    elif text:
        found.blocks.append(Text(text))


def _image(item: dict[str, Any], ledger: Ledger, place: Place) -> Block:
    image = inline_image(item.get("data"), item.get("mimeType") or item.get("mime_type"))
    return image or degraded(ledger, place, kind="image")


def _envelope(item: dict[str, Any], camel: str, snake: str) -> dict[str, Any]:
    value = item.get(camel)
    value = item.get(snake) if value is None else value
    return value if isinstance(value, dict) else {}


def _request(item: dict[str, Any], found: Found, ledger: Ledger, place: Place) -> None:
    call = _envelope(item, "toolCall", "tool_call")
    value = call.get("value")
    identity = item.get("id")
    name = value.get("name") if isinstance(value, dict) else None
    if not (isinstance(identity, str) and identity and isinstance(name, str) and name):
        ledger.note("malformed-call", place)
        return
    arguments = value.get("arguments") if isinstance(value, dict) else None
    text = arguments if isinstance(arguments, str) else js_dumps(arguments or {})
    found.blocks.append(ToolCallBlock(identity, name, text))


def _response(item: dict[str, Any], found: Found, ledger: Ledger, place: Place) -> None:
    identity = item.get("id")
    if not isinstance(identity, str) or not identity:
        ledger.note("malformed-result", place)
        return
    result = _envelope(item, "toolResult", "tool_result")
    failed = result.get("status") == "error"
    value = result.get("error") if failed else result.get("value")
    if isinstance(value, dict):
        failed = failed or value.get("isError") is True
        value = value.get("content", js_dumps(value))
    blocks: list[Block] = []
    if isinstance(value, str):
        blocks = [Text(value)] if value else []
    elif isinstance(value, list):
        inner = Found(blocks, [])
        for part in value:
            if isinstance(part, str):
                _text(part, inner, ledger, place)
            elif isinstance(part, dict) and part.get("type") in ("text", "image"):
                _block(part, inner, ledger, place)
            elif isinstance(part, dict):
                blocks.append(Text(js_dumps(part)))
                ledger.note("unknown-block", place, kind=str(part.get("type"))[:40])
            else:
                ledger.note("malformed-block", place)
    elif value is not None:
        ledger.note("malformed-block", place)
    found.results.append(ToolResult(identity, blocks, failed))
