"""Turns as messages of the Anthropic API."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from converters.formats.anthropic_messages.read import ID
from converters.ir import Reasoning, ToolCall
from converters.shapes import anthropic, envelope, rows
from converters.shapes.account import Account
from converters.shapes.answers import settled
from converters.shapes.layout import woven
from converters.shapes.walk import Walk, numbered, system_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Session, Step, Turn
    from converters.types import Context, Sink

__all__ = ["write"]


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write one document, or an array of them."""
    rows.write_rows(sink, (_written(session, ctx) for session in sessions), lines=False)


def _written(session: Session, ctx: Context) -> dict[str, Any]:
    account = Account(ctx.ledger, session, own=session.provider == ID)
    session = settled(session, account, lambda call: _is_asked(call, account))
    native = account.native(session.extra)
    messages: list[dict[str, Any]] = []
    summaries: list[str] = []
    leading, standing = system_parts(session, native)
    walk = Walk(session, account, standing, messages)
    for turn in walk.turns():
        summary = account.compaction(turn)
        if summary is not None:
            summaries.append(summary)
        _prompt(turn, account, messages)
        for step in walk.steps(turn):
            _step(step, account, messages)
    document = _document(session, native, messages, _system(native, leading, summaries))
    account.finish(session, document)
    return document


def _is_asked(call: ToolCall, account: Account) -> bool:
    """Whether the one who asks runs the tool: the API answers its own in the same message."""
    return account.native(call.extra).get("type") in (None, "tool_use")


def _system(native: dict[str, Any], leading: list[str], summaries: list[str]) -> Any:
    """Give the value of ``system``: the source's own blocks, one text, or text blocks."""
    own = native.get("systemBlocks")
    if isinstance(own, list) and not summaries:
        return own
    texts = leading + summaries
    if len(texts) < 2:
        return texts[0] if texts else None
    return [{"type": "text", "text": text} for text in texts]


def _document(
    session: Session, native: dict[str, Any], messages: list[dict[str, Any]], system: Any
) -> dict[str, Any]:
    around = envelope.around_of(native)
    paths = envelope.paths_of(native)
    members: dict[str, Any] = {}
    if session.model is not None:
        members["model"] = session.model
    if system is not None:
        members["system"] = system
    if paths.response and messages and messages[-1].get("role") == "assistant":
        around = envelope.fill(around, paths.response, messages.pop())
    members["messages"] = messages
    return envelope.fill(around, paths.request or (), members)


def _prompt(turn: Turn, account: Account, out: list[dict[str, Any]]) -> None:
    blocks = account.prompt(turn)
    if not blocks:
        return
    parts = [part for block in blocks if (part := anthropic.part_of(block, account)) is not None]
    message: dict[str, Any] = {"role": "user", "content": parts}
    if account.own and turn.extra and "id" in turn.extra:
        message["id"] = turn.extra["id"]
    message |= account.native(turn.extra)
    account.members(turn.extra, "id" if account.own else "")
    out.append(message)


def _step(step: Step, account: Account, out: list[dict[str, Any]]) -> None:
    native = account.native(step.extra)
    results = [anthropic.tool_result(result, account) for result in step.tool_results]
    parts = _parts(step, results, account)
    account.time(step.time)
    if step.model is not None and native.get("model") == step.model:
        account.kept("model")
    else:
        account.model(step.model)
    if step.usage is not None and "usage" in native:
        if anthropic.usage(native["usage"]) != step.usage:
            native = {**native, "usage": anthropic.usage_object(step.usage)}
        account.kept("usage")
        account.members(step.usage.extra)
    else:
        account.usage(step.usage)
    if parts or native:
        message: dict[str, Any] = {"role": "assistant", "content": parts}
        if account.own and step.extra and "id" in step.extra:
            message["id"] = step.extra["id"]
        out.append(message | native)
        redacted = isinstance((step.extra or {}).get("redacted"), list)
        own = ("id", "layout") if account.own else ()
        account.members(step.extra, "redacted" if redacted else "", *own)
    else:
        account.all_lost(step.extra)
        if not step.tool_results:
            account.note("empty-message", "assistant")
    results = [block for block in results if block["type"] == "tool_result"]
    if results:
        out.append({"role": "user", "content": results})


def _parts(step: Step, results: list[dict[str, Any]], account: Account) -> list[dict[str, Any]]:
    """Give the content of a step; results of server tools stand in the message itself."""
    redacted = step.extra.get("redacted") if step.extra else None
    mine = [(block["tool_use_id"], block) for block in results if block["type"] != "tool_result"]
    made: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for number, item in numbered(step, account):
        if isinstance(item, ToolCall):
            made[number].append(anthropic.tool_use(item, account))
        elif isinstance(item, Reasoning):
            made[number].append(anthropic.thinking(item, account))
        elif (part := anthropic.part_of(item, account)) is not None:
            made[number].append(part)
    return woven(step, made, mine, redacted, account, last=False)
