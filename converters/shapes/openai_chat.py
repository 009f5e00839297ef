"""Messages of the OpenAI chat-completions API and its look-alikes <-> IR.

Read: content strings and parts (``text``, ``image_url``, ``input_audio``, ``file``,
``refusal``), ``tool_calls`` (function and custom), legacy ``function_call``, vendor
reasoning (``reasoning_content``, ``reasoning``, ``thinking``, ``reasoning_details``),
usage with cached and reasoning details. Source: the OpenAI API reference, chat
completions; DeepSeek and OpenRouter API references for the additions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.ir import Image, Reasoning, Text
from converters.shapes.attachments import as_data_url, file_block, file_entry, image_or_file
from converters.shapes.rows import text_of
from converters.turns import sanitize_usage

if TYPE_CHECKING:
    from collections.abc import Container

    from converters.ir import Block, Extra, Usage
    from converters.ledger import Ledger, Place
    from converters.shapes.account import Account

__all__ = [
    "argument_text",
    "blocks",
    "content",
    "exclusive",
    "identified",
    "knows_files",
    "listed",
    "part_of",
    "reasoning",
    "repeated",
    "rest",
    "usage",
    "usage_object",
    "with_rest",
]

_REASONING: Final = ("reasoning_content", "reasoning", "thinking")
"""The members that vendors show reasoning in, the usual one first."""


def listed(value: Any, ledger: Ledger, place: Place | None) -> list[Any]:
    """Give the parts of a content: an object is one part, anything else is none and counted."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [value]
    if value is not None:
        ledger.note("malformed-block", place, kind=type(value).__name__)
    return []


def blocks(value: Any, ledger: Ledger, place: Place | None) -> list[Block]:
    """Give the blocks of ``content``: a string, a list of parts, or nothing."""
    if isinstance(value, str):
        return [Text(value)] if value else []
    found: list[Block] = []
    for part in listed(value, ledger, place):
        block = _part(part, ledger, place)
        if block is not None:
            found.append(block)
    return found


def _part(part: Any, ledger: Ledger, place: Place | None) -> Block | None:
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, dict):
        ledger.note("malformed-block", place, kind=type(part).__name__)
        return None
    kind = part.get("type")
    if kind in ("text", "input_text", "output_text", "refusal") or (
        kind is None and isinstance(part.get("text"), str)
    ):
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            ledger.note("malformed-block", place, kind=str(kind)[:40])
            return None
        extra: Extra | None = {"refusal": True} if kind == "refusal" else None
        if len(part) > 2:
            native = rest(part, ("type", "text", "refusal"))
            extra = {**(extra or {}), "native": native} if native else extra
        return Text(text, extra)
    if kind in ("image_url", "input_image", "image"):
        return _image(part, ledger, place)
    if kind in ("input_audio", "audio"):
        audio = part.get(kind)
        audio = audio if isinstance(audio, dict) else {}
        form = audio.get("format")
        return file_block(
            ledger,
            place,
            kind="audio",
            media=f"audio/{form}" if isinstance(form, str) and form else None,
            data=audio.get("data"),
            identity=audio.get("id"),
        )
    if kind in ("file", "input_file"):
        file = part.get("file")
        file = file if isinstance(file, dict) else part
        return file_block(
            ledger,
            place,
            name=file.get("filename"),
            data=file.get("file_data"),
            uri=file.get("file_url"),
            identity=file.get("file_id"),
        )
    if kind in ("thinking", "reasoning"):
        text = part.get("thinking") if kind == "thinking" else part.get("text")
        if isinstance(text, str):
            return Reasoning(text)
    known = isinstance(kind, str)
    ledger.note("unknown-block" if known else "malformed-block", place, kind=str(kind)[:40])
    return None


def _image(part: dict[str, Any], ledger: Ledger, place: Place | None) -> Block:
    holder = part.get("image_url", part.get("image"))
    native: Extra = {}
    if isinstance(holder, dict):
        url = holder.get("url")
        native = rest(holder, ("url",))
    else:
        url = holder
    if isinstance(part.get("detail"), str):
        native["detail"] = part["detail"]
    source = part.get("source")
    source = source if isinstance(source, dict) else part
    data = source.get("data")
    media = source.get("media_type", source.get("mimeType", source.get("mime_type")))
    reference: Extra | None = None
    if not isinstance(url, str) and isinstance(part.get("file_id"), str):
        reference = {"id": part["file_id"]}
    if url is None:
        url = source.get("url")
    return image_or_file(
        ledger,
        place,
        url=url,
        data=data if not isinstance(url, str) else None,
        media=media,
        name=part.get("name"),
        reference=reference,
        native=native or None,
    )


