"""What header fields mean in each generation (specification, sections 1, 4 and 11).

G3 and later say ``source`` (``user``, ``agent``, ``system``) for the role, ``producer`` and
``event_seq`` for the old ``source`` and ``seq``; in G5 (``format: persisting``) the object
``storyline`` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.ir import Usage
from converters.text import parse_time

if TYPE_CHECKING:
    from datetime import tzinfo

    from converters.formats.persisting_tlv.frame import Block
    from converters.ledger import Ledger

__all__ = [
    "ROLES",
    "TYPES",
    "Requests",
    "as_1_0",
    "is_newer_header",
    "kind_of",
    "model_of",
    "own_role",
    "role_of",
    "storyline_of",
    "text_of",
    "time_of",
    "usage_of",
]

ROLES: Final = frozenset({"user", "assistant", "tool", "system", "note"})
TYPES: Final = frozenset({"markdown", "text", "json"})
_SOURCES: Final = {"user": "user", "agent": "assistant", "system": "note"}
_SPEAKERS: Final = {"agent": "assistant"}
_MAX_SAFE: Final = (1 << 53) - 1


def text_of(fields: dict[str, Any], name: str) -> str | None:
    """Give a field that is text and not empty."""
    value = fields.get(name)
    return value if isinstance(value, str) and value else None


def storyline_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Give the ``storyline`` object of a header, empty without one."""
    value = fields.get("storyline")
    return value if isinstance(value, dict) else {}


def is_newer_header(fields: dict[str, Any]) -> bool:
    """Whether a header has the field names of G3 and later instead of a ``role``."""
    return "role" not in fields and not fields.keys().isdisjoint(
        ("step_id", "event_seq", "producer", "storyline", "message_encoding")
    )


def own_role(fields: dict[str, Any], *, newer: bool) -> str | None:
    """Give the role that the header itself names, ``None`` when it leaves it to the speaker."""
    if newer:
        found = _SOURCES.get(str(storyline_of(fields).get("src")))
        if found is not None:
            return found
    role = text_of(fields, "role")
    if role is not None:
        return _SPEAKERS.get(role, role)
    return _SOURCES.get(str(fields.get("source")))


def role_of(block: Block, *, newer: bool) -> str:
    """Give the role of a block: by its header, else by the speaker, else ``note``.

    May be a word that is no role of the format.
    """
    found = own_role(block.fields, newer=newer)
    if found is not None:
        return found
    speaker = block.speaker or "note"
    if newer and speaker == "system":
        return "note"
    return _SPEAKERS.get(speaker, speaker)


def kind_of(fields: dict[str, Any], *, newer: bool) -> str:
    """Give the kind of the record, ``markdown`` where the header has none."""
    told = storyline_of(fields).get("kind") if newer else None
    return told if isinstance(told, str) and told else text_of(fields, "kind") or "markdown"


def model_of(fields: dict[str, Any], *, newer: bool) -> str | None:
    """Give the model that a header names."""
    told = storyline_of(fields).get("model") if newer else None
    return told if isinstance(told, str) and told else text_of(fields, "model")


def time_of(
    fields: dict[str, Any],
    ledger: Ledger | None = None,
    line: int | None = None,
    *,
    newer: bool,
    tz: tzinfo | None = None,
) -> int | None:
    """Give the time of a block in ms; what cannot be read is noted."""
    value = storyline_of(fields).get("ts") if newer else None
    if value is None:
        value = fields.get("timestamp")
    if value is None:
        return None
    found = parse_time(value, tz) if isinstance(value, str) else None
    if ledger is not None:
        if found is None:
            ledger.note("timestamp-invalid", line)
        elif found.assumed:
            ledger.note("tz-assumed", line)
    return found.ms if found else None


def usage_of(
    fields: dict[str, Any], ledger: Ledger | None = None, line: int | None = None
) -> Usage | None:
    """Give the tokens of a response.

    ``input_tokens`` and ``output_tokens`` come from the provider, ``prompt_tokens`` and
    ``completion_tokens`` are filled from them; a missing side is what ``total_tokens``
    leaves over. Counts that are none are noted.
    """
    names = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens")
    given = [fields.get(name) for name in names]
    if all(value is None for value in given):
        return None
    counts = [value if type(value) is int and 0 <= value <= _MAX_SAFE else None for value in given]
    tokens_in = counts[0] if counts[0] is not None else counts[2]
    tokens_out = counts[1] if counts[1] is not None else counts[3]
    total = counts[4]
    if total is not None:
        if tokens_in is None and tokens_out is not None and total >= tokens_out:
            tokens_in = total - tokens_out
        if tokens_out is None and tokens_in is not None and total >= tokens_in:
            tokens_out = total - tokens_in
    if (
        tokens_in is None
        or tokens_out is None
        or None in (count for count, value in zip(counts, given, strict=True) if value is not None)
    ):
        if ledger is not None:
            ledger.note("usage-invalid", line)
        if tokens_in is None or tokens_out is None:
            return None
    return Usage(tokens_in, tokens_out)


def as_1_0(fields: dict[str, Any], *, newer: bool) -> dict[str, Any]:
    """Give a header with the field names of 1.0.

    ``storyline`` and ``step_id`` stay, as the newest stand-alone writer has them beside 1.0
    fields; ``message_encoding`` becomes ``text`` because a 1.0 body is text.
    """
    if not is_newer_header(fields):
        return dict(fields)
    found = {key: value for key, value in fields.items() if key not in ("producer", "event_seq")}
    role = own_role(fields, newer=newer)
    if role is not None:
        found["role"] = role
    if role is not None or "producer" in fields:
        found["source"] = text_of(fields, "producer") or "markdown"
    if type(fields.get("event_seq")) is int:
        found["seq"] = fields["event_seq"]
    kind = kind_of(fields, newer=newer)
    if kind != "markdown":
        found["kind"] = kind
    if "message_encoding" in found:
        found["message_encoding"] = "text"
    told = storyline_of(fields)
    if newer and "timestamp" not in found and isinstance(told.get("ts"), str):
        found["timestamp"] = told["ts"]
    return found


class Requests:
    """The models that requests name, for the answers that name none.

    A request and its answer share a ``call_id``; a request without one belongs to the
    answers behind it.
    """

    __slots__ = ("_by_call", "_last")

    def __init__(self) -> None:
        self._by_call: dict[str, str] = {}
        self._last: str | None = None

    def saw(self, fields: dict[str, Any], *, newer: bool) -> None:
        """Remember a request."""
        model = model_of(fields, newer=newer)
        call = text_of(fields, "call_id")
        self._last = model if call is None else None
        if call is not None and model is not None:
            self._by_call[call] = model

    def model_of(self, fields: dict[str, Any], *, newer: bool) -> str | None:
        """Give the model of an answer."""
        call = text_of(fields, "call_id")
        asked = self._by_call.get(call) if call is not None else None
        return model_of(fields, newer=newer) or asked or self._last
