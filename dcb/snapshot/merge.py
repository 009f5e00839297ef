"""Merge two snapshots: what was known before (base) and what is known now (overlay).

Verbatim entries and bullets add up, doubles once. Preferences of one name with
different values are a conflict: a policy decides it, and the report says how.

``plugin`` gives the results of program 0.2.0: preferences are named by key only, an
unknown policy acts as ``newWins``, the token estimate counts items, ids stay. The
published rules name preferences by scope and key (under one name whichever dialect
wrote it), keep code that differs in blanks or case, number the entries anew, and give
the result an id of its own. Under ``published`` the result can be held to a token budget,
by the rules of a compile; program 0.2.0 has none here.

Source: published architecture, section 7.1; program 0.2.0, fusion.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from converters.errors import UsageError
from converters.text import JS_SPACE
from dcb.snapshot.budget import BudgetReport, apply_budget
from dcb.snapshot.compiling import Stamp, sequence_id
from dcb.snapshot.document import body_of
from dcb.snapshot.lexicon import builtin
from dcb.snapshot.model import Preference, Snapshot, SummarySection, VerbatimEntry
from dcb.snapshot.profile import PUBLISHED, Profile
from dcb.snapshot.tokens import estimate_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from dcb.snapshot.model import Number

__all__ = ["POLICIES", "Conflict", "Merged", "merge"]

POLICIES: Final = ("newWins", "snapshotWins", "timestamp", "weighted")

_BLANKS: Final = re.compile(f"[{JS_SPACE}]+")
_TITLE: Final = "融合上下文："


class Conflict(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Two values for one preference, and which one stays; ``reason`` names the rule.

    ``scope`` is absent in ``plugin``, which does not look at it.
    """

    layer: str = msgspec.field(default_factory=lambda: "preference")
    scope: str | None = None
    key: str
    base_value: str
    overlay_value: str
    resolved_value: str
    reason: str


class Merged(NamedTuple):
    """The merged snapshot, its conflicts, and how many doubles came in once only.

    ``budget`` lists what a budget left out; ``None`` where none was applied.
    """

    snapshot: Snapshot
    conflicts: tuple[Conflict, ...]
    doubles: int
    budget: BudgetReport | None = None


class _Rules(NamedTuple):
    """How a profile merges.

    ``check`` gives the policy to use for a name; ``same`` the preference under its
    common name; ``named`` what makes two preferences one; ``entry`` and ``bullet`` the
    keys of doubles; ``trim`` numbers the entries and keeps to a budget; ``finish`` gives
    ids and estimates.
    """

    check: Callable[[str], str]
    same: Callable[[Preference], Preference]
    named: Callable[[Preference], Hashable]
    scoped: bool
    entry: Callable[[VerbatimEntry], Hashable]
    bullet: Callable[[str], str]
    trim: Callable[[Snapshot, Profile, int | None], tuple[Snapshot, BudgetReport | None]]
    finish: Callable[[Snapshot, Snapshot, Snapshot, Profile], Snapshot]


def merge(
    base: Snapshot,
    overlay: Snapshot,
    policy: str = "newWins",
    profile: Profile = PUBLISHED,
    *,
    max_tokens: int | None = None,
) -> Merged:
    """Merge ``overlay`` into ``base``; neither is changed.

    ``max_tokens`` is the budget of the result; without one nothing is left out but
    doubles. :class:`UsageError` for an unknown policy in ``published``.
    """
    rules = _RULES[profile.id]
    name = rules.check(policy)
    decide = _Decision(name, base.meta.weight, overlay.meta.weight)
    preferences, conflicts = _preferences(base, overlay, decide, rules)
    verbatim, twice = _verbatim(base, overlay, rules)
    summary, repeated = _summary(base, overlay, rules)
    meta = replace(
        base.meta,
        title=_TITLE + base.meta.title.removeprefix(_TITLE),
        description=f"快照 {base.meta.snapshot_id} 与当前对话按策略「{policy}」合并",
        tags=tuple(dict.fromkeys(base.meta.tags + overlay.meta.tags)),
    )
    merged = Snapshot(meta=meta, verbatim=verbatim, summary=summary, preferences=preferences)
    kept, report = rules.trim(merged, profile, max_tokens)
    finished = rules.finish(kept, base, overlay, profile)
    return Merged(finished, conflicts, twice + repeated, report)


class _Decision(NamedTuple):
    """A policy at work on the weights of both snapshots."""

    policy: str
    base_weight: Number
    overlay_weight: Number

    def between(self, base: Preference, overlay: Preference) -> tuple[Preference, str]:
        """Give the preference that stays, and why."""
        if self.policy == "snapshotWins":
            return base, "snapshotWins"
        if self.policy == "timestamp":
            if base.created_at != overlay.created_at:
                later = base if base.created_at > overlay.created_at else overlay
                return later, "timestamp-newer"
            if base.explicit != overlay.explicit:
                return (base if base.explicit else overlay), "timestamp-tie-explicit"
            return overlay, "timestamp-tie"
        if self.policy == "weighted":
            if self.base_weight == self.overlay_weight:
                return overlay, "weighted-tie"
            return (base if self.base_weight > self.overlay_weight else overlay), "weighted"
        return overlay, "newWins"


