"""What the published writer changes so that a document reads back as it was written.

Almost everything is carried: unsafe text goes into a fence, odd characters of
attributes, keys and tags are percent-encoded. What even that cannot carry is
changed so that a person sees it (U+2400 for NUL, U+240D for CR, U+FFFD for
half a surrogate pair ...) and each change is listed.

Source: published snapshot format, section 3.3; weak spots 2 to 11 of program 0.2.0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from converters.errors import BadInput, UnsupportedVersion
from dcb.snapshot.lexing import fence_of, single_line, trim
from dcb.snapshot.model import (
    SCHEMA_VERSION,
    SCOPES,
    Meta,
    Preference,
    Snapshot,
    SummarySection,
    VerbatimEntry,
)
from dcb.snapshot.values import MAX_DATE, MAX_SAFE, js_text, plain_number

if TYPE_CHECKING:
    from dcb.snapshot.model import Number

__all__ = ["NO_HEADING", "NO_KEY", "Change", "Prepared", "needs_fence", "prepare"]

NO_HEADING: Final = "（无标题）"
NO_KEY: Final = "unnamed"
_ESCAPED: Final = "&lt;!--"
_VISIBLE_ESCAPED: Final = "＆lt;!--"


class Change(NamedTuple):
    """Something that the document does not hold as it was: where, and what happened."""

    place: str
    what: str


class Prepared(NamedTuple):
    """A snapshot as its document will be read, and what had to change for that."""

    snapshot: Snapshot
    changes: tuple[Change, ...]


def needs_fence(entry: VerbatimEntry) -> bool:
    """Say whether the content must stand in a fence: code, and text that would not survive bare."""
    content = entry.content
    return (
        entry.kind == "code"
        or trim(content) != content
        or _ESCAPED in content
        or bool(fence_of(content.partition("\n")[0]))
    )


def prepare(snapshot: Snapshot) -> Prepared:
    """Give the snapshot as it can be written, with a list of changes.

    :class:`UnsupportedVersion` for another schema version, :class:`BadInput` for a
    scope that the format does not have.
    """
    work = _Changes()
    ready = Snapshot(
        meta=_meta(snapshot.meta, work),
        verbatim=tuple(_entry(e, f"verbatim[{n}]", work) for n, e in enumerate(snapshot.verbatim)),
        summary=_sections(snapshot.summary, work),
        preferences=tuple(
            _preference(p, f"preferences[{n}]", work) for n, p in enumerate(snapshot.preferences)
        ),
    )
    return Prepared(ready, tuple(work.found))


class _Changes:
    """Collects changes; its methods give the text or number that can be written."""

    def __init__(self) -> None:
        self.found: list[Change] = []

    def note(self, place: str, what: str) -> None:
        self.found.append(Change(place, what))

    def clean(self, text: str, place: str) -> str:
        """Replace what UTF-8 text cannot hold."""
        if "\0" in text:
            self.note(place, "NUL became U+2400")
            text = text.replace("\0", "\u2400")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                self.note(place, "half of a surrogate pair became U+FFFD")
                text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def content(self, text: str, place: str) -> str:
        """Make a text of many lines one whose lines end in LF only."""
        text = self.clean(text, place)
        if "\r" in text:
            self.note(place, "CRLF became LF, a lone CR U+240D")
            text = text.replace("\r\n", "\n").replace("\r", "\u240d")
        return text

    def line(self, text: str, place: str, *, escaped: bool = True) -> str:
        """Make a text one trimmed line; ``escaped``: it will be escaped in the body."""
        text = self.clean(text, place)
        folded = single_line(text.replace("\r\n", "\n").replace("\r", "\n"))
        if folded != text:
            self.note(place, "line ends became spaces, outer whitespace was cut")
        if escaped and _ESCAPED in folded:
            self.note(place, "a literal &lt;!-- got a full-width ampersand")
            folded = folded.replace(_ESCAPED, _VISIBLE_ESCAPED)
        return folded

    def integer(self, value: Number, place: str, low: int, high: int) -> int:
        """Give an integer between the bounds."""
        if isinstance(value, float) and not math.isfinite(value):
            whole = 0
        else:
            whole = min(max(math.floor(value), low), high)
        if whole != value:
            self.note(place, f"{js_text(value)[:40]} became {whole}")
        return whole


def _meta(meta: Meta, work: _Changes) -> Meta:
    if meta.schema_version.strip('"') != SCHEMA_VERSION:
        raise UnsupportedVersion(
            f"cannot write a snapshot of schema {meta.schema_version[:60]!r}",
            position="meta.schemaVersion",
        )
    tags = [work.clean(tag, f"meta.tags[{n}]") for n, tag in enumerate(meta.tags)]
    if not all(tags):
        work.note("meta.tags", "an empty tag was left out")
    weight = meta.weight
    if plain_number(js_text(weight)) != weight:
        work.note("meta.weight", f"{js_text(weight)[:40]} became 0")
        weight = 0
    return Meta(
        snapshot_id=work.line(meta.snapshot_id, "meta.snapshotId", escaped=False),
        source_conversation_id=work.line(
            meta.source_conversation_id, "meta.sourceConversationId", escaped=False
        ),
        title=work.line(meta.title, "meta.title", escaped=False),
        description=work.line(meta.description, "meta.description", escaped=False),
        tags=tuple(tag for tag in tags if tag),
        created_at=work.integer(meta.created_at, "meta.createdAt", -MAX_DATE, MAX_DATE),
        token_estimate=work.integer(meta.token_estimate, "meta.tokenEstimate", 0, MAX_SAFE),
        encrypted=meta.encrypted,
        weight=weight,
    )


def _entry(entry: VerbatimEntry, place: str, work: _Changes) -> VerbatimEntry:
    return VerbatimEntry(
        id=work.clean(entry.id, f"{place}.id"),
        source_message_id=work.clean(entry.source_message_id, f"{place}.sourceMessageId"),
        source_role=work.clean(entry.source_role, f"{place}.sourceRole"),
        kind=work.clean(entry.kind, f"{place}.kind"),
        language=_language(entry.language, f"{place}.language", work),
        content=work.content(entry.content, f"{place}.content"),
        created_at=work.integer(entry.created_at, f"{place}.createdAt", -MAX_SAFE, MAX_SAFE),
    )


def _language(language: str | None, place: str, work: _Changes) -> str | None:
    if language == "":
        work.note(place, "an empty language became none")
    return work.clean(language, place) if language else None


def _sections(sections: tuple[SummarySection, ...], work: _Changes) -> tuple[SummarySection, ...]:
    ready = []
    for n, section in enumerate(sections):
        place = f"summary[{n}]"
        heading = work.line(section.heading, f"{place}.heading")
        if not heading:
            work.note(f"{place}.heading", f"an empty heading became {NO_HEADING}")
            heading = NO_HEADING
        lines = [work.line(b, f"{place}.bullets[{m}]") for m, b in enumerate(section.bullets)]
        bullets = tuple(line for line in lines if line)
        if len(bullets) < len(lines):
            work.note(f"{place}.bullets", "an empty bullet was left out")
        if bullets:
            ready.append(SummarySection(heading=heading, bullets=bullets))
        else:
            work.note(place, "a section without bullets was left out")
    return tuple(ready)


def _preference(preference: Preference, place: str, work: _Changes) -> Preference:
    if preference.scope not in SCOPES:
        raise BadInput(f"no scope of the format: {str(preference.scope)[:40]!r}", position=place)
    key = work.clean(preference.key, f"{place}.key")
    if not key:
        work.note(f"{place}.key", f"an empty key became {NO_KEY}")
    return replace(
        preference,
        key=key or NO_KEY,
        value=work.line(preference.value, f"{place}.value"),
        created_at=work.integer(preference.created_at, f"{place}.createdAt", -MAX_SAFE, MAX_SAFE),
    )
