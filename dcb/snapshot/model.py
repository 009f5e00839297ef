"""The snapshot object: what a three-layer document says.

A snapshot has a head (:class:`Meta`) and three layers: what must stay word for
word (:class:`VerbatimEntry`), the summary (:class:`SummarySection`) and the
preferences (:class:`Preference`). All types are frozen; ``msgspec.structs.replace``
gives a changed copy. Names on the wire are camelCase.

Times are milliseconds since the Unix epoch, UTC. The reference program reads
a bad number as NaN and keeps fractions, so numbers may be floats in what the
``plugin`` profile reads; the ``published`` profile gives integers.

Source: published snapshot format, sections 1 to 5; program 0.2.0, object model.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = [
    "KINDS",
    "ROLES",
    "SCHEMA_VERSION",
    "SCOPES",
    "Meta",
    "Number",
    "Preference",
    "Scope",
    "Snapshot",
    "SummarySection",
    "VerbatimEntry",
]

SCHEMA_VERSION = "1.0"

KINDS = ("directive", "decision", "code", "parameter")
"""The kinds of verbatim entries, the most important first. Readers pass others through."""

ROLES = ("user", "assistant", "system", "tool")
"""The roles of the format. Readers pass others through."""

SCOPES = ("style", "role", "constraint")
"""The scopes of preferences. A line with another scope is no preference."""

Number: TypeAlias = int | float
Scope: TypeAlias = Literal["style", "role", "constraint"]


def _zero() -> Number:
    # Factories of our own: msgspec would leave out a plain default, and the
    # object always has these members; only ``language`` is absent when unset.
    return 0


def _text() -> str:
    return ""


def _version() -> str:
    return SCHEMA_VERSION


def _false() -> bool:
    return False


def _user() -> str:
    return "user"


def _decision() -> str:
    return "decision"


def _none() -> tuple[()]:
    return ()


class _Struct(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Common settings: frozen, keyword-only, camelCase on the wire."""


class Meta(_Struct, frozen=True, kw_only=True):
    """The head of a snapshot.

    ``token_estimate`` counts the three layers (:mod:`dcb.snapshot.tokens`).
    ``encrypted`` says how the document is stored, not what it holds. ``checksum``
    is the text of the header as read or written last; writing recomputes it.
    ``weight`` ranks snapshots when two are merged under the policy ``weighted``.
    """

    snapshot_id: str
    source_conversation_id: str = msgspec.field(default_factory=_text)
    title: str = msgspec.field(default_factory=_text)
    description: str = msgspec.field(default_factory=_text)
    tags: tuple[str, ...] = msgspec.field(default_factory=_none)
    created_at: Number = msgspec.field(default_factory=_zero)
    schema_version: str = msgspec.field(default_factory=_version)
    token_estimate: Number = msgspec.field(default_factory=_zero)
    encrypted: bool = msgspec.field(default_factory=_false)
    checksum: str = msgspec.field(default_factory=_text)
    weight: Number = msgspec.field(default_factory=_zero)


class VerbatimEntry(_Struct, frozen=True, kw_only=True):
    """A piece of a message that is kept word for word.

    ``kind`` is one of :data:`KINDS`, ``source_role`` one of :data:`ROLES`;
    ``language`` belongs to code.
    """

    id: str
    source_message_id: str = msgspec.field(default_factory=_text)
    source_role: str = msgspec.field(default_factory=_user)
    kind: str = msgspec.field(default_factory=_decision)
    language: str | None = None
    content: str
    created_at: Number = msgspec.field(default_factory=_zero)


class SummarySection(_Struct, frozen=True, kw_only=True):
    """A heading and its bullets."""

    heading: str
    bullets: tuple[str, ...] = msgspec.field(default_factory=_none)


class Preference(_Struct, frozen=True, kw_only=True):
    """A wish or rule of the user: unique by ``scope`` and ``key`` in a compiled snapshot.

    ``explicit``: the user said so; otherwise it was inferred.
    """

    scope: Scope
    key: str
    value: str
    explicit: bool
    created_at: Number = msgspec.field(default_factory=_zero)


class Snapshot(_Struct, frozen=True, kw_only=True):
    """A snapshot: the head and the three layers."""

    meta: Meta
    verbatim: tuple[VerbatimEntry, ...] = msgspec.field(default_factory=_none)
    summary: tuple[SummarySection, ...] = msgspec.field(default_factory=_none)
    preferences: tuple[Preference, ...] = msgspec.field(default_factory=_none)
