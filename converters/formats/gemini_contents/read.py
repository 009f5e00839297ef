"""Reads contents of the Gemini API into turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.ledger import Ledger
from converters.shapes import branches, envelope, gemini, rows
from converters.shapes.layout import layout_of
from converters.shapes.openai_chat import rest
from converters.shapes.talk import Talk
from converters.types import Context, Head, Input, Match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Block, Session
    from converters.ledger import Place
    from converters.shapes.rows import Row

__all__ = ["ID", "probe", "read"]

ID: Final = "gemini-contents"
_REQUEST: Final = frozenset({"contents", "systemInstruction", "system_instruction", "model"})
_RESPONSE: Final = frozenset({"candidates", "usageMetadata", "usage_metadata", "createTime"})
_KNOWN: Final = frozenset({"role", "parts"})


def _is_message(value: Any) -> bool:
    """Whether a value is a content: parts without a ``type``, each of a known kind."""
    if not isinstance(value, dict) or not isinstance(value.get("parts"), list):
        return False
    if value.get("role", "user") not in ("user", "model", "function", "system"):
        return False
    parts = [part for part in value["parts"][:20] if isinstance(part, dict)]
    return not parts or any(
        "type" not in part and any(gemini.member(part, name) is not None for name in gemini.KINDS)
        for part in parts
    )


def _is_request(value: dict[str, Any]) -> bool:
    contents = value.get("contents")
    if isinstance(contents, dict):
        contents = [contents]
    return isinstance(contents, list) and (
        not contents or any(_is_message(item) for item in contents[:20])
    )


def _is_response(value: dict[str, Any]) -> bool:
    found = value.get("candidates")
    return isinstance(found, list) and any(
        isinstance(item, dict) and isinstance(item.get("content"), dict) for item in found[:20]
    )


def _is_document(value: dict[str, Any]) -> bool:
    return envelope.find(value, _is_request, _is_response) != (None, None)


_SHAPE: Final = rows.Shape(_is_document, _is_message)


def probe(head: Head) -> Match | None:
    """Recognise ``contents`` or ``candidates`` with untyped parts."""
    return rows.best_match(head, _judge)


def _judge(value: Any) -> Match | None:
    if isinstance(value, list):
        items = [item for item in value[:20] if _is_message(item)]
        return _judge_contents(items, 70)
    if "chunkedPrompt" in value or "sessionId" in value or "uuid" in value:
        return None
    if _is_message(value):
        return _judge_contents([value], 70)
    paths = envelope.find(value, _is_request, _is_response)
    if paths.response is not None:
        return Match(92, "candidates with content")
    if paths.request is None:
        return None
    contents = envelope.at(value, paths.request).get("contents")
    items = contents if isinstance(contents, list) else [contents]
    return _judge_contents([item for item in items[:20] if _is_message(item)], 90)


def _judge_contents(items: list[dict[str, Any]], score: int) -> Match | None:
    if not items or any("id" in item or "uuid" in item for item in items):
        return None
    if any(item.get("role") == "model" for item in items):
        return Match(score, "contents of user and model with parts")
    return Match(min(score, 80) - 5, "contents with parts")


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of each conversation."""
    for row in rows.rows(source, ctx.ledger, _SHAPE):
        yield from rows.sessions_of(row, _conversation(row, ctx), ctx.ledger)


def _conversation(row: Row, ctx: Context) -> Iterator[Session]:
    value = row.value
    if isinstance(value, dict):
        yield from _document(row, value, ctx)
        return
    if not row.counted:
        ctx.ledger.seen(len(value))
    if branches.left_out(ctx, row.place, len(value)):
        return
    talk = _Reader(ctx.ledger, value)
    talk.add(value, row.place, row.places)
    yield talk.session(row.identity, ID, {})


