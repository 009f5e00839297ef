"""Snapshot documents: write, read, verify, reseal.

:func:`write` gives the text of a snapshot and what had to be changed for it;
:func:`read` gives the snapshot of a text, the dialect that was met and every problem
on the way. In the profile ``published`` a written document always reads back as the
snapshot that :func:`write` says it holds.

Source: published snapshot format, sections 1 to 5; program 0.2.0, sections header,
body, checksum and reading of its description.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from converters.errors import BadInput
from dcb.snapshot.header import (
    DIGEST,
    Dialect,
    Verdict,
    check_header,
    dialect_of,
    frame,
    header_digest,
    verdict,
)
from dcb.snapshot.layers import EMPTY, HEADINGS, read_entries, read_preferences, read_sections
from dcb.snapshot.lexing import (
    END,
    MARKERS,
    escape,
    fence_for,
    header_lines,
    single_line,
    split_document,
)
from dcb.snapshot.model import Snapshot
from dcb.snapshot.problem import Problem
from dcb.snapshot.profile import PUBLISHED, Profile, profile_for
from dcb.snapshot.tokens import estimate_snapshot
from dcb.snapshot.values import js_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dcb.snapshot.model import VerbatimEntry
    from dcb.snapshot.safety import Change

__all__ = [
    "UNTITLED",
    "Document",
    "Read",
    "Verdict",
    "body_of",
    "decode",
    "parse",
    "read",
    "reseal",
    "serialize",
    "verdict",
    "verify",
    "write",
]

UNTITLED = "未命名快照"


class Document(NamedTuple):
    """A written document.

    ``snapshot`` is what the text holds, checksum included; ``changes`` is empty when
    that is all of the snapshot that was given.
    """

    text: str
    snapshot: Snapshot
    changes: tuple[Change, ...]


class Read(NamedTuple):
    """A document that was read; ``problems`` in the order of the text."""

    snapshot: Snapshot
    dialect: Dialect
    problems: tuple[Problem, ...]


def serialize(snapshot: Snapshot, profile: Profile = PUBLISHED) -> str:
    """Give the document of a snapshot; see :func:`write` for what had to change."""
    return write(snapshot, profile).text


def write(snapshot: Snapshot, profile: Profile = PUBLISHED) -> Document:
    """Give the document of a snapshot, what it holds, and what was changed.

    The checksum is computed; the token estimate is taken from the meta as it is.
    :class:`BadInput` for what cannot be written at all (a time that is none in
    ``plugin``, an unknown schema version or scope in ``published``).
    """
    rules = profile.writing
    ready, changes = rules.prepare(snapshot)
    body = body_of(ready, profile)
    checksum = rules.checksum(body)
    meta = replace(
        ready.meta,
        title=single_line(ready.meta.title),
        description=single_line(ready.meta.description),
        tags=tuple(map(rules.tag, ready.meta.tags)),
    )
    lines = "\n".join(rules.header(meta, checksum))
    held = replace(ready, meta=replace(ready.meta, checksum=checksum))
    return Document(f"---\n{lines}\n---\n\n{body}", held, changes)


def body_of(snapshot: Snapshot, profile: Profile = PUBLISHED) -> str:
    """Give the body of a document: from the title to the final line end."""
    return "\n\n".join(_blocks(snapshot, profile)) + "\n"


def _blocks(snapshot: Snapshot, profile: Profile) -> Iterator[str]:
    rules = profile.writing
    yield f"# {rules.title(snapshot.meta.title) or UNTITLED}"
    description = single_line(snapshot.meta.description)
    if description:
        yield f"> {escape(description)}"
    yield MARKERS[0]
    yield HEADINGS[0]
    for entry in snapshot.verbatim:
        yield _entry(entry, profile)
    if not snapshot.verbatim:
        yield EMPTY[0]
    yield MARKERS[1]
    yield HEADINGS[1]
    for section in snapshot.summary:
        yield f"### {rules.heading(section.heading)}"
        yield "\n".join(f"- {escape(single_line(bullet))}" for bullet in section.bullets)
    if not snapshot.summary:
        yield EMPTY[1]
    yield MARKERS[2]
    yield HEADINGS[2]
    yield (
        "\n".join(
            f"- **[{p.scope}] {rules.key(p.key)}** ({'explicit' if p.explicit else 'inferred'})"
            f" \u2014 {escape(single_line(p.value))} <!-- at={js_text(p.created_at)} -->"
            for p in snapshot.preferences
        )
        or EMPTY[2]
    )
    yield END


def _entry(entry: VerbatimEntry, profile: Profile) -> str:
    rules = profile.writing
    encode = rules.attribute
    language = encode(entry.language) if entry.language else ""
    parts = [
        f"<!-- dcb:entry id={encode(entry.id)} kind={encode(entry.kind)}",
        *([f"lang={language}"] if language else []),
        f"role={encode(entry.source_role)} src={encode(entry.source_message_id)}",
        f"at={js_text(entry.created_at)} -->",
    ]
    head = " ".join(parts)
    if not rules.fenced(entry):
        return f"{head}\n{escape(entry.content)}"
    fence = fence_for(entry.content)
    return f"{head}\n{fence}{language}\n{entry.content}\n{fence}"


def decode(data: bytes, path: str | None = None) -> str:
    """Give the text of a document's bytes; :class:`BadInput` when they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(
            "not UTF-8, so no snapshot document", path=path, position=f"byte {error.start}"
        ) from error


