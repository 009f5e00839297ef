"""``ctx.json``, one per quest: read, build, and rebuild from raw messages.

Sections 5 and 7 of the specification.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from converters import jsonio
from converters.errors import BadInput
from converters.formats.biscuit.condense import Entry, join, split
from converters.formats.biscuit.sieve import content_of, floor_of, sieve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "Ctx",
    "Fact",
    "Rebuilt",
    "build_ctx",
    "ctx_of",
    "parse_ctx",
    "rebuild",
]

_FIELDS: Final = (
    "lastCompressedFloor",
    "compressLevel",
    "floorArchives",
    "totalFloors",
    "narrative",
    "facts",
    "treasures",
    "biscuitLines",
)
_COUNT: Final = re.compile(r"biscuit:(\d{1,15})(?: de:\d{1,15})?", re.ASCII)
COMPRESSED: Final = "═══ COMPRESSED FLOORS"


class Fact(msgspec.Struct, frozen=True):
    """A fact that a model extracted from old floors; ``extracted_at`` in epoch seconds."""

    text: str
    source: str | None = None
    extracted_at: int | None = None
    type: str | None = None


class Ctx(msgspec.Struct):
    """A ``ctx.json``: counters, the level, facts, and the floors of the biscuit in array order."""

    last_compressed_floor: int
    total_floors: int
    compress_level: str | None
    narrative_kind: str
    narrative_count: int | None
    narrative: str
    facts: list[Fact]
    lines: list[Entry]
    bad_lines: int
    raw: dict[str, Any]

    @property
    def line_floors(self) -> list[int]:
        """The floor numbers that the entries state."""
        return [entry.n for entry in self.lines]

    @property
    def unknown_fields(self) -> list[str]:
        """Members that no version read defines."""
        return [name for name in self.raw if name not in _FIELDS]

    @property
    def dump(self) -> str:
        """The dump: the texts in array order, one empty line between them."""
        return join(self.lines)


def parse_ctx(data: bytes) -> Ctx:
    """Read a ``ctx.json`` strictly. Raises :class:`BadInput` when it is damaged."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadInput("ctx.json is damaged", hint="rebuild it from the raw messages") from error
    return ctx_of(value)


def ctx_of(value: Any) -> Ctx:
    """Read the decoded object of a ``ctx.json``; :class:`BadInput` when it is none."""
    if not isinstance(value, dict) or not isinstance(value.get("biscuitLines", []), list):
        raise BadInput("not a ctx.json")
    lines: list[Entry] = []
    bad = 0
    for item in value.get("biscuitLines", []):
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str):
            lines.append(Entry(_int(item.get("n")), text))
        else:
            bad += 1
    level, narrative = value.get("compressLevel"), value.get("narrative")
    narrative = narrative if isinstance(narrative, str) else ""
    count = _COUNT.fullmatch(narrative)
    facts = value.get("facts")
    return Ctx(
        _int(value.get("lastCompressedFloor")),
        _int(value.get("totalFloors")),
        level if isinstance(level, str) and level else None,
        _narrative_kind(narrative),
        int(count[1]) if count else None,
        narrative,
        [fact for fact in map(_fact, facts if isinstance(facts, list) else ()) if fact],
        lines,
        bad,
        value,
    )


def _narrative_kind(narrative: str) -> str:
    if not narrative:
        return "empty"
    if _COUNT.fullmatch(narrative):
        return "count"
    return "full_text" if narrative.startswith(COMPRESSED) else "other"