def _document(row: Row, value: dict[str, Any], ctx: Context) -> Iterator[Session]:
    paths = envelope.find(value, _is_request, _is_response)
    request, response = envelope.at(value, paths.request), envelope.at(value, paths.response)
    contents = request.get("contents", [])
    contents = contents if isinstance(contents, list) else [contents]
    candidates = response.get("candidates", [])
    native = envelope.around(value, paths, _REQUEST, _RESPONSE)
    if candidates and isinstance(candidates[0], dict):
        native["candidate"] = {k: v for k, v in candidates[0].items() if k != "content"}
    identity = rows.text_of(response.get("responseId")) or envelope.identity_of(value, row)
    ctx.ledger.seen(len(contents) + len(candidates))
    base = envelope.pointer_to(row.place, paths.request, "contents")
    top = envelope.pointer_to(row.place, paths.response, "candidates")
    answers = [item.get("content") if isinstance(item, dict) else item for item in candidates]
    if branches.left_out(ctx, row.place, len(contents) + len(answers), len(answers)):
        return
    chosen = branches.chosen(ctx.options, len(answers))
    others = []
    for number, answer in enumerate(answers):
        if number not in chosen:
            others.append({"id": branches.branch_id(identity, number), "contents": [answer]})
            ctx.ledger.aside("branch-collapsed", f"{top}/{number}")
    for place, number in enumerate(chosen):
        ledger = ctx.ledger if place == 0 else Ledger()
        talk = _Reader(ledger, [*contents, *answers[number : number + 1]])
        instruction = f"{row.place}/systemInstruction"
        talk.add_prompts(_system(request, ledger, instruction), instruction)
        talk.add(contents, base)
        if answers:
            answer = answers[number]
            if isinstance(answer, dict) and "role" not in answer:
                answer = {**answer, "role": "model"}
            talk.add([answer], "", [f"{top}/{number}/content"])
            if place:
                ctx.ledger.mapped()
        session = talk.session(branches.branch_id(identity, number), ID, native)
        _fields(session, request, response, ctx, row)
        session.title = envelope.title_of(value)
        if others and place == 0:
            session.extra = {**(session.extra or {}), "branches": others}
        yield session


def _fields(
    session: Session, request: dict[str, Any], response: dict[str, Any], ctx: Context, row: Row
) -> None:
    """Put model, time and usage of the envelope where they belong."""
    version = rows.text_of(gemini.member(response, "modelVersion"))
    session.model = rows.text_of(request.get("model")) or version
    time = ctx.ms(gemini.member(response, "createTime"), f"{row.place}/createTime")
    session.meta.created_at = time
    step = envelope.answer_of(session)
    if step is None or not response:
        return
    step.time, step.model = time, version
    raw = gemini.member(response, "usageMetadata")
    envelope.put_usage(step, raw, gemini, ctx.ledger, f"{row.place}/usageMetadata")


def _system(request: dict[str, Any], ledger: Ledger, place: str) -> list[Block]:
    value = gemini.member(request, "systemInstruction")
    parts = value.get("parts") if isinstance(value, dict) else value
    return gemini.blocks(parts, ledger, place)


class _Reader(Talk):
    """Reads contents; every content gets its fate here."""

    __slots__ = ()

    def __init__(self, ledger: Ledger, messages: list[Any]) -> None:
        super().__init__(ledger, lambda: _call_ids(messages))

    def add(self, messages: list[Any], base: Place, places: list[int | str] | None = None) -> None:
        """Read contents; ``places`` are theirs, else they are elements of ``base``."""
        for message, place in self.placed(messages, base, places):
            role = message.get("role", "user")
            if role in ("user", "function"):
                self._user(message, place)
            elif role in ("model", "assistant"):
                self._model(message, place)
            elif role == "system":
                found = gemini.blocks(message.get("parts"), self.ledger, place)
                self.system_message(found, message, place)
            elif isinstance(role, str):
                self.ledger.skipped("role-unknown", place, kind=role[:40])
            else:
                self.ledger.skipped("malformed-record", place, kind="role")

    def _user(self, message: dict[str, Any], place: Place) -> None:
        found = gemini.parts(message.get("parts"), self.ledger, place)
        attached, rules = self.attach(found.results, place)
        if found.blocks:
            self.name_calls(found.blocks, place)
            native = rest(message, _KNOWN)
            self.builder.prompt(found.blocks, extra={"native": native} if native else None)
        self.fate(rules, place, kept=bool(found.blocks or attached), kind="user")

    def _model(self, message: dict[str, Any], place: Place) -> None:
        found = gemini.parts(message.get("parts"), self.ledger, place)
        native = rest(message, _KNOWN)
        extra: dict[str, Any] = {"native": native} if native else {}
        if found.opaque:
            extra["opaque"] = found.opaque
        step = None
        if found.blocks or found.opaque:
            self.name_calls(found.blocks, place)
            step = self.builder.step(found.blocks, extra=extra or None)
        attached, rules = self.attach(found.results, place)
        if step is not None and (layout := layout_of(found, step, last=True)):
            step.extra = {**(step.extra or {}), "layout": layout}
        kept = bool(found.blocks or found.opaque or attached)
        self.fate(rules, place, kept=kept, kind="model")


def _call_ids(messages: list[Any]) -> Iterator[str]:
    """Give the ids of all calls of the contents."""
    for message in messages:
        parts = message.get("parts") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else ():
            call = gemini.member(part, "functionCall") if isinstance(part, dict) else None
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                yield call["id"]
