"""Messages of qqqide into turns and steps: conversation arrays, ``all.json``, ``all.txt``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.biscuit.ctx import is_biscuit
from converters.formats.biscuit.dump import parse
from converters.formats.biscuit.floors import add_floor, note_losses
from converters.formats.biscuit.sieve import (
    Parts,
    arguments_of,
    content_of,
    floor_of,
    is_notice,
    question_parts,
)
from converters.formats.biscuit.tools import summary
from converters.ir import Image, Reasoning, Text, ToolCallBlock, ToolResult, Usage
from converters.text import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from converters.formats.biscuit.alltxt import AllTxt, House
    from converters.formats.biscuit.model import Floor
    from converters.ir import Block, Extra, Step, Turn
    from converters.ledger import Ledger
    from converters.turns import TurnBuilder

__all__ = ["Walk", "add_all_json", "add_all_txt", "floors_of"]

_MAGIC: Final = (
    ("iVBOR", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lG", "image/gif"),
    ("UklGR", "image/webp"),
)
_MAX: Final = (1 << 53) - 1


def floors_of(messages: Any) -> set[int]:
    """Give the floor numbers of raw messages."""
    items = messages if isinstance(messages, list) else []
    return {floor_of(m) for m in items if isinstance(m, dict) and floor_of(m)}


class Walk:
    """Takes messages in order into a builder; ``extra`` collects what is kept aside.

    ``raw`` are the floors that raw messages hold: biscuit messages do not repeat
    them. ``known`` are the floors that are in already.
    """

    def __init__(
        self, builder: TurnBuilder, ledger: Ledger, extra: Extra, tz: tzinfo | None
    ) -> None:
        self.builder, self.ledger, self.extra, self.tz = builder, ledger, extra, tz
        self.known: set[int] = set()
        self.raw: set[int] = set()
        self.floor = 0
        self.questions = 0
        self.tools: dict[str, str] = {}
        self.steps: list[Step] = []

    def keep(self, name: str, value: Any) -> None:
        """Keep something in ``x-dcb.native`` as an element of a list."""
        self.extra.setdefault("native", {}).setdefault(name, []).append(value)

    def messages(self, items: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Add messages; each one gets its fate in the ledger."""
        for place, message in items:
            self.message(message, place)

    def message(self, message: dict[str, Any], place: str) -> None:
        """Add one message."""
        role = message.get("role")
        if self._aside(message, place):
            return
        if role == "user":
            self._user(message, place)
        elif role == "assistant":
            self._assistant(message, place)
        elif role == "tool":
            self._tool(message, place)
        elif role == "system":
            self.keep("records", message)
            self.ledger.aside("record-aside", place, kind="system")
        else:
            self.ledger.skipped("role-unknown", place, kind=str(role)[:40])

    def _aside(self, message: dict[str, Any], place: str) -> bool:
        """Take the messages that the program made."""
        if message.get("_persistent"):
            self.extra.setdefault("system", []).append(_plain(message))
            self.ledger.aside("system-prompt-aside", place)
        elif is_biscuit(message):
            self._biscuit(message, place)
        elif message.get("_dynamic") or message.get("_compressed") or message.get("_deBlock"):
            self.keep("records", message)
            self.ledger.aside("record-aside", place, kind="dynamic")
        elif message.get("_system") or message.get("_injected"):
            self.ledger.skipped("injection-skipped", place)
        elif message.get("_compressFloor"):
            if message.get("role") != "assistant":
                self.ledger.skipped("injection-skipped", place)
            else:
                self.keep("facts", {"source": f"f{floor_of(message)}", "text": _plain(message)})
                self.ledger.aside("record-aside", place, kind="facts")
        elif is_notice(message):
            self.ledger.skipped("record-skipped", place)
        else:
            return False
        return True

    def _biscuit(self, message: dict[str, Any], place: str) -> None:
        """Add the floors of a biscuit message, the first of each number, if not there raw."""
        dump = parse(content_of(message))
        self.ledger.seen(len(dump.floors))
        taken: list[Floor] = []
        for floor in dump.floors:
            if floor.n in self.known or floor.n in self.raw:
                self.ledger.skipped("duplicate-record", f"{place}:{floor.line}")
            else:
                taken.append(floor)
                self.known.add(floor.n)
                add_floor(floor, self.builder, self.ledger, tz=self.tz, place=f"{place}:")
        note_losses(taken, self.ledger)
        if dump.floors or not content_of(message).strip():
            self.ledger.mapped()
        else:
            self.keep("records", message)
            self.ledger.aside("record-aside", place, kind="biscuit")

    def _enter(self, message: dict[str, Any]) -> bool:
        """Go to the floor of a message; tells whether it is a new one."""
        number = floor_of(message)
        if not number or number == self.floor:
            return False
        self.floor, self.questions = number, 0
        self.known.add(number)
        return True

    def _turn(self, blocks: list[Block], **marks: Any) -> Turn:
        native: dict[str, Any] = {}
        if self.floor:
            native = {"floor": self.floor, "question": self.questions}
        self.questions += 1
        native |= marks
        return self.builder.prompt(blocks, extra={"native": native} if native else None)

    def _user(self, message: dict[str, Any], place: str) -> None:
        self._enter(message)
        blocks = self._blocks(message, place, prompt=True)
        self._turn(blocks, **({} if blocks else {"empty": True}))
        self.ledger.mapped()

    def _assistant(self, message: dict[str, Any], place: str) -> None:
        blocks = self._blocks(message, place, prompt=False)
        blocks += self._calls(message, place)
        if not blocks:
            self.ledger.skipped("empty-message", place)
            return
        new = self._enter(message)
        guide = message.get("_guideText")
        if isinstance(guide, str) and guide.strip():
            self._turn([Text(guide)], guide=True)
        elif new:
            self._turn([])
        native = {
            name: message[key]
            for key, name in (
                ("_error", "error"),
                ("_errorTime", "time"),
                ("_recovered", "recovered"),
                ("_guideAck", "guideAck"),
            )
            if message.get(key)
        }
        self.steps.append(self.builder.step(blocks, extra={"native": native} if native else None))
        if message.get("_error"):
            self.builder.abort()
        self.ledger.mapped()

    def _calls(self, message: dict[str, Any], place: str) -> list[Block]:
        blocks: list[Block] = []
        calls = message.get("tool_calls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                self.ledger.note("malformed-block", f"{place}/tool_calls/{index}")
                continue
            call_id, name = call.get("id"), function.get("name")
            if not isinstance(call_id, str) or not call_id:
                call_id = f"f{floor_of(message)}-m{len(self.tools)}"
                self.ledger.note("id-minted", place)
            name = name if isinstance(name, str) and name else "?"
            self.tools[call_id] = name
            blocks.append(ToolCallBlock(call_id, name, self._arguments(function, place)))
        return blocks

    def _arguments(self, function: dict[str, Any], place: str) -> str:
        value = function.get("arguments")
        if isinstance(value, str):
            if arguments_of(value) is None:
                self.ledger.note("tool-args-unparsed", place)
            return value
        return "" if value is None else jsonio.dumps(value).decode("utf-8", "replace")

    def _tool(self, message: dict[str, Any], place: str) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or not call_id:
            call_id = self.builder.unanswered() or ""
            if not call_id:
                self.ledger.skipped("orphan-tool-result", place)
                return
            self.ledger.note("tool-result-text-fallback", place)
        blocks = self._blocks(message, place, prompt=False)
        text = "".join(block.text for block in blocks if isinstance(block, Text))
        short = summary(self.tools.get(call_id, ""), text) or ""
        failed = short.startswith("✗")
        self.builder.result(ToolResult(call_id, blocks, failed), place)
        self.ledger.mapped()

    def _blocks(self, message: dict[str, Any], place: str, *, prompt: bool) -> list[Block]:
        content = message.get("content")
        if isinstance(content, str):
            if prompt:
                return user_blocks(content)
            return [Text(content)] if content.strip() or message.get("role") == "tool" else []
        blocks: list[Block] = []
        for index, part in enumerate(content if isinstance(content, list) else ()):
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                blocks.append(Text(text))
            else:
                self.ledger.note("unknown-block", f"{place}/content/{index}")
        if content is not None and not isinstance(content, list):
            self.ledger.note("malformed-block", f"{place}/content")
        return blocks


def user_blocks(content: str) -> list[Block]:
    """Give a user message as blocks: the question, then the parts that the program added."""
    parts: Parts = question_parts(content)
    blocks: list[Block] = [Text(parts.text.rstrip())] if parts.text.strip() else []
    for name, text in (("vision", parts.vision), ("clock", parts.clock), ("files", parts.files)):
        if text.strip():
            blocks.append(Text(text.strip("\n"), {"native": {"part": name}}))
    return blocks


def _plain(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else jsonio.dumps(content).decode("utf-8", "replace")


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
        _from_houses(root, houses, walk)
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
            _attach_house(house, step)
            walk.ledger.mapped()


def _attach_house(house: dict[str, Any], step: Step) -> None:
    reasoning = house.get("reasoning")
    if isinstance(reasoning, str) and reasoning.strip():
        step.content.insert(0, Reasoning(reasoning))
    model = house.get("model")
    if isinstance(model, str) and model:
        step.model = model
    at = parse_time(house.get("ts"))
    if at is not None:
        step.time = at.ms
    step.usage = usage_of(house.get("usage"))
    taken = {"reasoning", "model", "ts", "tools", "toolResults", "answer"}
    rest = {name: value for name, value in house.items() if name not in taken}
    if rest:
        step.extra = {**(step.extra or {})}
        step.extra["native"] = {**step.extra.get("native", {}), "house": rest}


def usage_of(value: Any) -> Usage | None:
    """Read the usage of a model API: prompt, cached and completion tokens."""
    if not isinstance(value, dict):
        return None
    details = value.get("prompt_tokens_details")
    cached = value.get("prompt_cache_hit_tokens")
    if cached is None and isinstance(details, dict):
        cached = details.get("cached_tokens")
    total, output = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    if total is None or output is None:
        return None
    hit = _count(cached)
    extra = {"usage": value}
    return Usage(max(0, total - (hit or 0)), output, hit, extra=extra)


def _count(value: Any) -> int | None:
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX
    return value if ok else None


def _from_houses(
    root: dict[str, Any], houses: list[tuple[str, dict[str, Any]]], walk: Walk
) -> None:
    """Make the turn of a floor whose messages are gone from its question and its houses."""
    question = root.get("question")
    if not houses and not isinstance(question, str):
        return
    walk.builder.prompt(user_blocks(question) if isinstance(question, str) else [])
    for number, (_, house) in enumerate(houses):
        tools, results = house.get("tools"), house.get("toolResults")
        tools = tools if isinstance(tools, list) else []
        results = results if isinstance(results, list) else []
        blocks: list[Block] = []
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
        _attach_house(house, step)
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
    turn = builder.prompt(user_blocks(log.question), extra={"native": native})
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
