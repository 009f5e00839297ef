"""Items of the OpenAI Responses API <-> IR: content parts, calls, outputs, reasoning, usage.

Source: the OpenAI API reference, Responses (items and usage).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.images import inline_image
from converters.ir import Image, Reasoning, Text, ToolCallBlock
from converters.shapes import openai_chat as chat
from converters.shapes.attachments import as_data_url, file_block, file_entry, image_or_file
from converters.shapes.openai_chat import knows_files, rest, with_rest
from converters.shapes.rows import text_of
from converters.shapes.talk import plain

if TYPE_CHECKING:
    from converters.ir import Block, Extra, Usage
    from converters.ledger import Ledger, Place
    from converters.shapes.account import Account

__all__ = [
    "OUTPUTS",
    "blocks",
    "call_block",
    "is_call",
    "is_output",
    "output",
    "output_blocks",
    "own_result",
    "parts",
    "reasoning_blocks",
    "usage",
    "usage_object",
]

OUTPUTS: Final = ("output", "outputs", "results", "result", "error")
"""Members in which a built-in call carries its own result."""

_SHOWN: Final = (
    "input_text",
    "input_image",
    "input_file",
    "output_text",
    "text",
    "computer_screenshot",
)
_REASONING: Final = frozenset({"type", "id", "summary", "content", "encrypted_content"})


def is_call(kind: str) -> bool:
    """Whether an item of this type is a call (``function_call``, ``web_search_call`` ...)."""
    return kind.endswith("_call")


def is_output(kind: str) -> bool:
    """Whether an item of this type is the result of a call."""
    return kind.endswith(("_call_output", "_call_result"))


def blocks(value: Any, ledger: Ledger, place: Place | None) -> list[Block]:
    """Give the blocks of an item's ``content``: a string or input and output parts."""
    if isinstance(value, str):
        return [Text(value)] if value else []
    found: list[Block] = []
    for part in chat.listed(value, ledger, place):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "input_file":
            found.append(_file(part, ledger, place))
        elif kind in ("input_image", "computer_screenshot"):
            found.append(_image(part, ledger, place))
        elif kind == "output_text" and isinstance(part.get("text"), str):
            found.append(_output_text(part, ledger, place))
        elif kind in ("reasoning_text", "summary_text") and isinstance(part.get("text"), str):
            found.append(Reasoning(part["text"]))
        else:
            found += chat.blocks([part], ledger, place)
    return found


def _output_text(part: dict[str, Any], ledger: Ledger, place: Place | None) -> Text:
    extra: Extra = {}
    if part.get("annotations"):
        extra["citations"] = part["annotations"]
        ledger.note("citation-aside", place)
    native = rest(part, ("type", "text", "annotations"))
    if native:
        extra["native"] = native
    return Text(part["text"], extra or None)


def _file(part: dict[str, Any], ledger: Ledger, place: Place | None) -> Block:
    return file_block(
        ledger,
        place,
        name=part.get("filename"),
        data=part.get("file_data"),
        uri=part.get("file_url"),
        identity=part.get("file_id"),
    )


def _image(part: dict[str, Any], ledger: Ledger, place: Place | None) -> Block:
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    file_id = text_of(part.get("file_id"))
    return image_or_file(
        ledger,
        place,
        url=url,
        reference={"id": file_id} if file_id and not isinstance(url, str) else None,
        native=rest(part, ("type", "image_url", "file_id")) or None,
    )


