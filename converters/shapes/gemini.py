"""Parts of the Gemini API's contents <-> IR.

Read: ``text`` (with ``thought``), ``inlineData``, ``fileData``, ``functionCall``,
``functionResponse``, ``executableCode``, ``codeExecutionResult``; both spellings of member
names (``inlineData``, ``inline_data``). Source: the Gemini API reference, Content and Part.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.ir import Image, Reasoning, Text, ToolCallBlock
from converters.shapes.anthropic import input_of
from converters.shapes.attachments import file_block, file_entry, image_or_file
from converters.shapes.openai_chat import listed, rest
from converters.shapes.rows import text_of
from converters.shapes.talk import Found, Given
from converters.turns import sanitize_usage

if TYPE_CHECKING:
    from converters.ir import Block, Extra, ToolCall, ToolResult, Usage
    from converters.ledger import Ledger, Place
    from converters.shapes.account import Account

__all__ = [
    "CODE",
    "KINDS",
    "blocks",
    "function_call",
    "function_response",
    "member",
    "part_of",
    "parts",
    "usage",
    "usage_object",
]

CODE: Final = "code_execution"
"""The tool name that stands for ``executableCode``."""

KINDS: Final = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "text",
)
"""The members that say what a part is."""

_SPELLED: Final = frozenset(
    {
        "text",
        "thought",
        "thoughtSignature",
        "thought_signature",
        "functionCall",
        "function_call",
        "functionResponse",
        "function_response",
        "inlineData",
        "inline_data",
        "fileData",
        "file_data",
        "executableCode",
        "executable_code",
        "codeExecutionResult",
        "code_execution_result",
    }
)


def member(value: dict[str, Any], name: str) -> Any:
    """Give a member by its camelCase name, also where the source wrote snake_case."""
    found = value.get(name)
    return value.get(_snake(name)) if found is None else found


@cache
def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def blocks(value: Any, ledger: Ledger, place: Place | None) -> list[Block]:
    """Give the blocks of ``parts``; function responses are not among them."""
    return parts(value, ledger, place).blocks


def parts(value: Any, ledger: Ledger, place: Place | None) -> Found:
    """Give blocks and tool results of ``parts``."""
    found = Found([], [], [], [])
    for part in [value] if isinstance(value, str) else listed(value, ledger, place):
        if isinstance(part, str):
            found.blocks.append(Text(part))
        elif isinstance(part, dict):
            _part(part, found, ledger, place)
        else:
            ledger.note("malformed-block", place, kind=type(part).__name__)
    return found


def _part(part: dict[str, Any], found: Found, ledger: Ledger, place: Place | None) -> None:
    """Read one part. The API puts one kind in each; where more stand together none is lost."""
    bodies = {name: body for name in KINDS if (body := member(part, name)) is not None}
    if not bodies:
        signed = member(part, "thoughtSignature")
        rule = "reasoning-encrypted" if signed else "unknown-block"
        if signed:
            found.add_opaque(part)
        ledger.note(rule, place, kind=",".join(sorted(part))[:40])
        return
    extra: Extra = {}
    signature = text_of(member(part, "thoughtSignature"))
    if signature:
        extra["thoughtSignature"] = signature
    native = rest(part, _SPELLED)
    if native:
        extra["native"] = native
    text = bodies.pop("text", None)
    if isinstance(text, str):
        about = None if bodies else extra or None
        if part.get("thought") is True and (text or not bodies):
            found.blocks.append(Reasoning(text, about))
        elif text or about:
            found.blocks.append(Text(text, about))
    elif text is not None:
        ledger.note("malformed-block", place, kind="text")
    for kind, body in bodies.items():
        if isinstance(body, dict) and kind in ("inlineData", "fileData"):
            found.blocks.append(_media(kind, body, extra, ledger, place))
        elif isinstance(body, dict) and kind == "functionResponse":
            found.add_result(_response(body, extra, ledger, place))
        elif not isinstance(body, dict) or not _code(kind, body, extra, found):
            ledger.note("malformed-block", place, kind=kind)
        extra = {}


def _code(kind: str, body: dict[str, Any], extra: Extra, found: Found) -> bool:
    """Read a call, code to run, or its result; false when it has not what it needs."""
    if kind == "functionCall":
        name = text_of(body.get("name"))
        if name is None:
            return False
        args = body.get("args")
        text = args if isinstance(args, str) else jsonio.dumps(args or {}).decode()
        found.blocks.append(ToolCallBlock(text_of(body.get("id")) or "", name, text, extra or None))
        return True
    if kind == "executableCode":
        extra["native"] = {**extra.get("native", {}), "kind": kind}
        found.blocks.append(
            ToolCallBlock(text_of(body.get("id")) or "", CODE, jsonio.dumps(body).decode(), extra)
        )
        return True
    if kind == "codeExecutionResult":
        outcome = body.get("outcome")
        output = text_of(body.get("output"))
        error = isinstance(outcome, str) and outcome not in ("OUTCOME_OK", "OUTCOME_UNSPECIFIED")
        extra["native"] = {**extra.get("native", {}), "kind": kind, "outcome": outcome}
        content: list[Block] = [Text(output)] if output else []
        found.add_result(Given(text_of(body.get("id")), CODE, content, error, extra))
        return True
    return False


def _response(body: dict[str, Any], extra: Extra, ledger: Ledger, place: Place | None) -> Given:
    """Read ``response``: ``output``/``result`` and ``error`` alone are the text, else JSON.

    An ``error`` that holds nothing (null, false, "") says that there was none.
    Images and files of a multimodal response stand in its ``parts``.
    """
    response = body.get("response")
    error = False
    value = response
    if isinstance(response, dict) and len(response) == 1:
        name, inner = next(iter(response.items()))
        if name in ("output", "result", "error"):
            value = inner
            error = name == "error" and inner not in (None, False, "")
            if name == "error" and not error:
                value = None
                extra["native"] = {**extra.get("native", {}), "response": response}
            if name == "result":
                extra["native"] = {**extra.get("native", {}), "key": "result"}
    content: list[Block] = []
    if isinstance(value, str):
        content = [Text(value)] if value else []
        if not isinstance(response, dict):
            extra["native"] = {**extra.get("native", {}), "key": None}
    elif value is not None:
        content = [Text(jsonio.dumps(value).decode())]
        extra["native"] = {**extra.get("native", {}), "response": response}
    if isinstance(body.get("parts"), list):
        content += blocks(body["parts"], ledger, place)
    return Given(text_of(body.get("id")), body.get("name"), content, error, extra or None)


def _media(
    kind: str, body: dict[str, Any], extra: Extra, ledger: Ledger, place: Place | None
) -> Block:
    media = member(body, "mimeType")
    name = text_of(member(body, "displayName"))
    block: Block
    is_image = isinstance(media, str) and media.lower().startswith("image/")
    if kind == "inlineData":
        data = body.get("data")
        if is_image or media is None:
            block = image_or_file(ledger, place, data=data, media=media, name=name)
        else:
            block = file_block(ledger, place, name=name, media=media, data=data, kind="file")
    elif is_image:
        block = image_or_file(ledger, place, url=member(body, "fileUri"), media=media, name=name)
    else:
        block = file_block(ledger, place, name=name, media=media, uri=member(body, "fileUri"))
    if extra:
        block.extra = {**(block.extra or {}), **extra}
    return block


def usage(value: Any) -> Usage | None:
    """Give usage in exclusive buckets; ``None`` when the counts are no counts.

    ``promptTokenCount`` includes cached tokens, ``candidatesTokenCount`` excludes
    thoughts; what tools read counts as input.
    """
    if not isinstance(value, dict):
        return None

    def count(name: str) -> Any:
        return member(value, name)

    prompt, output = count("promptTokenCount"), count("candidatesTokenCount")
    cached, thoughts = count("cachedContentTokenCount"), count("thoughtsTokenCount")
    tools = count("toolUsePromptTokenCount")
    output = 0 if output is None and type(prompt) is int else output
    if type(prompt) is int and type(cached) is int and 0 < cached <= prompt:
        prompt -= cached
    if type(prompt) is int and type(tools) is int and tools > 0:
        prompt += tools
    if type(output) is int and type(thoughts) is int and thoughts > 0:
        output += thoughts
    return sanitize_usage(
        {
            "inputTokens": prompt,
            "outputTokens": output,
            "cacheReadTokens": cached,
            "reasoningTokens": thoughts,
        }
    )


def usage_object(found: Usage) -> dict[str, Any]:
    """Give usage with the API's names."""
    prompt = found.input_tokens + (found.cache_read_tokens or 0)
    thoughts = found.reasoning_tokens or 0
    value: dict[str, Any] = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": max(found.output_tokens - thoughts, 0),
        "totalTokenCount": prompt + max(found.output_tokens, thoughts),
    }
    if found.cache_read_tokens is not None:
        value["cachedContentTokenCount"] = found.cache_read_tokens
    if found.reasoning_tokens is not None:
        value["thoughtsTokenCount"] = found.reasoning_tokens
    return value