def rest(value: dict[str, Any], known: Container[str]) -> dict[str, Any]:
    """Give the members without a field of their own; null and empty lists say nothing."""
    return {
        name: item
        for name, item in value.items()
        if name not in known and item is not None and item != []
    }


def with_rest(part: dict[str, Any], native: dict[str, Any]) -> dict[str, Any]:
    """Give a part with the members that :func:`rest` kept; what it says itself stands."""
    return part | {name: item for name, item in native.items() if name not in part}


def identified(message: dict[str, Any], known: Container[str]) -> Extra | None:
    """Give the ``x-dcb`` of a message: its id, and the members without a field of their own."""
    extra: Extra = {}
    if isinstance(message.get("id"), str) and message["id"]:
        extra["id"] = message["id"]
    native = rest(message, known)
    if native:
        extra["native"] = native
    return extra or None


def reasoning(message: dict[str, Any], ledger: Ledger, place: Place | None) -> list[Block]:
    """Give the reasoning that a message shows, under whichever names the vendor gives it.

    Routers repeat one text under several names: it is one block.
    """
    found: list[Block] = []
    texts: set[str] = set()
    for name in _REASONING:
        value = message.get(name)
        if isinstance(value, str):
            if value and value not in texts:
                extra = None if name == "reasoning_content" else {"native": {"member": name}}
                found.append(Reasoning(value, extra))
                texts.add(value)
        elif value is not None:
            ledger.note("malformed-block", place, kind=name)
    if found:
        return found
    details = message.get("reasoning_details")
    for detail in details if isinstance(details, list) else ():
        detail = detail if isinstance(detail, dict) else {}
        text = text_of(detail.get("text")) or text_of(detail.get("summary"))
        if text is not None:
            found.append(Reasoning(text, {"native": {"member": "reasoning_details"}}))
        elif detail.get("type") == "reasoning.encrypted":
            ledger.note("reasoning-encrypted", place)
    return found


def repeated(message: dict[str, Any], thoughts: list[Block]) -> set[str]:
    """Name the members that repeat the text of another: they are kept as they stand."""
    given = {name for name in _REASONING if isinstance(message.get(name), str)}
    if len(given) < 2:
        return set()
    return given - {
        native.get("member", "reasoning_content")
        for block in thoughts
        for native in ((block.extra or {}).get("native", {}),)
    }


def argument_text(value: Any, ledger: Ledger, place: Place | None) -> str:
    """Give call arguments as text: a string as it stands, anything else as JSON.

    Text that is no JSON is legal data, kept and counted as ``tool-args-unparsed``.
    """
    if value is None:
        return "{}"
    if not isinstance(value, str):
        return jsonio.dumps(value).decode("utf-8")
    if not (value.startswith("{") and value.endswith("}")):
        try:
            jsonio.loads_exact(value)
        except (ValueError, RecursionError):
            ledger.note("tool-args-unparsed", place)
    return value


def usage(value: Any) -> Usage | None:
    """Give usage in exclusive buckets; ``None`` when the counts are no counts.

    ``prompt_tokens`` includes cached ones, ``completion_tokens`` reasoning.
    """
    if not isinstance(value, dict):
        return None
    prompt = value.get("prompt_tokens")
    details = value.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached = details.get("cached_tokens", value.get("prompt_cache_hit_tokens"))
    written = details.get("cache_write_tokens")
    output = value.get("completion_tokens_details")
    output = output if isinstance(output, dict) else {}
    return exclusive(
        prompt, value.get("completion_tokens"), cached, written, output.get("reasoning_tokens")
    )


