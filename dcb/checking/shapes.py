"""The shape of a bundle document, for its JSON Schema.

Source: Interchange v1, section 7.3; the member ``x-dcb`` is dcb's.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["Bundle", "Fingerprints"]


class Fingerprints(msgspec.Struct, frozen=True):
    """SHA-256 in lower-case hex: of the log, and of the document without this one."""

    session: str
    bundle: str


class Bundle(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A portable bundle: one session's log and where it came from. ``exported_at`` in ms."""

    bundle: Literal["dsh-chat-import"]
    format: Literal["interchange-v1"]
    version: Literal[1]
    exported_at: int
    source_session_id: str
    title: str | None = None
    original_cwd: str | None = None
    landing_hint: str | None = None
    log: str
    extra: dict[str, Any] | None = msgspec.field(default=None, name="x-dcb")
    sha256: Fingerprints
