"""Turns as contents of the Gemini API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.formats.gemini_contents.read import ID
from converters.ir import ToolCallBlock, prompt_of
from converters.shapes import envelope, gemini, rows
from converters.shapes.account import Account
from converters.shapes.talk import system_places
from converters.text import iso_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Session, Step, Turn
    from converters.types import Context, Sink

__all__ = ["write"]

_MAX_DATE = 253_402_300_799_999


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write one document, or an array of them."""
    rows.write_rows(sink, (_written(session, ctx) for session in sessions), lines=False)


def _written(session: Session, ctx: Context) -> dict[str, Any]:
    account = Account(ctx.ledger, session, own=session.provider == ID)
    native = account.native(session.extra)
    paths = envelope.paths_of(native)
    last = envelope.answer_of(session)
    answer = last if paths.response is not None and last and not last.tool_results else None
    contents: list[dict[str, Any]] = []
    system: list[str] = []
    inner: list[tuple[tuple[int, int], dict[str, Any]]] = []
    for text, note in system_places(session, native):
        turn, step, message = note.get("turn"), note.get("step"), note.get("message")
        if isinstance(message, dict):
            inner.append(
                ((turn if type(turn) is int else 0, step if type(step) is int else 0), message)
            )
        else:
            system.append(text)
    for number, turn in enumerate(session.turns):
        account.turn, account.step = number, None
        before = len(session.turns[number - 1].steps) if number else 0
        while inner and inner[0][0] <= (number, before):
            contents.append(inner.pop(0)[1])
        summary = account.compaction(turn)
        if summary is not None:
            system.append(summary)
        _prompt(turn, account, contents, first=number == 0)
        for index, step in enumerate(turn.steps):
            account.step = index
            while inner and inner[0][0] <= (number + 1, index):
                contents.append(inner.pop(0)[1])
            _step(step, account, contents, answered=step is answer)
    contents += [message for _, message in inner]
    document = _document(session, native, contents, system, answer)
    created = session.meta.created_at
    account.fields(
        session,
        title=document.get("title") == session.title,
        model=True,
        time=answer is not None and created is not None and created == answer.time,
    )
    account.members(session.extra, "system")
    account.close()
    return document


def _document(
    session: Session,
    native: dict[str, Any],
    contents: list[dict[str, Any]],
    system: list[str],
    answer: Step | None,
) -> dict[str, Any]:
    around = envelope.around_of(native)
    paths = envelope.paths_of(native)
    if answer is not None and paths.response is not None:
        candidate = native.get("candidate")
        candidate = candidate if isinstance(candidate, dict) else {}
        members: dict[str, Any] = {"candidates": [{"content": contents.pop(), **candidate}]}
        if answer.usage is not None:
            raw = answer.extra.get("usage") if answer.extra else None
            members["usageMetadata"] = raw or gemini.usage_object(answer.usage)
        if _is_date(answer.time):
            members["createTime"] = iso_ms(answer.time or 0)
        around = envelope.fill(around, paths.response, members)
        if paths.request is None and not contents and not system:
            if session.model is not None and "modelVersion" not in around:
                around["modelVersion"] = session.model
            return around
    request: dict[str, Any] = {}
    if session.model is not None:
        request["model"] = session.model
    if system:
        request["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    request["contents"] = contents
    return envelope.fill(around, paths.request or (), request)


def _is_date(time: int | None) -> bool:
    return time is not None and 0 <= time <= _MAX_DATE


def _prompt(turn: Turn, account: Account, out: list[dict[str, Any]], *, first: bool) -> None:
    blocks = prompt_of(turn)
    account.time(turn.time)
    account.turn_state(turn)
    if not blocks:
        account.no_prompt(turn, first=first)
        account.all_lost(turn.extra)
        return
    account.kept("prompt")
    parts = [part for block in blocks if (part := gemini.part_of(block, account)) is not None]
    out.append({"role": "user", "parts": parts, **account.native(turn.extra)})
    account.members(turn.extra)


def _step(step: Step, account: Account, out: list[dict[str, Any]], *, answered: bool) -> None:
    native = account.native(step.extra)
    parts: list[dict[str, Any]] = []
    opaque = step.extra.get("opaque") if step.extra else None
    calls = {call.id: call for call in step.tool_calls}
    for block in step.content:
        if isinstance(block, ToolCallBlock):
            account.members(block.extra)
            if block.id in calls:
                parts.append(gemini.function_call(calls.pop(block.id), account))
        else:
            part = gemini.part_of(block, account)
            if part is not None:
                parts.append(part)
    parts += [gemini.function_call(call, account) for call in calls.values()]
    if isinstance(opaque, list):
        parts += [part for part in opaque if isinstance(part, dict)]
    if answered and _is_date(step.time):
        account.kept("time")
    else:
        account.time(step.time)
    if answered and step.model is not None:
        account.kept("model")
    else:
        account.model(step.model)
    if answered and step.usage is not None:
        account.kept("usage")
        account.members(step.usage.extra)
    else:
        account.usage(step.usage)
    if parts or answered:
        out.append({"role": "model", "parts": parts, **native})
        written = ("opaque" if isinstance(opaque, list) else "", "usage" if answered else "")
        account.members(step.extra, *written)
    else:
        account.all_lost(step.extra)
        if not step.tool_results:
            account.note("empty-message", "model")
    _results(step, account, out)


def _results(step: Step, account: Account, out: list[dict[str, Any]]) -> None:
    """Write the results of a step as one content; those of run code beside their code."""
    names = {call.id: call for call in step.tool_calls}
    parts: list[dict[str, Any]] = []
    for result in step.tool_results:
        made = gemini.function_response(result, names.get(result.tool_call_id), account)
        if "codeExecutionResult" in made and out and out[-1]["role"] == "model":
            out[-1]["parts"].append(made)
        else:
            parts.append(made)
    if parts:
        out.append({"role": "user", "parts": parts})
