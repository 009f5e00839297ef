"""Results where the model APIs want them: one for each call, right behind its message.

The IR lets a result stand anywhere in the session and a call wait for ever; the APIs refuse
such lists. A writer of messages goes over the session that :func:`settled` gives. Rule:
Interchange v1, section 5.3: the first result of an id wins, it is written inside the step of
its call, in the order of the calls, and a call without one gets a result without content.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from converters.ir import Meta, Session, Step, ToolCall, ToolResult, Turn
from converters.ledger import count_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from converters.shapes.account import Account

    Place = tuple[int, int]

__all__ = ["settled"]

_RULES: Final = {
    "error": "error-mark-dropped",
    "extra": "extra-dropped",
    "time": "time-dropped",
}


def _any_call(_: ToolCall) -> bool:
    return True


def settled(
    session: Session, account: Account, asks: Callable[[ToolCall], bool] = _any_call
) -> Session:
    """Give the session with every result behind its call; the same session where it is so.

    Turns and steps keep their numbers. ``asks`` says of a call whether it needs a result: one
    that a server runs by itself does not. Where a session of the target's own format ends with
    calls, they are left as they are: they wait for whoever asked, and rows for training are
    made like that.
    """
    if all(
        [call.id for call in step.tool_calls] == [made.tool_call_id for made in step.tool_results]
        for turn in session.turns
        for step in turn.steps
        if step.tool_calls or step.tool_results
    ):
        return session
    slots: dict[str, list[Place]] = defaultdict(list)
    for place, step in _steps(session):
        for call in step.tool_calls:
            slots[call.id].append(place)
    homes = _homes(session, slots, account)
    last = (len(session.turns) - 1, len(session.turns[-1].steps) - 1)
    turns = []
    for number, turn in enumerate(session.turns):
        steps = []
        for index, step in enumerate(turn.steps):
            place = (number, index)
            account.turn, account.step = place
            found = homes.get(place, [])
            if found or not (account.own and place == last):
                found = _complete(step, found, account, asks)
            same = len(found) == len(step.tool_results) and all(
                new is old for new, old in zip(found, step.tool_results, strict=True)
            )
            steps.append(step if same else replace(step, tool_results=found))
        turns.append(replace(turn, steps=steps))
    return replace(session, turns=turns)


def _steps(session: Session) -> Iterator[tuple[Place, Step]]:
    for number, turn in enumerate(session.turns):
        for index, step in enumerate(turn.steps):
            yield (number, index), step


def _homes(
    session: Session, slots: dict[str, list[Place]], account: Account
) -> dict[Place, list[ToolResult]]:
    """Give each step its results, and say which were moved and which find no call.

    ``slots`` are the places of the calls by id. A result goes to the newest call of its id that
    has none, up to where it stands, else to the first one behind.
    """
    homes: dict[Place, list[ToolResult]] = defaultdict(list)
    for place, step in _steps(session):
        account.turn, account.step = place
        for result in step.tool_results:
            open_at = slots.get(result.tool_call_id)
            if not open_at:
                rule = "orphan-tool-result" if open_at is None else "duplicate-tool-result"
                _drop(result, rule, account)
                continue
            home = open_at.pop(max(bisect_right(open_at, place) - 1, 0))
            if home != place:
                account.note("order-changed")
            homes[home].append(result)
    return homes


def _drop(result: ToolResult, rule: str, account: Account) -> None:
    """Account for a result that is not written, and for all that is in it."""
    holder = Session(meta=Meta(""), provider="", turns=[Turn("", steps=[Step([], [], [result])])])
    for kind, n in count_items(holder).items():
        account.lost(rule if kind == "result" else _RULES.get(kind, "block-dropped"), kind, n)


def _complete(
    step: Step, found: list[ToolResult], account: Account, asks: Callable[[ToolCall], bool]
) -> list[ToolResult]:
    """Give the results of a step in the order of its calls, an empty one for each without."""
    waiting: dict[str, list[ToolResult]] = defaultdict(list)
    for result in reversed(found):
        waiting[result.tool_call_id].append(result)
    made = []
    for call in step.tool_calls:
        if waiting.get(call.id):
            made.append(waiting[call.id].pop())
        elif asks(call):
            made.append(ToolResult(call.id, []))
            account.note("tool-result-missing")
            # Writers count what they write; this one is none of the session.
            account.kept("result", -1)
    own = {id(result): n for n, result in enumerate(found)}
    order = [own[id(result)] for result in made if id(result) in own]
    if order != sorted(order):
        account.note("order-changed")
    return made
