"""Message content of every type into IR blocks."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

from converters.images import MAX_CHARS, degraded, inline_image
from converters.ir import Block, Image, Reasoning, Text

if TYPE_CHECKING:
    from converters.types import Context, Input

__all__ = ["Files", "blocks_of", "system_text", "text_of"]

_ASSET: Final = re.compile(r"(?:[a-z-]+://)?(file[-_][A-Za-z0-9_-]+)", re.ASCII)
_IMAGES: Final = ("file-*", "file_*", "*/file-*", "*/file_*", "dalle-generations/*")
_AUDIO: Final = ("audio_asset_pointer", "real_time_user_audio_video_asset_pointer")
_TEXT_MEMBERS: Final = ("text", "content", "result", "summary")
_MAX_IMAGE: Final = MAX_CHARS // 4 * 3


class Files:
    """The files of an export, by asset id; looked up on first use."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._found: dict[str, Input] | None = None

    def find(self, pointer: Any) -> Input | None:
        """Give the file of an asset pointer; both spellings of its id fit."""
        match = _ASSET.fullmatch(pointer) if isinstance(pointer, str) else None
        if match is None:
            return None
        if self._found is None:
            self._found = {}
            for pattern in _IMAGES:
                for file in self._source.files(pattern):
                    name = file.name.replace("!", "/").rpartition("/")[2]
                    self._found.setdefault(_key(name), file)
        wanted = _key(match[1])
        exact = self._found.get(wanted)
        if exact is not None:
            return exact
        return next((f for key, f in self._found.items() if key.startswith(wanted)), None)


def _key(name: str) -> str:
    stem = name.partition(".")[0]
    return stem.replace("file_", "file-", 1)


def text_of(content: dict[str, Any]) -> str:
    """Give all text of a content: ``parts``, else ``text``, ``content``, ``result``."""
    parts = content.get("parts")
    if isinstance(parts, list):
        texts = [part if isinstance(part, str) else _part_text(part) for part in parts]
        return "\n".join(text for text in texts if text)
    return _member_text(content)


def _member_text(content: dict[str, Any]) -> str:
    for member in _TEXT_MEMBERS:
        value = content.get(member)
        if isinstance(value, str) and value:
            return value
    return ""


def _part_text(part: Any) -> str:
    return _member_text(part) if isinstance(part, dict) else ""


def system_text(message: dict[str, Any], content: dict[str, Any]) -> str:
    """Give the text of a system message or of custom instructions."""
    named = [
        value
        for member in ("user_profile", "user_instructions", "model_set_context")
        if isinstance(value := content.get(member), str) and value
    ]
    metadata = message.get("metadata")
    context = metadata.get("user_context_message_data") if isinstance(metadata, dict) else None
    if not named and isinstance(context, dict):
        named = [value for value in context.values() if isinstance(value, str) and value]
    return "\n\n".join(named) or text_of(content)


def blocks_of(
    message: dict[str, Any], files: Files, ctx: Context, place: str, attachments: list[Any]
) -> list[Block]:
    """Give the blocks of a message; files other than images go to ``attachments``."""
    content = message.get("content")
    if not isinstance(content, dict):
        if content is not None:
            ctx.ledger.note("malformed-block", place)
        return []
    kind = content.get("content_type")
    if kind == "thoughts":
        return _thoughts(content)
    blocks = _parts(content, files, ctx, place)
    if kind == "tether_quote" and isinstance(content.get("url"), str):
        title = content.get("title") or content.get("domain") or ""
        blocks.insert(0, Text(f"{title} {content['url']}".strip()))
    if not blocks and isinstance(kind, str) and kind not in ("text", "multimodal_text", "code"):
        ctx.ledger.note("unknown-block", place, kind=kind)
    _cite(message, blocks, ctx, place)
    return blocks + _attached(message, content, ctx, place, attachments)


