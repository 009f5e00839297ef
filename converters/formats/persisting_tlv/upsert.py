"""Live writing: replace the block of one call, or append it."""

from __future__ import annotations

from typing import Any, NamedTuple

from converters.errors import UsageError
from converters.formats.persisting_tlv.frame import (
    Block,
    Document,
    new_block,
    parse_strict,
    serialize,
)
from converters.formats.persisting_tlv.frontmatter import write_frontmatter

__all__ = ["Key", "key_of", "upsert"]


class Key(NamedTuple):
    """What identifies a block while a session is captured; both are compared exactly."""

    call_id: str
    role: str


def key_of(fields: dict[str, Any]) -> Key | None:
    """Give the key of a header, ``None`` without a call id or role.

    Headers of the newer generations (``step_id``) have no ``role``: it follows from ``source``.
    """
    call_id, role = fields.get("call_id"), fields.get("role")
    if role is None and "step_id" in fields:
        role = {"agent": "assistant", "user": "user"}.get(str(fields.get("source")), "note")
    if not isinstance(call_id, str) or not call_id.strip() or not isinstance(role, str) or not role:
        return None
    return Key(call_id, role)


def upsert(document: bytes, block: Block) -> bytes:
    """Give the document with the block in the place of the first one of the same key.

    The range from the header to after the blank lines is replaced by the newly encoded
    block (:func:`new_block`); every other byte stays. Without a match the block goes to the
    end; an empty document gets a frontmatter first. Raises :class:`UsageError` for a block
    without ``call_id`` or ``role``, :class:`FrameError` for a document that breaks the
    grammar. Rule: specification, section 5.
    """
    key = key_of(block.fields)
    if key is None:
        raise UsageError("a block needs call_id and role to be put in its place")
    fresh = new_block(block.fields, block.body, kind=block.type)
    encoded = serialize(Document(b"", (fresh,)))
    if not document:
        return write_frontmatter({}) + encoded
    for old in parse_strict(document).blocks:
        if key_of(old.fields) == key:
            return document[: old.start] + encoded + document[old.end :]
    separator = (
        b"" if document.endswith(b"\n\n") else b"\n" if document.endswith(b"\n") else b"\n\n"
    )
    return document + separator + encoded
