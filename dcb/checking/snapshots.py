"""The check of a snapshot document.

Errors, by code: ``unreadable``, ``layers`` (missing, repeated or out of order),
``schema-version``, ``checksum``, ``header-digest``, ``header-line``, ``header-value``,
``entry-value``, ``fence-open``, ``end-missing``, ``text-after-end``, ``duplicate-id``,
``over-budget``. Warnings: ``bom``, ``old-version`` (program 0.1.0),
``header-digest-missing``, ``header-unknown``, ``stray-text``, ``section-empty``,
``kind-unknown`` and ``role-unknown`` (readers pass them through, briefs leave out such
entries), ``duplicate-preference`` (one of a scope and key counts), ``token-estimate``,
``not-canonical`` (hand-edited and resealed), ``content-loss`` (program 0.2.0 would misread
it).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from converters.errors import BadInput, DcbError, UnsupportedVersion
from dcb.snapshot.document import decode, read, verify, write
from dcb.snapshot.header import fits, verdict
from dcb.snapshot.layers import LayersError
from dcb.snapshot.lexing import (
    BOM,
    attributes,
    entry_attributes,
    header_lines,
    percent_decode,
    preference_of,
    split_document,
)
from dcb.snapshot.model import KINDS, ROLES
from dcb.snapshot.problem import Problem
from dcb.snapshot.profile import PLUGIN, PUBLISHED, Profile, profile_for
from dcb.snapshot.tokens import estimate_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dcb.snapshot.document import Read
    from dcb.snapshot.model import Snapshot, VerbatimEntry
    from dcb.snapshot.problem import Severity

__all__ = ["MOST_TOKENS", "check_snapshot"]

MOST_TOKENS: Final = 32768
"""The largest budget that the settings of program 0.2.0 allow."""

_COMPUTED: Final = ("checksum:", "x_dcb_header")
_HEX: Final = re.compile("(?:sha256:)?[0-9a-f]{64}")


def check_snapshot(
    data: bytes, profile: Profile = PUBLISHED, *, max_tokens: int = MOST_TOKENS
) -> list[Problem]:
    """Give every problem of a document, in the order of its lines.

    ``profile`` says whose reader is asked: the checksum must be one that it accepts.
    """
    try:
        text = decode(data)
        read(text, profile)
        found = read(text, PUBLISHED)
    except DcbError as error:
        return [_fatal(error)]
    # That lines end in CRLF is part of what the checksum says.
    problems = {problem: None for problem in found.problems if problem.code != "crlf"}
    more = [
        *_checksum(text, profile),
        *_header(text, found),
        *_values(text, found.snapshot),
        *_duplicates(text, found.snapshot),
        *_preferences(text, found.snapshot),
        *_budget(text, found.snapshot, max_tokens),
        *_misread(text, found.snapshot),
    ]
    if found.dialect == "plugin-0.1.0":
        more.append(Problem("warning", "old-version", 1, "written by program 0.1.0: no weight"))
    problems |= dict.fromkeys(more)
    if not any(problem.severity == "error" for problem in problems):
        problems |= dict.fromkeys(_canonical(text, found))
    return sorted(problems, key=lambda problem: (problem.line, problem.severity, problem.code))


def _fatal(error: DcbError) -> Problem:
    line = re.search("[0-9]+", str(error.position or "")) if error.position else None
    number = int(line[0]) if line and "byte" not in str(error.position) else 1
    code = "unreadable"
    if isinstance(error, LayersError):
        code = "layers"
    elif isinstance(error, UnsupportedVersion):
        code = "schema-version"
    return Problem("error", code, number, error.message)


def _line_of(text: str, name: str) -> int:
    split = split_document(text.removeprefix(BOM))
    lines = header_lines(split.header) if split else []
    return next((line.number for line in lines if line.name == name), 1)


def _value_of(text: str, name: str) -> str:
    split = split_document(text.removeprefix(BOM))
    lines = header_lines(split.header) if split else []
    return next((line.value for line in lines if line.name == name), "")


def _checksum(text: str, profile: Profile) -> Iterator[Problem]:
    """Say why the checksum does not fit, if it does not."""
    plain = text.removeprefix(BOM)
    line = _line_of(text, "checksum")
    value = _value_of(text, "checksum")
    if not value:
        yield Problem("error", "checksum", line, "no checksum: the body cannot be verified")
    elif not _HEX.fullmatch(value):
        yield Problem("error", "checksum", line, "the checksum is not a SHA-256 in lower-case hex")
    elif not fits(plain):
        what = "the checksum does not fit: the body was changed"
        if verdict(text) == "folded":
            what = (
                "the checksum does not fit as it is, only with CRLF folded to LF:"
                " a transfer changed the line ends"
            )
        yield Problem("error", "checksum", line, what)
    elif profile is PLUGIN and not verify(text, PLUGIN):
        yield Problem("error", "checksum", line, "program 0.2.0 wants sha256: before the checksum")


def _header(text: str, found: Read) -> Iterator[Problem]:
    """Say what the reader takes as it is and a header must not say.

    In the program's dialects ``encrypted`` means nothing, so that it only misleads.
    """
    if not found.snapshot.meta.snapshot_id:
        line = _line_of(text, "snapshot_id")
        yield Problem("error", "header-value", line, "snapshot_id: empty, no store takes it")
    if found.snapshot.meta.encrypted:
        line = _line_of(text, "encrypted")
        what = "encrypted: says true, and the text is in the clear"
        severity: Severity = "error" if found.dialect == "published" else "warning"
        yield Problem(severity, "header-value", line, what)


class _Place(NamedTuple):
    line: int
    given: dict[str, str]

    @property
    def id(self) -> str:
        return self.given.get("id", "")


def _entries(text: str) -> list[_Place]:
    """List the entry headers of a document with their lines; those inside fences too."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        header = entry_attributes(line, angles=True) if "dcb:entry" in line else None
        if header is not None:
            found.append(_Place(number, attributes(header)))
    return found


