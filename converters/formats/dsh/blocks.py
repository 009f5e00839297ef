"""Content blocks of DSH messages as IR blocks."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from converters import jsonio
from converters.formats.dsh.attachments import Find, object_hash
from converters.images import degraded, image_block, media_type
from converters.ir import Block, Extra, Image, Reasoning, Text, ToolCallBlock

if TYPE_CHECKING:
    from converters.ledger import Ledger

__all__ = ["Blocks", "arguments_text", "native_id"]


class Blocks:
    """Turns the content of messages into blocks; :data:`Find` gives the bytes of images."""

    def __init__(self, ledger: Ledger, find: Find | None) -> None:
        self._ledger, self._find = ledger, find

    def of(
        self, content: Any, number: int, results: list[dict[str, Any]] | None = None
    ) -> list[Block]:
        """Give IR blocks; ``tool-result`` blocks of older generations go to ``results``."""
        if isinstance(content, str):
            return [Text(content)] if content else []
        blocks: list[Block] = []
        if not isinstance(content, list):
            if content is not None:
                self._ledger.note("malformed-block", number)
            return blocks
        for item in content:
            block = self._block(item, number, results) if isinstance(item, dict) else None
            if block is not None:
                blocks.append(block)
            elif not isinstance(item, dict):
                self._ledger.note("malformed-block", number)
        return blocks

    def _block(
        self, item: dict[str, Any], number: int, results: list[dict[str, Any]] | None
    ) -> Block | None:
        kind, text = item.get("type"), item.get("text")
        if kind in ("text", "reasoning"):
            if isinstance(text, str):
                return Text(text) if kind == "text" else Reasoning(text)
        elif kind == "tool-call":
            identity, name = item.get("id"), item.get("name")
            if isinstance(identity, str) and identity and isinstance(name, str) and name:
                return ToolCallBlock(identity, name, arguments_text(item.get("arguments")))
        elif kind == "image":
            return self._image(item, number)
        elif kind == "tool-result" and results is not None:
            results.append(item)
            return None
        else:
            self._ledger.note("unknown-block", number, kind=str(kind)[:40])
            return None
        self._ledger.note("malformed-block", number, kind=str(kind))
        return None

    def _image(self, item: dict[str, Any], number: int) -> Block:
        block = image_block(item)
        if block is None:
            return degraded(self._ledger, number, item.get("name"))
        reference = block.attachment
        if reference is None or self._find is None:
            return block
        kind = media_type(reference.get("mediaType"))
        identity = reference.get("attachmentId")
        if kind is None or not isinstance(identity, str) or object_hash(identity) is None:
            return block
        data = self._find(identity)
        if data is None:
            return block
        name = reference.get("name")
        payload = base64.b64encode(data).decode("ascii")
        return Image(payload, kind, name if isinstance(name, str) else None)


def native_id(message: dict[str, Any]) -> Extra:
    """Give the native id of a message; ids of the event builder say nothing and stay out."""
    identity = message.get("id")
    if isinstance(identity, str) and identity and not identity.startswith("import:"):
        return {"id": identity}
    return {}


def arguments_text(value: Any) -> str:
    """Give the arguments of a call as text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "{}" if value is None else jsonio.dumps(value).decode()
