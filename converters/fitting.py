"""Trimming as a step of a conversion: the account of it, and what named turns by their number.

``x-dcb.native`` of the chat formats says where a system prompt stood and which answer is that of
a response, in numbers of turns and steps. What trimming leaves has other numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from converters.ir import Meta, Session, Step, ToolResult, Turn
from converters.ledger import count_items
from converters.shapes.envelope import without_answer
from converters.trimming import trim

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from converters.ledger import Ledger
    from converters.trimming import Change, Trimming

__all__ = ["fit"]

_RULE: Final = {
    "crop": "budget-cropped",
    "turn": "budget-turn-dropped",
    "step": "budget-step-dropped",
    "result": "budget-result-dropped",
    "notice": "budget-notice",
}


def fit(session: Session, budget: int, ledger: Ledger) -> Session:
    """Trim a session and account for it: each change with its place, each dropped item by kind.

    A writer counts the items of what it is given, so those that are gone before are added
    here: for input and output as a whole, kept and reported are the total.
    """
    made = trim(session, budget)
    for change in made.changes:
        ledger.note(_RULE[change.what], f"{session.meta.id}{change.place}")
    if budget > 0 and made.report.estimated_tokens > budget:
        ledger.note("budget-exceeded", session.meta.id)
    if made.changes:
        missing = count_items(session)
        missing.subtract(count_items(made.session))
        missing["block.reasoning"] += sum(change.what == "notice" for change in made.changes)
        ledger.total({kind: n for kind, n in missing.items() if n})
        for kind, n in _dropped_items(made.changes).items():
            ledger.lost("budget-item-dropped", kind, n=n)
        return _renumbered(session, made)
    return made.session


def _dropped_items(changes: Iterable[Change]) -> Counter[str]:
    """Count the items of all that was dropped, by kind."""
    parts = [change.part for change in changes]
    steps = [part for part in parts if isinstance(part, Step)]
    results = [part for part in parts if isinstance(part, ToolResult)]
    turns = [part for part in parts if isinstance(part, Turn)]
    rest = Turn("", steps=[*steps, Step(tool_results=results)])
    return count_items(Session(meta=Meta(""), provider="", turns=[*turns, rest]))


class _Numbers:
    """The turns and steps that are gone, and the numbers of those that are left."""

    def __init__(self, given: Session, made: Trimming) -> None:
        self._given, self._left = given.turns, made.session.turns
        self._turns: list[int] = []
        self._steps: dict[int, list[int]] = defaultdict(list)
        for change in made.changes:
            names = change.place.split("/")
            if change.what == "turn":
                self._turns.append(int(names[2]))
            elif change.what == "step":
                self._steps[int(names[2])].append(int(names[4]))
        self._turns.sort()
        self._gone = frozenset(self._turns)
        for steps in self._steps.values():
            steps.sort()

    def has(self, turn: int, step: int) -> bool:
        """Whether a step of the given session is left."""
        return turn not in self._gone and step not in self._steps.get(turn, ())

    def moved(self, turn: int, step: int) -> tuple[int, int]:
        """Give the new place for one behind so many turns, and steps of the last of them."""
        turn = min(turn, len(self._given))
        kept = turn - bisect_left(self._turns, turn)
        if turn < 1 or kept < 1:
            return 0, 0
        if turn - 1 in self._gone:
            return kept, len(self._left[kept - 1].steps)
        return kept, step - bisect_left(self._steps.get(turn - 1, []), step)


def _renumbered(given: Session, made: Trimming) -> Session:
    """Give the trimmed session with the numbers in its ``native`` members set right."""
    session = made.session
    native = session.extra.get("native") if session.extra else None
    if not isinstance(native, dict):
        return session
    numbers = _Numbers(given, made)
    notes, at = native.get("system"), native.get("outputAt")
    if isinstance(notes, list):
        native = {**native, "system": [_moved_note(note, numbers) for note in notes]}
    if isinstance(at, list) and len(at) == 2 and all(type(n) is int for n in at):
        native = {**native, "outputAt": list(numbers.moved(at[0], at[1]))}
    last = len(given.turns) - 1
    answer = len(given.turns[last].steps) - 1
    if answer < 0 or not numbers.has(last, answer):
        native = without_answer(native)
    return replace(session, extra={**(session.extra or {}), "native": native})


def _moved_note(note: Any, numbers: _Numbers) -> Any:
    if not isinstance(note, dict) or type(note.get("turn")) is not int:
        return note
    step = note.get("step")
    turn, step = numbers.moved(note["turn"], step if type(step) is int else 0)
    return {**note, "turn": turn, "step": step}