def function_call(call: ToolCall, account: Account) -> dict[str, Any]:
    """Give the part of a call; an id that the reader minted stays out."""
    account.kept("call")
    extra = call.extra or {}
    native = account.native(extra)
    more = {k: v for k, v in native.items() if k != "kind"}
    part: dict[str, Any]
    if native.get("kind") == "executableCode":
        part = {"executableCode": input_of(call.arguments), **more}
    else:
        body: dict[str, Any] = {"name": call.name, "args": input_of(call.arguments, account)}
        if not (account.own and extra.get("minted") is True):
            body = {"id": call.id, **body}
        part = {"functionCall": body, **more}
    _sign(part, extra)
    account.members(extra, "thoughtSignature", "minted" if account.own else "")
    return part


def function_response(
    result: ToolResult, call: ToolCall | None, account: Account
) -> dict[str, Any]:
    """Give the part of a result; images and files stand in the response's own parts."""
    account.kept("result")
    extra = result.extra or {}
    native = account.native(extra)
    if result.is_error:
        account.kept("error")
    account.time(result.time)
    account.members(extra, "thoughtSignature", "callId" if account.own else "")
    texts: list[str] = []
    others: list[dict[str, Any]] = []
    for block in result.content:
        if isinstance(block, Text) and not _stands_for_media(block):
            texts.append(block.text)
            if others:
                account.note("order-changed")
            account.kept("block.text")
            account.members(block.extra)
        else:
            part = part_of(block, account)
            if part is not None:
                others.append(part)
    if len(texts) > 1:
        account.note("text-changed", "result joined", len(texts) - 1)
    text = "\n".join(texts)
    if native.get("kind") == "codeExecutionResult" and not others:
        return {"codeExecutionResult": {"outcome": native.get("outcome"), "output": text}}
    key = "error" if result.is_error else "result" if native.get("key") == "result" else "output"
    response = native.get("response", {key: text})
    name = call.name if call is not None else "unknown"
    body = {"name": name, "response": response}
    minted = call.extra.get("minted") if call is not None and call.extra else None
    identity = extra.get("callId") if account.own else None
    if isinstance(identity, str):
        body = {"id": identity, **body}
    elif not (account.own and minted is True):
        body = {"id": result.tool_call_id, **body}
    if others:
        body["parts"] = others
    answer: dict[str, Any] = {"functionResponse": body}
    _sign(answer, extra)
    return answer


