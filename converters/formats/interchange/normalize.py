"""Any JSON object into a session, by the reader's rules of Interchange v1, sections 1, 4, 5, 6.

Each rule that drops something there counts here, the silent ones under dcb's own names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.canonical import js_dumps
from converters.images import degraded, image_block
from converters.ir import (
    Block,
    Compaction,
    Extra,
    Meta,
    Reasoning,
    Session,
    Step,
    Text,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    Turn,
    Usage,
)
from converters.text import JS_SPACE, number_ms, parse_time
from converters.turns import sanitize_usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ledger import Ledger
    from converters.types import Context

__all__ = ["arguments_text", "normalize"]

_DOCUMENT: Final = frozenset(
    {"interchange", "version", "meta", "title", "provider", "model", "turns"}
)
_META: Final = frozenset({"id", "createdAt", "cwd", "sourceId"})
_TURN: Final = frozenset(
    {"prompt", "promptBlocks", "steps", "time", "aborted", "shadowed", "compaction"}
)
_STEP: Final = frozenset({"content", "toolCalls", "toolResults", "time", "model", "usage"})
_TEXT: Final = frozenset({"type", "text"})
_CALL: Final = frozenset({"type", "id", "name", "arguments"})
_RESULT: Final = frozenset({"type", "toolCallId", "content", "isError", "time"})
_COMPACTION: Final = frozenset({"summary", "provider", "model", "time"})
_USAGE: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
    "reasoningTokens": "reasoning_tokens",
}
_IMAGE: Final = frozenset(
    {"type", "data", "mediaType", "mimeType", "mime_type", "mime", "media_type", "name",
     "attachment", "url", "image_url", "imageUrl", "source"}
)  # fmt: skip


def normalize(document: dict[str, Any], ctx: Context, *, pointer: str, stem: str) -> Session:
    """Give the session of a parsed document; ``turns`` is empty when nothing usable is left."""
    ledger = ctx.ledger
    meta = document.get("meta")
    if not isinstance(meta, dict):
        _wrong(ledger, meta, f"{pointer}/meta")
        meta = {}
    places: dict[int, str] = {}
    turns = [
        turn
        for place, raw in _elements(document, "turns", "malformed-turn", ledger, pointer)
        if (turn := _turn(raw, ledger, place, places)) is not None
    ]
    _drop_orphans(turns, ledger, places)
    return Session(
        meta=_meta(meta, ledger, f"{pointer}/meta", stem),
        title=_string(document, "title", ledger, pointer),
        provider=_string(document, "provider", ledger, pointer) or "generic",
        model=_string(document, "model", ledger, pointer),
        turns=turns,
        extra=_extra(document, _DOCUMENT, ledger, pointer),
    )


def _meta(meta: dict[str, Any], ledger: Ledger, pointer: str, stem: str) -> Meta:
    extra = _extra(meta, _META, ledger, pointer)
    source_id = _string(meta, "sourceId", ledger, pointer)
    identity = meta.get("id")
    if isinstance(identity, int | float) and not isinstance(identity, bool):
        # A number names the session, but is not its id (section 3.3); it goes back as it came.
        extra = {
            **(extra or {}),
            "members": {**((extra or {}).get("members") or {}), "id": identity},
        }
        identity = js_dumps(identity)
    elif not isinstance(identity, str) or not identity:
        _wrong(ledger, identity or None, f"{pointer}/id")
        ledger.note("id-minted", f"{pointer}/id")
        identity = source_id or stem or "generic"
    created = _time(meta, "createdAt", ledger, pointer)
    return Meta(identity, created, _string(meta, "cwd", ledger, pointer), source_id, extra)


def _turn(raw: dict[str, Any], ledger: Ledger, place: str, places: dict[int, str]) -> Turn | None:
    prompt = raw.get("prompt")
    if not isinstance(prompt, str):
        _wrong(ledger, prompt, f"{place}/prompt")
        prompt = ""
    blocks = None
    if raw.get("promptBlocks") is not None:
        blocks, _ = _blocks(raw["promptBlocks"], ledger, f"{place}/promptBlocks")
    steps = [
        _placed(_step(step, ledger, at), at, places)
        for at, step in _elements(raw, "steps", "malformed-step", ledger, place)
    ]
    compaction = _compaction(raw.get("compaction"), ledger, f"{place}/compaction")
    if not prompt.strip(JS_SPACE) and not steps and compaction is None:
        ledger.skipped("malformed-turn", place)
        return None
    ledger.mapped(1 + len(steps))
    return Turn(
        prompt,
        blocks or None,
        steps,
        _time(raw, "time", ledger, place),
        _flag(raw, "aborted", ledger, place),
        compaction,
        _flag(raw, "shadowed", ledger, place),
        _extra(raw, _TURN, ledger, place),
    )


def _step(raw: dict[str, Any], ledger: Ledger, place: str) -> Step:
    content, derived = _blocks(raw.get("content"), ledger, f"{place}/content", results=True)
    calls: dict[str, ToolCall] = {}
    for at, item in _entries(raw, "toolCalls", ledger, place):
        call = _call(item, ledger, at) if isinstance(item, dict) else None
        if call is None:
            ledger.note("malformed-call", at)
        elif call.id in calls:
            ledger.note("duplicate-tool-call", at)
        else:
            calls[call.id] = call
    for block in content:
        if isinstance(block, ToolCallBlock) and block.id not in calls:
            calls[block.id] = ToolCall(block.id, block.name, block.arguments)
    results: list[ToolResult] = []
    for at, item in _entries(raw, "toolResults", ledger, place):
        result = _result(item, ledger, at) if isinstance(item, dict) else None
        if result is None:
            ledger.note("malformed-result", at)
        else:
            results.append(result)
    known = {result.tool_call_id for result in results}
    for result in derived:
        if result.tool_call_id not in known:
            known.add(result.tool_call_id)
            results.append(result)
        else:
            ledger.note("duplicate-tool-result", f"{place}/content")
    return Step(
        content,
        list(calls.values()),
        results,
        _time(raw, "time", ledger, place),
        _string(raw, "model", ledger, place),
        _usage(raw.get("usage"), ledger, f"{place}/usage"),
        _extra(raw, _STEP, ledger, place),
    )


def _blocks(
    value: Any, ledger: Ledger, place: str, *, results: bool = False
) -> tuple[list[Block], list[ToolResult]]:
    """Give the blocks that are kept, and the results that stood among them."""
    if not isinstance(value, list):
        _wrong(ledger, value, place)
        return [], []
    blocks: list[Block] = []
    derived: list[ToolResult] = []
    for index, item in enumerate(value):
        at = f"{place}/{index}"
        kind = item.get("type") if isinstance(item, dict) else None
        if results and kind == "tool-result":
            result = _result(item, ledger, at)
            if result is not None:
                derived.append(result)
                continue
        block = _block(item, kind, ledger, at)
        if block is None:
            known = kind in ("text", "reasoning", "tool-call", "tool-result")
            name = kind if isinstance(kind, str) else type(item).__name__
            ledger.note("malformed-block" if known else "unknown-block", at, kind=name)
        else:
            blocks.append(block)
    return blocks, derived


def _block(item: Any, kind: Any, ledger: Ledger, place: str) -> Block | None:
    if kind in ("text", "reasoning"):
        text = item.get("text")
        if not isinstance(text, str):
            return None
        extra = _extra(item, _TEXT, ledger, place)
        return Text(text, extra) if kind == "text" else Reasoning(text, extra)
    if kind == "tool-call":
        call = _call(item, ledger, place)
        if call is None:
            return None
        return ToolCallBlock(call.id, call.name, call.arguments, call.extra)
    if kind == "image":
        image = image_block(item)
        if image is None:
            return degraded(ledger, place)
        image.extra = _extra(item, _IMAGE, ledger, place)
        return image
    return None


def _call(raw: dict[str, Any], ledger: Ledger, place: str) -> ToolCall | None:
    identity, name = raw.get("id"), raw.get("name")
    if not (isinstance(identity, str) and identity and isinstance(name, str) and name):
        return None
    return ToolCall(
        identity, name, arguments_text(raw.get("arguments")), _extra(raw, _CALL, ledger, place)
    )


def arguments_text(value: Any) -> str:
    """Give call arguments as text: strings as they are, nothing as ``{}``, else JSON (5.1)."""
    if isinstance(value, str):
        return value
    return "{}" if value is None else js_dumps(value)


def _result(raw: dict[str, Any], ledger: Ledger, place: str) -> ToolResult | None:
    identity = raw.get("toolCallId")
    if not isinstance(identity, str) or not identity:
        return None
    content, _ = _blocks(raw.get("content"), ledger, f"{place}/content")
    return ToolResult(
        identity,
        content,
        _flag(raw, "isError", ledger, place),
        _time(raw, "time", ledger, place),
        _extra(raw, _RESULT, ledger, place),
    )


def _compaction(raw: Any, ledger: Ledger, place: str) -> Compaction | None:
    if not isinstance(raw, dict):
        _wrong(ledger, raw, place)
        return None
    summary = raw.get("summary")
    if not isinstance(summary, str) or not summary.strip(JS_SPACE):
        ledger.note("malformed-member", f"{place}/summary")
        return None
    return Compaction(
        summary,
        _string(raw, "provider", ledger, place) or "generic",
        _string(raw, "model", ledger, place),
        _time(raw, "time", ledger, place),
        _extra(raw, _COMPACTION, ledger, place),
    )


def _usage(raw: Any, ledger: Ledger, place: str) -> Usage | None:
    """Keep usage as given: known buckets as fields, the rest (bad buckets too) as members."""
    if raw is None:
        return None
    usage = sanitize_usage(raw)
    if usage is None:
        rule = "usage-invalid" if isinstance(raw, dict | list) else "malformed-member"
        ledger.note(rule, place)
        return None
    kept = {name for name, attribute in _USAGE.items() if getattr(usage, attribute) is not None}
    for name in raw.keys() & _USAGE.keys() - kept:
        if raw[name] is not None:
            ledger.note("malformed-member", f"{place}/{name}")
    usage.extra = _extra(raw, frozenset(kept), ledger, place)
    return usage


def _placed(step: Step, place: str, places: dict[int, str]) -> Step:
    """Remember where a step stood; dropped neighbours shift the indexes."""
    places[id(step)] = place
    return step


def _drop_orphans(turns: list[Turn], ledger: Ledger, places: dict[int, str]) -> None:
    """Drop results whose id no call of the document has (section 5.2)."""
    steps = [step for turn in turns for step in turn.steps]
    calls = {call.id for step in steps for call in step.tool_calls}
    for step in steps:
        kept = [result for result in step.tool_results if result.tool_call_id in calls]
        lost = len(step.tool_results) - len(kept)
        if lost:
            ledger.note("orphan-tool-result", places[id(step)], lost)
            step.tool_results = kept


def _elements(
    holder: dict[str, Any], name: str, rule: str, ledger: Ledger, pointer: str
) -> Iterable[tuple[str, dict[str, Any]]]:
    """Cut the records out of a list; what is no object is skipped under ``rule``."""
    value = holder.get(name)
    place = f"{pointer}/{name}"
    if not isinstance(value, list):
        _wrong(ledger, value, place)
        return
    ledger.seen(len(value))
    for index, item in enumerate(value):
        if isinstance(item, dict):
            yield f"{place}/{index}", item
        else:
            ledger.skipped(rule, f"{place}/{index}")


def _entries(
    raw: dict[str, Any], name: str, ledger: Ledger, place: str
) -> Iterable[tuple[str, Any]]:
    value = raw.get(name)
    if not isinstance(value, list):
        _wrong(ledger, value, f"{place}/{name}")
        return ()
    return ((f"{place}/{name}/{index}", item) for index, item in enumerate(value))


def _wrong(ledger: Ledger, value: Any, place: str) -> None:
    """Count a member of another type than the format says; an absent one is fine."""
    if value is not None:
        ledger.note("malformed-member", place)


def _string(raw: dict[str, Any], name: str, ledger: Ledger, place: str) -> str | None:
    value = raw.get(name)
    if isinstance(value, str):
        return value or None
    _wrong(ledger, value, f"{place}/{name}")
    return None


def _flag(raw: dict[str, Any], name: str, ledger: Ledger, place: str) -> bool:
    value = raw.get(name)
    if not isinstance(value, bool):
        _wrong(ledger, value, f"{place}/{name}")
    return value is True


def _time(raw: dict[str, Any], name: str, ledger: Ledger, place: str) -> int | None:
    value = raw.get(name)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        ms = number_ms(value)
    else:
        time = parse_time(value)
        ms = None if time is None else time.ms
        if time is not None and time.assumed:
            ledger.note("tz-assumed", f"{place}/{name}")
    if ms is None:
        ledger.note("timestamp-invalid", f"{place}/{name}")
    return ms


def _extra(raw: dict[str, Any], known: frozenset[str], ledger: Ledger, place: str) -> Extra | None:
    """Give ``x-dcb`` with the unknown members of the object."""
    own = raw.get("x-dcb")
    if own is not None and not isinstance(own, dict):
        ledger.note("malformed-member", f"{place}/x-dcb")
        own = None
    if len(raw) == (own is not None) + len(known & raw.keys()):
        return own or None
    members = {name: raw[name] for name in raw if name not in known and name != "x-dcb"}
    return {**(own or {}), "members": members} if members else own or None
