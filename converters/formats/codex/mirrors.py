"""Events that only repeat an item of the conversation."""

from __future__ import annotations

from collections import Counter

__all__ = ["Again", "Mirrors"]


class Again(Exception):
    """An event has no item of the same text: the file must be read knowing all items."""


class Mirrors:
    """Which events only repeat an item.

    On the first reading items and events are counted; :meth:`settle` says whether every
    event found its item. On the second each item takes one event of its kind and text.
    """

    def __init__(self) -> None:
        # Hashes, so that the texts of events do not stay in memory.
        self.items: Counter[tuple[str, int]] = Counter()
        self.events: Counter[tuple[str, int]] = Counter()
        self.known: Counter[tuple[str, int]] | None = None

    def item(self, kind: str, text: str) -> None:
        """Count an item of the conversation."""
        if self.known is None and text:
            self.items[kind, hash(text.strip())] += 1

    def repeats(self, kind: str, text: str) -> bool:
        """Whether an event repeats an item; on the first reading every one is taken to."""
        key = kind, hash(text.strip())
        if self.known is None:
            self.events[key] += 1
            return True
        if self.known[key] > 0:
            self.known[key] -= 1
            return True
        return False

    def settle(self) -> None:
        """End the first reading; raises :class:`Again` when an event stands alone."""
        alone = any(n > self.items[key] for key, n in self.events.items())
        if self.known is None and alone:
            self.known = self.items
            raise Again
