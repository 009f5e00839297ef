"""Sessions into Interchange v1 documents, one per line, turn by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from converters import jsonio
from converters.ledger import count_items

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Session
    from converters.types import Context, Sink

__all__ = ["write"]

_BATCH = 1 << 20


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write each session as one document; everything of the IR has a place in it."""
    for session in sessions:
        if ctx.ledger.itemize:
            counts = count_items(session)
            ctx.ledger.total(counts)
            ctx.ledger.keep_all(counts)
        _write(session, sink)


def _write(session: Session, sink: Sink) -> None:
    """Write in pieces of about a MiB, so that a large session is never there twice."""
    encode = msgspec.json.Encoder().encode
    extra = session.extra
    members = (extra or {}).get("members")
    shell = msgspec.structs.replace(session, turns=[], extra=None)
    head = _in_place(encode(shell))
    batch = [head[:-2]]
    size = 0
    for turn in session.turns:
        piece = _in_place(encode(turn))
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
        batch.append(b"," + jsonio.dumps(tail)[1:-1])
    batch.append(b"}\n")
    sink.write(b"".join(batch))


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
