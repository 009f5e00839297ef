"""The header of a snapshot document: its lines, its two dialects, its digest.

Three dialects are met: ``published`` (quoted schema version, bare hex checksum),
``plugin`` (program 0.2.0: ``sha256:`` before the checksum, a weight line) and
``plugin-0.1.0`` (the same without a weight line).

``x_dcb_header_sha256`` is an extension of dcb: the SHA-256 in lower-case hex over the
UTF-8 bytes of all other header lines, each with its LF, without the two ``---`` lines.

Source: published snapshot format, sections 1, 2 and 5.2; program 0.2.0, header.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from converters.errors import UnsupportedVersion
from dcb.snapshot.lexing import BOM, digest, header_lines, split_document, trim
from dcb.snapshot.model import SCHEMA_VERSION, Meta
from dcb.snapshot.problem import Problem
from dcb.snapshot.values import (
    date_text,
    integer,
    js_date,
    js_text,
    loose_number,
    plain_number,
    strict_date,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dcb.snapshot.lexing import HeaderLine

__all__ = [
    "DIGEST",
    "LAYERS",
    "NAMES",
    "Dialect",
    "Verdict",
    "check_header",
    "dialect_of",
    "fits",
    "frame",
    "header_digest",
    "loose_meta",
    "plugin_header",
    "published_header",
    "strict_meta",
    "verdict",
    "verify_plugin",
    "verify_published",
]

Dialect: TypeAlias = Literal["published", "plugin", "plugin-0.1.0"]
Verdict: TypeAlias = Literal["exact", "folded", "mismatch", "missing"]

DIGEST: Final = "x_dcb_header_sha256"
LAYERS: Final = "[verbatim, summary, preference]"
NAMES: Final = (
    "dcb_schema",
    "snapshot_id",
    "source_conversation_id",
    "title",
    "description",
    "tags",
    "created_at",
    "token_estimate",
    "encrypted",
    "checksum",
    "weight",
    "layers",
)
_HEX: Final = re.compile("[0-9a-f]{64}")
_LIKE_HEX: Final = re.compile("[0-9a-fA-F]{60}")


def dialect_of(lines: Iterable[HeaderLine]) -> Dialect:
    """Say which dialect a header is written in."""
    values = {line.name: line.value for line in lines}
    if DIGEST in values or '"' in values.get("dcb_schema", ""):
        return "published"
    if values.get("checksum", "").startswith("sha256:") or "weight" in values:
        return "plugin" if "weight" in values else "plugin-0.1.0"
    return "published"


def header_digest(lines: Iterable[str]) -> str:
    """Give the digest of header lines (texts without line ends), its own line left out."""
    return digest("".join(f"{line}\n" for line in lines if not line.startswith(f"{DIGEST}:")))


def fits(text: str) -> bool:
    """Say whether a document's checksum, with or without ``sha256:``, fits its body as it is."""
    found = _checksum_and_body(text)
    return found is not None and found[0].removeprefix("sha256:") == digest(found[1])


def verdict(text: str) -> Verdict:
    """Say whether the checksum fits: as it is, or only once a BOM and CRLF are folded away."""
    found = _checksum_and_body(text.removeprefix(BOM))
    if found is not None and not found[0]:
        return "missing"
    if fits(text):
        return "exact"
    return "folded" if fits(text.removeprefix(BOM).replace("\r\n", "\n")) else "mismatch"


def verify_published(text: str) -> bool:
    """Say whether checksum and, where there is one, header digest fit byte for byte."""
    split = split_document(text)
    if split is None or not fits(text):
        return False
    raw = [line.raw for line in header_lines(split.header)]
    if not any(line.startswith(f"{DIGEST}:") for line in raw):
        return True
    return f"{DIGEST}: {header_digest(raw)}" in raw and text.startswith(frame(raw))


def verify_plugin(text: str) -> bool:
    """Say what program 0.2.0 says: the checksum is the prefixed one of the body, exactly."""
    found = _checksum_and_body(text)
    return found is not None and found[0] == f"sha256:{digest(found[1])}"


