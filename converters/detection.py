"""Which format an input has: the probes of all formats, ranked.

A probe looks at the first 256 KiB; names are hints. A score of 100 is a content
mark of the format's own and ends the search; an interchange mark goes before
all others. Scores closer than :data:`MARGIN` are ambiguous. Where no probe claims an
object, its members may be rows: a format that claims each of them claims the object.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final, NamedTuple

from converters import registry
from converters.errors import UnknownFormat
from converters.types import Match

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.types import Format, Head, Kind

__all__ = ["MARGIN", "Candidate", "NoMatch", "is_unit", "pick", "rank"]

MARGIN: Final = 3
_FIRST: Final = "interchange"
_FOLDER: Final[frozenset[Kind]] = frozenset({"dir"})
_DATABASE: Final[frozenset[Kind]] = frozenset({"sqlite"})
_JSON: Final[frozenset[Kind]] = frozenset({"json", "jsonl"})
_TEXT: Final[frozenset[Kind]] = _JSON | {"markdown", "text"}


class Candidate(NamedTuple):
    """One format that may have written the input: score 0 to 100, and why."""

    format: Format
    score: int
    reason: str


def rank(head: Head, formats: Iterable[Format] | None = None) -> list[Candidate]:
    """Give the formats that claim the input, best first. Never raises."""
    kinds = _kinds(head)
    known = list(registry.all_formats() if formats is None else formats)
    found = _claims(head, known, kinds)
    if not found and kinds is _JSON and head.part is None:
        found = _rows(head, known)
    found.sort(key=lambda c: (-c.score, c.format.id != _FIRST, c.format.id))
    if found and found[0].format.id == _FIRST and found[0].score == 100:
        return found[:1]
    return found


def _rows(head: Head, formats: list[Format]) -> list[Candidate]:
    """Give the formats that claim every member of an object of rows; the lowest score counts."""
    found: list[Candidate] | None = None
    for part in head.parts():
        claims = _claims(part, formats if found is None else [c.format for c in found], _JSON)
        before = {c.format.id: c for c in found or claims}
        found = [min(c, before[c.format.id], key=lambda c: c.score) for c in claims]
        if not found:
            break
    return found or []


def _claims(head: Head, formats: Iterable[Format], kinds: frozenset[Kind]) -> list[Candidate]:
    found = []
    for record in formats:
        if record.read is None or kinds.isdisjoint(record.kinds):
            continue
        try:
            match = record.probe(head)
            if match is not None and not isinstance(match, Match):
                raise TypeError("probe gives no Match")  # noqa: TRY301 - as any fault in it
        except Exception as error:
            if not registry.is_plugin(record):
                raise
            warnings.warn(f"format plugin {record.id!r} failed to look: {error!r}", stacklevel=2)
            continue
        if match is not None and match.score > 0:
            found.append(Candidate(record, match.score, match.reason))
    return found


def _kinds(head: Head) -> frozenset[Kind]:
    """Give the kinds of content that an input can have; the probes of other kinds are spared."""
    if head.is_dir:
        return _FOLDER
    if head.is_sqlite:
        return _DATABASE
    if head.first in ("{", "[") and head.values:
        return _JSON
    return _TEXT


def is_unit(head: Head) -> bool:
    """Whether a folder as a whole is the input of a format."""
    return bool(rank(head))


def pick(head: Head, formats: Iterable[Format] | None = None) -> Candidate:
    """Give the one format of an input.

    Raises :class:`NoMatch` when no format claims it, :class:`UnknownFormat` when more
    than one does.
    """
    candidates = rank(head, formats)
    if not candidates:
        raise _unknown(head)
    best = candidates[0]
    rivals = [c for c in candidates[1:] if best.score < 100 and best.score - c.score < MARGIN]
    if rivals:
        names = ", ".join(f"{c.format.id} ({c.score}: {c.reason})" for c in (best, *rivals))
        raise UnknownFormat(
            f"more than one format fits: {names}",
            path=head.name,
            hint=f"choose one with --from, for example --from {best.format.id}",
        )
    return best


class NoMatch(UnknownFormat):
    """No format claims the input; the message says what it looks like."""


def _unknown(head: Head) -> NoMatch:
    data = head.data
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    position, hint = None, None
    if not data:
        what = "the file is empty"
    elif not data.strip(b" \t\r\n\x00"):
        what = "nothing but blanks in it"
    elif start.startswith((b"<!doctype html", b"<html")):
        what = "an HTML page, not a transcript"
    elif head.is_sqlite:
        what = (
            f"a database of no known tool (tables: {', '.join(sorted(head.tables)[:8]) or 'none'})"
        )
    elif b"\x00" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        what = "binary data, not a transcript"
    elif not head.values:
        what, position = "no known format, and no line of it is JSON", 1
    else:
        what = "no known format"
        hint = "`dcb formats` lists the known ones; --from NAME forces one"
    return NoMatch(what, path=head.name, position=position, hint=hint)
