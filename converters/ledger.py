"""What became of every record of an input and of every item of the IR.

The unit of reading is the *record*: a non-blank line of JSONL; a message, node
or part object of a JSON document; a row of a table; a block of a Markdown
document. The tokenizer that cuts the input calls :meth:`Ledger.seen`, the
reader says what became of each record, and for a finished run

    ``seen = mapped + aside + skipped``

holds (``aside``: kept in ``x-dcb``, not in a v1 field). The unit of writing is
the *item*: a prompt, block, call, result, usage, time, model or ``x-dcb``
member; a writer says ``kept`` or ``lost`` for each, and ``kept + reported =
total``, where the total is counted by :func:`count_items`.

The ten rules of Interchange v1 (section 7.1) keep their ids, counter names,
capabilities and strategies; the rest are dcb's own. Rule ids are stable.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from converters.ir import Image, Reasoning, Text
from converters.rules import INTERCHANGE_RULES, RULES, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from converters.ir import Block, Session

__all__ = [
    "PLACES",
    "RULES",
    "Entry",
    "Items",
    "Ledger",
    "Place",
    "Records",
    "Report",
    "Rule",
    "RunReport",
    "count_items",
    "export_degradations",
    "merge",
    "summarize_degradations",
]

Place: TypeAlias = int | str
"""A line number, or text: ``byte 12``, a JSON pointer, ``TABLE.id=ID``."""

PLACES = 5
_KINDS = 50


class Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    """One rule in a report: how often it was applied, and up to five places.

    ``kinds`` counts by the source's own type name where that says more.
    """

    rule: str
    strategy: str
    count: int
    capability: str | None = None
    places: list[str] = []
    kinds: dict[str, int] = {}


class Records(msgspec.Struct, rename="camel"):
    """The account of reading: ``total = mapped + aside + skipped``."""

    total: int = 0
    mapped: int = 0
    aside: int = 0
    skipped: int = 0


class Items(msgspec.Struct, rename="camel"):
    """The account of writing for one kind of item: ``total = kept + reported``."""

    total: int = 0
    kept: int = 0
    reported: int = 0


def _no_entries() -> list[Entry]:
    return []


class Report(msgspec.Struct, rename="camel", omit_defaults=True):
    """The account of one input."""

    source: str = ""
    sessions: int = msgspec.field(default_factory=lambda: 0)
    records: Records = msgspec.field(default_factory=lambda: Records(0))
    items: dict[str, Items] = {}
    entries: list[Entry] = msgspec.field(default_factory=list)

    @property
    def degraded(self) -> bool:
        """Whether anything was lost or changed."""
        return any(entry.strategy != "lossless" for entry in self.entries)

    @property
    def balanced(self) -> bool:
        """Whether both sums add up."""
        r = self.records
        return r.total == r.mapped + r.aside + r.skipped and all(
            i.total == i.kept + i.reported for i in self.items.values()
        )


class RunReport(msgspec.Struct, rename="camel"):
    """The accounts of one run: of each input, and their sum.

    JSON Schema: ``schemas/report.schema.json``.
    """

    reports: list[Report]
    total: Report


class Ledger:
    """The running account of one input. ``source`` is the name that places carry.

    ``itemize`` asks writers for the account of items; it costs a walk over the IR.
    """

    __slots__ = (
        "_aside",
        "_entries",
        "_kept",
        "_lost",
        "_mapped",
        "_seen",
        "_skipped",
        "_totals",
        "itemize",
        "sessions",
        "source",
    )

    def __init__(self, source: str = "", *, itemize: bool = True) -> None:
        self.source = source
        self.itemize = itemize
        self.sessions = 0
        self._seen = self._mapped = self._aside = self._skipped = 0
        self._entries: dict[str, Entry] = {}
        self._totals: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()

    def seen(self, n: int = 1) -> None:
        """Count records that the tokenizer cut out of the input."""
        self._seen += n

    def mapped(self, n: int = 1) -> None:
        """Count records whose content is in fields of the IR."""
        self._mapped += n

    def aside(
        self, rule: str = "record-aside", place: Place | None = None, n: int = 1, kind: str = ""
    ) -> None:
        """Count records that are kept in ``x-dcb``."""
        self._aside += n
        self.note(rule, place, n, kind)

    def skipped(self, rule: str, place: Place | None = None, n: int = 1, kind: str = "") -> None:
        """Count records that are not in the output."""
        self._skipped += n
        self.note(rule, place, n, kind)

    def abandon(self) -> None:
        """Count what was seen and has no fate yet: the input failed before its end."""
        rest = self._seen - self._mapped - self._aside - self._skipped
        if rest > 0:
            self.skipped("record-abandoned", n=rest)

    def note(self, rule: str, place: Place | None = None, n: int = 1, kind: str = "") -> None:
        """Count a repair, a change or the loss of a part of a record (no record's fate)."""
        entry = self._entries.get(rule)
        if entry is None:
            known = RULES[rule]
            entry = Entry(rule, known.strategy, 0, known.capability, [], {})
            self._entries[rule] = entry
        entry.count += n
        if place is not None and len(entry.places) < PLACES:
            entry.places.append(_valid(f"{self.source}:{place}" if self.source else str(place)))
        if kind:
            name = kind if kind in entry.kinds or len(entry.kinds) < _KINDS else "..."
            entry.kinds[name] = entry.kinds.get(name, 0) + n

    def count(self, rule: str) -> int:
        """Give how often a rule was applied so far."""
        entry = self._entries.get(rule)
        return entry.count if entry else 0

    def total(self, counts: Mapping[str, int]) -> None:
        """Add the items of a session that a writer is about to write."""
        self._totals.update(counts)

    def kept(self, kind: str, n: int = 1) -> None:
        """Count items that the writer wrote, in whatever form the target has for them."""
        self._kept[kind] += n

    def keep_all(self, counts: Mapping[str, int]) -> None:
        """Count items of many kinds as written."""
        self._kept.update(counts)

    def lost(self, rule: str, kind: str, place: Place | None = None, n: int = 1) -> None:
        """Count items that the target does not get, or gets only as something else."""
        if n:
            self._lost[kind] += n
            self.note(rule, place, n, kind)

    def absorb(self, other: Ledger) -> None:
        """Add the reading account of a trial that turned out to be the real run."""
        self._seen += other._seen
        self._mapped += other._mapped
        self._aside += other._aside
        self._skipped += other._skipped
        for rule, entry in other._entries.items():
            self.note(rule, None, entry.count)
            known = self._entries[rule]
            known.places += entry.places[: PLACES - len(known.places)]
            for kind, n in entry.kinds.items():
                known.kinds[kind] = known.kinds.get(kind, 0) + n

    def report(self) -> Report:
        """Give the account so far; entries in the order of the rule table."""
        items = {
            kind: Items(self._totals[kind], self._kept[kind], self._lost[kind])
            for kind in sorted(self._totals.keys() | self._kept.keys() | self._lost.keys())
        }
        return Report(
            source=_valid(self.source),
            sessions=self.sessions,
            records=Records(self._seen, self._mapped, self._aside, self._skipped),
            items=items,
            entries=[self._entries[rule] for rule in RULES if rule in self._entries],
        )


def _valid(text: str) -> str:
    """Make a name fit for JSON: bytes of a file name that are no UTF-8 become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def merge(reports: Iterable[Report], source: str = "") -> Report:
    """Add up reports of several inputs; each entry keeps its first five places."""
    total = Report(source=source)
    entries: dict[str, Entry] = {}
    items: dict[str, Items] = {}
    for report in reports:
        total.sessions += report.sessions
        for name in ("total", "mapped", "aside", "skipped"):
            value = getattr(total.records, name) + getattr(report.records, name)
            setattr(total.records, name, value)
        for kind, item in report.items.items():
            old = items.get(kind, Items())
            items[kind] = Items(
                old.total + item.total, old.kept + item.kept, old.reported + item.reported
            )
        for entry in report.entries:
            known = entries.setdefault(
                entry.rule, Entry(entry.rule, entry.strategy, 0, entry.capability, [], {})
            )
            known.count += entry.count
            known.places += entry.places[: PLACES - len(known.places)]
            for kind, n in entry.kinds.items():
                known.kinds[kind] = known.kinds.get(kind, 0) + n
    total.items = {kind: items[kind] for kind in sorted(items)}
    total.entries = [entries[rule] for rule in RULES if rule in entries]
    return total


def count_items(session: Session) -> Counter[str]:
    """Count the items of a session by kind: what a writer must account for.

    Kinds: ``prompt`` (a turn with a prompt), ``block.<type>`` (blocks of prompts, steps
    and results; the ``tool-call`` block of a call is the call itself and counts once, as
    ``call``), ``call``, ``result``, ``error`` (a result's error mark), ``usage``, ``time``,
    ``model``, ``title``, ``cwd``, ``compaction``, ``state`` (aborted or shadowed),
    ``extra`` (each member of each ``x-dcb``).
    """
    extra = len(session.extra or ()) + len(session.meta.extra or ())
    time = int(session.meta.created_at is not None)
    model = int(session.model is not None)
    prompt = compaction = state = usage = call = result = error = 0
    texts = reasonings = images = 0
    lists: list[list[Block]] = []
    for turn in session.turns:
        prompt += bool(turn.prompt or turn.prompt_blocks)
        time += turn.time is not None
        state += turn.aborted + turn.shadowed
        if turn.extra:
            extra += len(turn.extra)
        if turn.prompt_blocks:
            lists.append(turn.prompt_blocks)
        elif turn.prompt:
            texts += 1
        if turn.compaction is not None:
            compaction += 1
            time += turn.compaction.time is not None
            model += turn.compaction.model is not None
            extra += len(turn.compaction.extra or ())
        for step in turn.steps:
            time += step.time is not None
            model += step.model is not None
            if step.extra:
                extra += len(step.extra)
            lists.append(step.content)
            if step.usage is not None:
                usage += 1
                extra += len(step.usage.extra or ())
            if step.tool_calls:
                call += len(step.tool_calls)
                for made in step.tool_calls:
                    if made.extra:
                        extra += len(made.extra)
            for given in step.tool_results:
                result += 1
                time += given.time is not None
                error += given.is_error
                if given.extra:
                    extra += len(given.extra)
                lists.append(given.content)
    for blocks in lists:
        for block in blocks:
            kind = type(block)
            if kind is Text:
                texts += 1
            elif kind is Reasoning:
                reasonings += 1
            elif kind is Image:
                images += 1
            if block.extra:
                extra += len(block.extra)
    counts = Counter(
        {
            "prompt": prompt,
            "block.text": texts,
            "block.reasoning": reasonings,
            "block.image": images,
            "call": call,
            "result": result,
            "error": error,
            "usage": usage,
            "time": time,
            "model": model,
            "title": int(session.title is not None),
            "cwd": int(session.meta.cwd is not None),
            "compaction": compaction,
            "state": state,
            "extra": extra,
        }
    )
    return +counts


def summarize_degradations(counts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give ``{id, kind, strategy, count}`` per Interchange v1 rule with a count above zero.

    Rule: Interchange v1, section 7.1 (``summarizeDegradations``).
    """
    found = []
    for rule in INTERCHANGE_RULES:
        count = counts.get(rule.kind)
        if isinstance(count, int | float) and not isinstance(count, bool) and count > 0:
            found.append(
                {"id": rule.id, "kind": rule.kind, "strategy": rule.strategy, "count": count}
            )
    return found


def export_degradations(out: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Give the degradations of an export result's counters, or ``None`` when there are none.

    Rule: Interchange v1, section 7.1 (``exportDegradations``).
    """

    def number(name: str) -> Any:
        value = out.get(name)
        return value if isinstance(value, int | float) else 0

    return (
        summarize_degradations(
            {
                "orphanToolResult": number("droppedToolResults"),
                "injectionSkipped": number("skippedInjections"),
                "attachmentSkipped": number("skippedBlocks") + number("unavailableImages"),
                "usageUnknown": number("usageUnknown"),
            }
        )
        or None
    )
