"""A snapshot document for reading: as lines of text, and as an object for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcb.snapshot.document import decode, read, verdict, verify
from dcb.snapshot.tokens import estimate_snapshot
from dcb.snapshot.values import MAX_DATE, date_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dcb.snapshot.model import Number, Snapshot, VerbatimEntry

__all__ = ["lines", "to_object"]

_VERDICTS = {
    "exact": "checksum fits",
    "folded": "checksum fits once a byte order mark and CRLF are folded",
    "mismatch": "CHECKSUM DOES NOT FIT",
    "missing": "no checksum",
}


def to_object(data: bytes) -> Snapshot:
    """Give the snapshot that a document holds. Errors as :func:`dcb.snapshot.document.read`."""
    return read(decode(data)).snapshot


def lines(data: bytes) -> Iterator[str]:
    """Give a document as lines of text. Errors as :func:`dcb.snapshot.document.read`."""
    text = decode(data)
    found = read(text)
    snapshot, meta = found.snapshot, found.snapshot.meta
    state = verdict(text)
    yield meta.title or meta.snapshot_id
    facts = {
        "description": meta.description,
        "snapshot": meta.snapshot_id,
        "conversation": meta.source_conversation_id,
        "created": _when(meta.created_at),
        "tags": ", ".join(meta.tags),
        "tokens": str(estimate_snapshot(snapshot)),
        "weight": str(meta.weight) if meta.weight else "",
        "profile": found.dialect,
        "integrity": _VERDICTS[state]
        if state != "exact" or verify(text)
        else "checksum fits, THE HEADER WAS CHANGED",
        "problems": str(len(found.problems) or ""),
    }
    yield from (f"  {name}: {value}" for name, value in facts.items() if value)
    yield from _verbatim(snapshot)
    for section in snapshot.summary:
        yield ""
        yield f"### {section.heading}"
        yield from (f"- {bullet}" for bullet in section.bullets)
    if snapshot.preferences:
        yield ""
        yield "preferences:"
    for one in snapshot.preferences:
        flag = "explicit" if one.explicit else "inferred"
        yield f"- [{one.scope}] {one.key} ({flag}): {one.value}"


def _verbatim(snapshot: Snapshot) -> Iterator[str]:
    for entry in snapshot.verbatim:
        yield ""
        yield _head(entry)
        yield from (f"    {line}" for line in entry.content.split("\n"))


def _head(entry: VerbatimEntry) -> str:
    facts = [entry.kind, entry.language, entry.source_role, entry.source_message_id]
    return f"[{entry.id}] {' '.join(filter(None, [*facts, _when(entry.created_at)]))}"


def _when(ms: Number) -> str:
    return date_text(ms) if ms and abs(ms) <= MAX_DATE else ""
