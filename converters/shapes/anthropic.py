"""Content blocks of the Anthropic Messages API <-> IR.

Read: ``text`` (citations aside), ``image``, ``document``, ``thinking`` with its signature,
``redacted_thinking``, ``tool_use`` and the server tools, ``tool_result`` and the results
of server tools. Source: the Anthropic API reference, Messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.ir import Image, Reasoning, Text, ToolCallBlock
from converters.shapes.attachments import file_block, file_entry, image_or_file
from converters.shapes.openai_chat import listed, rest, with_rest
from converters.shapes.rows import text_of
from converters.shapes.talk import Found, Given, plain
from converters.turns import sanitize_usage

if TYPE_CHECKING:
    from converters.ir import Block, Extra, ToolCall, ToolResult, Usage
    from converters.ledger import Ledger, Place
    from converters.shapes.account import Account

__all__ = [
    "CALLS",
    "blocks",
    "content",
    "input_of",
    "parts",
    "tool_result",
    "tool_use",
    "usage",
    "usage_object",
]

CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_TEXT: Final = frozenset({"type", "text", "citations"})
_RESULT: Final = frozenset({"type", "tool_use_id", "content", "is_error"})


def blocks(value: Any, ledger: Ledger, place: Place | None) -> list[Block]:
    """Give the blocks of ``content``; results and redacted thinking are not among them."""
    return parts(value, ledger, place).blocks


def parts(value: Any, ledger: Ledger, place: Place | None) -> Found:
    """Give blocks, tool results and opaque parts (``redacted_thinking``) of ``content``."""
    found = Found([], [], [], [])
    if isinstance(value, str):
        if value:
            found.blocks.append(Text(value))
        return found
    for part in listed(value, ledger, place):
        _part(part, found, ledger, place)
    return found


def _part(part: Any, found: Found, ledger: Ledger, place: Place | None) -> None:
    if isinstance(part, str):
        found.blocks.append(Text(part))
        return
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        ledger.note("malformed-block", place, kind=type(part).__name__)
        return
    block: Block | None = None
    if kind == "text":
        block = _text(part, ledger, place)
    elif kind == "thinking":
        block = _thinking(part)
    elif kind == "redacted_thinking":
        ledger.note("reasoning-encrypted", place)
        found.add_opaque(part)
        return
    elif kind in CALLS:
        block = _call(part)
    elif kind == "tool_result" or (kind.endswith("_tool_result") and "tool_use_id" in part):
        found.add_result(_result(part, kind, ledger, place))
        return
    elif kind == "image":
        block = _image(part, ledger, place)
    elif kind == "document":
        block = _document(part, ledger, place)
    elif kind == "search_result":
        texts = blocks(part.get("content"), ledger, place)
        text = "\n".join(item.text for item in texts if isinstance(item, Text))
        block = Text(text, {"native": {"part": part}}) if text else None
    else:
        ledger.note("unknown-block", place, kind=kind[:40])
        return
    if block is None:
        ledger.note("malformed-block", place, kind=kind[:40])
    else:
        found.blocks.append(block)


def _text(part: dict[str, Any], ledger: Ledger, place: Place | None) -> Block | None:
    text = part.get("text")
    if not isinstance(text, str):
        return None
    if len(part) == 2:
        return Text(text)
    extra: Extra = {}
    if part.get("citations"):
        extra["citations"] = part["citations"]
        ledger.note("citation-aside", place)
    native = rest(part, _TEXT)
    if native:
        extra["native"] = native
    return Text(text, extra or None)


def _thinking(part: dict[str, Any]) -> Block | None:
    text = part.get("thinking")
    if not isinstance(text, str):
        return None
    signature = text_of(part.get("signature"))
    return Reasoning(text, {"signature": signature} if signature else None)


def _call(part: dict[str, Any]) -> Block | None:
    name = text_of(part.get("name"))
    if name is None:
        return None
    native = rest(part, ("type", "id", "name", "input"))
    if part["type"] != "tool_use":
        native["type"] = part["type"]
    value = part.get("input")
    text = (
        value if isinstance(value, str) else jsonio.dumps({} if value is None else value).decode()
    )
    return ToolCallBlock(
        text_of(part.get("id")) or "", name, text, {"native": native} if native else None
    )


def _result(part: dict[str, Any], kind: str, ledger: Ledger, place: Place | None) -> Given:
    native = rest(part, _RESULT)
    value = part.get("content")
    if kind == "tool_result":
        found = parts(value, ledger, place)
        if found.results:
            ledger.note("unknown-block", place, len(found.results), "tool_result")
        content: list[Block] = [
            block for block in found.blocks if not isinstance(block, ToolCallBlock)
        ]
        error = part.get("is_error") is True
    else:
        # Results of server tools have shapes of their own; the text is their JSON.
        native |= {"type": kind, "content": value}
        content = [Text(jsonio.dumps(value).decode())] if value is not None else []
        error = isinstance(value, dict) and str(value.get("type")).endswith("_error")
    return Given(
        part.get("tool_use_id"), None, content, error, {"native": native} if native else None
    )


def _image(part: dict[str, Any], ledger: Ledger, place: Place | None) -> Block:
    source = part.get("source")
    source = source if isinstance(source, dict) else {}
    file_id = text_of(source.get("file_id"))
    return image_or_file(
        ledger,
        place,
        url=source.get("url"),
        data=source.get("data"),
        media=source.get("media_type"),
        name=part.get("name"),
        reference={"id": file_id} if file_id else None,
        native=rest(part, ("type", "source", "name")) or None,
    )


def _document(part: dict[str, Any], ledger: Ledger, place: Place | None) -> Block:
    source = part.get("source")
    source = source if isinstance(source, dict) else {}
    kind, data = source.get("type"), source.get("data")
    text = data if kind == "text" else None
    if kind == "content":
        inner = blocks(source.get("content"), ledger, place)
        text = "\n".join(block.text for block in inner if isinstance(block, Text))
    native = rest(part, ("type", "source", "title"))
    if kind == "content":
        native["source"] = source
    return file_block(
        ledger,
        place,
        kind="document",
        name=part.get("title"),
        media=source.get("media_type"),
        data=data if kind != "text" else None,
        text=text,
        uri=source.get("url"),
        identity=source.get("file_id"),
        native=native or None,
    )


def usage(value: Any) -> Usage | None:
    """Give usage; the API's buckets are exclusive already. ``None`` for bad counts."""
    if not isinstance(value, dict):
        return None
    return sanitize_usage(
        {
            "inputTokens": value.get("input_tokens"),
            "outputTokens": value.get("output_tokens"),
            "cacheReadTokens": value.get("cache_read_input_tokens"),
            "cacheWriteTokens": value.get("cache_creation_input_tokens"),
        }
    )