def reasoning_blocks(item: dict[str, Any], ledger: Ledger, place: Place | None) -> list[Block]:
    """Give the readable reasoning of an item: its full content, else its summary.

    The first block keeps the item's id, its ciphertext and other members; text that is
    only in the summary beside a full content stays there too.
    """
    texts: dict[str, list[str]] = {}
    for name in ("summary", "content"):
        value = item.get(name)
        value = [value] if isinstance(value, str) else value
        texts[name] = []
        for part in value if isinstance(value, list) else ():
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str) and text:
                texts[name].append(text)
            elif text is None or not isinstance(text, str):
                ledger.note("malformed-block", place, kind="reasoning")
    source = "content" if texts["content"] else "summary"
    found: list[Block] = [Reasoning(text) for text in texts[source]]
    first = found[0] if found else None
    if isinstance(first, Reasoning):
        native = rest(item, _REASONING)
        native["parts"] = len(found)
        if source == "content":
            native["source"] = "content"
            if texts["summary"]:
                native["summary"] = item["summary"]
        extra: Extra = {"native": native}
        for name in ("id", "encrypted_content"):
            if isinstance(item.get(name), str):
                extra[name] = item[name]
        first.extra = extra
    return found


def call_block(item: dict[str, Any], ledger: Ledger, place: Place | None) -> ToolCallBlock | None:
    """Give the call of an item; a built-in call keeps its members as arguments.

    The id is that of pairing (``call_id``, else ``id``), empty where there is none.
    """
    kind = str(item["type"])
    call_id = text_of(item.get("call_id")) or text_of(item.get("id")) or ""
    if kind in ("function_call", "custom_tool_call"):
        name = text_of(item.get("name"))
        if name is None:
            return None
        value = item.get("input" if kind == "custom_tool_call" else "arguments")
        text = (
            value
            if isinstance(value, str) and kind == "custom_tool_call"
            else chat.argument_text(value, ledger, place)
        )
        extra: Extra = {}
        if isinstance(item.get("id"), str) and item.get("call_id"):
            extra["id"] = item["id"]
        native = rest(item, ("type", "id", "call_id", "name", "arguments", "input"))
        if kind == "custom_tool_call":
            native["type"] = kind
        if native:
            extra["native"] = native
        return ToolCallBlock(call_id, name, text, extra or None)
    if kind == "mcp_call":
        name = text_of(item.get("name")) or "mcp"
        text = chat.argument_text(item.get("arguments"), ledger, place)
    else:
        name = kind.removesuffix("_call")
        about = rest(item, ("type", "id", "call_id", "status", *OUTPUTS))
        text = jsonio.dumps(about).decode()
    return ToolCallBlock(call_id, name, text, {"native": {"item": item}})


def own_result(
    item: dict[str, Any], ledger: Ledger, place: Place | None
) -> tuple[list[Block], bool] | None:
    """Give content and error mark of a result that a built-in call carries itself."""
    found: list[Block] = []
    for name in OUTPUTS:
        value = item.get(name)
        if value is None or value in ("", []):
            continue
        image = None
        if name == "result" and item["type"] == "image_generation_call":
            image = inline_image(value, f"image/{item.get('output_format', 'png')}")
        if image is not None:
            found.append(image)
        elif isinstance(value, str):
            found.append(Text(value))
        else:
            found += output_blocks(value, ledger, place)
    return (found, item.get("error") is not None) if found else None


def output_blocks(value: Any, ledger: Ledger, place: Place | None) -> list[Block]:
    """Give the content of a call's output: text, input parts, or JSON as text."""
    if isinstance(value, str):
        return [Text(value)] if value else []
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, dict) and item.get("type") in _SHOWN for item in items):
        return blocks(items, ledger, place)
    return [Text(jsonio.dumps(value).decode(), {"native": {"json": True}})]


def usage(value: Any) -> Usage | None:
    """Give usage in exclusive buckets; ``None`` when the counts are no counts."""
    if not isinstance(value, dict):
        return None
    read = value.get("input_tokens_details")
    made = value.get("output_tokens_details")
    read = read if isinstance(read, dict) else {}
    made = made if isinstance(made, dict) else {}
    return chat.exclusive(
        value.get("input_tokens"),
        value.get("output_tokens"),
        read.get("cached_tokens"),
        read.get("cache_write_tokens"),
        made.get("reasoning_tokens"),
    )