def _preferences(
    base: Snapshot, overlay: Snapshot, decide: _Decision, rules: _Rules
) -> tuple[tuple[Preference, ...], tuple[Conflict, ...]]:
    kept: dict[Hashable, Preference] = {}
    for one in map(rules.same, base.preferences):
        kept[rules.named(one)] = one
    conflicts = []
    for new in map(rules.same, overlay.preferences):
        name = rules.named(new)
        old = kept.setdefault(name, new)
        winner, reason = decide.between(old, new)
        kept[name] = winner
        if old.value != new.value:
            conflict = Conflict(
                scope=new.scope if rules.scoped else None,
                key=new.key,
                base_value=old.value,
                overlay_value=new.value,
                resolved_value=winner.value,
                reason=reason,
            )
            conflicts.append(conflict)
    return tuple(kept.values()), tuple(conflicts)


def _verbatim(
    base: Snapshot, overlay: Snapshot, rules: _Rules
) -> tuple[tuple[VerbatimEntry, ...], int]:
    """Give all entries of the base, then the new ones; the base is not searched for doubles."""
    seen = set(map(rules.entry, base.verbatim))
    found = list(base.verbatim)
    for entry in overlay.verbatim:
        key = rules.entry(entry)
        if key not in seen:
            seen.add(key)
            found.append(entry)
    return tuple(found), len(base.verbatim) + len(overlay.verbatim) - len(found)


def _summary(
    base: Snapshot, overlay: Snapshot, rules: _Rules
) -> tuple[tuple[SummarySection, ...], int]:
    """Unite sections of one heading, in the order in which headings first appear."""
    sections: dict[str, dict[str, str]] = {}
    doubles = 0
    for section in base.summary + overlay.summary:
        bullets = sections.setdefault(section.heading, {})
        for bullet in section.bullets:
            key = rules.bullet(bullet)
            doubles += key in bullets
            bullets.setdefault(key, bullet)
    united = tuple(
        SummarySection(heading=heading, bullets=tuple(bullets.values()))
        for heading, bullets in sections.items()
    )
    return united, doubles


def _packed(text: str) -> str:
    return _BLANKS.sub("", text).lower()


def _folded(text: str) -> str:
    return _BLANKS.sub(" ", text).strip(" ").lower()


def _any_policy(name: str) -> str:
    return name if name in POLICIES else "newWins"


def _known_policy(name: str) -> str:
    if name not in POLICIES:
        raise UsageError(f"no policy {name!r}", hint=f"policies are {', '.join(POLICIES)}")
    return name


@cache
def _published_keys() -> dict[tuple[str, str], str]:
    """Give the published key for a scope and a key of program 0.2.0, where there is only one."""
    rules = builtin("published").preferences
    often = Counter((rule.scope, rule.plugin) for rule in rules)
    return {
        (rule.scope, rule.plugin): rule.key for rule in rules if often[rule.scope, rule.plugin] == 1
    }


def _under_published_key(one: Preference) -> Preference:
    key = _published_keys().get((one.scope, one.key))
    return one if key is None else replace(one, key=key)


def _count_items(merged: Snapshot, base: Snapshot, overlay: Snapshot, profile: Profile) -> Snapshot:
    """Finish as program 0.2.0: the token estimate is the number of items."""
    del base, overlay, profile
    count = len(merged.verbatim) + len(merged.summary) + len(merged.preferences)
    return replace(merged, meta=replace(merged.meta, token_estimate=count))


def _all(merged: Snapshot, profile: Profile, budget: int | None) -> tuple[Snapshot, None]:
    """Leave out nothing, as program 0.2.0."""
    del profile, budget
    return merged, None


def _within(
    merged: Snapshot, profile: Profile, budget: int | None
) -> tuple[Snapshot, BudgetReport | None]:
    """Give the entries numbers, which the report names, then keep what a compile would."""
    numbered = tuple(
        replace(entry, id=sequence_id("v", n)) for n, entry in enumerate(merged.verbatim, 1)
    )
    merged = replace(merged, verbatim=numbered)
    if budget is None or estimate_snapshot(merged) <= budget:
        return merged, None
    return apply_budget(merged, budget, profile.compiling.order)


def _name_anew(merged: Snapshot, base: Snapshot, overlay: Snapshot, profile: Profile) -> Snapshot:
    """Give an id that says what was merged, and the real estimate."""
    meta = replace(
        merged.meta,
        created_at=max(base.meta.created_at, overlay.meta.created_at),
        checksum="",
        encrypted=False,
    )
    finished = replace(merged, meta=meta)
    body = body_of(profile.writing.prepare(finished).snapshot, profile)
    both = f"{base.meta.snapshot_id}\n{overlay.meta.snapshot_id}"
    meta = replace(
        meta,
        snapshot_id=profile.compiling.snapshot_id(Stamp(both, body, int(meta.created_at))),
        token_estimate=estimate_snapshot(finished),
    )
    return replace(finished, meta=meta)


_RULES: Final = {
    "published": _Rules(
        check=_known_policy,
        same=_under_published_key,
        named=lambda one: (one.scope, one.key),
        scoped=True,
        entry=lambda entry: PUBLISHED.compiling.double(entry.kind, entry.content),
        bullet=_folded,
        trim=_within,
        finish=_name_anew,
    ),
    "plugin": _Rules(
        check=_any_policy,
        same=lambda one: one,
        named=lambda one: one.key,
        scoped=False,
        entry=lambda entry: _packed(entry.content),
        bullet=_packed,
        trim=_all,
        finish=_count_items,
    ),
}
