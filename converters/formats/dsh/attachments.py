"""Images of a DSH log: never bytes inside the log, only references to the attachment store.

The store of DSH keeps an image as ``$DSH_HOME/attachments/v1/objects/ab/<sha256>``, without a
suffix; its id is ``sha256:<hex>``. Source: Interchange v1, section 6 (writing to a
session), and the layout that public tools around DSH describe.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from converters.images import media_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.formats.dsh.events import Event

__all__ = [
    "MAX_IMAGES",
    "Find",
    "dimensions",
    "object_hash",
    "object_path",
    "references",
    "store_images",
]

MAX_IMAGES: Final = 500
"""Images of one session that become attachments; the rest are placeholders."""

Find: TypeAlias = Callable[[str], "bytes | None"]
"""Gives the bytes of an attachment id, or ``None`` where they are not at hand."""

_ID: Final = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def object_hash(attachment_id: Any) -> str | None:
    """Give the sha256 in an attachment id, ``None`` for an id of another form."""
    found = _ID.fullmatch(attachment_id) if isinstance(attachment_id, str) else None
    return found[1] if found else None


def object_path(digest: str) -> str:
    """Give the path of an object below the home of DSH."""
    return f"attachments/v1/objects/{digest[:2]}/{digest}"


def references(events: list[Event]) -> Iterator[dict[str, Any]]:
    """Give every attachment reference of a log, in order."""
    for blocks in _contents(events):
        for block in blocks:
            attachment = block.get("attachment") if isinstance(block, dict) else None
            if isinstance(attachment, dict) and block.get("type") == "image":
                yield attachment


def store_images(events: list[Event], *, generation: int) -> tuple[dict[str, bytes], int]:
    """Replace the pending images of a log in place; give ``({sha256: bytes}, degraded)``.

    A generation below 4 knows no references: every image becomes a placeholder
    there. So does an image that is no base64, and what comes after the first
    :data:`MAX_IMAGES`.
    """
    objects: dict[str, bytes] = {}
    kept = degraded = 0
    for blocks in _contents(events):
        for index, block in enumerate(blocks):
            if not isinstance(block, dict) or block.get("type") != "image":
                continue
            reference = _stored(block, objects) if generation >= 4 and kept < MAX_IMAGES else None
            if reference is None:
                blocks[index] = _placeholder(block)
                degraded += 1
            else:
                blocks[index] = {"type": "image", "attachment": reference}
                kept += 1
    return objects, degraded


def _contents(events: list[Event]) -> Iterator[list[Any]]:
    """Give each block list of a log: of messages, and inside the results of generation 3."""
    for event in events:
        data = event.get("data")
        if not isinstance(data, dict):
            continue
        message = data.get("message")
        for holder in (data, message):
            content = holder.get("content") if isinstance(holder, dict) else None
            if not isinstance(content, list):
                continue
            yield content
            for block in content:
                if isinstance(block, dict) and block.get("type") == "tool-result":
                    inner = block.get("content")
                    if isinstance(inner, list):
                        yield inner


def _stored(block: dict[str, Any], objects: dict[str, bytes]) -> dict[str, Any] | None:
    attachment = block.get("attachment")
    if isinstance(attachment, dict):
        return attachment
    payload, kind = block.get("data"), media_type(block.get("mediaType"))
    if not isinstance(payload, str) or kind is None:
        return None
    try:
        data = base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data:
        return None
    digest = hashlib.sha256(data).hexdigest()
    objects[digest] = data
    width, height = dimensions(data)
    reference: dict[str, Any] = {
        "attachmentId": f"sha256:{digest}",
        "mediaType": kind,
        "bytes": len(data),
        "width": width,
        "height": height,
    }
    name = block.get("name")
    if isinstance(name, str) and name:
        reference["name"] = name
    return reference


def _placeholder(block: dict[str, Any]) -> dict[str, Any]:
    attachment = block.get("attachment")
    name = (attachment if isinstance(attachment, dict) else block).get("name")
    return {
        "type": "text",
        "text": f"[image] {name}" if isinstance(name, str) and name else "[image]",
    }


def dimensions(data: bytes) -> tuple[int, int]:
    """Give width and height in pixels from the header of an image, ``(0, 0)`` where it has none.

    PNG, GIF, JPEG and WebP; nothing is decoded.
    """
    if data.startswith(b"\x89PNG") and len(data) >= 24:
        return _big(data, 16, 4), _big(data, 20, 4)
    if data.startswith(b"GIF8") and len(data) >= 10:
        return _little(data, 6, 2), _little(data, 8, 2)
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker in _FRAMES:
            return _big(data, position + 7, 2), _big(data, position + 5, 2)
        position += 2 + max(_big(data, position + 2, 2), 2)
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    if kind == b"VP8L" and len(data) >= 25:
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and len(data) >= 30:
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return 0, 0


def _big(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "big")


def _little(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "little")
