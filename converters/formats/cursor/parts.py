"""Content parts of the agent's own database into IR blocks.

The names are those of the AI SDK: ``text``, ``reasoning``, ``tool-call``, ``tool-result``, and
``image`` and ``file``, of which no sample of Cursor is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from converters import jsonio
from converters.formats.cursor.bubbles import first_text
from converters.ir import Block, Reasoning, Text, ToolCallBlock, ToolResult
from converters.shapes.attachments import file_block, image_or_file

if TYPE_CHECKING:
    from converters.ledger import Ledger, Place

__all__ = ["Found", "models_of", "parts_of"]

_MEDIA = ("mediaType", "mimeType")
_FAILED = ("error-text", "error-json", "execution-denied")


class Found(NamedTuple):
    """The content of one message; a call or result without an id has an empty one.

    ``results`` come with the name of their tool, ``models`` are those that parts name.
    """

    blocks: list[Block]
    results: list[tuple[ToolResult, str | None]]
    models: list[str]


def parts_of(content: Any, ledger: Ledger, place: Place) -> Found:
    """Give blocks and results of a message's content (a list of parts, or text)."""
    found = Found([], [], [])
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        if content is not None:
            ledger.note("malformed-block", place)
        return found
    for part in content:
        if isinstance(part, dict):
            _part(part, found, ledger, place)
        elif isinstance(part, str):
            _part({"type": "text", "text": part}, found, ledger, place)
        else:
            ledger.note("malformed-block", place)
    return found


def _part(part: dict[str, Any], found: Found, ledger: Ledger, place: Place) -> None:
    kind = part.get("type")
    found.models.extend(models_of(part))
    if kind == "text":
        text = part.get("text")
        if not isinstance(text, str):
            ledger.note("malformed-block", place, kind="text")
        elif text:
            found.blocks.append(Text(text))
    elif kind == "reasoning":
        _reasoning(part, found, ledger, place)
    elif kind == "redacted-reasoning":
        ledger.note("reasoning-encrypted", place)
    elif kind == "tool-call":
        _call(part, found, ledger, place)
    elif kind == "tool-result":
        _result(part, found, ledger, place)
    elif kind in ("image", "image-data", "image-url", "media"):
        found.blocks.append(_image(part, ledger, place))
    elif kind in ("file", "file-data", "file-url"):
        found.blocks.append(_file(part, ledger, place))
    else:
        ledger.note("unknown-block", place, kind=str(kind)[:40])


def models_of(part: dict[str, Any]) -> list[str]:
    """Give the model that a part or a message names, if it does."""
    model = first_text(_options(part), ("modelName",))
    return [] if model is None else [model]


def _options(part: dict[str, Any]) -> dict[str, Any]:
    """Give what Cursor itself says of a part."""
    options = part.get("providerOptions")
    own = options.get("cursor") if isinstance(options, dict) else None
    return own if isinstance(own, dict) else {}


def _reasoning(part: dict[str, Any], found: Found, ledger: Ledger, place: Place) -> None:
    text = part.get("text")
    if isinstance(text, str) and text:
        signature = first_text(part, ("signature",))
        found.blocks.append(Reasoning(text, {"signature": signature} if signature else None))
    else:
        ledger.note("reasoning-encrypted", place)


def _call(part: dict[str, Any], found: Found, ledger: Ledger, place: Place) -> None:
    name = first_text(part, ("toolName",))
    if name is None:
        ledger.note("malformed-call", place)
        return
    arguments = _options(part).get("rawToolCallArgs")
    if not isinstance(arguments, str) or not arguments:
        arguments = part.get("args", part.get("input"))
    if not isinstance(arguments, str):
        arguments = jsonio.dumps({} if arguments is None else arguments).decode()
    found.blocks.append(ToolCallBlock(first_text(part, ("toolCallId",)) or "", name, arguments))


def _result(part: dict[str, Any], found: Found, ledger: Ledger, place: Place) -> None:
    """Take a result: text or JSON in ``result``; ``output {type, value}`` in newer SDKs."""
    failed = part.get("isError") is True
    value = part.get("result")
    output = part.get("output")
    if value is None and isinstance(output, dict) and "value" in output:
        failed = failed or output.get("type") in _FAILED
        value = output["value"]
    elif value is None:
        value = output
    shown = part.get("experimental_content")
    shown = shown if isinstance(shown, list) else []
    inner = _inner(shown if value is None else value, ledger, place)
    if value is not None:
        pictures = [p for p in shown if isinstance(p, dict) and p.get("type") == "image"]
        inner += _inner(pictures, ledger, place)
    identity = first_text(part, ("toolCallId",)) or ""
    name = first_text(part, ("toolName",))
    found.results.append((ToolResult(identity, inner, failed), name))


def _inner(value: Any, ledger: Ledger, place: Place) -> list[Block]:
    """Give the blocks of a result: a list of text, image and file parts, else text or JSON."""
    if value is None:
        return []
    if isinstance(value, str):
        return [Text(value)] if value else []
    if isinstance(value, list) and all(isinstance(p, dict) and "type" in p for p in value):
        found = Found([], [], [])
        for part in value:
            if part["type"] in ("tool-call", "tool-result", "reasoning"):
                ledger.note("unknown-block", place, kind=part["type"])
            else:
                _part(part, found, ledger, place)
        return found.blocks
    return [Text(jsonio.dumps(value).decode())]


def _image(part: dict[str, Any], ledger: Ledger, place: Place) -> Block:
    data = part.get("image", part.get("data"))
    media = first_text(part, _MEDIA)
    url = data if isinstance(data, str) and _is_url(data) else part.get("url")
    return image_or_file(ledger, place, url=url, data=None if url is data else data, media=media)


def _file(part: dict[str, Any], ledger: Ledger, place: Place) -> Block:
    media = first_text(part, _MEDIA)
    if media is not None and media.startswith("image/"):
        return _image(part, ledger, place)
    data = part.get("data")
    url = isinstance(data, str) and _is_url(data)
    return file_block(
        ledger,
        place,
        name=part.get("filename"),
        media=media,
        data=None if url else data,
        uri=data if url else part.get("url"),
    )


def _is_url(data: str) -> bool:
    return data[:5].lower() in ("data:", "http:", "https", "file:")