def _stands_for_media(block: Text) -> bool:
    return block.extra is not None and ("attachments" in block.extra or "image" in block.extra)


def _sign(part: dict[str, Any], extra: Extra) -> None:
    if isinstance(extra.get("thoughtSignature"), str):
        part["thoughtSignature"] = extra["thoughtSignature"]


def part_of(block: Block, account: Account) -> dict[str, Any] | None:
    """Give the part of a text, reasoning or image block."""
    extra = block.extra or {}
    part: dict[str, Any]
    if isinstance(block, ToolCallBlock):
        account.foreign(block)
        return None
    if isinstance(block, Reasoning):
        account.kept("block.reasoning")
        part = {"text": block.text, "thought": True}
        written: tuple[str, ...] = ()
    elif isinstance(block, Image):
        written = ()
        if block.data is None:
            account.lost("image-text", "block.image")
            part = {"text": f"[image] {block.name}" if block.name else "[image]"}
        else:
            account.kept("block.image")
            body = {"mimeType": block.media_type, "data": block.data}
            part = {"inlineData": body | ({"displayName": block.name} if block.name else {})}
    else:
        account.kept("block.text")
        part, written = _text_part(block)
    _sign(part, extra)
    account.members(extra, "thoughtSignature", *written)
    return part | account.native(extra)


def _text_part(block: Text) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Give the part of a text block, and the members of its ``x-dcb`` that are in it."""
    image = block.extra.get("image") if block.extra else None
    if isinstance(image, dict) and isinstance(image.get("url"), str):
        media = image.get("mediaType")
        body = {"mimeType": media if isinstance(media, str) else "image/*"}
        return {"fileData": {**body, "fileUri": image["url"]}}, ("image",)
    entry = file_entry(block)
    if entry is not None:
        media = entry.get("type")
        about = {"mimeType": media} if isinstance(media, str) else {}
        if isinstance(entry.get("name"), str):
            about["displayName"] = entry["name"]
        if isinstance(entry.get("data"), str):
            return {"inlineData": {**about, "data": entry["data"]}}, ("attachments",)
        if isinstance(entry.get("uri"), str):
            return {"fileData": {**about, "fileUri": entry["uri"]}}, ("attachments",)
    return {"text": block.text}, ()
