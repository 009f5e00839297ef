"""Files, audio and remote images inside messages: what the IR keeps of them.

A file is a text block ``[file: NAME (TYPE, SIZE)]`` whose ``x-dcb.attachments`` holds
the entry: ``name``, ``type``, ``size`` (bytes), ``blake3``, and ``data`` (base64),
``text``, ``uri`` or ``id``, as the source has them. An image without bytes is
``[image]`` with its address in ``x-dcb.image``.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from converters.images import data_url, degraded, image_name, inline_image
from converters.ir import Image, Text

if TYPE_CHECKING:
    from converters.ir import Extra
    from converters.ledger import Ledger, Place

__all__ = ["as_data_url", "file_block", "file_entry", "image_or_file"]


def file_block(
    ledger: Ledger,
    place: Place | None,
    *,
    kind: str = "file",
    name: Any = None,
    media: Any = None,
    data: Any = None,
    text: Any = None,
    uri: Any = None,
    identity: Any = None,
    size: Any = None,
    native: Extra | None = None,
) -> Text:
    """Give the placeholder of a file with its entry, and count ``attachment-aside``.

    ``data`` is base64 text or a data URL. ``size`` (bytes) is what the source says, where it has
    no bytes. Members of another type than text are left out.
    """
    if isinstance(data, str) and (found := data_url(data)) is not None:
        media, data = found[0] or media, found[1]
    given = {"name": name, "type": media, "data": data, "text": text, "uri": uri, "id": identity}
    entry: dict[str, Any] = {"kind": kind} | {
        member: value for member, value in given.items() if isinstance(value, str) and value
    }
    measured = _measure(entry)
    if measured is None and isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        measured = entry["size"] = size
    size = measured
    ledger.note("attachment-aside", place, kind=kind)
    about = ", ".join(
        part for part in (entry.get("type"), f"{size} bytes" if size is not None else None) if part
    )
    shown = image_name(name) or kind
    extra: Extra = {"attachments": [entry]}
    if native:
        extra["native"] = native
    return Text(f"[file: {shown} ({about})]" if about else f"[file: {shown}]", extra)


def _measure(entry: dict[str, Any]) -> int | None:
    """Add size and fingerprint of the bytes; base64 that does not decode stays as it is."""
    if "data" in entry:
        try:
            raw = base64.b64decode(entry["data"], validate=True)
        except (binascii.Error, ValueError):
            return None
    elif "text" in entry:
        raw = entry["text"].encode("utf-8", "replace")
    else:
        return None
    from blake3 import blake3

    entry["size"] = len(raw)
    entry["blake3"] = blake3(raw).hexdigest()
    return len(raw)


def image_or_file(
    ledger: Ledger,
    place: Place | None,
    *,
    url: Any = None,
    data: Any = None,
    media: Any = None,
    name: Any = None,
    reference: Extra | None = None,
    native: Extra | None = None,
) -> Image | Text:
    """Give an image block; a file where the bytes are no image that the IR takes.

    Without bytes the block is ``[image]``; ``reference`` (or the URL) is then kept as
    ``x-dcb.image``. Rule: Interchange v1, section 6.
    """
    inline = data_url(url)
    if data is None and inline is not None:
        media, data = inline[0] or media, inline[1]
    if isinstance(data, str) and data:
        found = inline_image(data, media, name)
        if found is not None:
            found.extra = {"native": native} if native else None
            return found
        return file_block(
            ledger, place, kind="image", name=name, media=media, data=data, native=native
        )
    block = degraded(ledger, place, name, "image")
    if reference is None and isinstance(url, str) and url:
        reference = {"url": url}
        if isinstance(media, str):
            reference["mediaType"] = media
    extra: Extra = {}
    if reference:
        extra["image"] = reference
    if native:
        extra["native"] = native
    block.extra = extra or None
    return block


def file_entry(block: Text) -> dict[str, Any] | None:
    """Give the one attachment that a text block stands for, if it is a placeholder."""
    if not block.extra or not block.text.startswith("[file: "):
        return None
    found = block.extra.get("attachments")
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict):
        return found[0]
    return None


def as_data_url(media: str | None, data: str) -> str:
    """Give ``data:TYPE;base64,DATA``."""
    return f"data:{media or 'application/octet-stream'};base64,{data}"
