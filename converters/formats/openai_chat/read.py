"""Finds the messages in requests, responses, pairs and rows, and reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from converters.formats.openai_chat import plain
from converters.ledger import Ledger
from converters.shapes import branches, envelope, rows
from converters.shapes import openai_chat as chat
from converters.shapes.openai_messages import ROLES, Conversation
from converters.types import Context, Head, Input, Match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.shapes.rows import Row

__all__ = ["ID", "SHAPE", "probe", "read"]

ID: Final = plain.ID
_COLUMNS: Final = ("messages", "conversations", "conversation", "dialog", "dialogue", "items")
_PARTS: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document"}
)
_OWN_PARTS: Final = frozenset({"image_url", "input_audio", "file", "refusal"})


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    role = value.get("role")
    return (
        isinstance(role, str)
        and role.strip().lower() in ROLES
        and ("content" in value or "tool_calls" in value or "function_call" in value)
    )


def _column(value: dict[str, Any]) -> str | None:
    """Give the member that holds the messages; ``messages`` needs no proof."""
    if isinstance(value.get("messages"), list):
        return "messages"
    for name in _COLUMNS:
        items = value.get(name)
        if isinstance(items, list) and any(_is_message(item) for item in items[:20]):
            return name
    return None


def _is_request(value: dict[str, Any]) -> bool:
    return _column(value) is not None or _is_preference(value)


def _is_preference(value: dict[str, Any]) -> bool:
    inner = value.get("input")
    return (
        isinstance(inner, dict)
        and isinstance(inner.get("messages"), list)
        and isinstance(value.get("preferred_output"), list)
    )


def _is_response(value: dict[str, Any]) -> bool:
    choices = value.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and isinstance(choice.get("message"), dict)
        for choice in choices[:20]
    )


def _is_document(value: dict[str, Any]) -> bool:
    if "messages" in value and isinstance(value["messages"], list):
        return True
    found = envelope.find(value, _is_request, _is_response)
    return found.request is not None or found.response is not None


SHAPE: Final = rows.Shape(_is_document, _is_message, plain.DECODER)
"""What this format takes for a conversation and a message."""


def probe(head: Head) -> Match | None:
    """Recognise roles with content; formats with marks of their own score higher."""
    return rows.best_match(head, _judge)


def _judge(value: Any) -> Match | None:
    if isinstance(value, list):
        items = [item for item in value[:20] if _is_message(item)]
        return _judge_messages(items, 0) if items else None
    if _is_message(value):
        return _judge_messages([value], 0)
    found = envelope.find(value, _is_request, _is_response)
    if found.response is not None:
        response = envelope.at(value, found.response)
        if response.get("object") == "chat.completion":
            return Match(95, "object chat.completion")
        return Match(75, "choices with messages")
    if found.request is None or "mapping" in value or "chat_messages" in value:
        return None
    request = envelope.at(value, found.request)
    if _is_preference(request):
        return Match(85, "input.messages with preferred_output")
    items = [item for item in request[_column(request) or ""][:20] if _is_message(item)]
    tools = request.get("tools")
    bonus = 0
    if isinstance(tools, list) and any(
        isinstance(tool, dict) and isinstance(tool.get("function"), dict) for tool in tools
    ):
        bonus = 10
    return _judge_messages(items, bonus) if items else None


def _judge_messages(items: list[dict[str, Any]], bonus: int) -> Match | None:
    """Score messages: calls and parts of this API say more than roles with strings."""
    score = 55
    for item in items:
        if any(name in item for name in ("uuid", "parts", "parentId", "parent_id", "type")):
            score = min(score, 40)
        content = item.get("content")
        kinds = {
            part.get("type")
            for part in (content if isinstance(content, list) else ())
            if isinstance(part, dict) and isinstance(part.get("type"), str)
        }
        if kinds & _PARTS:
            return None
        if item.get("role") == "tool" or isinstance(item.get("tool_calls"), list):
            bonus = max(bonus, 15)
        if kinds & _OWN_PARTS:
            bonus = max(bonus, 15)
    return Match(score + bonus, "messages with role and content")


def read(source: Input, ctx: Context, shape: rows.Shape = SHAPE) -> Iterator[Session]:
    """Give the session of each conversation."""
    ordinary = bool(branches.chosen(ctx.options, 1))
    for row in rows.rows(source, ctx.ledger, shape):
        if type(row.value) is plain.Conversation:
            found = plain.session(row, row.value, ctx.ledger) if ordinary else None
            if found is not None:
                yield found
                ctx.ledger.mapped()
                continue
            row = rows.untyped(row)
        yield from rows.sessions_of(row, _conversation(row, ctx), ctx.ledger)


def _conversation(row: Row, ctx: Context) -> Iterator[Session]:
    value = row.value
    if isinstance(value, dict):
        answers = _answers(value)
        if answers:
            yield from _with_answers(row, value, answers, ctx)
            return
        messages = value.get("messages")
        if type(messages) is list and "choices" not in value and "response" not in value:
            ctx.ledger.seen(len(messages))
            if not branches.left_out(ctx, row.place, len(messages)):
                yield _request(row, value, messages, ctx)
        else:
            yield from _document(row, value, ctx)
        return
    if not row.counted:
        ctx.ledger.seen(len(value))
    if branches.left_out(ctx, row.place, len(value)):
        return
    found = Conversation(ctx)
    found.add(value, row.place, row.places)
    yield found.session(row.identity, ID, {})


def _answers(value: dict[str, Any]) -> list[branches.Answer]:
    """Give the answers to choose from that stand beside messages at the root."""
    column = _column(value) if "chosen" in value and "choices" not in value else None
    return branches.answers(value, value[column], _is_message, _said) if column else []


def _said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _with_answers(
    row: Row, value: dict[str, Any], answers: list[branches.Answer], ctx: Context
) -> Iterator[Session]:
    """Read messages with a chosen and a rejected answer: each that is asked for is a session."""
    column = _column(value) or "messages"
    messages = value[column]
    count = len(messages) + sum(len(answer.messages) for answer in answers)
    ctx.ledger.seen(count)
    if branches.left_out(ctx, row.place, count, len(answers)):
        return
    taken = {column, *(answer.column for answer in answers)}
    if isinstance(value.get("model"), str):
        taken.add("model")
    around = {k: v for k, v in value.items() if k not in taken}
    native: dict[str, Any] = {"envelope": around} if around else {}
    if column != "messages":
        native["column"] = column
    identity = envelope.identity_of(value, row)
    chosen = branches.chosen(ctx.options, len(answers))
    others = []
    for number, answer in enumerate(answers):
        if number not in chosen:
            name = branches.branch_id(identity, number)
            others.append({"id": name, "messages": answer.messages})
            for pointer in answer.places:
                ctx.ledger.aside("branch-collapsed", f"{row.place}{pointer}")
    for number in chosen:
        first, answer = number == chosen[0], answers[number]
        found = Conversation(ctx if first else replace(ctx, ledger=Ledger()))
        found.add(messages[: answer.start], f"{row.place}/{column}")
        found.add(answer.messages, "", [f"{row.place}{pointer}" for pointer in answer.places])
        if first:
            for index in range(answer.start, len(messages)):
                ctx.ledger.aside("record-aside", f"{row.place}/{column}/{index}")
        else:
            ctx.ledger.mapped(len(answer.messages))
        rest = {"rest": messages[answer.start :]} if messages[answer.start :] else {}
        session = found.session(branches.branch_id(identity, number), ID, {**native, **rest})
        session.model = rows.text_of(value.get("model"))
        session.title = envelope.title_of(value)
        if first and others:
            session.extra = {**(session.extra or {}), "branches": others}
        yield session


def _request(row: Row, value: dict[str, Any], messages: list[Any], ctx: Context) -> Session:
    """Read the common case: messages at the root."""
    found = Conversation(ctx)
    found.add(messages, f"{row.place}/messages")
    if len(value) == 1:
        return found.session(row.identity, ID, {})
    model = value.get("model")
    around = {k: v for k, v in value.items() if k != "messages"}
    if isinstance(model, str):
        del around["model"]
    native = {"envelope": around} if around else {}
    session = found.session(envelope.identity_of(value, row), ID, native)
    session.model = rows.text_of(model)
    session.title = envelope.title_of(value)
    return session


def _document(row: Row, value: dict[str, Any], ctx: Context) -> Iterator[Session]:
    """Read a response, a pair, a preference row, or messages further down."""
    paths = envelope.find(value, _is_request, _is_response)
    request, response = envelope.at(value, paths.request), envelope.at(value, paths.response)
    column = _column(request)
    prefix: list[Any] = request[column] if column else []
    base = envelope.pointer_to("", paths.request, column or "messages")
    native: dict[str, Any] = {}
    members = {column or "messages", "model"}
    if _is_preference(request) and not column:
        prefix, base = request["input"]["messages"], "/input/messages"
        options = [request["preferred_output"], request.get("non_preferred_output")]
        alternatives = [option for option in options if isinstance(option, list)]
        holders = ["/preferred_output", "/non_preferred_output"]
        members = {"model"}
    else:
        choices = response.get("choices", [])
        top = envelope.pointer_to("", paths.response, "choices")
        alternatives = [
            [choice.get("message") if isinstance(choice, dict) else choice] for choice in choices
        ]
        holders = [f"{top}/{number}" for number in range(len(choices))]
        if choices and isinstance(choices[0], dict):
            native["choice"] = {k: v for k, v in choices[0].items() if k != "message"}
    native["envelope"] = envelope.stripped(
        value,
        (paths.request, frozenset(members)),
        (paths.response, frozenset({"choices", "usage", "model", "created"})),
    )
    if column is not None and column != "messages":
        native["column"] = column
    for name, path in (("request", paths.request), ("response", paths.response)):
        if path is not None:
            native[name] = list(path)
    model = rows.text_of(response.get("model")) or rows.text_of(request.get("model"))
    identity = envelope.identity_of(value, row)
    ledger = ctx.ledger
    count = len(prefix) + sum(len(option) for option in alternatives)
    ledger.seen(count)
    if branches.left_out(ctx, row.place, count, len(alternatives)):
        return
    chosen = branches.chosen(ctx.options, len(alternatives))
    others = []
    for number, option in enumerate(alternatives):
        if number not in chosen:
            others.append({"id": branches.branch_id(identity, number), "messages": option})
            for index in range(len(option)):
                ledger.aside("branch-collapsed", f"{row.place}{holders[number]}/{index}")
    for number in chosen:
        first = number == chosen[0]
        found = Conversation(ctx if first else replace(ctx, ledger=Ledger()))
        found.add(prefix, f"{row.place}{base}")
        option = alternatives[number] if alternatives else []
        found.add(option, f"{row.place}{holders[number]}" if holders else "")
        if not first:
            ledger.mapped(len(option))
        session = found.session(branches.branch_id(identity, number), ID, native)
        session.model = rows.text_of(request.get("model")) or model
        session.title = envelope.title_of(value)
        if first and others:
            session.extra = {**(session.extra or {}), "branches": others}
        if response:
            _finish_response(session, response, ctx, f"{row.place}")
        yield session


def _finish_response(session: Session, response: dict[str, Any], ctx: Context, place: str) -> None:
    """Put usage, model and time of a response on its step."""
    time = ctx.ms(response.get("created"), f"{place}/created")
    session.meta.created_at = time
    step = envelope.answer_of(session)
    if step is None:
        return
    step.model = step.model or rows.text_of(response.get("model"))
    step.time = step.time if step.time is not None else time
    envelope.put_usage(step, response.get("usage"), chat, ctx.ledger, f"{place}/usage")
