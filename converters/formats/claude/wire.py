"""IR blocks as content of Claude Code messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from converters.ir import Image, Reasoning, Text
from converters.shapes.attachments import file_entry

if TYPE_CHECKING:
    from converters.ir import Block, Step, ToolCall, ToolResult, Usage
    from converters.shapes.account import Account

__all__ = ["assistant_content", "prompt_content", "result_content", "usage_members"]


def prompt_content(blocks: list[Block], account: Account) -> str | list[dict[str, Any]]:
    """Give the content of a user message: plain text where it is nothing else."""
    if len(blocks) == 1 and isinstance(blocks[0], Text) and not blocks[0].extra:
        account.kept("block.text")
        return blocks[0].text
    return _plain_blocks(blocks, account)


def result_content(result: ToolResult, account: Account) -> str | list[dict[str, Any]]:
    """Give the content of a tool result: plain text where it is nothing else."""
    blocks = result.content
    if len(blocks) == 1 and isinstance(blocks[0], Text) and blocks[0].text and not blocks[0].extra:
        account.kept("block.text")
        return blocks[0].text
    return _plain_blocks(blocks, account)


def _plain_blocks(blocks: list[Block], account: Account) -> list[dict[str, Any]]:
    content = []
    for block in blocks:
        if isinstance(block, Text):
            content.append(_text(block, account))
        elif isinstance(block, Image):
            content.append(_image(block, account))
        elif isinstance(block, Reasoning):
            account.lost("reasoning-dropped", "block.reasoning")
            account.members(block.extra)
        else:
            account.lost("block-dropped", "extra", len(block.extra or ()))
    return content


def _text(block: Text, account: Account) -> dict[str, Any]:
    """Write a text, or the file that it stands for."""
    account.kept("block.text")
    entry = file_entry(block)
    if entry is None:
        citations = block.extra.get("citations") if block.extra else None
        if isinstance(citations, list):
            account.members(block.extra, "citations")
            return {"type": "text", "text": block.text, "citations": citations}
        account.members(block.extra)
        return {"type": "text", "text": block.text}
    source = _source(entry)
    if source is None:
        account.members(block.extra)
        return {"type": "text", "text": block.text}
    account.members(block.extra, "attachments")
    if entry.get("kind") == "image":
        return {"type": "image", "source": source}
    document = {"type": "document", "source": source}
    if entry.get("name"):
        document["title"] = entry["name"]
    return document


def _source(entry: dict[str, Any]) -> dict[str, Any] | None:
    media = entry.get("type")
    if isinstance(entry.get("data"), str):
        return {"type": "base64", "media_type": media, "data": entry["data"]}
    if isinstance(entry.get("text"), str):
        return {"type": "text", "media_type": media or "text/plain", "data": entry["text"]}
    if isinstance(entry.get("uri"), str):
        return {"type": "url", "url": entry["uri"]}
    return None


def _image(block: Image, account: Account) -> dict[str, Any]:
    account.members(block.extra)
    if block.data is None:
        account.lost("image-text", "block.image")
        return {"type": "text", "text": f"[image] {block.name}" if block.name else "[image]"}
    account.kept("block.image")
    source = {"type": "base64", "media_type": block.media_type, "data": block.data}
    return {"type": "image", "source": source}


def assistant_content(step: Step, calls: list[ToolCall], account: Account) -> list[dict[str, Any]]:
    """Give the content of an assistant message; ``calls`` are those of the step to be written.

    Sealed reasoning and unknown blocks of the tool's own go back where they stood.
    """
    content: list[dict[str, Any]] = []
    left = {call.id: call for call in calls}
    for block in step.content:
        if isinstance(block, Text):
            content.append(_text(block, account))
        elif isinstance(block, Reasoning):
            account.kept("block.reasoning")
            signature = block.extra.get("signature") if block.extra and account.own else None
            account.members(block.extra, *(("signature",) if isinstance(signature, str) else ()))
            thinking = {"type": "thinking", "thinking": block.text}
            content.append({**thinking, "signature": signature or ""})
        elif isinstance(block, Image):
            content.append(_image(block, account))
        else:
            account.members(block.extra)
            call = left.pop(block.id, None)
            if call is not None:
                content.append(_call(call, account))
    for call in left.values():
        account.note("text-changed", "call without a block")
        content.append(_call(call, account))
    _put_back(content, account.native(step.extra))
    return content


def _put_back(content: list[dict[str, Any]], native: dict[str, Any]) -> None:
    kept: list[tuple[int, dict[str, Any]]] = []
    for sealed in native.get("sealed") or ():
        if isinstance(sealed, dict) and isinstance(sealed.get("at"), int):
            block = {name: value for name, value in sealed.items() if name != "at"}
            if block.get("type") == "thinking":
                block = {"type": "thinking", "thinking": "", **block}
            kept.append((sealed["at"], block))
    kept += [
        (odd["at"], odd["block"])
        for odd in native.get("blocks") or ()
        if isinstance(odd, dict) and isinstance(odd.get("at"), int) and "block" in odd
    ]
    for at, block in sorted(kept, key=lambda pair: pair[0]):
        content.insert(at, block)


def _call(call: ToolCall, account: Account) -> dict[str, Any]:
    account.kept("call")
    account.members(call.extra)
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call, account)}


def _input(call: ToolCall, account: Account) -> msgspec.Raw:
    """Give the arguments as the object that the tool needs; anything else is wrapped."""
    text = call.arguments
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        account.note("text-changed", "arguments wrapped")
        return msgspec.Raw(msgspec.json.encode({"input": text}))
    if not isinstance(value, dict):
        account.note("text-changed", "arguments wrapped")
        return msgspec.Raw(msgspec.json.encode({"value": value}))
    if "\n" in text or text[text.find('":') + 2 : text.find('":') + 3] == " ":
        account.note("text-changed", "blanks in arguments")
        text = msgspec.json.format(text, indent=-1)
    return msgspec.Raw(text.encode())


def usage_members(usage: Usage, account: Account) -> dict[str, Any]:
    """Give the token counts; the tool knows no reasoning bucket, its output holds them."""
    account.kept("usage")
    account.members(usage.extra)
    if usage.reasoning_tokens is not None:
        account.note("usage-dropped", "reasoningTokens")
    members: dict[str, Any] = {"input_tokens": usage.input_tokens}
    if usage.cache_write_tokens is not None:
        members["cache_creation_input_tokens"] = usage.cache_write_tokens
    if usage.cache_read_tokens is not None:
        members["cache_read_input_tokens"] = usage.cache_read_tokens
    members["output_tokens"] = usage.output_tokens
    return members
