"""Response items and tool call rounds into steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio
from converters.ir import Block, Reasoning, Text, ToolCallBlock, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from converters.turns import TurnBuilder
    from converters.types import Context

__all__ = ["Asked", "Items", "rounds_of", "text_of"]

_QUIET: Final = (
    "prepareToolInvocation", "codeblockUri", "undoStop", "progressMessage", "progressTask",
    "confirmation", "elicitation", "mcpServersStarting", "warning", "command",
    "progressTaskSerialized", "extensions", "pullRequest",
)  # fmt: skip


def _words(value: Any) -> str:
    """Give the text of a string, a ``{value}``, or a list of strings."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _text(item: dict[str, Any]) -> str:
    """Give the running text of a response item; empty for items that are none."""
    kind = item.get("kind")
    if kind is None or kind == "markdownContent":
        value = item.get("value")
        return _words(item.get("content") if value is None else value)
    if kind == "inlineReference":
        name = item.get("name")
        if isinstance(name, str):
            return name
        reference = item.get("inlineReference")
        path = reference.get("path") if isinstance(reference, dict) else None
        return path.rpartition("/")[2] if isinstance(path, str) else ""
    return ""


def text_of(items: list[Any]) -> str:
    """Give the text that the panel showed: items joined without a separator."""
    return "".join(_text(item) for item in items if isinstance(item, dict))


class Items:
    """Builds steps out of response items, for requests without rounds."""

    def __init__(self, turns: TurnBuilder, ctx: Context, fate: Callable[..., None]) -> None:
        self._turns = turns
        self._ctx = ctx
        self._fate = fate
        self._blocks: list[Block] = []
        self._results: list[ToolResult] = []
        self._words: list[str] = []

    def take(self, items: list[Any], model: str | None, time: int | None, place: str) -> None:
        """Take the items of one response: text after a call begins a new step."""
        called = False
        for index, item in enumerate(items):
            at = f"{place}/response/{index}"
            if not isinstance(item, dict):
                self._fate("malformed-record", at, kind="item")
                continue
            kind = item.get("kind")
            text = _text(item)
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
            elif kind in _QUIET or kind is None:
                self._fate("record-skipped", at, kind=str(kind))
            else:
                self._fate("unknown-record", at, kind=str(kind)[:40])
        self._close(model, time)

    def _say(self, kind: Any, text: str, item: dict[str, Any]) -> None:
        if kind == "thinking":
            self._flush_words()
            thought = _words(item.get("value"))
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
        arguments, output = _tool_data(item)
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


def _tool_data(item: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Give what an item says of a call's arguments, and its output where it holds one."""
    data = item.get("toolSpecificData")
    data = data if isinstance(data, dict) else {}
    arguments: dict[str, Any] = {}
    line = data.get("commandLine")
    command = data.get("command") or (line.get("original") if isinstance(line, dict) else None)
    if isinstance(command, str):
        arguments["command"] = command
    details = item.get("resultDetails")
    output: str | None = None
    if isinstance(details, dict):
        if isinstance(details.get("input"), str):
            arguments["input"] = details["input"]
        parts = details.get("output")
        if isinstance(parts, list):
            texts = [_words(part) for part in parts]
            output = "\n".join(text for text in texts if text)
    shown = data.get("terminalCommandOutput")
    shown = shown.get("text") if isinstance(shown, dict) else shown
    if isinstance(shown, str):
        output = shown
    if not arguments:
        message = _words(item.get("invocationMessage")) or _words(item.get("pastTenseMessage"))
        if message:
            arguments["message"] = message
    return arguments, output


class Asked(NamedTuple):
    """What a request says of its whole response: model, time (ms), place."""

    model: str | None
    time: int | None
    place: str


def rounds_of(
    turns: TurnBuilder, metadata: dict[str, Any], shown: str, asked: Asked, ctx: Context
) -> str | None:
    """Build a step of each round; give the summary that a round carries, if any.

    ``shown`` is the panel's text; what it has beyond the rounds becomes a last step.
    """
    model, time, place = asked
    rounds = metadata["toolCallRounds"]
    results = metadata.get("toolCallResults")
    results = results if isinstance(results, dict) else {}
    summary: str | None = None
    said = ""
    for index, entry in enumerate(rounds):
        at = f"{place}/result/metadata/toolCallRounds/{index}"
        if not isinstance(entry, dict):
            ctx.ledger.note("malformed-block", at)
            continue
        blocks = _round_blocks(entry, turns, ctx, at)
        response = entry.get("response")
        said += response if isinstance(response, str) else ""
        if isinstance(entry.get("summary"), str) and entry["summary"].strip():
            summary = entry["summary"]
        if not blocks:
            continue
        turns.step(blocks, time=time, model=model)
        for block in blocks:
            if isinstance(block, ToolCallBlock) and block.id in results:
                text = _result_text(results[block.id])
                turns.result(ToolResult(block.id, [Text(text)] if text else []), at)
    rest = shown[len(said) :] if shown.startswith(said) else ""
    if rest.strip() and said:
        turns.step([Text(rest)], time=time, model=model)
    elif shown.strip() and not said:
        turns.step([Text(shown)], time=time, model=model)
    return summary


def _round_blocks(
    entry: dict[str, Any], turns: TurnBuilder, ctx: Context, place: str
) -> list[Block]:
    blocks: list[Block] = []
    thinking = entry.get("thinking")
    if isinstance(thinking, dict):
        text = _words(thinking.get("text"))
        if text:
            blocks.append(Reasoning(text))
        if thinking.get("encrypted"):
            ctx.ledger.note("reasoning-encrypted", place)
    response = entry.get("response")
    if isinstance(response, str) and response:
        blocks.append(Text(response))
    calls = entry.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        name = call.get("name") if isinstance(call, dict) else None
        identity = call.get("id") if isinstance(call, dict) else None
        if not (isinstance(name, str) and name and isinstance(identity, str) and identity):
            ctx.ledger.note("malformed-call", place)
            continue
        if turns.declared(identity):
            ctx.ledger.note("duplicate-tool-call", place)
            continue
        arguments = call.get("arguments")
        text = arguments if isinstance(arguments, str) else jsonio.dumps(arguments or {}).decode()
        blocks.append(ToolCallBlock(identity, name, text))
    return blocks


def _result_text(value: Any) -> str:
    """Give the text of a tool result: ``content[].value``, text or a tree of text nodes."""
    content = value.get("content") if isinstance(value, dict) else value
    texts = []
    for part in content if isinstance(content, list) else ():
        inner = part.get("value") if isinstance(part, dict) else part
        texts.append(inner if isinstance(inner, str) else _tree_text(inner))
    return "\n".join(text for text in texts if text)


def _tree_text(value: Any) -> str:
    """Give the text leaves of a rendered prompt tree, in order."""
    found: list[str] = []
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if isinstance(node.get("text"), str):
                found.append(node["text"])
                continue
            children = node.get("children")
            node = node.get("node") if children is None else children
            stack.append(node)
        elif isinstance(node, list):
            stack += reversed(node)
    return "".join(found)
