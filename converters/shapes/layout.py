"""The order of a message's parts where the IR keeps some of them beside its blocks.

Results of what a server ran, and opaque parts such as ``redacted_thinking``, stand among the
blocks of their message. The IR has the results in a list of their own and opaque parts in
``x-dcb``. Signed reasoning must come back as it was, so an order that does not follow from the
usual places is kept as ``x-dcb.layout``: pairs of the number of blocks before a part, and the
part: the id of the call for a result, the index for an opaque one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from converters.ir import ToolCallBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from converters.ir import Block, Step
    from converters.shapes.account import Account
    from converters.shapes.talk import Found

__all__ = ["Part", "layout_of", "parts_in_order", "woven"]


class Part(NamedTuple):
    """One part of a message: which of its blocks, results or opaque parts."""

    kind: Literal["block", "result", "opaque"]
    number: int


def parts_in_order(
    blocks: Sequence[Block], results: Sequence[str], opaque: int, layout: Any, *, last: bool
) -> list[Part]:
    """Give the parts of a message in order; ``results`` are the ids of their calls.

    The usual place of a result is behind its call, that of the opaque parts first of all or,
    with ``last``, last of all.
    """
    waiting: dict[str, list[int]] = defaultdict(list)
    for index in reversed(range(len(results))):
        waiting[results[index]].append(index)
    loose = dict.fromkeys(range(opaque))
    placed: dict[int, list[Part]] = defaultdict(list)
    for entry in layout if isinstance(layout, list) else ():
        before, key = entry if isinstance(entry, list) and len(entry) == 2 else (None, None)
        if type(before) is not int or not 0 <= before <= len(blocks):
            continue
        if isinstance(key, str) and waiting.get(key):
            placed[before].append(Part("result", waiting[key].pop()))
        elif type(key) is int and key in loose:
            del loose[key]
            placed[before].append(Part("opaque", key))
    found = [] if last else [Part("opaque", index) for index in loose]
    for number, block in enumerate(blocks):
        found += placed[number]
        found.append(Part("block", number))
        if isinstance(block, ToolCallBlock) and waiting.get(block.id):
            found.append(Part("result", waiting[block.id].pop()))
    found += placed[len(blocks)]
    found += [Part("result", index) for left in waiting.values() for index in reversed(left)]
    return found + [Part("opaque", index) for index in loose if last]


def woven(
    step: Step,
    made: dict[int, list[dict[str, Any]]],
    results: list[tuple[str, dict[str, Any]]],
    opaque: Any,
    account: Account,
    *,
    last: bool,
) -> list[dict[str, Any]]:
    """Give the parts of a message for writing.

    ``made`` has the parts of each block by its number, those of calls without a block behind
    the last; ``results`` each with the id of its call.
    """
    opaque = opaque if isinstance(opaque, list) else []
    if not results and not opaque:
        return [part for parts in made.values() for part in parts]
    layout = step.extra.get("layout") if step.extra and account.own else None
    ids = [call_id for call_id, _ in results]
    order = parts_in_order(step.content, ids, len(opaque), layout, last=last)
    end = len(step.content)
    at = max((n for n, part in enumerate(order, 1) if part == ("block", end - 1)), default=0)
    found: list[dict[str, Any]] = []
    for kind, index in [*order[:at], Part("block", end), *order[at:]]:
        if kind == "block":
            found += made.get(index, ())
        elif kind == "result":
            found.append(results[index][1])
        elif isinstance(opaque[index], dict):
            found.append(opaque[index])
    return found


def layout_of(
    found: Found, step: Step, had: tuple[int, int] = (0, 0), *, last: bool
) -> list[list[int | str]]:
    """Give the layout of what was read of a message; nothing where its parts are in their places.

    ``had`` says how many results and opaque parts the step had before. Where some of the results
    found no call in this step, none of them has a place.
    """
    if not found.stood:
        return []
    opaque = had[1]
    results = [result.tool_call_id for result in step.tool_results[had[0] :]]
    results = results if len(results) == len(found.results) else []
    offset = len(step.content) - len(found.blocks)
    entries: list[list[int | str]] = []
    order: list[Part] = []
    ids, number, answered, seen = iter(results), opaque, 0, 0
    for kind, before in found.stood:
        order += [Part("block", index) for index in range(seen, before)]
        seen = before
        if kind == "opaque":
            order.append(Part(kind, number - opaque))
            entries.append([offset + before, number])
            number += 1
        elif (call_id := next(ids, None)) is not None:
            order.append(Part("result", answered))
            answered += 1
            entries.append([offset + before, call_id])
    order += [Part("block", index) for index in range(seen, len(found.blocks))]
    usual = parts_in_order(found.blocks, results, number - opaque, None, last=last)
    return [] if order == usual and not (offset and found.opaque) else entries