def exclusive(prompt: Any, output: Any, cached: Any, written: Any, thought: Any) -> Usage | None:
    """Give usage from an input count that includes cached tokens.

    Where the parts exceed the whole, the whole is taken as exclusive already.
    """
    parts = sum(n for n in (cached, written) if type(n) is int and n > 0)
    if type(prompt) is int and 0 < parts <= prompt:
        prompt -= parts
    return sanitize_usage(
        {
            "inputTokens": prompt,
            "outputTokens": output,
            "cacheReadTokens": cached,
            "cacheWriteTokens": written,
            "reasoningTokens": thought,
        }
    )


def usage_object(found: Usage) -> dict[str, Any]:
    """Give usage with the API's names; counts include cached tokens again."""
    prompt = found.input_tokens + (found.cache_read_tokens or 0) + (found.cache_write_tokens or 0)
    value: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": found.output_tokens,
        "total_tokens": prompt + found.output_tokens,
    }
    details = {
        name: n
        for name, n in (
            ("cached_tokens", found.cache_read_tokens),
            ("cache_write_tokens", found.cache_write_tokens),
        )
        if n is not None
    }
    if details:
        value["prompt_tokens_details"] = details
    if found.reasoning_tokens is not None:
        value["completion_tokens_details"] = {"reasoning_tokens": found.reasoning_tokens}
    return value


def content(found: list[Block], account: Account, kind: str = "text") -> str | list[Any] | None:
    """Give ``content`` for blocks, and account for each: a string where one text is all.

    Reasoning and tool calls have their own places and must not be among the blocks.
    ``kind`` names the text part (``input_text`` in the Responses API).
    """
    if not found:
        return None
    if len(found) == 1:
        only = found[0]
        if isinstance(only, Text) and only.extra is None and only.text:
            account.kept("block.text")
            return only.text
    return [part for block in found if (part := part_of(block, account, kind)) is not None]


def part_of(block: Block, account: Account, kind: str = "text") -> dict[str, Any] | None:
    """Give one content part for a text or image block."""
    if isinstance(block, Text):
        account.kept("block.text")
        return _text_part(block, account, kind)
    if isinstance(block, Image):
        if block.data is None:
            return {"type": kind, "text": account.image_text(block)}
        account.image(block)
        image = {"url": as_data_url(block.media_type, block.data), **account.native(block.extra)}
        return {"type": "image_url", "image_url": image}
    if isinstance(block, Reasoning):
        account.lost("block-dropped", "block.reasoning")
    account.members(block.extra)
    return None


def _text_part(block: Text, account: Account, kind: str) -> dict[str, Any]:
    extra = block.extra or {}
    native = account.native(extra)
    image = extra.get("image")
    if isinstance(image, dict) and isinstance(image.get("url"), str):
        account.members(extra, "image")
        return {"type": "image_url", "image_url": {"url": image["url"], **native}}
    entry = file_entry(block)
    part = _file_part(entry, account) if entry else None
    if part is not None:
        account.members(extra, "attachments")
        return part
    if extra.get("refusal") is True and kind == "text":
        account.members(extra, "refusal")
        return {"type": "refusal", "refusal": block.text}
    account.members(extra)
    return with_rest({"type": kind, "text": block.text}, native)


def knows_files(account: Account) -> bool:
    """Whether ids of files in the session are those of the OpenAI API, which both APIs share."""
    return account.provider in ("openai-chat", "openai-responses")


def _file_part(entry: dict[str, Any], account: Account) -> dict[str, Any] | None:
    """Give the ``file`` or ``input_audio`` part of an attachment that has bytes or an id."""
    data, media = entry.get("data"), entry.get("type")
    if entry.get("kind") == "audio":
        if not isinstance(data, str) or not isinstance(media, str):
            return None
        return {
            "type": "input_audio",
            "input_audio": {"data": data, "format": media.rpartition("/")[2]},
        }
    if entry.get("kind") == "image":
        if not isinstance(data, str):
            return None
        return {"type": "image_url", "image_url": {"url": as_data_url(media, data)}}
    file: dict[str, Any] = {}
    if isinstance(entry.get("name"), str):
        file["filename"] = entry["name"]
    if isinstance(data, str):
        file["file_data"] = as_data_url(media, data) if isinstance(media, str) else data
    elif isinstance(entry.get("id"), str) and knows_files(account):
        file["file_id"] = entry["id"]
    else:
        return None
    return {"type": "file", "file": file}
