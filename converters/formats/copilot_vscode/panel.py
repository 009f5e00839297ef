"""What the panel of a request shows beyond its tool call rounds.

The panel repeats the rounds: their texts without a separator, with references rendered in another
way, and their calls. What it alone shows (an answer after the last round, thinking that no round
holds, calls of the editor itself) stands between the rounds, by its place among what they hold.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from converters.formats.copilot_vscode.items import (
    Shown,
    leave,
    named,
    shown_text,
    tool_data,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Beyond", "beyond"]

_WORD: Final = re.compile(r"[^\W_]+")
_CALL: Final = "toolInvocationSerialized"
_LONG: Final = 24
"""A text of more characters is known again wherever it stands."""

_SEARCHED: Final = 1 << 28
"""Characters that texts which are not there may cost; then they are looked for near by only."""

_NEAR: Final = 300
"""Characters of a round's text that a reference may take; a short text is looked for so far on."""


class Beyond(NamedTuple):
    """What no round holds, by the round that it stands before; outputs that the panel has."""

    gaps: list[list[Shown]]
    outputs: dict[str, str]


def beyond(rounds: list[dict[str, Any]], items: list[Shown], fate: Callable[..., None]) -> Beyond:
    """Sort the items of a panel: what the rounds hold, or is no dialogue, gets its fate here."""
    panel = _Panel(rounds, items, fate)
    for kind, found in groupby(items, lambda shown: _kind(shown.item)):
        group = list(found)
        if kind == "text":
            panel.run += _pieces(group)
        elif kind == "other":
            for shown in group:
                leave(shown, fate)
        else:
            panel.close()
            if kind == "thinking":
                panel.thinking(group)
            for shown in group if kind == _CALL else ():
                panel.call(shown)
            for shown in group if kind == "textEditGroup" else ():
                # The text of an edit is in the call that made it, or in the round's own text.
                fate("attachment-skipped", shown.place, kind=kind)
    panel.end()
    return Beyond(panel.gaps, panel.outputs)


def _kind(item: Any) -> str:
    if not isinstance(item, dict):
        return "other"
    kind = item.get("kind")
    if kind in ("thinking", _CALL, "textEditGroup"):
        return str(kind)
    return "text" if shown_text(item) else "other"


def _plain(text: Any) -> str:
    """Give the words of a text, by which it is known again: ``" word word "``."""
    words = _WORD.findall(text) if isinstance(text, str) else ()
    return f" {' '.join(words)} " if words else " "


class _Piece(NamedTuple):
    """Texts without a reference between them, or one reference."""

    shown: list[Shown]
    text: str
    reference: bool


def _pieces(shown: list[Shown]) -> Iterable[_Piece]:
    for reference, found in groupby(shown, lambda one: one.item.get("kind") == "inlineReference"):
        group = list(found)
        for part in [[one] for one in group] if reference else [group]:
            yield _Piece(part, "".join(shown_text(one.item) for one in part), reference)


_Rest: TypeAlias = list[tuple[int, Shown]]
"""Items that no round holds, each with the number of the round that it stands before."""


