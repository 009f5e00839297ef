"""IR items as parts of a body, with what each part accounts for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from converters.formats.persisting_tlv import placeholders
from converters.formats.persisting_tlv.body import Call, Part, Result, Said, join, paragraphs
from converters.formats.persisting_tlv.items import GENERIC_IDS
from converters.ir import Image, Reasoning, Text, ToolCall, ToolCallBlock, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Block, Step
    from converters.shapes.account import Account

__all__ = ["Planned", "changed", "plan_blocks", "plan_result", "plan_step", "settle"]

Counts: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Planned:
    """A part and the items that are kept when it can be read back as it is."""

    part: Part
    counts: Counts = field(default=())


def plan_blocks(blocks: Iterable[Block], account: Account) -> list[Planned]:
    """Plan text and images; what the format has no place for is counted here."""
    found: list[Planned] = []
    for block in blocks:
        if isinstance(block, Text):
            found += _text(block, account)
            continue
        account.members(block.extra)
        if isinstance(block, Image):
            found.append(Planned(Said(_placeholder(block))))
            account.lost("image-text", "block.image")
        elif isinstance(block, Reasoning):
            account.lost("reasoning-dropped", "block.reasoning")
    return found


def _text(block: Text, account: Account) -> list[Planned]:
    image = block.extra.get("image") if block.extra else None
    shown = block.text
    if image is not None:
        url = image.get("url") if isinstance(image, dict) else None
        if placeholders.find(shown) != image and shown.startswith("[image]"):
            shown = placeholders.url_image(url) if isinstance(url, str) and url else shown
        same = placeholders.find(shown) == image
        account.members(block.extra, *(("image",) if same else ()))
    else:
        account.members(block.extra)
    if shown != block.text or not shown:
        account.lost("text-changed", "block.text")
        return [Planned(Said(shown))] if shown else []
    return [Planned(Said(shown), (("block.text", 1),))]


def _placeholder(image: Image) -> str:
    if image.data is not None:
        return placeholders.base64_image(image.data, image.media_type)
    return f"[image] {image.name}" if image.name and "\n" not in image.name else "[image]"


def plan_step(step: Step, account: Account, known: set[str]) -> tuple[list[Planned], list[str]]:
    """Plan the message of a step; gives the parts and the ids of its calls in order.

    ``known`` are the calls of earlier steps: an id that is used again is left out.
    """
    found: list[Planned] = []
    ids: list[str] = []
    calls = {call.id: call for call in reversed(step.tool_calls)}
    waiting = dict.fromkeys(calls.keys() - known)

    def call(item: ToolCall) -> None:
        waiting.pop(item.id)
        ids.append(item.id)
        known.add(item.id)
        good = item.id not in GENERIC_IDS
        if not good:
            account.lost("text-changed", "call")
        part = Call(item.name, item.arguments)
        found.append(Planned(part, (("call", 1),) if good else ()))

    for block in step.content:
        if not isinstance(block, ToolCallBlock):
            found += plan_blocks([block], account)
            continue
        account.members(block.extra)
        if block.id in waiting:
            call(calls[block.id])
    for item in step.tool_calls:
        account.members(item.extra)
        if item.id in waiting and calls[item.id] is item:
            call(item)
    account.lost("duplicate-tool-call", "call", len(step.tool_calls) - len(ids))
    return found, ids


def plan_result(result: ToolResult, account: Account) -> Planned:
    """Plan a result with its content as one text."""
    planned = plan_blocks(result.content, account)
    text = join(item.part for item in planned)
    account.members(result.extra)
    if result.is_error:
        account.lost("error-mark-dropped", "error")
    counts = [pair for item in planned for pair in item.counts]
    if [item.part for item in planned] != paragraphs(text):
        for kind, n in counts:
            account.lost("text-changed", kind, n)
        counts = []
    if result.tool_call_id in GENERIC_IDS:
        account.lost("text-changed", "result")
    else:
        counts.append(("result", 1))
    return Planned(Result(result.tool_call_id, text), tuple(counts))


def changed(wanted: list[Part], got: list[Part]) -> list[bool]:
    """Say of each wanted part whether it is missing from what was read back."""
    if wanted == got:
        return [False] * len(wanted)
    if len(wanted) == len(got):
        return [one != other for one, other in zip(wanted, got, strict=True)]
    there = Counter(got)
    found = []
    for part in wanted:
        found.append(there[part] <= 0)
        there[part] -= 1
    return found


def settle(planned: list[Planned], got: list[Part], account: Account) -> None:
    """Count the items of each part as kept or as changed."""
    flags = changed([item.part for item in planned], got)
    for item, lost in zip(planned, flags, strict=True):
        for kind, n in item.counts:
            if lost:
                account.lost("text-changed", kind, n)
            else:
                account.kept(kind, n)


def same(wanted: list[Part], got: list[Part]) -> bool:
    """Whether a kept body still says what is to be written.

    Results may stand in another order, and under an id that says nothing.
    """

    def results(parts: list[Part], *, ids: bool) -> Counter[Any]:
        return Counter(
            (part.id, part.text) if ids else part.text for part in parts if isinstance(part, Result)
        )

    def others(parts: list[Part]) -> list[Part]:
        return [part for part in parts if not isinstance(part, Result)]

    ids = not any(isinstance(part, Result) and part.id in GENERIC_IDS for part in got)
    return others(wanted) == others(got) and results(wanted, ids=ids) == results(got, ids=ids)
