"""One path of a conversation on its way into a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.formats.chatgpt.content import (
    KNOWN,
    blocks_of,
    left_unread,
    system_text,
    text_of,
    thoughts_of,
)
from converters.ir import Block, Extra, Meta, Session, Text, ToolCallBlock, ToolResult
from converters.ledger import Ledger
from converters.text import parse_time
from converters.turns import TurnBuilder

if TYPE_CHECKING:
    from converters.formats.chatgpt.export import Found
    from converters.formats.chatgpt.files import Files
    from converters.formats.chatgpt.tree import Node
    from converters.types import Context

__all__ = ["Walk", "speaks"]

_TAKEN: Final = frozenset({"mapping", "current_node", "title", "create_time", "conversation_id",
                           "default_model_slug"})  # fmt: skip
_CONTEXT: Final = ("user_editable_context", "model_editable_context")
_ASIDE: Final = frozenset(
    {
        "system-prompt-aside",
        "injection-skipped",
        "role-unknown",
        "message-discarded",
        "record-aside",
        "unknown-record",
    }
)
_FAILED: Final = ("error", "finished_with_error")
_PLAIN: Final[dict[str, Any]] = {}
_HIDING: Final = ("is_visually_hidden_from_conversation", "is_user_system_message")


class Walk:
    """Takes the nodes of a path in order; :meth:`session` gives what they make."""

    def __init__(self, found: Found, files: Files, ctx: Context) -> None:
        self._found, self._files, self._ctx = found, files, ctx
        self._ledger = ctx.ledger
        self._turns = TurnBuilder(ctx.ledger)
        self._reasoning: list[Block] = []
        self._reasoning_time: int | None = None
        self._system: list[str] = []
        self._records: list[Any] = []
        self._calls = _Calls()
        self._answered: tuple[str, ToolResult] | None = None
        self._asides: list[tuple[str, str]] = []

    def take(self, nodes: dict[str, Node], path: list[str], done: set[str]) -> None:
        """Walk a path; nodes in ``done`` were accounted for by another path already.

        What goes into ``x-dcb`` is accounted for by :meth:`session`, which may give none.
        """
        ledger = self._ctx.ledger
        base = f"{self._found.place}/mapping/"
        mapped = 0
        for name in path:
            place = base + name
            fresh = name not in done
            self._ledger = ledger if fresh else Ledger()
            fate = self._node(nodes[name], place)
            if not fresh:
                continue
            if fate is None:
                mapped += 1
            elif fate in _ASIDE:
                self._asides.append((fate, place))
            else:
                ledger.skipped(fate, place)
        done.update(path)
        ledger.mapped(mapped)
        self._ledger = ledger

    def session(self, identity: str, extra: Extra) -> Session | None:
        """Give the session; ``None`` when no node said anything."""
        self._flush()
        turns = self._turns.finish()
        for rule, place in self._asides:
            (self._ledger.aside if turns else self._ledger.skipped)(rule, place)
        if not turns:
            return None
        value = self._found.value
        title = value.get("title")
        model = value.get("default_model_slug")
        if not isinstance(model, str) or not model:
            model = next((s.model for turn in turns for s in turn.steps if s.model), None)
        if self._system:
            extra["system"] = self._system
        if self._records:
            extra["records"] = self._records
        native = {name: v for name, v in value.items() if name not in _TAKEN and v}
        if "id" in native and native["id"] == self._found.identity:
            del native["id"]
        if native:
            extra["native"] = native
        created = self._ms(value.get("create_time"), self._found.place)
        return Session(
            meta=Meta(identity, created, source_id=self._found.identity),
            title=title if isinstance(title, str) and title else None,
            provider="chatgpt",
            model=model,
            turns=turns,
            extra=extra or None,
        )

    def _ms(self, value: Any, place: str) -> int | None:
        if type(value) is float and 0 < value < 1e11:
            return int(value * 1000 + 0.5)  # what parse_time says of seconds, without the call
        if value is None:
            return None
        time = parse_time(value, self._ctx.options.tz)
        if time is None:
            self._ledger.note("timestamp-invalid", place)
            return None
        if time.assumed:
            self._ledger.note("tz-assumed", place)
        return time.ms

    def _node(self, node: Node, place: str) -> str | None:
        """Take one node; give the rule under which it is not mapped, or ``None``."""
        message = node.get("message")
        if message is None:
            return None
        if type(message) is not dict:
            return "malformed-record"
        author, content = message.get("author"), message.get("content")
        metadata = message.get("metadata")
        if type(content) is not dict:
            content = {"content_type": "text", "parts": [content]} if content else _PLAIN
        if type(metadata) is not dict:
            metadata = _PLAIN
        if type(author) is not dict:
            author = _PLAIN
        role = author.get("role")
        if (
            role == "system"
            or content.get("content_type") in _CONTEXT
            or metadata.get("is_user_system_message") is True
        ):
            return self._instruct(content, metadata)
        time = self._ms(message.get("create_time"), place)
        said = _Said(message, content, metadata, place, time)
        if role == "user":
            return self._prompt(said)
        if role in ("assistant", "critic"):
            return self._answer(said)
        if role == "tool":
            name = _text(author.get("name")) or _text(message.get("name"))
            return self._result(said, name or "tool")
        self._records.append(message)
        return "role-unknown"

    def _instruct(self, content: dict[str, Any], metadata: dict[str, Any]) -> str:
        text = system_text(content, metadata)
        if not text:
            return "empty-message"
        self._system.append(text)
        return "system-prompt-aside"

    def _blocks(self, said: _Said) -> list[Block]:
        return blocks_of(said.content, said.metadata, self._files, self._ledger, said.place)

    def _keep(self, said: _Said, rule: str) -> str:
        """Keep a message aside that is hidden, or of weight 0: the talk went on without it."""
        parts = said.content.get("parts")
        if not text_of(said.content) and not (isinstance(parts, list) and any(parts)):
            return "empty-message"
        self._records.append(said.message)
        return rule

    def _empty(self, said: _Said) -> str:
        """Keep a message aside that gave no block, unless there is nothing in it."""
        kind = said.content.get("content_type")
        known = not isinstance(kind, str) or kind in KNOWN
        if known and not left_unread(said.content):
            return "empty-message"
        self._records.append(said.message)
        return "record-aside" if known else "unknown-record"

    def _prompt(self, said: _Said) -> str | None:
        if said.metadata.get("is_visually_hidden_from_conversation"):
            return self._keep(said, "injection-skipped")
        if said.message.get("weight") == 0:
            return self._keep(said, "message-discarded")
        blocks = self._blocks(said)
        if not blocks:
            return self._empty(said)
        self._flush()
        self._answered = None
        self._calls.turn()
        self._turns.prompt(blocks, time=said.time, extra=_native(said.message))
        return None

    def _flush(self) -> None:
        """Give reasoning that no answer followed a step of its own."""
        if self._reasoning:
            self._turns.step(self._reasoning, time=self._reasoning_time)
            self._reasoning = []

    def _answer(self, said: _Said) -> str | None:
        message, content, metadata, place, time = said
        kind = content.get("content_type")
        if kind == "reasoning_recap":
            return "record-skipped"
        if kind == "thoughts":
            thoughts = thoughts_of(content, _text(message.get("id")))
            if thoughts is None:
                return "empty-message"
            self._reasoning.append(thoughts)
            self._reasoning_time = time
            return None
        recipient = message.get("recipient")
        if isinstance(recipient, str) and recipient not in ("", "all"):
            blocks: list[Block] = [self._call(message, recipient, text_of(content), place)]
            blocks += self._beside_call(said)
        elif message.get("weight") == 0:
            return self._keep(said, "message-discarded")
        else:
            blocks = self._blocks(said)
        if not blocks:
            return self._empty(said)
        self._answered = None
        self._turns.step(
            self._reasoning + blocks if self._reasoning else blocks,
            time=time,
            model=_text(metadata.get("model_slug")),
            extra=_native(message),
        )
        self._reasoning = []
        details = metadata.get("finish_details")
        if message.get("status") == "in_progress" or (
            type(details) is dict and details.get("type") == "interrupted"
        ):
            self._turns.abort()
        return None

    def _beside_call(self, said: _Said) -> list[Block]:
        """Give what a call holds beside its text: images and files."""
        parts = said.content.get("parts")
        objects = [p for p in parts if type(p) is dict] if isinstance(parts, list) else []
        if not objects and not said.metadata.get("attachments"):
            return []
        blocks = self._blocks(said._replace(content={**said.content, "parts": objects}))
        return [b for b in blocks if not isinstance(b, Text) or "native" not in (b.extra or ())]

    def _call(
        self, message: dict[str, Any], name: str, arguments: str, place: str
    ) -> ToolCallBlock:
        """Make a call; there are no call ids, the id of the message serves."""
        identity = _text(message.get("id"))
        if identity is None or self._turns.declared(identity):
            identity = f"call{place.replace('/', '-')}"
            self._ledger.note("id-minted", place, kind="call")
        self._calls.add(identity, name)
        return ToolCallBlock(identity, name, arguments)

    def _result(self, said: _Said, tool: str) -> str | None:
        message, content, metadata, place, time = said
        blocks = self._blocks(said)
        failed = message.get("status") in _FAILED or content.get("content_type") == "system_error"
        run = metadata.get("aggregate_result")
        if type(run) is dict and run.get("status") == "failed_with_in_kernel_exception":
            failed = True
        call = self._calls.answer(tool)
        if call is None and self._answered is not None and self._answered[0] == tool:
            # A tool that answers in several messages: one result.
            result = self._answered[1]
            result.content += blocks
            result.is_error = result.is_error or failed
            return None
        call = call or self._calls.answer()
        if call is None:
            if not blocks:
                return self._empty(said)
            made = self._call({}, tool, "", place)
            call = self._calls.answer(tool) or made.id
            self._turns.block(made, self._turns.current or self._turns.step(time=time))
        self._ledger.note("tool-result-text-fallback", place)
        result = ToolResult(call, blocks, failed, time, _native(message))
        self._turns.result(result, place)
        self._answered = (tool, result)
        return None


def speaks(message: Any) -> bool:
    """Whether a message is a prompt or answer of plain text that is sure to make a turn."""
    if type(message) is not dict or message.get("weight") == 0:
        return False
    author, content = message.get("author"), message.get("content")
    if type(author) is not dict or type(content) is not dict:
        return False
    parts = content.get("parts")
    if (
        author.get("role") not in ("user", "assistant")
        or message.get("recipient") not in (None, "", "all")
        or content.get("content_type") not in ("text", "multimodal_text")
        or type(parts) is not list
        or not any(isinstance(part, str) and part for part in parts)
    ):
        return False
    metadata = message.get("metadata")
    return type(metadata) is not dict or not any(metadata.get(flag) for flag in _HIDING)


class _Said(NamedTuple):
    """A message, and what of it is an object in any case."""

    message: dict[str, Any]
    content: dict[str, Any]
    metadata: dict[str, Any]
    place: str
    time: int | None


class _Calls:
    """The calls that wait for a result, found by tool name."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[str]] = {}
        self._stack: list[tuple[str, str]] = []
        self._closed: set[str] = set()
        self._older = 0

    def add(self, identity: str, name: str) -> None:
        self._by_name.setdefault(name, []).append(identity)
        self._stack.append((identity, name))

    def turn(self) -> None:
        """Open a turn: calls so far are answered by their name only."""
        self._older = len(self._stack)

    def answer(self, name: str | None = None) -> str | None:
        """Take the nearest call of a tool; without a name the nearest of this turn."""
        if name is not None:
            waiting = self._by_name.get(name)
            if not waiting:
                return None
            identity = waiting.pop()
            self._closed.add(identity)
            return identity
        while len(self._stack) > self._older:
            identity, name = self._stack.pop()
            if identity not in self._closed:
                self._by_name[name].pop()
                return identity
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _native(message: dict[str, Any]) -> Extra | None:
    """Give the message's own id, and its channel where it is not the final one."""
    identity = message.get("id")
    channel = message.get("channel")
    if isinstance(channel, str) and channel and channel != "final":
        native = {"channel": channel}
        return {"id": identity, "native": native} if identity else {"native": native}
    return {"id": identity} if isinstance(identity, str) and identity else None
