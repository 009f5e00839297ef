"""Placeholders that stand for images in bodies, with the fingerprint of what was there.

The fingerprint is the first 12 hex digits of BLAKE3 over the base64 text, not over the bytes
that it stands for (specification, section 7, from the code of the public project).
"""

from __future__ import annotations

import re
from typing import Any, Final

from blake3 import blake3

from converters.images import data_url

__all__ = ["base64_image", "find", "generated_image", "size_text", "url_image"]

_KB: Final = 1 << 10
_MB: Final = 1 << 20
_PROMPT: Final = 200
_URL: Final = re.compile(r"\[image: url:([^\n]++)(?<=\])")
_BASE64: Final = re.compile(r"\[image: base64:(\d+(?:B|KB|MB)) ([^\s\]]+) hash=([0-9a-f]{12})\]")
_GENERATED: Final = re.compile(r"\[image_generated: ([^\n\]]+)\](?:\nprompt: ([^\n]*))?")


def size_text(chars: int) -> str:
    """Give the size of base64 text of so many characters; padding is not taken off."""
    n = chars * 3 // 4
    if n >= _MB:
        return f"{n // _MB}MB"
    return f"{n // _KB}KB" if n >= _KB else f"{n}B"


def base64_image(data: str, media_type: str | None = None) -> str:
    """Give the placeholder of inline image data (base64 text)."""
    digest = blake3(data.encode("utf-8", "replace")).hexdigest()[:12]
    return f"[image: base64:{size_text(len(data))} {media_type or 'image/*'} hash={digest}]"


def url_image(url: str) -> str:
    """Give the placeholder of an image by its URL; a base64 data URL counts as inline data."""
    inline = data_url(url)
    if inline is not None:
        return base64_image(inline[1], inline[0])
    return f"[image: url:{url}]"


def generated_image(call: dict[str, Any], result: str = "") -> str:
    """Give the placeholder of an ``image_generation_call`` with its base64 ``result``."""

    def text(name: str) -> str:
        value = call.get(name)
        return value if isinstance(value, str) else ""

    parts = [text("id") or text("item_id") or "ig", text("output_format") or "png"]
    if text("size"):
        parts.append(text("size"))
    if len(result) * 3 // 4:
        parts.append(f"~{size_text(len(result))}")
    shown = f"[image_generated: {', '.join(parts)}]"
    prompt = text("revised_prompt")
    if not prompt:
        return shown
    cut = prompt[:_PROMPT] + "…" if len(prompt) > _PROMPT else prompt
    return f"{shown}\nprompt: {cut}"


def find(text: str) -> dict[str, str] | None:
    """Give what a paragraph says about the image it stands for, ``None`` for other text.

    Members: ``url``, or ``size``, ``mediaType`` and ``hash``, or ``id`` and ``prompt``.
    """
    if not text.startswith("[image"):
        return None
    if found := _BASE64.fullmatch(text):
        return {"size": found[1], "mediaType": found[2], "hash": found[3]}
    if found := _URL.fullmatch(text):
        return {"url": found[1][:-1]}
    if found := _GENERATED.fullmatch(text):
        about = {"id": found[1].partition(",")[0]}
        return about | ({"prompt": found[2]} if found[2] is not None else {})
    return None
