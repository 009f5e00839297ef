"""Tool call rounds into steps, and the summaries that stand with them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from converters import jsonio
from converters.formats.copilot_vscode.items import Items, Shown, named, words_of
from converters.formats.copilot_vscode.panel import beyond
from converters.ir import Block, Compaction, Reasoning, Text, ToolCallBlock, ToolResult
from converters.shapes.attachments import file_block, image_or_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from converters.formats.copilot_vscode.items import Asked
    from converters.ledger import Ledger
    from converters.turns import TurnBuilder
    from converters.types import Context

__all__ = ["compaction_of", "rounds_of"]


def rounds_of(
    turns: TurnBuilder,
    metadata: dict[str, Any],
    items: list[Shown],
    asked: Asked,
    *,
    ctx: Context,
    fate: Callable[..., None],
) -> None:
    """Build a step of each round, and steps of what the panel shows beyond them."""
    model, time, place = asked
    entries = _entries(metadata, place)
    if len(entries) < len(metadata["toolCallRounds"]):
        lost = len(metadata["toolCallRounds"]) - len(entries)
        ctx.ledger.note("malformed-block", f"{place}/result/metadata/toolCallRounds", lost)
    results = metadata.get("toolCallResults")
    results = results if isinstance(results, dict) else {}
    gaps, outputs = beyond([entry for _, entry in entries], items, fate)
    panel = Items(turns, ctx, fate)
    for (at, entry), before in zip(entries, gaps, strict=False):
        blocks = _round_blocks(entry, turns, ctx, at)
        if blocks and all(shown.item.get("kind") == "thinking" for shown in before):
            blocks[:0] = _thoughts(before, fate)
        else:
            panel.take(before, model, time)
        if not blocks:
            continue
        turns.step(blocks, time=time, model=model)
        for block in blocks:
            if isinstance(block, ToolCallBlock):
                answer = _answer(block.id, results, outputs, ctx.ledger, place)
                if answer is not None:
                    turns.result(ToolResult(block.id, answer), at)
    panel.take(gaps[-1], model, time)


def _entries(metadata: dict[str, Any], place: str) -> list[tuple[str, dict[str, Any]]]:
    rounds = metadata.get("toolCallRounds")
    return [
        (f"{place}/result/metadata/toolCallRounds/{index}", entry)
        for index, entry in enumerate(rounds if isinstance(rounds, list) else ())
        if isinstance(entry, dict)
    ]


def _thoughts(shown: list[Shown], fate: Callable[..., None]) -> Iterator[Block]:
    """Give thinking that the panel shows before a round: it belongs to the same message."""
    for place, item in shown:
        fate(None, place)
        if text := words_of(item.get("value")):
            yield Reasoning(text)


def _round_blocks(
    entry: dict[str, Any], turns: TurnBuilder, ctx: Context, place: str
) -> list[Block]:
    blocks: list[Block] = []
    thinking = entry.get("thinking")
    if isinstance(thinking, dict):
        text = words_of(thinking.get("text"))
        if text:
            blocks.append(Reasoning(text))
        if thinking.get("encrypted"):
            ctx.ledger.note("reasoning-encrypted", place)
    response = entry.get("response")
    if isinstance(response, str) and response:
        blocks.append(Text(response))
    calls = entry.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        found = named(call)
        if found is None:
            ctx.ledger.note("malformed-call", place)
            continue
        identity, name = found
        if turns.declared(identity):
            ctx.ledger.note("duplicate-tool-call", place)
            continue
        arguments = call.get("arguments")
        text = arguments if isinstance(arguments, str) else jsonio.dumps(arguments or {}).decode()
        blocks.append(ToolCallBlock(identity, name, text))
    return blocks


def _answer(
    name: str, results: dict[str, Any], outputs: dict[str, str], ledger: Ledger, place: str
) -> list[Block] | None:
    """Give the result of a call by its id; where there is none, the output that the panel has."""
    if name in results:
        at = f"{place}/result/metadata/toolCallResults/{name[:60]}"
        return _result_blocks(results[name], ledger, at)
    text = outputs.get(name)
    return None if text is None else [Text(text)] if text else []


def _result_blocks(value: Any, ledger: Ledger, place: str) -> list[Block]:
    """Give ``content[]`` of a tool result: ``value`` (text or a tree of text nodes), or data."""
    content = value.get("content") if isinstance(value, dict) else value
    blocks: list[Block] = []
    texts: list[str] = []
    for part in content if isinstance(content, list) else ():
        found = _part(part, ledger, place)
        if isinstance(found, str):
            texts += [found] if found else []
            continue
        if texts:
            blocks.append(Text("\n".join(texts)))
            texts = []
        blocks.append(found)
    return [*blocks, Text("\n".join(texts))] if texts else blocks


def _part(part: Any, ledger: Ledger, place: str) -> str | Block:
    if not isinstance(part, dict) or "value" in part or "data" not in part:
        inner = part.get("value") if isinstance(part, dict) else part
        text = inner if isinstance(inner, str) else _tree_text(inner)
        if not text and inner != "":
            ledger.note("unknown-block", place)
        return text
    media = part.get("mimeType")
    data = _base64(part["data"])
    if isinstance(media, str) and media.startswith("image/"):
        return image_or_file(ledger, place, data=data, media=media)
    return file_block(ledger, place, media=media, data=data)


def _base64(data: Any) -> Any:
    """Give base64 text of bytes that are written as numbers: a list, or a map by position."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        try:
            return base64.b64encode(bytes(data)).decode()
        except (TypeError, ValueError):
            return None
    return data


def _tree_text(value: Any) -> str:
    """Give the text leaves of a rendered prompt tree, in order."""
    found: list[str] = []
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if isinstance(node.get("text"), str):
                found.append(node["text"])
                continue
            children = node.get("children")
            node = node.get("node") if children is None else children
            stack.append(node)
        elif isinstance(node, list):
            stack += reversed(node)
    return "".join(found)


def compaction_of(metadata: dict[str, Any], asked: Asked, ctx: Context) -> Compaction | None:
    """Give the last summary that a request carries: of a round, or beside the rounds.

    Beside them ``toolCallRoundId`` names its round. Earlier ones are kept in ``x-dcb``.
    """
    entries = _entries(metadata, asked.place)
    order = {entry.get("id"): n for n, (_, entry) in enumerate(entries) if _is_text(entry, "id")}
    several = metadata.get("summaries")
    beside = [*(several if isinstance(several, list) else [several]), metadata.get("summary")]
    found = [(n, entry.get("summary")) for n, (_, entry) in enumerate(entries)]
    for value in beside:
        one = _is_text(value, "toolCallRoundId")
        found.append((order.get(value["toolCallRoundId"], -1) if one else -1, value))
    texts: list[str] = []
    for _, value in sorted(found, key=lambda pair: pair[0]):
        text = value.get("text") if isinstance(value, dict) else value
        if isinstance(text, str) and text.strip():
            texts += [text] if text not in texts else []
        elif value:
            ctx.ledger.note("compacted-unavailable", asked.place)
    if not texts:
        return None
    if len(texts) > 1:
        ctx.ledger.note("record-aside", asked.place, len(texts) - 1, "summary")
    earlier = {"native": {"summaries": texts[:-1]}} if len(texts) > 1 else None
    return Compaction(texts[-1], "copilot-vscode", extra=earlier)


def _is_text(value: Any, member: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(member), str)
