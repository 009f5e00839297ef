"""Reads items of the Responses API into turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.ir import Reasoning, Text
from converters.shapes import envelope, rows
from converters.shapes import openai_responses as items
from converters.shapes.openai_chat import identified, rest
from converters.shapes.talk import Given, Talk
from converters.types import Context, Head, Input, Match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Block, Extra, Session
    from converters.ledger import Ledger, Place
    from converters.shapes.rows import Row

__all__ = ["ID", "probe", "read"]

ID: Final = "openai-responses"
_PARTS: Final = ("input_text", "output_text", "input_image", "input_file")
_ITEMS: Final = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
        "item_reference",
        "compaction",
    }
)
_KNOWN: Final = frozenset({"type", "role", "content", "id"})
_REQUEST: Final = frozenset({"input", "instructions", "model"})
_RESPONSE: Final = frozenset({"output", "usage", "created_at"})


def _is_item(value: Any) -> bool:
    """Whether a value is an item: a known type, or a message with parts of this API."""
    if not isinstance(value, dict) or "payload" in value:
        return False
    kind = value.get("type")
    if isinstance(kind, str) and kind != "message":
        paired = "call_id" in value or "id" in value
        return kind in _ITEMS or (paired and (items.is_call(kind) or items.is_output(kind)))
    content = value.get("content")
    if kind == "message":
        return "role" in value and "content" in value and not _is_foreign(content)
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in _PARTS for part in content[:20]
    )


def _is_foreign(content: Any) -> bool:
    """Whether the content of a typed message has parts, none of this API."""
    kinds = (
        [part.get("type") for part in content if isinstance(part, dict)]
        if isinstance(content, list)
        else []
    )
    return bool(kinds) and not any(
        kind in _PARTS or kind in ("refusal", "reasoning_text") for kind in kinds[:20]
    )


def _is_request(value: dict[str, Any]) -> bool:
    given = value.get("input")
    if isinstance(given, str):
        return any(name in value for name in ("model", "instructions", "previous_response_id"))
    return isinstance(given, list) and (
        not given
        or any(_is_item(item) for item in given[:20])
        or any(isinstance(item, dict) and "role" in item for item in given[:20])
    )


def _is_response(value: dict[str, Any]) -> bool:
    made = value.get("output")
    return isinstance(made, list) and (
        value.get("object") == "response" or any(_is_item(item) for item in made[:20])
    )


def _is_document(value: dict[str, Any]) -> bool:
    return envelope.find(value, _is_request, _is_response) != (None, None)


_SHAPE: Final = rows.Shape(_is_document, _is_item)


def probe(head: Head) -> Match | None:
    """Recognise typed items in ``input``, ``output`` or an array."""
    return rows.best_match(head, _judge)


def _judge(value: Any) -> Match | None:
    if isinstance(value, list):
        return _judge_items(value, 85)
    if _is_item(value):
        return _judge_items([value], 80)
    paths = envelope.find(value, _is_request, _is_response)
    if paths.response is not None:
        response = envelope.at(value, paths.response)
        return Match(95 if response.get("object") == "response" else 85, "response with output")
    if paths.request is None:
        return None
    request = envelope.at(value, paths.request)
    if isinstance(request["input"], str):
        strong = "instructions" in request or "previous_response_id" in request
        return Match(75 if strong else 50, "input text with a model")
    if not request["input"]:
        return None
    return _judge_items(request["input"], 92) or Match(50, "input messages")


def _judge_items(found: list[Any], score: int) -> Match | None:
    known = [item for item in found[:20] if _is_item(item)]
    return Match(score, "typed items") if known else None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of each conversation."""
    for row in rows.rows(source, ctx.ledger, _SHAPE):
        yield from rows.sessions_of(row, [_conversation(row, ctx)], ctx.ledger)