def frame(raw: Sequence[str]) -> str:
    """Give the text before the body: the header lines and what stands around them."""
    return "\n".join(["---", *raw, "---", "", ""])


def _checksum_and_body(text: str) -> tuple[str, str] | None:
    split = split_document(text)
    if split is None:
        return None
    values = {line.name: line.value for line in header_lines(split.header)}
    return values.get("checksum", ""), split.body


def _tags(tags: Sequence[str]) -> str:
    return f"[{', '.join(tags)}]"


def plugin_header(meta: Meta, checksum: str) -> list[str]:
    """Give the header lines of program 0.2.0: nothing is quoted or escaped."""
    return [
        f"dcb_schema: {meta.schema_version}",
        f"snapshot_id: {meta.snapshot_id}",
        f"source_conversation_id: {meta.source_conversation_id}",
        f"title: {meta.title}",
        f"description: {meta.description}",
        f"tags: {_tags(meta.tags)}",
        f"created_at: {date_text(meta.created_at)}",
        f"token_estimate: {js_text(meta.token_estimate)}",
        f"encrypted: {'true' if meta.encrypted else 'false'}",
        f"checksum: {checksum}",
        f"weight: {js_text(meta.weight)}",
        f"layers: {LAYERS}",
    ]


def published_header(meta: Meta, checksum: str) -> list[str]:
    """Give the published header lines and the digest line."""
    lines = [
        f'dcb_schema: "{meta.schema_version}"',
        f"snapshot_id: {meta.snapshot_id}",
        f"source_conversation_id: {meta.source_conversation_id}",
        f"title: {meta.title}",
        f"description: {meta.description}",
        f"tags: {_tags(meta.tags)}",
        f"created_at: {date_text(meta.created_at)}",
        f"token_estimate: {js_text(meta.token_estimate)}",
        f"encrypted: {'true' if meta.encrypted else 'false'}",
        f"checksum: {checksum}",
        *([f"weight: {js_text(meta.weight)}"] if meta.weight else []),
        f"layers: {LAYERS}",
    ]
    return [*lines, f"{DIGEST}: {header_digest(lines)}"]


def _tag_list(text: str) -> list[str]:
    text = text.removeprefix("[")
    text = text.removesuffix("]")
    return [tag for tag in map(trim, text.split(",")) if tag]


def loose_meta(lines: Sequence[HeaderLine], notes: list[Problem]) -> Meta:
    """Read a header as program 0.2.0 does: bad numbers and dates are NaN, nothing is refused."""
    del notes
    values = {line.name: line.value for line in lines if line.name}
    created = values.get("created_at", "")
    return Meta(
        snapshot_id=values.get("snapshot_id", ""),
        source_conversation_id=values.get("source_conversation_id", ""),
        title=values.get("title", ""),
        description=values.get("description", ""),
        tags=tuple(_tag_list(values.get("tags", ""))),
        created_at=js_date(created) if created else 0,
        schema_version=values.get("dcb_schema", SCHEMA_VERSION),
        token_estimate=loose_number(values.get("token_estimate", "")),
        encrypted=values.get("encrypted") == "true",
        checksum=values.get("checksum", ""),
        weight=loose_number(values.get("weight", "")),
    )


