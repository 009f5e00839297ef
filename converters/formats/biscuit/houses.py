"""The files of one floor, ``all.json`` and ``all.txt``, whose houses are model round trips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.biscuit.messages import floors_of, user_blocks
from converters.formats.biscuit.tools import summary
from converters.ir import Image, Reasoning, Text, ToolCallBlock, ToolResult
from converters.shapes import openai_chat
from converters.text import parse_time

if TYPE_CHECKING:
    from converters.formats.biscuit.alltxt import AllTxt, House
    from converters.formats.biscuit.messages import Walk
    from converters.ir import Block, Step
    from converters.ledger import Ledger
    from converters.turns import TurnBuilder

__all__ = ["add_all_json", "add_all_txt"]

_MAGIC: Final = (
    ("iVBOR", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lG", "image/gif"),
    ("UklGR", "image/webp"),
)


def add_all_json(root: dict[str, Any], walk: Walk, place: str) -> None:
    """Add one floor from its ``all.json``: the messages, and what its houses say of the steps."""
    messages = root.get("conversation")
    ledger = walk.ledger
    walk.raw |= floors_of(messages)
    before = len(walk.steps)
    turns = len(walk.builder.turns)
    walk.messages(jsonio.objects(messages, ledger, f"{place}/conversation"))
    houses = list(jsonio.objects(root.get("houses"), ledger, f"{place}/houses"))
    if len(walk.steps) == before and len(walk.builder.turns) == turns:
        _from_houses(root, houses, walk, place)
    else:
        _align_houses(houses, walk.steps[before:], walk)
    _attach_images(root, walk, turns, place)
    rest = {k: v for k, v in root.items() if k not in ("conversation", "houses", "lastUserInput")}
    if rest:
        walk.keep("floors", rest)


def _align_houses(houses: list[tuple[str, dict[str, Any]]], steps: list[Step], walk: Walk) -> None:
    """Give each house to its assistant message, by order, if there are as many of both."""
    trips = [house for _, house in houses if house.get("type") != "compress"]
    waiting = iter(steps if len(trips) == len(steps) else ())
    for place, house in houses:
        step = None if house.get("type") == "compress" else next(waiting, None)
        if step is None:
            walk.keep("houses", house)
            walk.ledger.aside("record-aside", place, kind="house")
        else:
            _attach_house(house, step, walk.ledger, place)
            walk.ledger.mapped()


def _attach_house(house: dict[str, Any], step: Step, ledger: Ledger, place: str) -> None:
    reasoning = house.get("reasoning")
    known = [block.text.strip() for block in step.content if isinstance(block, Reasoning)]
    if isinstance(reasoning, str) and reasoning.strip() and reasoning.strip() not in known:
        step.content.insert(0, Reasoning(reasoning))
    model = house.get("model")
    if isinstance(model, str) and model:
        step.model = model
    at = parse_time(house.get("ts"))
    if at is not None:
        step.time = at.ms
    taken = {"reasoning", "model", "ts", "tools", "toolResults", "answer"}
    usage = house.get("usage")
    step.usage = openai_chat.usage(usage)
    if step.usage is not None:
        step.usage.extra = {"usage": usage}
        taken.add("usage")
    elif usage is not None:
        ledger.note("usage-invalid", place)
    rest = {name: value for name, value in house.items() if name not in taken}
    if rest:
        step.extra = {**(step.extra or {})}
        step.extra["native"] = {**step.extra.get("native", {}), "house": rest}


def _from_houses(
    root: dict[str, Any], houses: list[tuple[str, dict[str, Any]]], walk: Walk, place: str
) -> None:
    """Make the turn of a floor whose messages are gone from its question and its houses."""
    question = root.get("question")
    if not houses and not isinstance(question, str):
        return
    blocks: list[Block] = []
    if isinstance(question, str):
        blocks, _ = user_blocks(question, walk.ledger, f"{place}/question")
    walk.builder.prompt(blocks)
    for number, (at, house) in enumerate(houses):
        tools, results = house.get("tools"), house.get("toolResults")
        tools = tools if isinstance(tools, list) else []
        results = results if isinstance(results, list) else []
        blocks = []
        answer = house.get("answer")
        if isinstance(answer, str) and answer.strip():
            blocks.append(Text(answer))
        found: list[ToolResult] = []
        for index, tool in enumerate(tools):
            if not isinstance(tool, dict):
                continue
            call_id, name, args = f"h{number}-r{index}", tool.get("name"), tool.get("args")
            name = name if isinstance(name, str) and name else "?"
            text = args if isinstance(args, str) else jsonio.dumps(args or {}).decode()
            blocks.append(ToolCallBlock(call_id, name, text))
            if index < len(results):
                result = results[index]
                shown = result if isinstance(result, str) else jsonio.dumps(result).decode()
                failed = (summary(name, shown) or "").startswith("✗")
                found.append(ToolResult(call_id, [Text(shown)], failed))
        step = walk.builder.step(blocks)
        for item in found:
            walk.builder.result(item)
        _attach_house(house, step, walk.ledger, at)
        walk.ledger.mapped()


def _attach_images(root: dict[str, Any], walk: Walk, turns: int, place: str) -> None:
    """Put the pictures of the user behind the last prompt of the floor."""
    given = root.get("lastUserInput")
    images = given.get("images") if isinstance(given, dict) else None
    prompts = [turn for turn in walk.builder.turns[turns:] if turn.prompt]
    blocks: list[Block] = []
    for index, image in enumerate(images if isinstance(images, list) else ()):
        data = image.get("base64") if isinstance(image, dict) else None
        if not isinstance(data, str) or not data:
            walk.ledger.note("attachment-skipped", f"{place}/lastUserInput/images/{index}")
            continue
        head, comma, body = data.partition(",") if data.startswith("data:") else ("", "", data)
        kind = head[5:].partition(";")[0] if comma else None
        kind = kind or next((m for magic, m in _MAGIC if body.startswith(magic)), None)
        blocks.append(Image(body, kind))
    if blocks and prompts:
        turn = prompts[-1]
        turn.prompt_blocks = [*(turn.prompt_blocks or [Text(turn.prompt)]), *blocks]
    elif blocks:
        walk.ledger.note("attachment-skipped", f"{place}/lastUserInput/images", len(blocks))


def add_all_txt(log: AllTxt, walk: Walk, place: str) -> None:
    """Add one floor from its ``all.txt``."""
    builder, ledger = walk.builder, walk.ledger
    ledger.seen(1 + len(log.houses))
    walk.known.add(log.floor)
    native: dict[str, Any] = {"floor": log.floor, "question": 0}
    if log.body_line is not None:
        native["body"] = log.body_line
    if log.stats is not None:
        native["stats"] = {
            "network_ms": log.stats.network_ms,
            "ai_ms": log.stats.ai_ms,
            "tool_ms": log.stats.tool_ms,
            "cost_ge": log.stats.cost_ge,
        }
    if log.injections:
        native["injections"] = log.injections
        ledger.note("record-aside", place, kind="injections")
    blocks, clock = user_blocks(log.question, ledger, place)
    if clock:
        native["clock"] = clock
    turn = builder.prompt(blocks, extra={"native": native})
    at = parse_time(log.started_at)
    turn.time = at.ms if at else None
    ledger.mapped()
    for house in log.houses:
        _add_house(house, log.floor, builder)
        ledger.mapped()
    ledger.note("biscuit-question-flattened", place)
    ledger.note("biscuit-usage-missing", place)


def _add_house(house: House, floor: int, builder: TurnBuilder) -> None:
    blocks: list[Block] = []
    if house.thinking is not None:
        blocks.append(Reasoning(house.thinking))
    text = house.answer if house.answer is not None else house.guide_ack
    if text:
        blocks.append(Text(text))
    results: list[ToolResult] = []
    for room in house.rooms:
        call_id = f"f{floor}-h{room.house}-r{room.room}"
        blocks.append(ToolCallBlock(call_id, room.tool, room.args_raw))
        if room.result is not None:
            failed = (summary(room.tool, room.result) or "").startswith("✗")
            results.append(ToolResult(call_id, [Text(room.result)], failed))
    native: dict[str, Any] = {"house": house.index, "ms": house.ms}
    if house.guide_ack is not None:
        native["guideAck"] = True
    at = parse_time(house.at)
    builder.step(blocks, time=at.ms if at else None, extra={"native": native})
    for result in results:
        builder.result(result)