def _conversation(row: Row, ctx: Context) -> Session:
    value, ledger = row.value, ctx.ledger
    if isinstance(value, list):
        if not row.counted:
            ledger.seen(len(value))
        talk = _Reader(ledger, value)
        talk.add(value, row.place, row.places)
        return talk.session(row.identity, ID, {})
    paths = envelope.find(value, _is_request, _is_response)
    request, response = envelope.at(value, paths.request), envelope.at(value, paths.response)
    given = request.get("input", [])
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    made = response.get("output", [])
    talk = _Reader(ledger, [*given, *made])
    system = request.get("instructions") or response.get("instructions")
    _instructions(system, talk, f"{row.place}")
    if any(holder.get("previous_response_id") for holder in (request, response)):
        ledger.note("history-truncated", row.place)
    ledger.seen(len(given) + len(made))
    talk.add(given, envelope.pointer_to(row.place, paths.request, "input"))
    before = len(talk.builder.turns), _steps(talk)
    talk.cut()
    talk.add(made, envelope.pointer_to(row.place, paths.response, "output"))
    native = envelope.around(value, paths, _REQUEST, _RESPONSE)
    if isinstance(request.get("instructions"), list):
        native["instructions"] = request["instructions"]
    if paths.response is not None and made:
        native["outputAt"] = [len(talk.builder.turns), before[1]]
    session = talk.session(envelope.identity_of(value, row), ID, native)
    session.model = rows.text_of(request.get("model")) or rows.text_of(response.get("model"))
    session.title = envelope.title_of(value)
    if response:
        _finish(session, response, ctx, row)
    return session


def _steps(talk: Talk) -> int:
    return len(talk.builder.turns[-1].steps) if talk.builder.turns else 0


def _instructions(value: Any, talk: Talk, place: str) -> None:
    """Keep the instructions: a text, or items whose texts are prompts."""
    given = value if isinstance(value, list) else [{"content": value}] if value else []
    place = f"{place}/instructions"
    found: list[Block] = []
    for item in given:
        content = item.get("content") if isinstance(item, dict) else item
        found += items.blocks(content, talk.ledger, place)
    talk.add_prompts(found, place)


def _finish(session: Session, response: dict[str, Any], ctx: Context, row: Row) -> None:
    """Put usage, model and time of a response on its last step."""
    time = ctx.ms(response.get("created_at"), f"{row.place}/created_at")
    session.meta.created_at = time
    step = envelope.answer_of(session)
    if step is None or not response.get("output"):
        return
    step.time, step.model = time, rows.text_of(response.get("model"))
    envelope.put_usage(step, response.get("usage"), items, ctx.ledger, f"{row.place}/usage")


