"""Turns as contents of the Gemini API."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from converters.formats.gemini_contents.read import ID
from converters.ir import ToolCall
from converters.shapes import envelope, gemini, rows
from converters.shapes.account import Account
from converters.shapes.answers import settled
from converters.shapes.layout import woven
from converters.shapes.walk import Walk, numbered, system_parts
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
    session = settled(session, account, lambda call: _is_asked(call, account))
    native = account.native(session.extra)
    paths = envelope.paths_of(native)
    last = envelope.answer_of(session)
    answer = last if paths.response is not None and last and not last.tool_results else None
    contents: list[dict[str, Any]] = []
    system, standing = system_parts(session, native)
    walk = Walk(session, account, standing, contents)
    for turn in walk.turns():
        summary = account.compaction(turn)
        if summary is not None:
            system.append(summary)
        _prompt(turn, account, contents)
        for step in walk.steps(turn):
            _step(step, account, contents, answered=step is answer)
    document = _document(session, native, contents, system, answer)
    shown = answer is not None and answer.time == session.meta.created_at
    account.finish(session, document, time=shown)
    return document


def _is_asked(call: ToolCall, account: Account) -> bool:
    """Whether the one who asks runs the tool: code is run by the API."""
    return account.native(call.extra).get("kind") != "executableCode"


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


def _prompt(turn: Turn, account: Account, out: list[dict[str, Any]]) -> None:
    blocks = account.prompt(turn)
    if not blocks:
        return
    parts = [part for block in blocks if (part := gemini.part_of(block, account)) is not None]
    out.append({"role": "user", "parts": parts, **account.native(turn.extra)})
    account.members(turn.extra)


def _step(step: Step, account: Account, out: list[dict[str, Any]], *, answered: bool) -> None:
    native = account.native(step.extra)
    made: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for number, item in numbered(step, account):
        if isinstance(item, ToolCall):
            made[number].append(gemini.function_call(item, account))
        elif (part := gemini.part_of(item, account)) is not None:
            made[number].append(part)
    answers = _results(step, account)
    opaque = step.extra.get("opaque") if step.extra else None
    mine = [(name, part) for name, part in answers if "codeExecutionResult" in part]
    parts = woven(step, made, mine, opaque, account, last=True)
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
        account.members(step.extra, *written, "layout" if account.own else "")
    else:
        account.all_lost(step.extra)
        if not step.tool_results:
            account.note("empty-message", "model")
    # Results of run code stand beside their code, the others are one content.
    others = [part for _, part in answers if "codeExecutionResult" not in part]
    if others:
        out.append({"role": "user", "parts": others})


def _results(step: Step, account: Account) -> list[tuple[str, dict[str, Any]]]:
    """Give the parts of the results of a step, each with the id of its call."""
    calls = {call.id: call for call in step.tool_calls}
    return [
        (made.tool_call_id, gemini.function_response(made, calls.get(made.tool_call_id), account))
        for made in step.tool_results
    ]
