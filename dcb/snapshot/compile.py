"""From a session to a snapshot document: classify, merge, summarize, trim, write.

Deterministic: the same session, options and profile give the same bytes. See
:mod:`dcb.snapshot.messages` for which blocks of a session feed which layer.

Source: published snapshot format and architecture; program 0.2.0, compiler.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from dcb.snapshot.budget import BudgetReport, apply_budget
from dcb.snapshot.classify import classify
from dcb.snapshot.compiling import Stamp, sequence_id
from dcb.snapshot.document import Document, body_of, write
from dcb.snapshot.lexing import trim
from dcb.snapshot.messages import Feed, Message, messages_of
from dcb.snapshot.model import Meta, Preference, Snapshot, VerbatimEntry
from dcb.snapshot.profile import PUBLISHED, Profile
from dcb.snapshot.summarize import Candidate, extractive
from dcb.snapshot.tokens import estimate_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from converters.ir import Session
    from dcb.snapshot.classify import Segment
    from dcb.snapshot.lexicon import Lexicon
    from dcb.snapshot.summarize import Summarizer

__all__ = [
    "DEFAULTS",
    "Compiled",
    "Options",
    "PassedOver",
    "compile_messages",
    "compile_session",
]


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may set. Defaults and bounds: program 0.2.0, settings.

    ``max_tokens`` is the budget, ``bullets`` the most per section, ``max_messages`` how
    many of the last messages are read. ``now_ms`` and ``suffix`` (8 hex digits) are used by
    the profile ``plugin`` only and made from the session when they are ``None``.
    """

    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    max_tokens: int = 4096
    bullets: int = 6
    max_messages: int = 400
    lexicon: Lexicon | None = None
    summarizer: Summarizer | None = None
    now_ms: int | None = None
    suffix: str | None = None


DEFAULTS = Options()

_COUNTED: Final = {
    "double": "doubles",
    "replaced": "replacedPreferences",
    "bullet-limit": "bulletsOverLimit",
    "too-short": "shortTexts",
}


class PassedOver(msgspec.Struct, frozen=True):
    """A text that a rule or an option kept out before the budget was looked at.

    ``item`` is the id of the entry that a verbatim ``double`` doubles, a section's heading,
    or a preference's ``scope/key``. ``replaced``: another preference of that name won.
    """

    layer: Literal["verbatim", "summary", "preference"]
    item: str
    text: str
    reason: Literal["double", "replaced", "bullet-limit", "too-short"]


class Compiled(NamedTuple):
    """A compiled snapshot: its document, what the budget dropped, what did not feed it.

    ``left_out`` counts what a snapshot has no place for: reasoning, tool calls and results,
    images, ``earlierMessages`` beyond ``max_messages``, and what is ``passed_over``, by
    reason. What a summarizer other than the offline one leaves out is not known.
    """

    document: Document
    budget: BudgetReport
    left_out: dict[str, int]
    passed_over: tuple[PassedOver, ...] = ()


def compile_session(
    session: Session, options: Options = DEFAULTS, profile: Profile = PUBLISHED
) -> Compiled:
    """Compile a session. The title is the one given, the session's, or the first prompt."""
    feed = messages_of(session)
    title = options.title if options.title is not None else session.title
    return _compile(session.meta.id, feed, title, options, profile)


def compile_messages(
    conversation_id: str,
    messages: Sequence[Message],
    options: Options = DEFAULTS,
    profile: Profile = PUBLISHED,
) -> Compiled:
    """Compile messages that come from elsewhere than the turns IR."""
    last = max((message.created_at for message in messages), default=0)
    feed = Feed(list(messages), max(last, 0), {})
    return _compile(conversation_id, feed, options.title, options, profile)


