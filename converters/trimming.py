"""Sessions trimmed to a token budget, so that a long one fits a model's context window.

Three steps, each only as far as needed (Interchange v1, section 8): long texts lose their
middle; then the middle turns go, and a reasoning block says so; then every single message
goes that is still over half the budget. Leading ``shadowed`` turns are covered by a
compaction, reach no model, and are neither counted nor changed.

Where the section leaves room: prompts are never cropped. Limits count code points, so a cut
never leaves half of a character outside the basic plane (it may part a base from its
combining mark). Turns that the first three had to give up are candidates for the last ones.
A result goes with its call, wherever it stands. A turn that lost all it held goes too.

Pure: the given session stays as it is; what did not change is shared with the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from converters.ir import (
    Image,
    Reasoning,
    Session,
    Step,
    Text,
    ToolCallBlock,
    ToolResult,
    Turn,
    prompt_of,
)
from converters.text import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from converters.ir import Block

__all__ = [
    "IMAGE_TOKENS",
    "Change",
    "Trimmed",
    "Trimming",
    "estimate",
    "estimate_blocks",
    "estimate_turn",
    "notice_text",
    "trim",
]

IMAGE_TOKENS: Final = 800
"""What an image counts, whatever its size."""

_TEXT_LIMIT: Final = 16_000
_RESULT_LIMIT: Final = 40_000
_ANCHORS: Final = 3
_RESERVE: Final = 512
"""Tokens kept free for the notice."""


class Trimmed(msgspec.Struct, frozen=True, rename="camel"):
    """What trimming did; encoded it is the member ``trimmed`` of Interchange v1.

    Tokens are estimates without leading shadowed turns. Messages are prompts, steps and
    results. ``dropped_oversized`` counts the messages that alone were over half the budget,
    ``cropped_blocks`` the blocks that lost their middle.
    """

    budget: int
    original_tokens: int
    estimated_tokens: int
    cropped_blocks: int = 0
    dropped_turns: int = 0
    dropped_messages: int = 0
    dropped_tool_calls: int = 0
    dropped_tool_results: int = 0
    dropped_oversized: int = 0
    summary_inserted: bool = False


class Change(NamedTuple):
    """One thing that trimming did: what, and where in the given session (a JSON pointer).

    ``part`` is what was dropped, as it was.
    """

    what: Literal["crop", "turn", "step", "result", "notice"]
    place: str
    part: Turn | Step | ToolResult | None = None


class Trimming(NamedTuple):
    """A trimmed session, the numbers, and every single change."""

    session: Session
    report: Trimmed
    changes: tuple[Change, ...]

    @property
    def trimmed(self) -> Trimmed | None:
        """The report when anything changed, else nothing: when documents have the member."""
        return self.report if self.changes else None


@dataclass(slots=True)
class _Tally:
    """The counters of one run, under way; lost steps and results by their indexes."""

    budget: int
    original: int
    cropped: int = 0
    turns: int = 0
    messages: int = 0
    calls: int = 0
    results: int = 0
    oversized: int = 0
    notices: list[Reasoning] = field(default_factory=list)
    lost_steps: set[tuple[int, int]] = field(default_factory=set)
    lost_results: set[tuple[int, int, int]] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)

    def report(self, estimated: int) -> Trimmed:
        return Trimmed(
            self.budget,
            self.original,
            estimated,
            self.cropped,
            self.turns,
            self.messages,
            self.calls,
            self.results,
            self.oversized,
            bool(self.notices),
        )

    def drop_turn(self, index: int, turn: Turn) -> None:
        results = sum(len(step.tool_results) for step in turn.steps)
        self.turns += 1
        self.messages += 1 + len(turn.steps) + results
        self.calls += sum(len(step.tool_calls) for step in turn.steps)
        self.results += results
        self.changes.append(Change("turn", f"/turns/{index}", turn))


# -- the estimate ------------------------------------------------------------------------------


def estimate(turns: Iterable[Turn]) -> int:
    """Estimate the tokens of turns. Rule: Interchange v1, section 8."""
    return sum(map(estimate_turn, turns))


def estimate_turn(turn: Turn) -> int:
    """Estimate the tokens of one turn: prompt, texts, reasoning, call arguments, results, images.

    Each call counts once, also when no block of the message stands for it; one without a
    block and without arguments counts nothing.
    """
    total = estimate_blocks(prompt_of(turn))
    for step in turn.steps:
        total += _step_tokens(step)
        for result in step.tool_results:
            total += estimate_blocks(result.content)
    return total


def estimate_blocks(blocks: Iterable[Block]) -> int:
    """Estimate the tokens of blocks, each rounded up by itself."""
    total = 0
    for block in blocks:
        if isinstance(block, Image):
            total += IMAGE_TOKENS
        elif isinstance(block, ToolCallBlock):
            total += estimate_tokens(block.arguments)
        else:
            total += estimate_tokens(block.text)
    return total


def _step_tokens(step: Step) -> int:
    """Estimate a message without its results."""
    total = estimate_blocks(step.content)
    if step.tool_calls:
        shown = {block.id for block in step.content if isinstance(block, ToolCallBlock)}
        for call in step.tool_calls:
            if call.id not in shown and call.arguments != "{}":
                total += estimate_tokens(call.arguments)
    return total


# -- trimming ----------------------------------------------------------------------------------


def notice_text(so_far: Trimmed) -> str:
    """Say in the conversation itself what was left out of it."""
    return (
        f"[This conversation was about {so_far.original_tokens} tokens long and has been "
        f"shortened to a budget of {so_far.budget}. Kept are its beginning and as much of its end "
        f"as fits; {so_far.dropped_turns} turns ({so_far.dropped_messages} messages, "
        f"{so_far.dropped_tool_calls} tool calls, {so_far.dropped_tool_results} tool results) "
        "were left out here. The source still has them.]"
    )


def trim(
    session: Session, budget: int, *, notice: Callable[[Trimmed], str] = notice_text
) -> Trimming:
    """Give a session cut down to ``budget`` tokens; 0 or less leaves it as it is.

    The result is within the budget unless only the first turn is left: its prompt stays
    whatever its length, and so do its messages up to half the budget each. ``notice`` makes
    the text of the reasoning block from the counts of the dropped middle; it should stay
    under 512 tokens, which are kept free for it.
    """
    start = 0
    while start < len(session.turns) and session.turns[start].shadowed:
        start += 1
    original = estimate(session.turns[start:])
    tally = _Tally(budget, original)
    if budget <= 0:
        return Trimming(session, tally.report(original), ())
    work = {
        index: _cropped(turn, index, tally)
        for index, turn in enumerate(session.turns)
        if index >= start
    }
    costs = {index: estimate_turn(turn) for index, turn in work.items()}
    if sum(costs.values()) > budget:
        _drop(session, work, costs, tally, notice)
    changes = tuple(_lasting(work, tally))
    if changes:
        session = replace(session, turns=[*session.turns[:start], *work.values()])
    return Trimming(session, tally.report(estimate(work.values())), changes)


def _lasting(work: dict[int, Turn], tally: _Tally) -> Iterator[Change]:
    """Give the changes that the result shows: none within what went later."""
    dropped = {change.place for change in tally.changes if change.part is not None}
    notices = {id(block) for block in tally.notices}
    for change in tally.changes:
        names = change.place.split("/")
        if change.what == "notice":
            steps = work[int(names[2])].steps if int(names[2]) in work else []
            content = steps[0].content if steps else []
            if content and id(content[0]) in notices:
                notices.discard(id(content[0]))
                yield change
        elif change.part is not None or dropped.isdisjoint(
            "/".join(names[:end]) for end in (3, 5, 7)
        ):
            yield change


def _cropped(turn: Turn, index: int, tally: _Tally) -> Turn:
    """Give a turn whose long texts have lost their middle; the same turn when there is none."""
    steps: list[Step] | None = None
    for number, step in enumerate(turn.steps):
        place = f"/turns/{index}/steps/{number}"
        content = _crop_blocks(step.content, _TEXT_LIMIT, f"{place}/content", tally)
        results: list[ToolResult] | None = None
        for place_of, result in enumerate(step.tool_results):
            inner = _crop_blocks(
                result.content, _RESULT_LIMIT, f"{place}/toolResults/{place_of}/content", tally
            )
            if inner is not result.content:
                results = results or list(step.tool_results)
                results[place_of] = replace(result, content=inner)
        if content is not step.content or results is not None:
            steps = steps or list(turn.steps)
            steps[number] = replace(
                step, content=content, tool_results=results or step.tool_results
            )
    return turn if steps is None else replace(turn, steps=steps)


def _crop_blocks(blocks: list[Block], limit: int, place: str, tally: _Tally) -> list[Block]:
    made: list[Block] | None = None
    for index, block in enumerate(blocks):
        if isinstance(block, Text | Reasoning) and len(block.text) > limit:
            made = made or list(blocks)
            made[index] = replace(block, text=_crop(block.text, limit))
            tally.cropped += 1
            tally.changes.append(Change("crop", f"{place}/{index}"))
    return blocks if made is None else made


def _crop(text: str, limit: int) -> str:
    """Give head (3 of 4 parts), a mark and tail of a text, ``limit`` code points in all."""
    # The mark is measured with the whole length, which has as many digits as what is left out
    # or more; so the room is known before the number in it is.
    room = limit - len(_mark(len(text)))
    head = room * 3 // 4
    return text[:head] + _mark(len(text) - room) + text[len(text) - (room - head) :]


def _mark(missing: int) -> str:
    return f"\n[... {missing} characters left out ...]\n"


def _drop(
    session: Session,
    work: dict[int, Turn],
    costs: dict[int, int],
    tally: _Tally,
    notice: Callable[[Trimmed], str],
) -> None:
    """Take the middle turns and then what is oversized out of ``work``."""
    given = session.turns
    order = list(work)
    anchors, tail = _borders([costs[index] for index in order], tally.budget)
    middle = order[anchors:tail]
    for index in middle:
        tally.drop_turn(index, given[index])
        del work[index]
    if middle:
        at = order[tail] if tail < len(order) else order[anchors - 1]
        work[at] = _with_notice(work[at], at, tally, notice)
    _oversized(session, work, tally)
    kept = {
        call.id
        for index, turn in [*enumerate(given[: order[0]]), *work.items()]
        for number, step in enumerate(turn.steps)
        if (index, number) not in tally.lost_steps
        for call in step.tool_calls
    }
    gone = {
        call.id
        for change in tally.changes
        for step in _steps_of(change.part)
        for call in step.tool_calls
    } - kept
    for index, turn in list(work.items()):
        _rebuild(given[index], index, work, gone, tally)
        if work[index] is not turn and _is_empty(work[index]):
            tally.turns += 1
            bare = replace(given[index], steps=[])
            tally.changes.append(Change("turn", f"/turns/{index}", bare))
            del work[index]
    if not work:
        _keep_one(given, order[0], work, tally, notice)


def _borders(costs: Sequence[int], budget: int) -> tuple[int, int]:
    """Give how many first turns stay, and where the last turns that stay begin."""
    anchors = min(_ANCHORS, len(costs))
    while anchors > 1 and sum(costs[:anchors]) + _RESERVE > budget:
        anchors -= 1
    room = budget - _RESERVE - sum(costs[:anchors])
    tail = len(costs)
    while tail > anchors and costs[tail - 1] <= room:
        tail -= 1
        room -= costs[tail]
    return anchors, tail


def _with_notice(turn: Turn, index: int, tally: _Tally, notice: Callable[[Trimmed], str]) -> Turn:
    block = Reasoning(notice(tally.report(0)))
    tally.notices.append(block)
    tally.changes.append(Change("notice", f"/turns/{index}"))
    first = turn.steps[0] if turn.steps else Step()
    return replace(turn, steps=[replace(first, content=[block, *first.content]), *turn.steps[1:]])


def _oversized(session: Session, work: dict[int, Turn], tally: _Tally) -> None:
    """Drop turns whose prompt is over half the budget; name the steps and results that are."""
    first = next(iter(work))
    for index, turn in list(work.items()):
        given = session.turns[index]
        if index != first and 2 * estimate_blocks(prompt_of(turn)) > tally.budget:
            tally.drop_turn(index, given)
            tally.oversized += 1
            del work[index]
            continue
        for number, step in enumerate(turn.steps):
            place = f"/turns/{index}/steps/{number}"
            if 2 * _step_tokens(step) > tally.budget:
                tally.lost_steps.add((index, number))
                tally.messages += 1
                tally.calls += len(step.tool_calls)
                tally.results += len(step.tool_results)
                tally.oversized += 1
                if number < len(given.steps):
                    tally.changes.append(Change("step", place, given.steps[number]))
                continue
            for nth, result in enumerate(step.tool_results):
                if 2 * estimate_blocks(result.content) > tally.budget:
                    tally.lost_results.add((index, number, nth))
                    tally.oversized += 1
                    _drop_result(given, index, number, nth, tally)


def _drop_result(given: Turn, index: int, number: int, nth: int, tally: _Tally) -> None:
    tally.messages += 1
    tally.results += 1
    part = given.steps[number].tool_results[nth]
    place = f"/turns/{index}/steps/{number}/toolResults/{nth}"
    tally.changes.append(Change("result", place, part))


def _rebuild(
    given: Turn,
    index: int,
    work: dict[int, Turn],
    gone: set[str],
    tally: _Tally,
) -> None:
    """Put a turn without its lost steps and results, and without results of calls that are gone."""
    turn = work[index]
    steps = []
    for number, step in enumerate(turn.steps):
        if (index, number) in tally.lost_steps:
            continue
        results = []
        for nth, result in enumerate(step.tool_results):
            if (index, number, nth) in tally.lost_results:
                continue
            if result.tool_call_id in gone:
                _drop_result(given, index, number, nth, tally)
                continue
            results.append(result)
        whole = len(results) == len(step.tool_results)
        steps.append(step if whole else replace(step, tool_results=results))
    if len(steps) != len(turn.steps) or any(
        new is not old for new, old in zip(steps, turn.steps, strict=True)
    ):
        work[index] = replace(turn, steps=steps)


def _is_empty(turn: Turn) -> bool:
    return not (
        turn.steps or turn.prompt.strip() or turn.prompt_blocks or turn.compaction is not None
    )


def _keep_one(
    given: list[Turn],
    index: int,
    work: dict[int, Turn],
    tally: _Tally,
    notice: Callable[[Trimmed], str],
) -> None:
    """Bring back the first turn, with nothing but the notice, where no turn is left."""
    tally.turns -= 1
    tally.changes = [
        change
        for change in tally.changes
        if not (change.what == "turn" and change.place == f"/turns/{index}")
    ]
    work[index] = _with_notice(replace(given[index], steps=[]), index, tally, notice)


def _steps_of(part: Turn | Step | ToolResult | None) -> list[Step]:
    if isinstance(part, Turn):
        return part.steps
    return [part] if isinstance(part, Step) else []
