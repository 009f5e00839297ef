"""Response items into steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio
from converters.ir import Block, Reasoning, Text, ToolCallBlock, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from converters.turns import TurnBuilder
    from converters.types import Context

__all__ = [
    "Asked",
    "Items",
    "Shown",
    "leave",
    "named",
    "shown_text",
    "tool_data",
    "words_of",
]

_QUIET: Final = (
    "prepareToolInvocation", "codeblockUri", "undoStop", "progressMessage", "progressTask",
    "confirmation", "elicitation", "mcpServersStarting", "warning", "command",
    "progressTaskSerialized", "extensions", "pullRequest",
)  # fmt: skip


def words_of(value: Any) -> str:
    """Give the text of a string, a ``{value}``, or a list of strings."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def shown_text(item: dict[str, Any]) -> str:
    """Give the running text of a response item; empty for items that are none."""
    kind = item.get("kind")
    if kind is None or kind == "markdownContent":
        value = item.get("value")
        return words_of(item.get("content") if value is None else value)
    if kind == "inlineReference":
        name = item.get("name")
        if isinstance(name, str):
            return name
        reference = item.get("inlineReference")
        path = reference.get("path") if isinstance(reference, dict) else None
        return path.rpartition("/")[2] if isinstance(path, str) else ""
    return ""


class Shown(NamedTuple):
    """An item of a response with its place."""

    place: str
    item: Any


class Asked(NamedTuple):
    """What a request says of its whole response: model, time (ms), place."""

    model: str | None
    time: int | None
    place: str


def leave(shown: Shown, fate: Callable[..., None]) -> None:
    """Count an item that is no dialogue."""
    item = shown.item
    kind = item.get("kind") if isinstance(item, dict) else None
    if not isinstance(item, dict):
        fate("malformed-record", shown.place, kind="item")
    elif kind in _QUIET or kind is None:
        fate("record-skipped", shown.place, kind=str(kind))
    else:
        fate("unknown-record", shown.place, kind=str(kind)[:40])


class Items:
    """Builds steps out of response items: all of them, or what no round holds."""

    def __init__(self, turns: TurnBuilder, ctx: Context, fate: Callable[..., None]) -> None:
        self._turns = turns
        self._ctx = ctx
        self._fate = fate
        self._blocks: list[Block] = []
        self._results: list[ToolResult] = []
        self._words: list[str] = []

    def take(self, items: list[Shown], model: str | None, time: int | None) -> None:
        """Take items of one response: text after a call begins a new step."""
        called = False
        for shown in items:
            at, item = shown
            kind = item.get("kind") if isinstance(item, dict) else None
            text = shown_text(item) if isinstance(item, dict) else ""
            if text or kind == "thinking":
                if called:
                    self._close(model, time)
                    called = False
                self._say(kind, text, item)
                self._fate(None, at)
            elif kind == "toolInvocationSerialized":
                called = True
                self._flush_words()
                self._invoke(item, at)
                self._fate(None, at)
            elif kind == "textEditGroup":
                self._flush_words()
                self._blocks.append(Text(f"[edit: {_path(item)}]"))
                self._ctx.ledger.note("attachment-skipped", at, kind="textEditGroup")
                self._fate(None, at)
            else:
                leave(shown, self._fate)
        self._close(model, time)

    def _say(self, kind: Any, text: str, item: dict[str, Any]) -> None:
        if kind == "thinking":
            self._flush_words()
            thought = words_of(item.get("value"))
            if thought:
                self._blocks.append(Reasoning(thought))
        else:
            self._words.append(text)

    def _flush_words(self) -> None:
        text = "".join(self._words)
        self._words.clear()
        if text.strip():
            self._blocks.append(Text(text))

    def _invoke(self, item: dict[str, Any], place: str) -> None:
        identity = item.get("toolCallId")
        if not isinstance(identity, str) or not identity or self._turns.declared(identity):
            identity = f"call{place.replace('/', '-')}"
            self._ctx.ledger.note("id-minted", place)
        tool = item.get("toolId")
        arguments, output = tool_data(item)
        text = jsonio.dumps(arguments).decode()
        name = tool if isinstance(tool, str) and tool else "tool"
        self._blocks.append(ToolCallBlock(identity, name, text))
        if output is not None:
            self._results.append(ToolResult(identity, [Text(output)] if output else []))

    def _close(self, model: str | None, time: int | None) -> None:
        self._flush_words()
        if self._blocks:
            self._turns.step(self._blocks, time=time, model=model)
        for result in self._results:
            self._turns.result(result)
        self._blocks, self._results = [], []


def _path(item: dict[str, Any]) -> str:
    uri = item.get("uri")
    path = uri.get("path") if isinstance(uri, dict) else uri
    return path if isinstance(path, str) else "?"


def tool_data(item: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Give what an item says of a call's arguments, and its output where it holds one."""
    data = item.get("toolSpecificData")
    data = data if isinstance(data, dict) else {}
    arguments: dict[str, Any] = {}
    line = data.get("commandLine")
    command = data.get("command") or (line.get("original") if isinstance(line, dict) else None)
    if isinstance(command, str):
        arguments["command"] = command
    output: str | None = None
    if data.get("kind") == "subagent":
        names = ("description", "prompt")
        arguments |= {name: data[name] for name in names if isinstance(data.get(name), str)}
        output = data["result"] if isinstance(data.get("result"), str) else None
    details = item.get("resultDetails")
    if isinstance(details, dict):
        if isinstance(details.get("input"), str):
            arguments["input"] = details["input"]
        parts = details.get("output")
        if isinstance(parts, list):
            texts = [words_of(part) for part in parts]
            output = "\n".join(text for text in texts if text)
    shown = data.get("terminalCommandOutput")
    shown = shown.get("text") if isinstance(shown, dict) else shown
    if isinstance(shown, str):
        output = shown
    if not arguments:
        message = words_of(item.get("invocationMessage")) or words_of(item.get("pastTenseMessage"))
        if message:
            arguments["message"] = message
    return arguments, output


def named(call: Any) -> tuple[str, str] | None:
    """Give id and name of a call of a round; ``None`` when one is missing."""
    identity = call.get("id") if isinstance(call, dict) else None
    name = call.get("name") if isinstance(call, dict) else None
    if isinstance(identity, str) and identity and isinstance(name, str) and name:
        return identity, name
    return None
