"""Sessions into Interchange v1 documents, one per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio
from converters.ir import Image, Reasoning, Text, ToolCallBlock
from converters.ledger import count_items

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Block, Extra, Session, Turn
    from converters.types import Context, Sink

__all__ = ["write"]

_BATCH: Final = 1 << 20
_encode = msgspec.json.Encoder().encode


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
        weight = _weight(turn)
        size += weight
        if weight < 0 or size > _BATCH:
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
    extra = session.extra
    members = (extra or {}).get("members")
    shell = msgspec.structs.replace(session, turns=[], extra=None)
    head = _in_place(_encode(shell))
    batch = [head[:-2]]
    size = 0
    for turn in session.turns:
        piece = _encode(turn)
        if _weight(turn) < 0:
            piece = _in_place(piece)
        batch.append(piece)
        batch.append(b",")
        size += len(piece)
        if size > _BATCH:
            last = batch.pop()
            sink.write(b"".join(batch))
            batch = [last]
            size = 0
    if session.turns:
        batch.pop()
    batch.append(b"]")
    own = {name: value for name, value in (extra or {}).items() if name != "members"}
    tail: dict[str, Any] = {**(members if isinstance(members, dict) else {})}
    if own:
        tail["x-dcb"] = own
    if tail:
        batch.append(b"," + _plain(tail)[1:-1])
    batch.append(b"}\n")
    sink.write(b"".join(batch))


def _plain(value: dict[str, Any]) -> bytes:
    """Write an object as the encoder of sessions does; what it refuses goes the slower way."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return jsonio.dumps(value)


def _weight(turn: Turn) -> int:
    """Give about the length of a turn's texts; -1 when ``x-dcb`` keeps members somewhere in it."""
    size = len(turn.prompt)
    extras: list[Extra] = []
    lists: list[list[Block]] = []
    if turn.extra is not None:
        extras.append(turn.extra)
    if turn.prompt_blocks is not None:
        lists.append(turn.prompt_blocks)
    if turn.compaction is not None and turn.compaction.extra is not None:
        extras.append(turn.compaction.extra)
    for step in turn.steps:
        lists.append(step.content)
        if step.extra is not None:
            extras.append(step.extra)
        if step.usage is not None and step.usage.extra is not None:
            extras.append(step.usage.extra)
        for call in step.tool_calls:
            size += len(call.arguments)
            if call.extra is not None:
                extras.append(call.extra)
        for result in step.tool_results:
            lists.append(result.content)
            if result.extra is not None:
                extras.append(result.extra)
    for blocks in lists:
        for block in blocks:
            if block.extra is not None:
                extras.append(block.extra)
            if type(block) is Text or type(block) is Reasoning:
                size += len(block.text)
            elif type(block) is ToolCallBlock:
                size += len(block.arguments)
            elif type(block) is Image:
                size += len(block.data or "")
    return -1 if extras and any("members" in extra for extra in extras) else size


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
