"""Content of Claude Code messages as IR blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from converters.formats.claude.human import strip_reminders
from converters.formats.claude.records import (
    DocumentBlock,
    ImageBlock,
    Odd,
    Record,
    RedactedBlock,
    ResultBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from converters.ir import Reasoning, Text, ToolCallBlock
from converters.shapes.attachments import file_block, image_or_file
from converters.shapes.raw_json import raw_text

if TYPE_CHECKING:
    from converters import ir
    from converters.ledger import Ledger

__all__ = ["answer", "release", "rich", "spoken"]

_NO_INPUT = msgspec.Raw(b"")
_ENDS = ("</system-reminder>", "</system-reminder>\n", "</system-reminder>\n\n")


def spoken(
    content: list[Any], ledger: Ledger, place: int
) -> tuple[list[ir.Block], dict[str, Any] | None]:
    """Give the blocks of an assistant message, and what only the same tool can use.

    The second value holds ``sealed`` (reasoning that nobody else can read, with its
    index) and ``blocks`` (unknown blocks, kept whole).
    """
    if len(content) == 1:
        # Nearly every line holds one block.
        if type(content[0]) is Text:
            return content, None
        if type(content[0]) is ToolUseBlock:
            return [_call(content[0], ledger, place)], None
    blocks: list[ir.Block] = []
    kept: dict[str, Any] | None = None
    for index, block in enumerate(content):
        kind = type(block)
        if kind is ToolUseBlock:
            blocks.append(_call(block, ledger, place))
        elif kind is Text:
            blocks.append(block)
        elif kind is ThinkingBlock and block.thinking:
            signature = block.signature
            blocks.append(
                Reasoning(block.thinking, {"signature": signature} if signature else None)
            )
        elif kind is ThinkingBlock or kind is RedactedBlock:
            ledger.note("reasoning-encrypted", place)
            sealed: dict[str, Any] = {"at": index, "type": block.__struct_config__.tag}
            if kind is RedactedBlock:
                sealed["data"] = block.data
            else:
                sealed["signature"] = block.signature
            kept = kept or {}
            kept.setdefault("sealed", []).append(sealed)
        else:
            found = rich(block, ledger, place)
            if found is not None:
                blocks.append(found)
            elif kind is Odd:
                kept = kept or {}
                kept.setdefault("blocks", []).append({"at": index, "block": block.value})
    return blocks, kept


def _call(block: ToolUseBlock, ledger: Ledger, place: int) -> ToolCallBlock:
    name = block.id
    if name.startswith("minted-"):
        ledger.note("id-minted", place, kind="tool_use")
    return ToolCallBlock(name, block.name, block.arguments or raw_text(block.input, ledger, place))


def release(record: Record, ledger: Ledger, place: int) -> None:
    """Let go of the line: raw tool inputs hold all its bytes in memory."""
    content = record.message.content if record.message is not None else None
    if isinstance(content, list):
        for block in content:
            if type(block) is ToolUseBlock:
                block.arguments = raw_text(block.input, ledger, place)
                block.input = _NO_INPUT


def rich(block: Any, ledger: Ledger, place: int) -> ir.Block | None:
    """Give the block of a text, image or document; ``None`` (counted) for anything else."""
    kind = type(block)
    if type(block) is Text:
        if block.extra:
            ledger.note("citation-aside", place)
        return block
    if kind is str:
        return Text(block)
    if kind is ImageBlock:
        source = block.source
        if source is None:
            return image_or_file(ledger, place)
        return image_or_file(
            ledger, place, url=source.url, data=source.data, media=source.media_type
        )
    if kind is DocumentBlock:
        source = block.source
        if source is None:
            return file_block(ledger, place, name=block.title)
        text = source.data if source.type == "text" else None
        return file_block(
            ledger,
            place,
            name=block.title,
            media=source.media_type,
            data=None if text else source.data,
            text=text,
            uri=source.url,
        )
    if kind is Odd:
        ledger.note(block.rule, place, kind=block.kind)
    else:
        ledger.note("unknown-block", place, kind=str(block.__struct_config__.tag))
    return None


def answer(block: ResultBlock, ledger: Ledger, place: int) -> list[ir.Block]:
    """Give the content of a result without the reminders that the tool put at its ends."""
    content = block.content
    if type(content) is str:
        if content.startswith("<system-reminder>") or content.endswith(_ENDS):
            content = _clean(content, ledger, place)
        return [Text(content)] if content else []
    blocks: list[ir.Block] = []
    for part in content or ():
        found = rich(part, ledger, place)
        if type(found) is Text and (
            found.text.startswith("<system-reminder>") or found.text.endswith(_ENDS)
        ):
            found.text = _clean(found.text, ledger, place)
            if not found.text:
                continue
        if found is not None:
            blocks.append(found)
    return blocks


def _clean(text: str, ledger: Ledger, place: int) -> str:
    text, count = strip_reminders(text)
    if count:
        ledger.note("injection-skipped", place, count, "system-reminder")
    return text