def usage_object(found: Usage) -> dict[str, Any]:
    """Give usage with the API's names; counts include cached tokens again."""
    total = found.input_tokens + (found.cache_read_tokens or 0) + (found.cache_write_tokens or 0)
    value: dict[str, Any] = {"input_tokens": total}
    if found.cache_read_tokens is not None or found.cache_write_tokens is not None:
        value["input_tokens_details"] = {
            name: n
            for name, n in (
                ("cached_tokens", found.cache_read_tokens),
                ("cache_write_tokens", found.cache_write_tokens),
            )
            if n is not None
        }
    value["output_tokens"] = found.output_tokens
    if found.reasoning_tokens is not None:
        value["output_tokens_details"] = {"reasoning_tokens": found.reasoning_tokens}
    value["total_tokens"] = total + found.output_tokens
    return value


def parts(found: list[Block], account: Account, kind: str) -> list[dict[str, Any]]:
    """Give content parts for text, images and files; ``kind`` is that of text parts."""
    return [part for block in found if (part := _part_of(block, account, kind)) is not None]


def output(found: list[Block], account: Account) -> Any:
    """Give the ``output`` of a call: a string where one text is all, else input parts."""
    text = plain(found)
    if text is not None or not found:
        account.kept("block.text", len(found))
        return text or ""
    only = found[0]
    if len(found) == 1 and isinstance(only, Text) and account.native(only.extra).get("json"):
        account.kept("block.text")
        account.members(only.extra)
        return jsonio.loads_exact(only.text)
    return parts(found, account, "input_text")


def _part_of(block: Block, account: Account, kind: str) -> dict[str, Any] | None:
    if isinstance(block, Image):
        if block.data is None:
            return {"type": kind, "text": account.image_text(block)}
        account.image(block)
        url = as_data_url(block.media_type, block.data)
        return with_rest({"type": "input_image", "image_url": url}, account.native(block.extra))
    if not isinstance(block, Text):
        account.foreign(block)
        return None
    account.kept("block.text")
    extra = block.extra or {}
    native = account.native(extra)
    image = extra.get("image")
    reference: dict[str, Any] = {}
    if isinstance(image, dict) and isinstance(image.get("url"), str):
        reference = {"image_url": image["url"]}
    elif isinstance(image, dict) and isinstance(image.get("id"), str) and account.own:
        reference = {"file_id": image["id"]}
    if reference:
        account.members(extra, "image")
        return with_rest({"type": "input_image", **reference}, native)
    entry = file_entry(block)
    file = _file_part(entry, account) if entry else None
    if file is not None:
        account.members(extra, "attachments")
        return file
    if extra.get("refusal") is True and kind == "output_text":
        account.members(extra, "refusal")
        return with_rest({"type": "refusal", "refusal": block.text}, native)
    part = with_rest({"type": kind, "text": block.text}, native)
    if account.own and kind == "output_text" and "citations" in extra:
        part["annotations"] = extra["citations"]
        account.members(extra, "citations")
    else:
        account.members(extra)
    return part


def _file_part(entry: dict[str, Any], account: Account) -> dict[str, Any] | None:
    """Give the ``input_file`` part of an attachment with bytes, an address or an id."""
    data, media = entry.get("data"), entry.get("type")
    if entry.get("kind") == "image" and isinstance(data, str):
        return {"type": "input_image", "image_url": as_data_url(media, data)}
    part: dict[str, Any] = {"type": "input_file"}
    if isinstance(entry.get("name"), str):
        part["filename"] = entry["name"]
    if isinstance(data, str):
        part["file_data"] = as_data_url(media, data) if isinstance(media, str) else data
    elif isinstance(entry.get("uri"), str):
        part["file_url"] = entry["uri"]
    elif isinstance(entry.get("id"), str) and knows_files(account):
        part["file_id"] = entry["id"]
    else:
        return None
    return part