def usage_object(found: Usage) -> dict[str, Any]:
    """Give usage with the API's names; reasoning is part of the output."""
    value: dict[str, Any] = {
        "input_tokens": found.input_tokens,
        "output_tokens": found.output_tokens,
    }
    if found.cache_read_tokens is not None:
        value["cache_read_input_tokens"] = found.cache_read_tokens
    if found.cache_write_tokens is not None:
        value["cache_creation_input_tokens"] = found.cache_write_tokens
    return value


def input_of(arguments: str, account: Account | None = None) -> dict[str, Any]:
    """Give call arguments as the object that the API wants; other text goes into ``arguments``."""
    try:
        value = jsonio.loads_exact(arguments)
    except (ValueError, RecursionError):
        value = arguments
    if isinstance(value, dict):
        return value
    if account is not None:
        account.note("text-changed", "arguments")
    return {"arguments": value}


def tool_use(call: ToolCall, account: Account) -> dict[str, Any]:
    """Give the ``tool_use`` block of a call, and account for it."""
    account.kept("call")
    native = account.native(call.extra)
    account.members(call.extra)
    kind = native.get("type")
    more = {k: v for k, v in native.items() if k != "type"}
    return {
        "type": kind if isinstance(kind, str) and kind in CALLS else "tool_use",
        "id": call.id,
        "name": call.name,
        "input": input_of(call.arguments, account),
        **more,
    }