def parse(text: str, profile: Profile = PUBLISHED) -> Snapshot:
    """Give the snapshot of a document; errors as :func:`read`."""
    return read(text, profile).snapshot


def read(text: str, profile: Profile = PUBLISHED) -> Read:
    """Read a document of any dialect by the rules of a profile.

    :class:`BadInput` when there is no closed header or the layers are missing (in
    ``published`` also: out of order or repeated); :class:`UnsupportedVersion` for an
    unknown schema. What is odd but readable is in the problems. Checksums are not
    looked at here, see :func:`verdict`.
    """
    folded, notes = profile.reading.fold(text)
    problems = list(notes)
    split = split_document(folded)
    if split is None:
        opened = folded.startswith(("---\n", "---\r\n"))
        what = "the header that line 1 opens is never closed" if opened else "no header"
        raise BadInput(
            f"no snapshot document: {what}",
            position=1,
            hint="a snapshot starts with a line --- and its header fields",
        )
    lines = header_lines(split.header)
    dialect = dialect_of(lines)
    check_header(lines, dialect, problems)
    if dialect == "published" and any(line.name == DIGEST for line in lines):
        _check_frame(folded, [line.raw for line in lines], problems)
    meta = profile.reading.meta(lines, problems)
    rules = profile.reading.rules[dialect]
    meta = replace(meta, tags=tuple(map(rules.decode, meta.tags)))
    cut = rules.cut(split.body, folded.count("\n", 0, split.start) + 1, rules, problems)
    snapshot = Snapshot(
        meta=meta,
        verbatim=tuple(read_entries(cut.verbatim, rules, problems)),
        summary=tuple(read_sections(cut.summary, rules, problems)),
        preferences=tuple(read_preferences(cut.preference, rules, problems)),
    )
    return Read(snapshot, dialect, tuple(sorted(problems, key=lambda note: note.line)))


def _check_frame(text: str, raw: list[str], problems: list[Problem]) -> None:
    """Note a change in the lines around the header, which its digest does not cover."""
    if not text.startswith(frame(raw)) or text.startswith("\n", len(frame(raw))):
        what = "the lines that open and close the header were changed"
        problems.append(Problem("error", "header-digest", 1, what))


def verify(text: str, profile: Profile = PUBLISHED) -> bool:
    """Say whether the checksum of a document fits its body, byte for byte.

    ``published`` takes the checksum of either dialect and wants the header digest to
    fit too, where there is one; ``plugin`` wants its own form. See :func:`verdict` for
    a checksum that fits once line ends are folded.
    """
    return profile.reading.verify(text)


def reseal(text: str) -> str:
    """Give the document with checksum, token estimate and header digest computed anew.

    For a deliberate edit: the body and the other header lines stay as they are, a BOM
    and CRLF are folded, the dialect is kept. Errors as :func:`read`.
    """
    found = read(text)
    profile = profile_for(found.dialect)
    folded, _ = PUBLISHED.reading.fold(text)
    split = split_document(folded)
    if split is None:  # read() would have said so
        raise BadInput("no snapshot document")
    new = {
        "token_estimate": js_text(estimate_snapshot(found.snapshot)),
        "checksum": profile.writing.checksum(split.body),
    }
    lines = []
    for line in header_lines(split.header):
        if line.name in new:
            lines.append(f"{line.name}: {new.pop(line.name)}")
        elif line.name not in (DIGEST, "checksum"):  # repeated ones go
            lines.append(line.raw)
    lines += [f"{name}: {value}" for name, value in new.items()]
    if profile.writing.sealed:
        lines.append(f"{DIGEST}: {header_digest(lines)}")
    return frame(lines) + split.body
