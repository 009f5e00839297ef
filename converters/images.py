"""Image blocks out of whatever a source calls an image.

Nothing is decoded and no URL is followed: the payload stays base64 text, the
type comes from the statement of the source or from the first bytes.
Rule: Interchange v1, section 6.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final

from converters.ir import Image, Text

if TYPE_CHECKING:
    from converters.ledger import Ledger, Place

__all__ = [
    "ACCEPTED",
    "MAX_CHARS",
    "data_url",
    "degraded",
    "image_block",
    "image_name",
    "inline_image",
    "is_clean",
    "media_type",
]

ACCEPTED: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
MAX_CHARS: Final = 24 * 1024 * 1024
"""Base64 characters of the largest image that is taken (about 18 MB)."""

_SPACE: Final = re.compile(r"\s+")
_NO_NAME: Final = ("data:", "blobref:", "http:", "https:", "file:")
_MAX_NAME: Final = 120


def media_type(value: Any) -> str | None:
    """Give an accepted media type (lower case, without parameters, ``jpg`` as ``jpeg``)."""
    if not isinstance(value, str):
        return None
    name = value.partition(";")[0].strip().lower()
    name = "image/jpeg" if name == "image/jpg" else name
    return name if name in ACCEPTED else None


def image_name(value: Any) -> str | None:
    """Give the last segment of a file name; ``None`` for URLs and over 120 characters."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text.lower().startswith(_NO_NAME) or ";base64," in text:
        return None
    name = re.split(r"[/\\]", text)[-1]
    return name if 0 < len(name) <= _MAX_NAME else None


def _sniff(payload: str) -> str | None:
    """Give the media type by the first 12 bytes of a base64 payload."""
    try:
        head = base64.b64decode(payload[:32], validate=False)
    except (binascii.Error, ValueError):
        return None
    if len(head) < 12:
        return None
    if head.startswith(b"\x89PNG"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"GIF"):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def data_url(value: Any) -> tuple[str, str] | None:
    """Give ``(declared type, payload)`` of a base64 data URL."""
    if not isinstance(value, str) or value[:5].lower() != "data:":
        return None
    comma = value.find(",", 5, 300)
    head = value[5:comma] if comma > 0 else ""
    if not head.lower().endswith(";base64"):
        return None
    return head[:-7], value[comma + 1 :]


def inline_image(payload: Any, declared: Any = None, name: Any = None) -> Image | None:
    """Give an image block for base64 text or a data URL; ``None`` when not acceptable."""
    if not isinstance(payload, str):
        return None
    url = data_url(payload)
    if url is not None:
        declared, payload = url[0] or declared, url[1]
        name = None
    if len(payload) > MAX_CHARS * 2:
        return None
    payload = _SPACE.sub("", payload) if _SPACE.search(payload) else payload
    if not payload or len(payload) > MAX_CHARS:
        return None
    kind = media_type(declared) or _sniff(payload)
    return Image(payload, kind, image_name(name)) if kind else None


def is_clean(image: Image) -> bool:
    """Whether an image block already is what :func:`image_block` would give."""
    if image.attachment is not None:
        identity = image.attachment.get("attachmentId")
        return isinstance(identity, str) and bool(identity) and image.data is None
    return (
        image.data is not None
        and image.media_type in ACCEPTED
        and 0 < len(image.data) <= MAX_CHARS
        and not _SPACE.search(image.data)
        and (image.name is None or image_name(image.name) == image.name)
        and image.data[:5].lower() != "data:"
    )


def image_block(value: dict[str, Any]) -> Image | None:
    """Give the image block of a JSON object that says it is an image, ``None`` without bytes.

    Order: an attachment reference, a URL (only base64 data URLs work, and then ``data``
    is not tried), ``data`` or ``source.data``.
    """
    attachment = value.get("attachment")
    if isinstance(attachment, dict):
        identity = attachment.get("attachmentId")
        if isinstance(identity, str) and identity:
            return Image(attachment=attachment)
    source = value.get("source")
    source = source if isinstance(source, dict) else {}
    url = _url(value, source)
    declared = _declared(value, source)
    if url is not None:
        found = data_url(url)
        return inline_image(found[1], found[0] or declared) if found else None
    payload = value.get("data")
    if payload is None:
        payload = source.get("data")
    return inline_image(payload, declared, value.get("name"))


def _url(value: dict[str, Any], source: dict[str, Any]) -> str | None:
    for member in ("url", "image_url", "imageUrl"):
        found = value.get(member)
        if isinstance(found, dict):
            found = found.get("url")
        if isinstance(found, str) and found:
            return found
    found = source.get("url")
    return found if isinstance(found, str) and found else None


def _declared(value: dict[str, Any], source: dict[str, Any]) -> Any:
    for member in ("mediaType", "mimeType", "mime_type", "mime", "media_type"):
        for holder in (value, source):
            if isinstance(holder.get(member), str):
                return holder[member]
    return None


def degraded(ledger: Ledger, place: Place | None = None, name: Any = None, kind: str = "") -> Text:
    """Give the placeholder of an image without bytes, and count it as ``attachment-skipped``."""
    ledger.note("attachment-skipped", place, kind=kind)
    shown = image_name(name)
    return Text(f"[image] {shown}" if shown else "[image]")