def tool_result(result: ToolResult, account: Account) -> dict[str, Any]:
    """Give the ``tool_result`` block of a result, and account for it."""
    account.kept("result")
    native = account.native(result.extra)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_call_id}
    kind = native.get("type")
    if isinstance(kind, str) and "content" in native:
        block |= native
        account.kept("block.text", len(result.content))
    else:
        value = content(result.content, account)
        if value is not None:
            block["content"] = value
        if result.is_error:
            block["is_error"] = True
        block |= native
    if result.is_error:
        account.kept("error")
    account.time(result.time)
    account.members(result.extra)
    return block


def content(found: list[Block], account: Account) -> str | list[Any] | None:
    """Give ``content`` for text, images and files; a string where one text is all."""
    if not found:
        return None
    text = plain(found)
    if text is not None:
        account.kept("block.text")
        return text
    return [part for block in found if (part := part_of(block, account)) is not None]


def part_of(block: Block, account: Account) -> dict[str, Any] | None:
    """Give one block for text, image or reasoning; calls have :func:`tool_use`."""
    if isinstance(block, Text):
        account.kept("block.text")
        return _text_part(block, account)
    if isinstance(block, Image):
        if block.data is None:
            return {"type": "text", "text": account.image_text(block)}
        account.image(block)
        source = {"type": "base64", "media_type": block.media_type, "data": block.data}
        return with_rest({"type": "image", "source": source}, account.native(block.extra))
    account.foreign(block)
    return None


def thinking(block: Reasoning, account: Account) -> dict[str, Any]:
    """Give a ``thinking`` block; without a signature the API will not take it as history."""
    account.kept("block.reasoning")
    account.members(block.extra, "signature")
    part = {"type": "thinking", "thinking": block.text}
    signature = block.extra.get("signature") if block.extra else None
    if isinstance(signature, str):
        part["signature"] = signature
    return part


def _text_part(block: Text, account: Account) -> dict[str, Any]:
    extra = block.extra or {}
    native = account.native(extra)
    if isinstance(native.get("part"), dict):
        account.members(extra)
        part: dict[str, Any] = native["part"]
        return part
    image = extra.get("image")
    if isinstance(image, dict):
        source = None
        if isinstance(image.get("url"), str):
            source = {"type": "url", "url": image["url"]}
        elif isinstance(image.get("id"), str) and account.own:
            source = {"type": "file", "file_id": image["id"]}
        if source is not None:
            account.members(extra, "image")
            return with_rest({"type": "image", "source": source}, native)
    entry = file_entry(block)
    source = _file_source(entry, native, account) if entry else None
    if source is not None and entry is not None:
        account.members(extra, "attachments")
        more = {k: v for k, v in native.items() if k != "source"}
        title = {"title": entry["name"]} if isinstance(entry.get("name"), str) else {}
        kind = "image" if entry.get("kind") == "image" else "document"
        return {"type": kind, "source": source, **(title if kind == "document" else {}), **more}
    part = with_rest({"type": "text", "text": block.text}, native)
    if account.own and "citations" in extra:
        part["citations"] = extra["citations"]
        account.members(extra, "citations")
    else:
        account.members(extra)
    return part


def _file_source(
    entry: dict[str, Any], native: dict[str, Any], account: Account
) -> dict[str, Any] | None:
    """Give the source of a document; ``None`` where the API has no form for it.

    The id of a file means something only to the API that gave it.
    """
    if isinstance(native.get("source"), dict):
        source: dict[str, Any] = native["source"]
        return source
    media = entry.get("type")
    if entry.get("kind") == "audio":
        return None
    if isinstance(entry.get("data"), str):
        return {"type": "base64", "media_type": media, "data": entry["data"]}
    if isinstance(entry.get("text"), str):
        return {"type": "text", "media_type": media or "text/plain", "data": entry["text"]}
    if isinstance(entry.get("uri"), str):
        return {"type": "url", "url": entry["uri"]}
    if isinstance(entry.get("id"), str) and account.own:
        return {"type": "file", "file_id": entry["id"]}
    return None
