"""IR blocks as parts of Codex messages and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.ir import Image, Text
from converters.shapes.attachments import as_data_url, file_entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Block
    from converters.shapes.account import Account

__all__ = ["message_parts"]


def message_parts(blocks: Iterable[Block], kind: str, account: Account) -> list[dict[str, Any]]:
    """Give the parts of a message or result; ``kind`` is that of its texts."""
    parts = []
    for block in blocks:
        if isinstance(block, Text):
            parts.append(_text(block, kind, account))
        elif isinstance(block, Image):
            parts.append(_image(block, kind, account))
        else:
            account.foreign(block)
    return parts


def _image(block: Image, kind: str, account: Account) -> dict[str, Any]:
    account.members(block.extra)
    if block.data is None:
        account.lost("image-text", "block.image")
        return {"type": kind, "text": f"[image] {block.name}" if block.name else "[image]"}
    account.kept("block.image")
    return {"type": "input_image", "image_url": as_data_url(block.media_type, block.data)}


def _text(block: Text, kind: str, account: Account) -> dict[str, Any]:
    """Write a text, or the file that it stands for."""
    account.kept("block.text")
    entry = file_entry(block)
    part = {} if entry is None or kind != "input_text" else _file(entry)
    if part:
        account.members(block.extra, "attachments")
        return {"type": "input_file", **part}
    native = account.native(block.extra)
    account.members(block.extra)
    if native.get("type") == "refusal":
        return {"type": "refusal", "refusal": block.text}
    return {"type": kind, "text": block.text}


def _file(entry: dict[str, Any]) -> dict[str, Any]:
    """Give the members of a file part; none without bytes or an id of the provider."""
    part: dict[str, Any] = {}
    if entry.get("kind") == "image":
        return part
    if "data" in entry:
        part["file_data"] = as_data_url(entry.get("type"), entry["data"])
    if "id" in entry:
        part["file_id"] = entry["id"]
    if part and "name" in entry:
        part["filename"] = entry["name"]
    return part