def strict_meta(lines: Sequence[HeaderLine], notes: list[Problem]) -> Meta:
    """Read a header and note what is wrong; a bad value gives the default of its field.

    :class:`UnsupportedVersion` for a schema of another major version.
    """
    last = {line.name: line for line in lines if line.name}
    values = {name: line.value for name, line in last.items()}

    def bad(name: str, what: str) -> None:
        notes.append(Problem("error", "header-value", last[name].number, f"{name}: {what}"))

    schema = values.get("dcb_schema", SCHEMA_VERSION).strip('"')
    if schema.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise UnsupportedVersion(
            f"dcb_schema {schema[:60]!r} is not known, this release reads {SCHEMA_VERSION}",
            position=last["dcb_schema"].number,
            hint="update dcb, or ask for the document in schema 1.0",
        )
    if values.get("dcb_schema", schema) not in (schema, f'"{schema}"'):
        bad("dcb_schema", "the quotes do not match")
    if schema != SCHEMA_VERSION:
        line = last["dcb_schema"].number
        notes.append(Problem("error", "schema-version", line, f"unknown version {schema[:60]!r}"))
    created = strict_date(values.get("created_at", "")) if values.get("created_at") else 0
    if created is None:
        bad("created_at", "not a UTC time with milliseconds")
        loose = js_date(values["created_at"])
        created = int(loose) if loose == loose else 0  # noqa: PLR0124 - NaN
    estimate = integer(values.get("token_estimate") or "0")
    if estimate is None or estimate < 0:
        bad("token_estimate", "not a count")
    weight = plain_number(values.get("weight") or "0")
    if weight is None:
        bad("weight", "not a number")
    if values.get("encrypted", "false") not in ("true", "false"):
        bad("encrypted", "neither true nor false")
    return Meta(
        snapshot_id=values.get("snapshot_id", ""),
        source_conversation_id=values.get("source_conversation_id", ""),
        title=values.get("title", ""),
        description=values.get("description", ""),
        tags=tuple(_tag_list(values.get("tags", ""))),
        created_at=created,
        schema_version=schema,
        token_estimate=max(estimate or 0, 0),
        encrypted=values.get("encrypted") == "true",
        checksum=values.get("checksum", ""),
        weight=weight or 0,
    )


def check_header(lines: Sequence[HeaderLine], dialect: Dialect, notes: list[Problem]) -> None:
    """Note lines that are missing, repeated, unknown or no header lines at all."""
    known: dict[str, HeaderLine] = {}
    for line in lines:
        if not line.name:
            if line.raw:
                notes.append(_error("header-line", line, "no name and colon"))
        elif line.name in known:
            notes.append(_error("header-line", line, f"{line.name} is repeated"))
        elif line.name not in NAMES and line.name != DIGEST:
            _unknown(line, notes)
        known.setdefault(line.name, line)
    notes.extend(
        Problem("error", "header-line", 1, f"{name} is missing")
        for name in NAMES
        if name not in known and name != "weight"
    )
    layers = known.get("layers")
    if layers and layers.value != LAYERS:
        notes.append(_error("header-value", layers, f"layers: must be {LAYERS}"))
    tags = known.get("tags")
    if tags and not (tags.value.startswith("[") and tags.value.endswith("]")):
        notes.append(_error("header-value", tags, "tags: not a list in brackets"))
    if dialect == "published":
        _check_digest(lines, known.get(DIGEST), notes)


def _error(code: str, line: HeaderLine, message: str) -> Problem:
    return Problem("error", code, line.number, message)


def _unknown(line: HeaderLine, notes: list[Problem]) -> None:
    if _LIKE_HEX.search(line.raw):
        notes.append(_error("header-digest", line, f"looks like a damaged {DIGEST} line"))
    else:
        text = f"{line.name[:60]!r} is not a name of this format"
        notes.append(Problem("warning", "header-unknown", line.number, text))


def _check_digest(
    lines: Sequence[HeaderLine], line: HeaderLine | None, notes: list[Problem]
) -> None:
    if line is None:
        if not any(note.code == "header-digest" for note in notes):
            text = f"no {DIGEST}: changes of the header cannot be seen"
            notes.append(Problem("warning", "header-digest-missing", 1, text))
        return
    wanted = header_digest(other.raw for other in lines)
    if line.raw == f"{DIGEST}: {wanted}":
        return
    what = "the header was changed" if _HEX.fullmatch(line.value) else "not a SHA-256 in hex"
    notes.append(_error("header-digest", line, f"{DIGEST} does not fit: {what}"))
