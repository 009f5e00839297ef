"""Sessions into Interchange v1 documents, one per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio
from converters.ir import Image, Reasoning, Text, ToolCallBlock
from converters.ledger import count_items

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Block, Session, Turn
    from converters.types import Context, Sink

__all__ = ["write"]

_BATCH: Final = 1 << 20
_ENCODER: Final = msgspec.json.Encoder()
_encode = _ENCODER.encode
_append = _ENCODER.encode_into


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write each session as one document; everything of the IR has a place in it."""
    for session in sessions:
        if ctx.ledger.itemize:
            counts = count_items(session)
            ctx.ledger.total(counts)
            ctx.ledger.keep_all(counts)
        if not _write_small(session, sink):
            _write(session, sink)


def _write_small(session: Session, sink: Sink) -> bool:
    """Write a session in one go; false when it is large or has members to put back in place."""
    extra = session.extra
    if session.meta.extra or (extra is not None and (not extra or "members" in extra)):
        return False
    size = 0
    for turn in session.turns:
        size += _weight(turn)
        if size > _BATCH or _has_members(turn):
            return False
    try:
        data = _encode(session)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return False  # Its x-dcb holds what only the slower encoder takes.
    sink.write(data)
    sink.write(b"\n")
    return True


def _write(session: Session, sink: Sink) -> None:
    """Write in pieces of about a MiB, so that a large session is never there twice."""
    extra = session.extra or {}
    shell = msgspec.structs.replace(session, turns=[], extra=None)
    batch = bytearray(_in_place(_encode(shell))[:-2])
    comma = b""
    for turn in session.turns:
        batch += comma
        comma = b","
        if _has_members(turn):
            batch += _in_place(_encode(turn))
        else:
            _append(turn, batch, -1)
        if len(batch) > _BATCH:
            sink.write(batch)
            batch = bytearray()
    batch += b"]"
    members = extra.get("members")
    tail: dict[str, Any] = {**(members if isinstance(members, dict) else {})}
    own = {name: value for name, value in extra.items() if name != "members"}
    if own:
        tail["x-dcb"] = own
    if tail:
        batch += b"," + _plain(tail)[1:-1]
    batch += b"}\n"
    sink.write(batch)


def _plain(value: dict[str, Any]) -> bytes:
    """Write an object as the encoder of sessions does; what it refuses goes the slower way."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return jsonio.dumps(value)


def _has_members(turn: Turn) -> bool:
    """Whether ``x-dcb`` keeps members somewhere in a turn."""
    holders: list[Any] = [turn, turn.compaction, *(turn.prompt_blocks or ())]
    for step in turn.steps:
        holders += (step, step.usage, *step.tool_calls, *step.content)
        for result in step.tool_results:
            holders += (result, *result.content)
    return any(
        holder is not None and holder.extra is not None and "members" in holder.extra
        for holder in holders
    )


def _weight(turn: Turn) -> int:
    """Give about the length of a turn's texts."""
    size = len(turn.prompt) + _length(turn.prompt_blocks or ())
    for step in turn.steps:
        size += _length(step.content)
        for call in step.tool_calls:
            size += len(call.arguments)
        for result in step.tool_results:
            size += _length(result.content)
    return size


def _length(blocks: Iterable[Block]) -> int:
    size = 0
    for block in blocks:
        if type(block) is Text or type(block) is Reasoning:
            size += len(block.text)
        elif type(block) is ToolCallBlock:
            size += len(block.arguments)
        elif type(block) is Image:
            size += len(block.data or "")
    return size


def _in_place(data: bytes) -> bytes:
    """Put the members that ``x-dcb`` keeps back where they stood; most pieces have none."""
    if b'"members":{' not in data:
        return data
    value = msgspec.json.decode(data)
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += item
        elif isinstance(item, dict):
            stack += [child for name, child in item.items() if name != "x-dcb"]
            extra = item.get("x-dcb")
            members = extra.get("members") if isinstance(extra, dict) else None
            if isinstance(extra, dict) and isinstance(members, dict):
                del extra["members"]
                if not extra:
                    del item["x-dcb"]
                item.update(members)
    # ``turns`` of the shell must stay last.
    if isinstance(value, dict) and value.get("turns") == []:
        value["turns"] = value.pop("turns")
    return jsonio.dumps(value)
