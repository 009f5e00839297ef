"""Reads messages of the Anthropic API into turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.ir import Text, ToolCallBlock
from converters.shapes import anthropic, envelope, rows
from converters.shapes.layout import layout_of
from converters.shapes.openai_chat import identified
from converters.shapes.talk import Talk
from converters.types import Context, Head, Input, Match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Block, Extra, Session
    from converters.ledger import Ledger, Place
    from converters.shapes.rows import Row

__all__ = ["ID", "probe", "read"]

ID: Final = "anthropic-messages"
_MARKS: Final = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")
_REMINDER: Final = ("<system-reminder>", "</system-reminder>")
_KNOWN: Final = frozenset({"role", "content", "id", "type"})
_REQUEST: Final = frozenset({"messages", "system", "model"})


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in ("user", "assistant", "system")
        and "content" in value
    )


def _is_request(value: dict[str, Any]) -> bool:
    return isinstance(value.get("messages"), list)


def _is_response(value: dict[str, Any]) -> bool:
    return value.get("type") == "message" and isinstance(value.get("content"), list)


def _paths(value: dict[str, Any]) -> envelope.Exchange:
    found = envelope.find(value, _is_request, _is_response)
    return envelope.Exchange(found.request, found.response or None)


def _is_document(value: dict[str, Any]) -> bool:
    # A response at the root is a message like any other.
    return _paths(value) != (None, None)


_SHAPE: Final = rows.Shape(_is_document, _is_message)


def probe(head: Head) -> Match | None:
    """Recognise block types, ``system`` with ``max_tokens``, tools with ``input_schema``."""
    return rows.best_match(head, _judge)


def _judge(value: Any) -> Match | None:
    if isinstance(value, list):
        return _judge_all(value)
    if any(name in value for name in ("uuid", "sessionId", "parentUuid", "chat_messages")):
        return None
    if _is_message(value):
        if _is_response(value) and "stop_reason" in value:
            return Match(92, "response message with stop_reason")
        return _judge_messages([value])
    paths = _paths(value)
    if paths.response is not None:
        return Match(92, "response message")
    if paths.request is None:
        return None
    request = envelope.at(value, paths.request)
    tools = request.get("tools")
    if isinstance(tools, list) and any(
        isinstance(tool, dict) and isinstance(tool.get("input_schema"), dict) for tool in tools
    ):
        return Match(92, "tools with input_schema")
    if "system" in request and "max_tokens" in request:
        return Match(90, "system and max_tokens beside messages")
    return _judge_all(request["messages"])


def _judge_all(found: list[Any]) -> Match | None:
    """Judge a list of messages; other roles belong to other APIs."""
    items = [item for item in found[:20] if isinstance(item, dict)]
    if any(item.get("role") in ("tool", "function", "developer") for item in items):
        return None
    return _judge_messages([item for item in items if _is_message(item)])


def _judge_messages(items: list[dict[str, Any]]) -> Match | None:
    """Score messages by their blocks; all content as lists of blocks is usual here only."""
    answers, listed = 0, True
    for item in items:
        if any(name in item for name in ("uuid", "sessionId", "parts", "tool_calls")):
            return None
        content = item.get("content")
        answers += item["role"] == "assistant"
        listed = listed and isinstance(content, list) and item["role"] != "system"
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in _MARKS or (kind in ("image", "document") and "source" in part):
                return Match(90, f"content block {kind}")
            if kind != "text":
                return None
    if answers and listed:
        return Match(75, "all content as lists of text blocks")
    return Match(30, "messages of user and assistant") if items else None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of each conversation."""
    for row in rows.rows(source, ctx.ledger, _SHAPE):
        yield from rows.sessions_of(row, [_conversation(row, ctx.ledger)], ctx.ledger)


def _conversation(row: Row, ledger: Ledger) -> Session:
    value = row.value
    if isinstance(value, list):
        talk = _Reader(ledger, value)
        if not row.counted:
            ledger.seen(len(value))
        talk.add(value, row.place, row.places)
        return talk.session(row.identity, ID, {})
    paths = _paths(value)
    request, response = envelope.at(value, paths.request), envelope.at(value, paths.response)
    messages = request.get("messages", [])
    talk = _Reader(ledger, [*messages, response] if response else messages)
    native: dict[str, Any] = {}
    system = request.get("system")
    talk.add_prompts(anthropic.blocks(system, ledger, f"{row.place}/system"), f"{row.place}/system")
    if system and not isinstance(system, str):
        native["systemBlocks"] = system
    ledger.seen(len(messages) + (1 if response else 0))
    talk.add(messages, envelope.pointer_to(row.place, paths.request, "messages"))
    if response:
        talk.add([response], f"{row.place}/response", [f"{row.place}/response"])
    native |= envelope.around(value, paths, _REQUEST, frozenset(response))
    session = talk.session(envelope.identity_of(value, row), ID, native)
    session.model = rows.text_of(request.get("model"))
    session.title = envelope.title_of(value)
    return session