def _compile(
    conversation_id: str, feed: Feed, title: str | None, options: Options, profile: Profile
) -> Compiled:
    rules = profile.compiling
    lexicon = options.lexicon or rules.lexicon()
    earlier = max(len(feed.messages) - options.max_messages, 0)
    messages = sorted(feed.messages[earlier:], key=lambda message: message.created_at)
    segments = [
        segment for message in messages for segment in classify(message, lexicon, rules.cutting)
    ]
    over: list[PassedOver] = []
    summarize = options.summarizer or extractive(
        lexicon, rules.extracting, lambda *what: over.append(PassedOver("summary", *what))
    )
    candidates = [Candidate(s.message.role, s.text) for s in segments if s.layer == "summary"]
    snapshot = Snapshot(
        meta=Meta(
            snapshot_id="",
            source_conversation_id=conversation_id,
            title=trim(title or "") or _title(messages, profile),
            tags=options.tags,
        ),
        verbatim=tuple(_verbatim(segments, profile, over)),
        summary=tuple(summarize(candidates, options.bullets)),
        preferences=tuple(_preferences(segments, profile, over)),
    )
    description = trim(options.description or "") or _description(snapshot, profile)
    trimmed, report = apply_budget(snapshot, options.max_tokens, rules.order)
    stamp = Stamp(conversation_id, "", feed.last_time, options.now_ms, options.suffix)
    meta = replace(
        trimmed.meta,
        description=description,
        created_at=rules.created_at(stamp),
        token_estimate=estimate_snapshot(trimmed),
    )
    finished = replace(trimmed, meta=meta)
    body = body_of(profile.writing.prepare(finished).snapshot, profile)
    meta = replace(meta, snapshot_id=rules.snapshot_id(stamp._replace(body=body)))
    reasons = Counter[str](one.reason for one in over)
    left_out = {
        **feed.left_out,
        "earlierMessages": earlier,
        **{name: reasons[reason] for reason, name in _COUNTED.items()},
    }
    written = write(replace(finished, meta=meta), profile)
    return Compiled(written, report, left_out, tuple(over))


def _verbatim(
    segments: list[Segment], profile: Profile, over: list[PassedOver]
) -> list[VerbatimEntry]:
    """Give the verbatim segments that double no earlier one, numbered, then sorted by time."""
    seen: dict[str, str] = {}
    found: list[VerbatimEntry] = []
    for segment in segments:
        if segment.layer != "verbatim" or segment.kind is None:
            continue
        double = profile.compiling.double(segment.kind, segment.text)
        name = sequence_id("v", len(found) + 1)
        known = seen.setdefault(double, name)
        if known != name:
            over.append(PassedOver("verbatim", known, segment.text, "double"))
            continue
        found.append(
            VerbatimEntry(
                id=name,
                source_message_id=segment.message.id,
                source_role=segment.message.role,
                kind=segment.kind,
                language=segment.language,
                content=segment.text,
                created_at=segment.message.created_at,
            )
        )
    return sorted(found, key=lambda entry: entry.created_at)


def _preferences(
    segments: list[Segment], profile: Profile, over: list[PassedOver]
) -> list[Preference]:
    """Give the preferences that win their scope and key."""
    found = [
        Preference(
            scope=segment.scope,
            key=segment.key,
            value=segment.text,
            explicit=segment.message.role == "user",
            created_at=segment.message.created_at,
        )
        for segment in segments
        if segment.layer == "preference" and segment.key and segment.scope
    ]
    kept = profile.compiling.merge(found)
    winners = set(map(id, kept))
    said = {(one.key, one.value) for one in kept}
    over.extend(
        PassedOver(
            "preference",
            f"{one.scope}/{one.key}",
            one.value,
            "double" if (one.key, one.value) in said else "replaced",
        )
        for one in found
        if id(one) not in winners
    )
    return kept


def _title(messages: list[Message], profile: Profile) -> str:
    first = next((m.content for m in messages if m.role == "user" and trim(m.content)), "")
    return profile.compiling.title(first) or profile.compiling.untitled


def _description(snapshot: Snapshot, profile: Profile) -> str:
    for section in snapshot.summary[:1]:
        for bullet in section.bullets[:1]:
            return bullet
    return profile.compiling.described