def _values(text: str, snapshot: Snapshot) -> Iterator[Problem]:
    """Say which entries have no id, and which a kind or role that the format does not have."""
    odd = [e for e in snapshot.verbatim if not e.id or e.kind not in KINDS or _no_role(e)]
    if not odd:
        return
    places = _entries(text)
    for entry in odd:
        # An entry header that stands inside a fence can be taken for it: then the line is off.
        line = next((p.line for p in places if _decoded(p.given.get("id")) == entry.id), 1)
        if not entry.id:
            yield Problem("error", "entry-value", line, "id: empty")
        if entry.kind not in KINDS:
            what = f"{entry.kind[:60]!r} is none of {', '.join(KINDS)}"
            yield Problem("warning", "kind-unknown", line, what)
        if _no_role(entry):
            what = f"{entry.source_role[:60]!r} is none of {', '.join(ROLES)}"
            yield Problem("warning", "role-unknown", line, what)


def _no_role(entry: VerbatimEntry) -> bool:
    return entry.source_role not in ROLES


def _decoded(text: str | None) -> str | None:
    return None if text is None else percent_decode(text)


def _preferences(text: str, snapshot: Snapshot) -> Iterator[Problem]:
    """Say which preferences share scope and key: the format keys them by both."""
    counts = Counter((one.scope, one.key) for one in snapshot.preferences)
    repeated = {name for name, count in counts.items() if count > 1}
    if not repeated:
        return
    lines: dict[tuple[str, str], list[int]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        part = preference_of(line)
        if part is not None:
            lines.setdefault((part.scope, percent_decode(part.key)), []).append(number)
    for scope, key in sorted(repeated):
        found = lines.get((scope, key), [1])
        what = f"[{scope}] {key[:60]} is said {counts[scope, key]} times, and one counts"
        yield Problem("warning", "duplicate-preference", found[-1], what)


def _duplicates(text: str, snapshot: Snapshot) -> Iterator[Problem]:
    counts = Counter(entry.id for entry in snapshot.verbatim)
    repeated = {name for name, count in counts.items() if count > 1}
    if not repeated:
        return
    places = _entries(text)
    for name in sorted(repeated):
        lines = [place.line for place in places if place.id == name]
        what = f"entry id {name[:60]!r} is used {counts[name]} times"
        yield Problem("error", "duplicate-id", lines[1] if len(lines) > 1 else 1, what)


def _budget(text: str, snapshot: Snapshot, max_tokens: int) -> Iterator[Problem]:
    tokens = estimate_snapshot(snapshot)
    line = _line_of(text, "token_estimate")
    if tokens > max_tokens:
        what = f"{tokens} tokens are over the budget of {max_tokens}"
        yield Problem("error", "over-budget", line, what)
    if snapshot.meta.token_estimate != tokens:
        what = f"token_estimate is {snapshot.meta.token_estimate}, the layers have {tokens}"
        yield Problem("warning", "token-estimate", line, what)


def _canonical(text: str, found: Read) -> Iterator[Problem]:
    """Compare with what the writer of the document's dialect would write."""
    try:
        again = write(found.snapshot, profile_for(found.dialect)).text
    except DcbError:
        return
    if found.dialect == "plugin-0.1.0":
        again = again.replace("\nweight: 0\nlayers:", "\nlayers:", 1)
    have = text.removeprefix(BOM).split("\n")
    want = again.split("\n")
    if have != want and found.dialect == "published":
        want = [line for line in want if _has_digest(have) or not line.startswith("x_dcb_header")]
    if have == want:
        return
    number = next(
        (
            number
            for number, (one, two) in enumerate(zip(have, want, strict=False), 1)
            if one != two and not one.startswith(_COMPUTED)
        ),
        min(len(have), len(want)) + 1,
    )
    what = "readable, but not as its writer would write it from here on"
    yield Problem("warning", "not-canonical", number, what)


def _has_digest(lines: list[str]) -> bool:
    return any(line.startswith("x_dcb_header") for line in lines[:40])


def _misread(text: str, ours: Snapshot) -> Iterator[Problem]:
    """Compare what program 0.2.0 reads with what is there."""
    try:
        theirs = read(text.removeprefix(BOM), PLUGIN).snapshot
    except BadInput:
        return  # what it cannot read at all has been said
    lines = iter(_entries(text))
    for index, entry in enumerate(ours.verbatim):
        place = next((p.line for p in lines if p.id), 1)
        if index >= len(theirs.verbatim):
            yield _loss(place, f"entry {entry.id} is lost")
            return
        other = theirs.verbatim[index]
        if (other.content, other.kind) != (entry.content, entry.kind):
            yield _loss(place, f"entry {entry.id} loses content or kind")
            return
    if len(theirs.verbatim) > len(ours.verbatim):
        yield _loss(1, "text of an entry becomes an entry of its own")
    if _summary(theirs) != _summary(ours):
        yield _loss(1, "the summary layer is cut or changed")
    if [p.value for p in theirs.preferences] != [p.value for p in ours.preferences]:
        yield _loss(1, "the preference layer is cut or changed")


def _summary(snapshot: Snapshot) -> list[tuple[str, ...]]:
    return [section.bullets for section in snapshot.summary]


def _loss(line: int, what: str) -> Problem:
    return Problem("warning", "content-loss", line, f"program 0.2.0 would misread this: {what}")
