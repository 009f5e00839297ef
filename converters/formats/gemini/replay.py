"""A recording or a document into the list of messages that it ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from converters import jsonio
from converters.errors import BadInput

if TYPE_CHECKING:
    from converters.types import Context, Input

__all__ = ["Placed", "Recording", "Rewound", "recording_of"]


class Placed(NamedTuple):
    """A message and its place: a line, or a JSON pointer in the document."""

    place: str | int
    message: dict[str, Any]


class Rewound(NamedTuple):
    """Messages that were taken back; ``before`` is what stood before them, where asked for."""

    anchor: str | None
    before: list[Placed]
    own: list[Placed]


class Recording:
    """What a file says after all of its lines.

    ``rewritten``: messages that a list of messages left out, and the place of that list.
    """

    def __init__(self, ctx: Context) -> None:
        self.document: dict[str, Any] = {}
        self.branches: list[Rewound] = []
        self.rewritten: list[tuple[str | int, list[Placed]]] = []
        self._kept: dict[str, Placed] = {}
        self._ctx = ctx

    @property
    def messages(self) -> list[Placed]:
        """The messages that stand at the end."""
        return list(self._kept.values())

    def line(self, number: int, record: dict[str, Any]) -> None:
        """Take one line. A message counts at the end, what changes others here."""
        ledger = self._ctx.ledger
        if "$set" in record:
            if isinstance(record["$set"], dict):
                ledger.mapped()
                self.merge(record["$set"], number)
            else:
                ledger.skipped("malformed-record", number, kind="$set")
        elif "$rewindTo" in record:
            ledger.mapped()
            self._rewind(record["$rewindTo"])
        elif "type" in record or "content" in record:
            identity = record.get("id")
            self._add(identity if isinstance(identity, str) else f"line {number}", number, record)
        else:
            ledger.mapped()
            self.merge(record, number)

    def _add(self, key: str, place: str | int, message: dict[str, Any]) -> None:
        """Add a message; one of a known id takes the place of the earlier one."""
        old = self._kept.get(key)
        if old is not None:
            self._ctx.ledger.skipped("duplicate-record", old.place, kind="message")
        self._kept[key] = Placed(place, message)

    def merge(self, given: dict[str, Any], line: int | None) -> None:
        """Merge metadata; a list of messages in it takes the place of the ones before."""
        ledger = self._ctx.ledger
        messages = given.get("messages")
        self.document.update({name: v for name, v in given.items() if name != "messages"})
        base = "/messages" if line is None else f"{line}:/messages"
        if not isinstance(messages, list):
            if line is not None and "messages" in given:
                ledger.note("malformed-member", line, kind="messages")
            elif line is None:
                for _ in jsonio.objects(messages, ledger, base):
                    pass  # no list: one malformed record
            return
        old, self._kept = self._kept, {}
        for place, message in jsonio.objects(messages, ledger, base):
            identity = message.get("id")
            self._add(identity if isinstance(identity, str) else place, place, message)
        gone = [kept for key, kept in old.items() if key not in self._kept]
        if len(gone) < len(old):
            ledger.skipped("duplicate-record", line, len(old) - len(gone), kind="message")
        if gone:
            self.rewritten.append((base, gone))

    def _rewind(self, target: Any) -> None:
        """Take back a message and all after it; everything when the id is unknown."""
        kept = self._kept
        own: list[Placed] = []
        last = target if isinstance(target, str) and target in kept else None
        while kept:
            key, placed = kept.popitem()
            own.append(placed)
            if key == last:
                break
        if not own:
            return
        whole = self._ctx.options.branch != "active"
        before = list(kept.values()) if whole else []
        self.branches.append(Rewound(next(reversed(kept), None), before, own[::-1]))


def recording_of(source: Input, ctx: Context) -> Recording:
    """Read a file, in either container."""
    with source.open() as stream:
        first = jsonio.leading_values(stream.read(1 << 16))
    root = first[0] if len(first) == 1 else None
    found = Recording(ctx)
    if isinstance(root, dict) and "messages" in root and "$set" not in root:
        values = jsonio.load(source.read(), ctx.ledger, path=source.name)
        if not isinstance(values[0], dict):
            raise BadInput("no Gemini CLI recording", path=source.name)
        found.merge(values[0], None)
        if len(values) > 1:
            ctx.ledger.seen(len(values) - 1)
            ctx.ledger.skipped("text-outside-records", "", len(values) - 1)
        return found
    with source.open() as stream:
        for number, record in jsonio.records(stream, ctx.ledger):
            found.line(number, record)
    return found
