"""The token budget: what a snapshot keeps, and a list of what it does not, with reasons.

Preferences come first but get at most a fifth; then verbatim entries by priority
(directive, decision, code, parameter) and newest first; then summary bullets in order.
Nothing is ever cut short.

Source: published snapshot format, section 6; program 0.2.0, budget.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from dcb.snapshot.tokens import estimate, estimate_preference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dcb.snapshot.model import Preference, Snapshot, SummarySection, VerbatimEntry

__all__ = ["BudgetReport", "Dropped", "apply_budget", "by_place", "by_time"]

_PRIORITY: Final = {"directive": 40, "decision": 30, "code": 20, "parameter": 10}
_SHARE: Final = 0.2

Reason = Literal["no-budget", "preference-share", "does-not-fit", "heading-does-not-fit"]


class Dropped(msgspec.Struct, rename="camel", frozen=True):
    """One item that the budget left out.

    ``item`` is an entry's id, a section's heading or a preference's ``scope/key``.
    """

    layer: Literal["verbatim", "summary", "preference"]
    item: str
    text: str
    tokens: int
    reason: Reason


class BudgetReport(msgspec.Struct, rename="camel", frozen=True):
    """What the budget did. ``token_estimate`` is what is used of ``budget``, in tokens."""

    budget: int
    token_estimate: int
    dropped_verbatim: int
    dropped_bullets: int
    dropped_preferences: int
    dropped: tuple[Dropped, ...]


class _Purse:
    """The running account: tokens used, and what did not fit."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self.dropped: list[Dropped] = []

    def drop(self, item: Dropped) -> None:
        self.dropped.append(item)


def by_time(kept: Sequence[VerbatimEntry], before: Sequence[VerbatimEntry]) -> list[VerbatimEntry]:
    """Order entries as program 0.2.0: by time, those of one time by priority."""
    del before
    return sorted(kept, key=lambda entry: entry.created_at)


def by_place(kept: Sequence[VerbatimEntry], before: Sequence[VerbatimEntry]) -> list[VerbatimEntry]:
    """Order entries as they were before the budget."""
    wanted = {id(entry) for entry in kept}
    return [entry for entry in before if id(entry) in wanted]


def apply_budget(
    snapshot: Snapshot,
    budget: int,
    order: Callable[[Sequence[VerbatimEntry], Sequence[VerbatimEntry]], list[VerbatimEntry]],
) -> tuple[Snapshot, BudgetReport]:
    """Give the snapshot trimmed to ``budget`` tokens, and the report; ``0`` drops everything."""
    purse = _Purse(budget)
    preferences = _preferences(snapshot.preferences, purse)
    verbatim = _verbatim(snapshot.verbatim, purse)
    summary = _summary(snapshot.summary, purse)
    counts = dict.fromkeys(("verbatim", "summary", "preference"), 0)
    for item in purse.dropped:
        counts[item.layer] += 1
    report = BudgetReport(
        budget=budget,
        token_estimate=purse.used,
        dropped_verbatim=counts["verbatim"],
        dropped_bullets=counts["summary"],
        dropped_preferences=counts["preference"],
        dropped=tuple(purse.dropped),
    )
    trimmed = replace(
        snapshot,
        verbatim=tuple(order(verbatim, snapshot.verbatim)),
        summary=tuple(summary),
        preferences=tuple(preferences),
    )
    return trimmed, report


def _preferences(preferences: Sequence[Preference], purse: _Purse) -> list[Preference]:
    cap = math.floor(purse.budget * _SHARE) if purse.budget > 0 else -1
    kept = []
    for one in preferences:
        cost = estimate_preference(one)
        if purse.used + cost <= cap:
            purse.used += cost
            kept.append(one)
        else:
            reason: Reason = "preference-share" if purse.budget > 0 else "no-budget"
            name = f"{one.scope}/{one.key}"
            purse.drop(Dropped("preference", name, one.value, cost, reason))
    return kept


def _verbatim(entries: Sequence[VerbatimEntry], purse: _Purse) -> list[VerbatimEntry]:
    ranked = sorted(entries, key=lambda e: (-_PRIORITY.get(e.kind, 0), -e.created_at))
    kept = []
    for entry in ranked:
        cost = estimate(entry.content)
        if purse.budget > 0 and purse.used + cost <= purse.budget:
            purse.used += cost
            kept.append(entry)
        else:
            reason: Reason = "does-not-fit" if purse.budget > 0 else "no-budget"
            purse.drop(Dropped("verbatim", entry.id, entry.content, cost, reason))
    return kept


def _summary(sections: Sequence[SummarySection], purse: _Purse) -> list[SummarySection]:
    kept = []
    for section in sections:
        head = estimate(section.heading)
        fits = purse.budget > 0 and purse.used + head <= purse.budget
        bullets: list[str] = []
        for bullet in section.bullets:
            cost = estimate(bullet)
            total = cost + (0 if bullets else head)
            if fits and purse.used + total <= purse.budget:
                purse.used += total
                bullets.append(bullet)
                continue
            reason: Reason = "does-not-fit" if fits else "heading-does-not-fit"
            reason = reason if purse.budget > 0 else "no-budget"
            purse.drop(Dropped("summary", section.heading, bullet, cost, reason))
        if bullets:
            kept.append(replace(section, bullets=tuple(bullets)))
    return kept
