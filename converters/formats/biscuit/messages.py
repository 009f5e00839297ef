"""Messages of qqqide into turns and steps.

Members that have no field are kept as ``x-dcb.native.message``: the messages are of OpenAI form,
and what a provider adds to them is stored with them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.biscuit.ctx import is_biscuit
from converters.formats.biscuit.dump import parse
from converters.formats.biscuit.floors import add_floor, note_losses
from converters.formats.biscuit.sieve import (
    FILE_MARK,
    arguments_of,
    content_of,
    floor_of,
    is_notice,
    question_parts,
    split_clock,
)
from converters.formats.biscuit.tools import summary
from converters.ir import Text, ToolCallBlock, ToolResult
from converters.shapes import openai_chat
from converters.shapes.attachments import file_block
from converters.text import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from converters.formats.biscuit.model import Floor
    from converters.ir import Block, Extra, Step, Turn
    from converters.ledger import Ledger
    from converters.turns import TurnBuilder

__all__ = ["Walk", "floors_of", "user_blocks"]

_CLOCK: Final = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?) UTC([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII
)


_KNOWN: Final = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "tool_call_id",
        "reasoning_content",
        "reasoning",
        "thinking",
        "_floor",
        "_error",
        "_errorTime",
        "_recovered",
        "_guideAck",
        "_guideText",
    }
)
_MARKS: Final = frozenset(
    {
        "_persistent",
        "_dynamic",
        "_biscuit",
        "_biscuitPrefix",
        "_biscuitLatest",
        "_compressed",
        "_compressFloor",
        "_deBlock",
        "_system",
        "_injected",
    }
)
"""Marks of the program's own messages; one that is false says nothing."""


def _more(message: dict[str, Any], known: frozenset[str] = _KNOWN) -> dict[str, Any]:
    """Give the members of a message that have no field, as a member of ``x-dcb.native``."""
    found = openai_chat.rest(message, known)
    found = {k: v for k, v in found.items() if v or k not in _MARKS}
    return {"message": found} if found else {}


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

    def declare_zone(self, floors: Iterable[Floor]) -> None:
        """Mark that header times are in the zone that the header declares, which may be wrong."""
        if self.tz is None and any(floor.timestamp is not None for floor in floors):
            self.extra.setdefault("native", {})["zone"] = "declared"

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
            self._system(message, place)
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
        self.declare_zone(taken)
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
        content = message.get("content")
        blocks, clock = (
            user_blocks(content, self.ledger, place)
            if isinstance(content, str)
            else (openai_chat.blocks(content, self.ledger, place), "")
        )
        marks: dict[str, Any] = {**({} if blocks else {"empty": True}), **_more(message)}
        if clock:
            marks["clock"] = clock
            self.ledger.note("record-aside", place, kind="clock")
        self._turn(blocks, **marks).time = clock_ms(clock)
        self.ledger.mapped()

    def _assistant(self, message: dict[str, Any], place: str) -> None:
        thoughts = openai_chat.reasoning(message, self.ledger, place)
        blocks = [*thoughts, *self._blocks(message, place), *self._calls(message, place)]
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
        } | _more(message, _KNOWN - openai_chat.repeated(message, thoughts))
        self.steps.append(self.builder.step(blocks, extra={"native": native} if native else None))
        if message.get("_error"):
            self.builder.abort()
        self.ledger.mapped()

    def _system(self, message: dict[str, Any], place: str) -> None:
        """Keep a system message as a note of its turn, as a dump has it, else aside."""
        turn = self.builder.turn
        text = content_of(message)
        if turn is not None and floor_of(message) == self.floor and text.strip():
            turn.extra = turn.extra or {}
            notes = turn.extra.setdefault("native", {}).setdefault("notes", [])
            note = {"kind": "system", "text": text, "before": len(turn.steps)}
            notes.append(note | _more(message))
        else:
            self.keep("records", message)
        self.ledger.aside("record-aside", place, kind="system")

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
            more = openai_chat.rest(call, ("id", "type", "function", "index"))
            more |= openai_chat.rest(function, ("name", "arguments"))
            block = ToolCallBlock(call_id, name, self._arguments(function, place))
            block.extra = {"native": more} if more else None
            blocks.append(block)
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
        blocks = self._blocks(message, place)
        text = "".join(block.text for block in blocks if isinstance(block, Text))
        short = summary(self.tools.get(call_id, ""), text) or ""
        failed = short.startswith("✗")
        more = _more(message)
        extra: Extra | None = {"native": more} if more else None
        self.builder.result(ToolResult(call_id, blocks, failed, extra=extra), place)
        self.ledger.mapped()

    def _blocks(self, message: dict[str, Any], place: str) -> list[Block]:
        content = message.get("content")
        if isinstance(content, str):
            return [Text(content)] if content.strip() or message.get("role") == "tool" else []
        return openai_chat.blocks(content, self.ledger, place)


def attached(text: str) -> list[tuple[str | None, str]]:
    """Cut the tail of a user message into ``(file name, content)`` and ``(None, other text)``.

    A file is a line ``[File: NAME]`` and a fenced block; one without a fence has
    no content here (specification 2.2).
    """
    lines = text.split("\n")
    found: list[tuple[str | None, str]] = []
    rest: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.startswith(FILE_MARK) or "]" not in line:
            rest.append(line)
            continue
        if any(part.strip() for part in rest):
            found.append((None, "\n".join(rest).strip("\n")))
        rest = []
        body: list[str] = []
        fence = lines[at].rstrip() if at < len(lines) else ""
        ticks = fence[: len(fence) - len(fence.lstrip("`"))]
        if len(ticks) >= 3:
            at += 1
            while at < len(lines) and lines[at].rstrip() != ticks:
                body.append(lines[at])
                at += 1
            at += 1
        found.append((line[len(FILE_MARK) :].rpartition("]")[0], "\n".join(body)))
    if any(part.strip() for part in rest):
        found.append((None, "\n".join(rest).strip("\n")))
    return found


def user_blocks(content: str, ledger: Ledger, place: str) -> tuple[list[Block], str]:
    """Give a user message as blocks, and the time text that the program put behind it.

    Attached files become placeholders with their text in ``x-dcb.attachments``.
    """
    parts = question_parts(content)
    blocks: list[Block] = [Text(parts.text.rstrip())] if parts.text.strip() else []
    if parts.vision.strip():
        blocks.append(Text(parts.vision.strip("\n"), {"native": {"part": "vision"}}))
    files, clock = parts.files, parts.clock
    if files and not clock:
        files, clock = split_clock(files)
    for name, text in attached(files) if files else ():
        if name is None:
            blocks.append(Text(text, {"native": {"part": "files"}}))
        else:
            native = {"part": "files"}
            blocks.append(file_block(ledger, place, name=name, text=text, native=native))
    return blocks, clock.strip("\n")


def clock_ms(clock: str) -> int | None:
    """Give the time of ``[CURRENT TIME: 2026-07-16 01:08 UTC+08]`` in ms."""
    found = _CLOCK.search(clock)
    if found is None:
        return None
    at = parse_time(f"{found[1]}{found[2]}{found[3]:0>2}:{found[4] or '00'}")
    return at.ms if at else None


def _plain(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else jsonio.dumps(content).decode("utf-8", "replace")
