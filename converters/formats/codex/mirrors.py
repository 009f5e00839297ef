"""Events that only repeat an item of the conversation."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Again", "Mirrors"]

_Key: TypeAlias = tuple[str, int]


class Again(Exception):
    """Some events have no item of the same text: the file must be read knowing which."""


class Mirrors:
    """Which events only repeat an item.

    The tool joins the texts of a prompt without anything between them, and writes an event for
    each text of an answer; other writers join by line breaks. Either repeats the item. On the
    first reading every event is taken for a repetition, and :meth:`settle` says whether all were;
    on the second it is known which stand alone: of several with one text those farther from
    the items (DESIGN, section 2: "by place and text next to each other").
    """

    def __init__(self) -> None:
        # Hashes, so that the texts of events do not stay in memory.
        self._items: dict[_Key, list[int]] = {}
        self._events: dict[_Key, list[int]] = {}
        self._alone: set[int] | None = None
        self._place = 0

    def item(self, kind: str, texts: Sequence[str], images: int = 0) -> None:
        """Count an item of the conversation by its texts; by its images when it has none."""
        self._place += 1
        if self._alone is None:
            for key in _keys(kind, texts, images):
                self._items.setdefault(key, []).append(self._place)

    def repeats(self, kind: str, text: str, images: int = 0) -> bool:
        """Whether an event repeats an item; on the first reading every one is taken to."""
        self._place += 1
        if self._alone is not None:
            return self._place not in self._alone
        for key in _keys(kind, [text] if text else [], images):
            self._events.setdefault(key, []).append(self._place)
        return True

    def settle(self) -> None:
        """End a reading; raises :class:`Again` when the first one met events that stand alone."""
        if self._alone is not None:
            return
        alone: set[int] = set()
        for key, events in self._events.items():
            items = self._items.get(key, [])
            if len(events) > len(items):
                alone.update(_left(events, items))
        if alone:
            self._alone, self._place = alone, 0
            raise Again


def _keys(kind: str, texts: Sequence[str], images: int) -> Iterator[_Key]:
    if len(texts) == 1:
        yield kind, hash(texts[0].strip())
    elif texts:
        yield from {(kind, hash(mark.join(texts).strip())) for mark in ("", "\n")}
        if kind == "assistant":
            yield from ((kind, hash(text.strip())) for text in texts)
    elif images:
        yield f"{kind} of images", images


def _left(events: list[int], items: list[int]) -> list[int]:
    """Give the events that are left when each item has taken the nearest one."""
    marks = sorted([(place, True) for place in events] + [(place, False) for place in items])
    near = sorted((b - a, a, b) for (a, event), (b, other) in pairwise(marks) if event != other)
    taken: set[int] = set()
    for _, one, other in near:
        if one not in taken and other not in taken:
            taken |= {one, other}
    spare = sum(place not in taken for place in items)
    return [place for place in events if place not in taken][spare:]