def _fact(value: Any) -> Fact | None:
    """Read a fact in any of its three shapes (specification 7)."""
    if isinstance(value, str):
        return Fact(value)
    if not isinstance(value, dict):
        return None
    text = value.get("text", value.get("content"))
    if not isinstance(text, str):
        return None
    source, kind, at = value.get("source"), value.get("type"), value.get("extracted_at")
    return Fact(
        text,
        source if isinstance(source, str) else None,
        at if isinstance(at, int) and not isinstance(at, bool) else None,
        kind if isinstance(kind, str) else None,
    )


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def build_ctx(lines: Iterable[Entry], old: Mapping[str, Any] | None = None) -> bytes:
    """Write a ``ctx.json`` as the tool does: compact, floors in rising order.

    ``old`` gives the facts, level, counters and unknown members to keep;
    ``totalFloors`` and ``lastCompressedFloor`` never fall below the floors given.
    """
    entries = sorted(lines, key=lambda entry: entry.n)
    highest = max((entry.n for entry in entries), default=0)
    old = dict(old or {})
    value: dict[str, Any] = {
        "lastCompressedFloor": max(highest, _int(old.get("lastCompressedFloor"))),
        "compressLevel": old.get("compressLevel", ""),
        "floorArchives": old.get("floorArchives", []),
        "totalFloors": max(highest, _int(old.get("totalFloors"))),
        "narrative": f"biscuit:{len(entries)}",
        "facts": old.get("facts", []),
        "treasures": old.get("treasures", []),
        "biscuitLines": [{"n": entry.n, "text": entry.text} for entry in entries],
    }
    value |= {name: member for name, member in old.items() if name not in value}
    return jsonio.dumps(value)


class Rebuilt(NamedTuple):
    """The result of a rebuild: the dump and its floors, new facts, and what stays raw.

    ``fatal``: floors left out because an error in them was never overcome.
    """

    dump: str
    lines: list[Entry]
    facts: list[Fact]
    sieved: list[int]
    fatal: list[int]


def rebuild(
    messages: Iterable[Any],
    times: Mapping[int, str] | str | None = None,
    *,
    lines: Iterable[Entry] = (),
    root: str = "",
    now: int | None = None,
) -> Rebuilt:
    """Rebuild the backpack from a conversation, as after a missing or broken ``ctx.json``.

    ``lines`` are the floors of a readable ``ctx.json``; without them they come
    from the biscuit messages, the first entry of each number counts. Every floor
    of raw messages is sieved, the last one even with errors; older floors with an
    error that was not recovered are left out. ``times`` as for :func:`.sieve.sieve`
    (the tool gives all of them the time of the rebuild); ``now`` (epoch seconds)
    dates new facts. Rule: specification 5.
    """
    floors: dict[int, list[dict[str, Any]]] = {}
    biscuits: list[str] = []
    for message in messages:
        if not isinstance(message, dict) or message.get("_persistent"):
            continue
        if message.get("_dynamic") or is_biscuit(message):
            if is_biscuit(message):
                biscuits.append(content_of(message))
        elif floor_of(message):
            floors.setdefault(floor_of(message), []).append(message)
    found: dict[int, Entry] = {}
    recovered = list(lines) or [entry for text in biscuits for entry in split(text)]
    for entry in recovered:
        found.setdefault(entry.n, entry)
    current = max(floors, default=0)
    chosen: list[dict[str, Any]] = []
    facts: list[Fact] = []
    fatal: list[int] = []
    sieved: list[int] = []
    for n in sorted(floors):
        if n != current and any(m.get("_error") and not m.get("_recovered") for m in floors[n]):
            fatal.append(n)
        elif floors[n][0].get("_compressFloor"):
            facts += [
                Fact(content_of(m).strip(), f"f{current}", now)
                for m in floors[n]
                if m.get("role") == "assistant" and content_of(m).strip()
            ]
        else:
            sieved.append(n)
            chosen += floors[n]
    for entry in split(sieve(chosen, times, root=root)):
        found[entry.n] = entry
    ordered = [found[n] for n in sorted(found)]
    return Rebuilt(join(ordered), ordered, facts, sieved, fatal)


def is_biscuit(message: Mapping[str, Any]) -> bool:
    """Whether a message holds condensed floors (V11 had two such messages)."""
    return bool(
        message.get("_biscuit") or message.get("_biscuitPrefix") or message.get("_biscuitLatest")
    )