def _thoughts(content: dict[str, Any]) -> list[Block]:
    """Give the reasoning of a ``thoughts`` message: summaries with their text."""
    thoughts = content.get("thoughts")
    texts = []
    for thought in thoughts if isinstance(thoughts, list) else ():
        if isinstance(thought, dict):
            lines = [thought.get("summary"), thought.get("content")]
            texts.append("\n".join(line for line in lines if isinstance(line, str) and line))
    text = "\n\n".join(text for text in texts if text) or text_of(content)
    return [Reasoning(text)] if text else []


def _parts(content: dict[str, Any], files: Files, ctx: Context, place: str) -> list[Block]:
    parts = content.get("parts")
    if not isinstance(parts, list):
        text = _member_text(content)
        return [Text(text)] if text else []
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part, str):
            if part:
                blocks.append(Text(part))
        elif isinstance(part, dict):
            block = _part(part, files, ctx, place)
            if block is not None:
                blocks.append(block)
        elif part is not None:
            ctx.ledger.note("malformed-block", place)
    return blocks


def _part(part: dict[str, Any], files: Files, ctx: Context, place: str) -> Block | None:
    kind = part.get("content_type")
    if kind == "image_asset_pointer":
        return _image(part, files, ctx, place)
    if kind in _AUDIO:
        ctx.ledger.note("attachment-skipped", place, kind=str(kind))
        return Text("[audio]")
    text = _part_text(part)
    if kind != "audio_transcription":
        ctx.ledger.note("unknown-block", place, kind=str(kind))
    return Text(text) if text else None


def _image(part: dict[str, Any], files: Files, ctx: Context, place: str) -> Block:
    pointer = part.get("asset_pointer")
    file = files.find(pointer)
    image: Image | None = None
    if file is not None and (file.size or 0) <= _MAX_IMAGE:
        data = base64.b64encode(file.read()).decode("ascii")
        image = inline_image(data, None, file.name.replace("!", "/"))
    if image is None:
        return degraded(ctx.ledger, place, kind="image_asset_pointer")
    metadata = part.get("metadata")
    dalle = metadata.get("dalle") if isinstance(metadata, dict) else None
    if isinstance(dalle, dict) and isinstance(dalle.get("prompt"), str):
        image.extra = {"prompt": dalle["prompt"]}
    return image


def _cite(message: dict[str, Any], blocks: list[Block], ctx: Context, place: str) -> None:
    metadata = message.get("metadata")
    if not isinstance(metadata, dict):
        return
    for member in ("citations", "content_references"):
        found = metadata.get(member)
        text = next((block for block in blocks if isinstance(block, Text)), None)
        if isinstance(found, list) and found and text is not None:
            text.extra = {**(text.extra or {}), "citations": found}
            ctx.ledger.note("citation-aside", place, len(found))
            return


def _attached(
    message: dict[str, Any],
    content: dict[str, Any],
    ctx: Context,
    place: str,
    attachments: list[Any],
) -> list[Block]:
    """Give a placeholder for each file that the message names and that is no image part."""
    metadata = message.get("metadata")
    found = metadata.get("attachments") if isinstance(metadata, dict) else None
    parts = content.get("parts")
    pointers = " ".join(
        str(part.get("asset_pointer"))
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict)
    )
    blocks: list[Block] = []
    for entry in found if isinstance(found, list) else ():
        if not isinstance(entry, dict):
            ctx.ledger.note("malformed-block", place)
            continue
        identity = entry.get("id")
        if isinstance(identity, str) and identity and identity in pointers:
            continue
        name, kind, size = entry.get("name"), entry.get("mime_type"), entry.get("size")
        facts = ", ".join(str(fact) for fact in (kind, size) if isinstance(fact, str | int))
        blocks.append(Text(f"[file: {name} ({facts})]" if facts else f"[file: {name}]"))
        attachments.append({"id": identity, "name": name, "type": kind, "size": size})
        ctx.ledger.note("attachment-aside", place)
    return blocks
