"""The two ways to write, read and compile: frozen records of values and functions.

``PUBLISHED`` is the published format with the weak spots of program 0.2.0 mended.
``PLUGIN`` gives the bytes and the results of program 0.2.0. The code that works with a
profile (:mod:`dcb.snapshot.document`, :mod:`dcb.snapshot.compile`) asks it and never
asks which one it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from converters.errors import UsageError
from converters.text import JS_SPACE
from dcb.snapshot import header as head
from dcb.snapshot import layers, safety
from dcb.snapshot.budget import by_place, by_time
from dcb.snapshot.classify import (
    Cutting,
    is_prompt_line,
    is_shell_line,
    loose_pieces,
    loose_segments,
    sentences,
    strict_pieces,
)
from dcb.snapshot.compiling import (
    Compiling,
    content_id,
    loose_double,
    loose_title,
    merge_by_key,
    merge_by_scope_and_key,
    near_double,
    short_title,
    stamp_id,
)
from dcb.snapshot.lexicon import builtin
from dcb.snapshot.lexing import (
    BOM,
    digest,
    escape,
    percent_decode,
    percent_encode,
    single_line,
    trim,
    unescape,
)
from dcb.snapshot.problem import Problem
from dcb.snapshot.summarize import Extracting, loose_bullet, tidy_bullet
from dcb.snapshot.values import integer, loose_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dcb.snapshot.lexing import HeaderLine
    from dcb.snapshot.model import Meta, Snapshot, VerbatimEntry

__all__ = [
    "PLUGIN",
    "PROFILES",
    "PUBLISHED",
    "Profile",
    "Reading",
    "Writing",
    "profile_for",
    "profile_of",
]

# What attributes, keys and tags cannot hold raw. The backtick matters for languages
# (they follow a fence), the star for keys (they end at ``**``).
_ATTRIBUTE: Final = JS_SPACE + ">`"
_KEY: Final = JS_SPACE + "*<"
_LINE_ENDS: Final = ",\r\n"


class Writing(NamedTuple):
    """How a profile writes.

    ``prepare`` gives the snapshot as it will be read and what was changed; ``header``
    the header lines for a meta and a checksum; ``attribute``, ``key``, ``tag``,
    ``heading`` and ``title`` the text as it stands in the document; ``fenced`` says
    whether an entry's content stands in a fence; ``sealed`` whether the header has a
    digest of its own.
    """

    prepare: Callable[[Snapshot], safety.Prepared]
    header: Callable[[Meta, str], list[str]]
    checksum: Callable[[str], str]
    attribute: Callable[[str], str]
    key: Callable[[str], str]
    tag: Callable[[str], str]
    title: Callable[[str], str]
    heading: Callable[[str], str]
    fenced: Callable[[VerbatimEntry], bool]
    sealed: bool


class Reading(NamedTuple):
    """How a profile reads.

    ``fold`` mends the text before it is cut and says what it did; ``meta`` reads the
    header; ``rules`` are those of the body for each dialect that is met; ``verify``
    says whether a document is what its writer wrote.
    """

    fold: Callable[[str], tuple[str, tuple[Problem, ...]]]
    meta: Callable[[Sequence[HeaderLine], list[Problem]], Meta]
    rules: Mapping[head.Dialect, layers.Rules]
    verify: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Profile:
    """One way to write and read documents; ``dialects`` are those it writes itself."""

    id: str
    writing: Writing
    reading: Reading
    compiling: Compiling
    dialects: frozenset[head.Dialect]


def _same(text: str) -> str:
    return text


def _always(kind: str) -> bool:
    del kind
    return True


def _code_only(kind: str) -> bool:
    return kind == "code"


def _is_code(entry: VerbatimEntry) -> bool:
    return entry.kind == "code"


def _as_it_is(snapshot: Snapshot) -> safety.Prepared:
    return safety.Prepared(snapshot, ())


def _prefixed_digest(body: str) -> str:
    return f"sha256:{digest(body)}"


def _encode_attribute(text: str) -> str:
    return percent_encode(text, _ATTRIBUTE)


def _encode_key(text: str) -> str:
    return percent_encode(text, _KEY)


def _encode_tag(text: str) -> str:
    inner = trim(text)
    start = text.find(inner)
    before, after = text[:start], text[start + len(inner) :]
    return (
        percent_encode(before, JS_SPACE)
        + percent_encode(inner, _LINE_ENDS)
        + percent_encode(after, JS_SPACE)
    )


def _escaped_line(text: str) -> str:
    return escape(single_line(text))


def _no_fold(text: str) -> tuple[str, tuple[Problem, ...]]:
    return text, ()


def _fold(text: str) -> tuple[str, tuple[Problem, ...]]:
    """Skip a BOM; fold CRLF unless the checksum fits the text as it is."""
    notes = []
    if text.startswith(BOM):
        text = text[1:]
        notes.append(Problem("warning", "bom", 1, "a byte order mark stands before the header"))
    if "\r\n" in text and not head.fits(text):
        text = text.replace("\r\n", "\n")
        notes.append(Problem("warning", "crlf", 1, "lines end in CRLF; read as LF"))
    return text, tuple(notes)


_COMPATIBLE: Final = layers.Rules(
    cut=layers.cut_by_search,
    takes_fence=_always,
    decode=_same,
    heading=_same,
    number=loose_number,
    bad=math.nan,
    signed=False,
    angles=False,
)
_STRICT: Final = layers.Rules(
    cut=layers.cut_by_line,
    takes_fence=_always,
    decode=percent_decode,
    heading=unescape,
    number=integer,
    bad=0,
    signed=True,
    angles=True,
)
# Program 0.2.0 fences code only and encodes nothing: read so, its documents give back
# also what it would lose itself.
_MENDED: Final = _STRICT._replace(takes_fence=_code_only, decode=_same, heading=_same)

PUBLISHED: Final = Profile(
    id="published",
    writing=Writing(
        prepare=safety.prepare,
        header=head.published_header,
        checksum=digest,
        attribute=_encode_attribute,
        key=_encode_key,
        tag=_encode_tag,
        title=_escaped_line,
        heading=_escaped_line,
        fenced=safety.needs_fence,
        sealed=True,
    ),
    reading=Reading(
        fold=_fold,
        meta=head.strict_meta,
        rules={"published": _STRICT, "plugin": _MENDED, "plugin-0.1.0": _MENDED},
        verify=head.verify_published,
    ),
    compiling=Compiling(
        lexicon=lambda: builtin("published"),
        cutting=Cutting(strict_pieces, sentences, is_shell_line),
        extracting=Extracting(tidy_bullet, unique_first=True),
        double=near_double,
        merge=merge_by_scope_and_key,
        title=short_title,
        untitled="未命名对话快照",
        described="由 dcb 自动编译。",
        order=by_place,
        snapshot_id=content_id,
        created_at=lambda stamp: stamp.last_ms,
    ),
    dialects=frozenset({"published"}),
)
"""The published format and rules; the default."""

PLUGIN: Final = Profile(
    id="plugin",
    writing=Writing(
        prepare=_as_it_is,
        header=head.plugin_header,
        checksum=_prefixed_digest,
        attribute=_same,
        key=_same,
        tag=single_line,
        title=single_line,
        heading=single_line,
        fenced=_is_code,
        sealed=False,
    ),
    reading=Reading(
        fold=_no_fold,
        meta=head.loose_meta,
        rules=dict.fromkeys(("published", "plugin", "plugin-0.1.0"), _COMPATIBLE),
        verify=head.verify_plugin,
    ),
    compiling=Compiling(
        lexicon=lambda: builtin("plugin"),
        cutting=Cutting(loose_pieces, loose_segments, is_prompt_line),
        extracting=Extracting(loose_bullet, unique_first=False),
        double=loose_double,
        merge=merge_by_key,
        title=loose_title,
        untitled="未命名对话快照",
        described="由 DialogueContextBridge 自动编译。",
        order=by_time,
        snapshot_id=stamp_id,
        created_at=lambda stamp: stamp.last_ms if stamp.now_ms is None else stamp.now_ms,
    ),
    dialects=frozenset({"plugin", "plugin-0.1.0"}),
)
"""Program 0.2.0, byte for byte."""

PROFILES: Final = {profile.id: profile for profile in (PUBLISHED, PLUGIN)}


def profile_of(name: str) -> Profile:
    """Give a profile by its name; :class:`UsageError` for an unknown one."""
    try:
        return PROFILES[name]
    except KeyError:
        known = ", ".join(PROFILES)
        raise UsageError(f"no profile {name!r}", hint=f"profiles are {known}") from None


def profile_for(dialect: head.Dialect) -> Profile:
    """Give the profile that writes a dialect."""
    return next(profile for profile in PROFILES.values() if dialect in profile.dialects)