class _Reader(Talk):
    """Reads messages; every message gets its fate here."""

    __slots__ = ("_joined", "_run", "_said")

    def __init__(self, ledger: Ledger, messages: list[Any]) -> None:
        super().__init__(ledger, lambda: _call_ids(messages))
        # The id of the assistant message right before, and how many rows of one id there were.
        self._said: str | None = None
        self._run = 0
        self._joined: int | None = None

    def add(self, messages: list[Any], base: Place, places: list[int | str] | None = None) -> None:
        """Read messages; ``places`` are theirs, else they are elements of ``base``."""
        for message, place in self.placed(messages, base, places):
            role = message.get("role")
            if role != "assistant":
                self._said = None
            if role == "user":
                self._user(message, place)
            elif role == "assistant":
                self._assistant(message, place)
            elif role in ("system", "developer"):
                found = anthropic.blocks(message.get("content"), self.ledger, place)
                self.system_message(found, message, place)
            elif isinstance(role, str) and role:
                self.ledger.skipped("role-unknown", place, kind=role[:40])
            else:
                self.ledger.skipped("malformed-record", place, kind="message without role")

    def _user(self, message: dict[str, Any], place: Place) -> None:
        found = anthropic.parts(message.get("content"), self.ledger, place)
        attached, rules = self.attach(found.results, place)
        kept: list[Block] = []
        for block in found.blocks:
            if isinstance(block, Text) and _injected(block.text):
                rules.append("injection-skipped")
            else:
                kept.append(block)
        if kept:
            self.name_calls(kept, place)
            self.builder.prompt(kept, extra=_extra(message))
        self.fate(rules, place, kept=bool(kept or attached), kind="user")

    def _key(self, message: dict[str, Any]) -> int | None:
        """Give the key of the step: records in a row that share an id are one message.

        The same id further on is another message: proxies and test servers repeat theirs.
        """
        said = rows.text_of(message.get("id"))
        if said is None or said != self._said:
            self._run += 1
        self._said = said
        return self._run if said is not None else None

    def _assistant(self, message: dict[str, Any], place: Place) -> None:
        key = self._key(message)
        found = anthropic.parts(message.get("content"), self.ledger, place)
        counts = None
        if message.get("usage") is not None:
            counts = anthropic.usage(message["usage"])
            if counts is None:
                self.ledger.note("usage-invalid", place)
        if not (found.blocks or found.results or found.opaque or counts):
            self.fate([], place, kept=False, kind="assistant")
            return
        self._drop_repeated(found.blocks, key, place)
        self.name_calls(found.blocks, place)
        extra = _extra(message) or {}
        if found.opaque:
            extra["redacted"] = found.opaque
        step, had = None, (0, 0)
        if found.blocks or found.opaque or counts:
            step = self.builder.step(
                found.blocks,
                key=key,
                model=rows.text_of(message.get("model")),
                usage=counts,
            )
            had = len(step.tool_results), len((step.extra or {}).get("redacted", ()))
            step.extra = _merged(step.extra, extra)
        attached, rules = self.attach(found.results, place)
        if step is not None and (layout := layout_of(found, step, had, last=False)):
            known = (step.extra or {}).get("layout", [])
            step.extra = {**(step.extra or {}), "layout": known + layout}
        kept = bool(found.blocks or found.opaque or counts or attached)
        self.fate(rules, place, kept=kept, kind="assistant")

    def _drop_repeated(self, blocks: list[Block], key: int | None, place: Place) -> None:
        """Take out the calls that an earlier record of the same message has already."""
        step = self.builder.current
        if key is None or key != self._joined or step is None:
            self._joined = key
            return
        known = {(call.id, call.name, call.arguments) for call in step.tool_calls}
        kept = [
            block
            for block in blocks
            if not isinstance(block, ToolCallBlock)
            or (block.id, block.name, block.arguments) not in known
        ]
        if len(kept) < len(blocks):
            self.ledger.note("duplicate-tool-call", place, len(blocks) - len(kept))
            blocks[:] = kept


def _call_ids(messages: list[Any]) -> Iterator[str]:
    """Give the ids of all calls of the messages."""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and isinstance(part.get("id"), str):
                yield part["id"]


def _merged(old: Extra | None, new: Extra) -> Extra | None:
    """Add what a later record of the same message says; the later one is right."""
    if not old:
        return new or None
    merged = {**old, **new}
    if "native" in old and "native" in new:
        merged["native"] = {**old["native"], **new["native"]}
    if "redacted" in old and "redacted" in new:
        merged["redacted"] = [*old["redacted"], *new["redacted"]]
    return merged


def _injected(text: str) -> bool:
    """Whether a whole text is host text: one reminder element from start to end."""
    text = text.strip()
    return text.startswith(_REMINDER[0]) and text.find(_REMINDER[1]) == len(text) - len(
        _REMINDER[1]
    )


def _extra(message: dict[str, Any]) -> Extra | None:
    """Give id and other members of a message; the type ``message`` says nothing."""
    extra = identified(message, _KNOWN)
    if message.get("type") != "message":
        return extra
    extra = extra or {}
    extra["native"] = {**extra.get("native", {}), "type": "message"}
    return extra