class _Reader(Talk):
    """Reads items; every item gets its fate here.

    ``stage`` says what the open step has: 0 no step, 1 reasoning, 2 a message, 3 calls.
    """

    __slots__ = ("stage",)

    def __init__(self, ledger: Ledger, messages: list[Any]) -> None:
        super().__init__(ledger, lambda: _call_ids(messages))
        self.stage = 0

    def cut(self) -> None:
        """End the open step: what follows is another response."""
        self.stage = 0

    def add(self, found: list[Any], base: Place, places: list[int | str] | None = None) -> None:
        """Read items; ``places`` are theirs, else they are elements of ``base``."""
        for item, place in self.placed(found, base, places):
            self._item(item, place)

    def _item(self, item: dict[str, Any], place: Place) -> None:
        kind = item.get("type", "message")
        if not isinstance(kind, str):
            self.ledger.skipped("malformed-record", place, kind="type")
        elif kind == "message":
            self._message(item, place)
        elif kind == "reasoning":
            self._reasoning(item, place)
        elif items.is_output(kind):
            self._output(item, kind, place)
        elif items.is_call(kind):
            self._call(item, place)
        elif kind == "item_reference":
            self.ledger.note("history-truncated", place)
            self.ledger.skipped("record-skipped", place, kind=kind)
        elif kind == "compaction":
            self.builder.compaction("", provider=ID, place=place)
            self.stage = 0
            self.ledger.skipped("record-skipped", place, kind=kind)
        elif kind.startswith("mcp_"):
            self.ledger.skipped("record-skipped", place, kind=kind[:40])
        else:
            self.ledger.skipped("unknown-record", place, kind=kind[:40])

    def _message(self, item: dict[str, Any], place: Place) -> None:
        role = item.get("role", "user")
        found = items.blocks(item.get("content"), self.ledger, place)
        if not found and role in ("user", "assistant", "system", "developer"):
            self.ledger.skipped("empty-message", place, kind=role)
        elif role == "user":
            self.builder.prompt(found, extra=identified(item, _KNOWN))
            self.stage = 0
            self.ledger.mapped()
        elif role == "assistant":
            self._open(2)
            step = self.builder.current or self.builder.step()
            for block in found:
                self.builder.block(block, step, place)
            extra = identified(item, _KNOWN)
            if extra:
                step.extra = {**(step.extra or {}), **extra}
            self.ledger.mapped()
        elif role in ("system", "developer"):
            text = "\n".join(block.text for block in found if isinstance(block, Text))
            self.add_system(text, item)
            self.ledger.aside("system-prompt-aside", place)
        else:
            self.ledger.skipped("role-unknown", place, kind=str(role)[:40])

    def _open(self, stage: int) -> None:
        """Go on with the open step if it can still take this kind, else open one."""
        if self.stage == 0 or stage < self.stage or stage == self.stage == 2:
            self.builder.step()
        self.stage = stage

    def _reasoning(self, item: dict[str, Any], place: Place) -> None:
        found = items.reasoning_blocks(item, self.ledger, place)
        if not found and not item.get("encrypted_content"):
            self.ledger.skipped("empty-message", place, kind="reasoning")
            return
        self._open(1)
        step = self.builder.current or self.builder.step()
        for block in found:
            self.builder.block(block, step, place)
        if found:
            self.ledger.mapped()
            return
        extra = step.extra or {}
        extra["encrypted"] = [*extra.get("encrypted", []), item]
        step.extra = extra
        self.ledger.aside("reasoning-encrypted", place)

    def _call(self, item: dict[str, Any], place: Place) -> None:
        block = items.call_block(item, self.ledger, place)
        if block is None:
            self.ledger.skipped("malformed-record", place, kind=str(item["type"])[:40])
            return
        self._open(3)
        self.name_calls([block], place)
        known = self.builder.declared(block.id)
        self.builder.block(block, None, place)
        if known:
            self.ledger.skipped("duplicate-record", place)
            return
        own = items.own_result(item, self.ledger, place)
        if own is not None:
            given = Given(block.id, None, own[0], own[1], {"native": {"inline": True}})
            self.attach([given], place)
        self.ledger.mapped()

    def _output(self, item: dict[str, Any], kind: str, place: Place) -> None:
        content = items.output_blocks(item.get("output"), self.ledger, place)
        native = rest(item, ("type", "call_id", "output", "id"))
        if kind != "function_call_output":
            native["type"] = kind
        extra: Extra = {"native": native} if native else {}
        if isinstance(item.get("id"), str) and item.get("call_id"):
            extra["id"] = item["id"]
        call_id = item.get("call_id")
        call_id = call_id if call_id is not None else item.get("id")
        kept: list[Block] = [block for block in content if not isinstance(block, Reasoning)]
        attached, rules = self.attach([Given(call_id, None, kept, False, extra or None)], place)
        self.stage = 0
        self.fate(rules, place, kept=bool(attached), kind=kind)


def _call_ids(messages: list[Any]) -> Iterator[str]:
    """Give the ids of all calls among the items."""
    for item in messages:
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(kind, str) and items.is_call(kind) and isinstance(item.get("call_id"), str):
            yield item["call_id"]