class _Panel:
    """The items of a panel beside the rounds that they repeat.

    ``run`` is running text up to the next call, thought or edit. ``_cursor`` is how far the texts
    of the rounds have been shown, ``_passed`` how many rounds.
    """

    def __init__(
        self, rounds: list[dict[str, Any]], items: list[Shown], fate: Callable[..., None]
    ) -> None:
        self.gaps: list[list[Shown]] = [[] for _ in range(len(rounds) + 1)]
        self.outputs: dict[str, str] = {}
        self.run: list[_Piece] = []
        self._fate = fate
        self._cursor = self._passed = 0
        self._budget = _SEARCHED
        self._said = " "
        self._ends: list[int] = []
        self._marks: list[str] = []
        self._calls: dict[str, int] = {}
        thoughts = []
        for number, entry in enumerate(rounds):
            response = entry.get("response")
            self._said += _plain(response)[1:]
            self._ends.append(len(self._said) - 1)
            self._marks.append(_WORD.split(response)[-1] if isinstance(response, str) else "")
            thinking = entry.get("thinking")
            thoughts.append(words_of(thinking.get("text")) if isinstance(thinking, dict) else "")
            self._calls.update(dict.fromkeys(_call_ids(entry), number))
        self._thoughts = _plain("\n".join(thoughts))
        # Panel and rounds name calls by the same ids, or (older builds) the panel by its own:
        # then the order tells.
        ids = [_call_id(shown.item) for shown in items if _kind(shown.item) == _CALL]
        same = not self._calls.keys().isdisjoint(ids)
        self._unnamed = iter(() if same else tuple(self._calls))
        self._certain = same or len(ids) == len(self._calls)

    def thinking(self, shown: list[Shown]) -> None:
        """Take thoughts that follow each other: those of a round are known by their words."""
        together = _plain("".join(words_of(one.item.get("value")) for one in shown))
        for one in shown:
            text = words_of(one.item.get("value"))
            known = together in self._thoughts or _plain(text) in self._thoughts
            if known and (_plain(text) != " " or not text.strip()):
                self._fate(None, one.place)
            else:
                self.gaps[self._passed].append(one)

    def call(self, shown: Shown) -> None:
        """Take a call: one that a round holds may still have its output only here."""
        name = _call_id(shown.item)
        if name not in self._calls:
            name = next(self._unnamed, None)
        if name is None:
            self.gaps[self._passed].append(shown)
            return
        self._fate(None, shown.place)
        output = tool_data(shown.item)[1]
        if output is not None and self._certain:
            self.outputs.setdefault(name, output)
        number = self._calls[name]
        self._passed = max(self._passed, number + 1)
        self._cursor = max(self._cursor, self._ends[number])

    def close(self) -> None:
        """End a run of text: what the rounds do not hold of it stands after those shown so far."""
        run, self.run = self.run, []
        before: list[tuple[int, int]] = []
        rests: list[_Rest | None] = []
        for piece in run:
            before.append((self._cursor, self._passed))
            rests.append(self._rest(piece))
        following = _following(rests)
        previous: bool | None = None
        for piece, rest, (start, passed), after in zip(run, rests, before, following, strict=True):
            if rest is None:
                held = self._follows(piece, (previous, after), start)
                rest = [] if held else [(passed, one) for one in piece.shown]
            previous = not rest
            kept = {one.place for _, one in rest}
            for one in piece.shown:
                if one.place not in kept:
                    self._fate(None, one.place)
            for gap, one in rest:
                self.gaps[gap].append(one)

    def end(self) -> None:
        """End the panel: what it shows last comes last, also after rounds that it hides."""
        self.close()
        if self._passed < len(self.gaps) - 1:
            self.gaps[-1] += self.gaps[self._passed]
            self.gaps[self._passed] = []

    def _rest(self, piece: _Piece) -> _Rest | None:
        """Give what the rounds do not hold of a text; ``None`` for references and mere marks."""
        words = _plain(piece.text)
        if piece.reference or words == " ":
            return None
        if self._find(words, _NEAR):
            return []
        first = bisect_left(self._ends, self._cursor + 1)
        last = bisect_left(self._ends, self._cursor + len(words))
        for number in range(last - 1, first - 1, -1):
            left = self._said[self._cursor : self._ends[number] + 1]
            if words.startswith(left):
                return self._cut(piece, number, len(left.split()))
        rest: _Rest = []
        for one in piece.shown:
            plain = _plain(shown_text(one.item))
            if len(piece.shown) == 1 or plain == " " or not self._find(plain, 0):
                rest.append((self._passed, one))
        return rest

    def _cut(self, piece: _Piece, number: int, words: int) -> _Rest:
        """Take the words that end a round's text off a text that goes on."""
        self._reach(self._ends[number])
        rest = piece.text[[match.end() for match in _WORD.finditer(piece.text)][words - 1] :]
        rest = rest.removeprefix(self._marks[number])
        one = Shown(piece.shown[-1].place, {"value": rest})
        return [(self._passed, one)] if rest.strip() else []

    def _find(self, words: str, near: int) -> bool:
        far = len(words) > _LONG and self._budget > 0
        end = len(self._said) if far else self._cursor + near + len(words)
        at = self._said.find(words, self._cursor, end)
        if at >= 0:
            self._reach(at + len(words) - 1)
            return True
        if not far:
            return False
        self._budget -= len(self._said)
        return words in self._said

    def _reach(self, cursor: int) -> None:
        self._cursor = cursor
        self._passed = max(self._passed, bisect_left(self._ends, cursor) + 1)

    def _follows(self, piece: _Piece, around: tuple[bool | None, bool | None], start: int) -> bool:
        """Whether a round holds a reference, or mere marks: as it holds the texts around."""
        before, after = around
        if piece.reference and around in ((None, None), (True, False)):
            words = _plain(piece.text)
            return words != " " and words in self._said[start : start + _NEAR]
        if before is None and after is None:
            return not piece.text.strip()
        return bool(after if before is None else before)


def _following(rests: list[_Rest | None]) -> list[bool | None]:
    """Give for each piece whether the rounds hold the next text; ``None`` where none follows."""
    found: list[bool | None] = []
    after: bool | None = None
    for rest in reversed(rests):
        found.append(after)
        after = after if rest is None else not rest
    return found[::-1]


def _call_id(item: Any) -> str | None:
    name = item.get("toolCallId") if isinstance(item, dict) else None
    return name if isinstance(name, str) and name else None


def _call_ids(entry: dict[str, Any]) -> list[str]:
    calls = entry.get("toolCalls")
    found = [named(call) for call in calls] if isinstance(calls, list) else []
    return [one[0] for one in found if one is not None]
