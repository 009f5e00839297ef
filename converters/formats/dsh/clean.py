"""Makes the events of a DSH log fit to be taken in again: renumbered, references following.

Source: Interchange v1, section 9.5 (reading a log back).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.formats.dsh.read import CHUNK_ROWS
from converters.formats.dsh.shapes import expand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.formats.dsh.events import Event

__all__ = ["CONVERSATION", "clean", "is_next"]

CONVERSATION: Final = frozenset(
    {
        "turn/start", "turn/end", "step/start", "step/end", "user/message", "assistant/message",
        "tool/call", "tool/result", "session/title", "compaction/start", "compaction/summary",
        "compaction/end",
    }
)  # fmt: skip
"""The event types that the reference takes back in."""

_SURFACE: Final = frozenset(
    {"system/message", "developer/message", "user/message", "assistant/message", "tool/result"}
)
_ENDS: Final = (("start", "end"), ("startSeq", "endSeq"))


def is_next(event: Event, number: int) -> bool:
    """Whether an event is fit to be the ``number``-th of a log that hosts take as it is."""
    return (
        event.get("seq") == number
        and "ignorable" not in event
        and event.get("type") != "session/imported"
    )


def clean(
    events: Iterable[Event], kept: frozenset[str] | None = CONVERSATION
) -> tuple[list[Event], int]:
    """Give ``(events, results dropped)``: new events, ``seq`` from 0 without gaps.

    ``kept`` are the event types that stay; ``None`` keeps all but the retired
    ``session/imported`` and chunk rows. Events without a numeric ``seq`` go.
    References to dropped events vanish; a replacement whose ends vanish is an ``append``.
    """
    found: list[Event] = []
    dropped = 0
    numbers: dict[Any, int] = {}
    for event in events:
        kind, seq = event.get("type"), event.get("seq")
        if not isinstance(kind, str) or isinstance(seq, bool) or not isinstance(seq, int | float):
            continue
        if (
            kind in CHUNK_ROWS
            or kind == "session/imported"
            or (kept is not None and kind not in kept)
        ):
            continue
        event = {name: value for name, value in event.items() if name != "ignorable"}
        if kind == "tool/result":
            data = _with_call_id(event.get("data"))
            if data is None:
                dropped += 1
                continue
            event["data"] = data
        numbers[seq] = len(found)
        event["seq"] = len(found)
        found.append(event)
    for event in found:
        _refer(event, numbers)
    return found, dropped


def _with_call_id(data: Any) -> dict[str, Any] | None:
    """Give the data of a result with its call id in place; ``None`` when it has none."""
    message = data.get("message") if isinstance(data, dict) else None
    if not isinstance(message, dict):
        return None
    content, source = message.get("content"), message.get("source")
    first = content[0] if isinstance(content, list) and content else None
    wrapper = first if isinstance(first, dict) and first.get("type") == "tool-result" else None
    names = [holder.get("toolCallId") for holder in (wrapper, message) if holder is not None]
    names += [source.get("callId")] if isinstance(source, dict) else []
    identity = next((name for name in names if isinstance(name, str) and name), None)
    if identity is None:
        return None
    if wrapper is not None and wrapper.get("toolCallId") != identity:
        wrapped = {**wrapper, "toolCallId": identity}
        message = {**message, "content": [wrapped, *message["content"][1:]]}
    return {**data, "message": message}


def _refer(event: Event, numbers: dict[Any, int]) -> None:
    kind = event["type"]
    data = event.get("data")
    if kind == "assistant/message" and isinstance(data, dict) and "stream" not in data:
        event["data"] = {**data, "stream": []}
    elif kind == "compaction/summary" and isinstance(data, dict):
        event["data"] = _refer_summary(data, numbers)
    if "sourceEventSeqs" in event:
        seqs = _mapped(event["sourceEventSeqs"], numbers)
        if seqs:
            event["sourceEventSeqs"] = seqs
        else:
            del event["sourceEventSeqs"]
    if kind in _SURFACE:
        event["surfaceOp"] = _refer_op(event.get("surfaceOp"), numbers)


def _mapped(seqs: Any, numbers: dict[Any, int]) -> list[int]:
    old = expand(seqs) if isinstance(seqs, list) else []
    return list(dict.fromkeys(numbers[seq] for seq in old if seq in numbers))


def _refer_summary(data: dict[str, Any], numbers: dict[Any, int]) -> dict[str, Any]:
    data = dict(data)
    if "shadowedSeqs" in data:
        data["shadowedSeqs"] = _mapped(data["shadowedSeqs"], numbers)
    bounds = data.get("shadowedRange")
    if isinstance(bounds, dict):
        data["shadowedRange"] = {
            name: numbers[seq] if isinstance(seq, int) and seq in numbers else seq
            for name, seq in bounds.items()
        }
    return data


def _refer_op(op: Any, numbers: dict[Any, int]) -> Any:
    if not isinstance(op, dict):
        return op if isinstance(op, str) else "append"
    for start, end in _ENDS:
        if start in op and end in op:
            ends = op[start], op[end]
            if not all(isinstance(seq, int) and seq in numbers for seq in ends):
                return "append"
            return {**op, start: numbers[ends[0]], end: numbers[ends[1]]}
    return "append"
