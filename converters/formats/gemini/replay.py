"""A recording or a document into the list of messages that it ends with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from converters import jsonio
from converters.errors import BadInput
from converters.shapes.rows import text_of

if TYPE_CHECKING:
    from converters.types import Context, Input

__all__ = ["Placed", "Recording", "Rewound", "Rewritten", "document_of", "recording_of"]

_HEAD: Final = 1 << 16
_OF_LINES: Final = frozenset({"type", "$set", "$rewindTo"})


_Name: TypeAlias = tuple[str | None, str | None]


class Placed(NamedTuple):
    """A message and its place: a line, or a JSON pointer in the document."""

    place: str | int
    message: dict[str, Any]


class Rewound(NamedTuple):
    """Messages that were taken back; ``before`` is what stood before them, where asked for.

    ``rewritten`` is how many of the recording's rewritings came before.
    """

    anchor: str | None
    before: list[Placed]
    own: list[Placed]
    rewritten: int


class Rewritten(NamedTuple):
    """Messages that a list of messages left out, and the place of that list."""

    place: str | int
    gone: list[Placed]


class Recording:
    """What a file says after all of its lines.

    ``repeated`` are the places of messages that a later version took the place of: they have
    no fate yet, as a branch that is asked for may still hold them.
    """

    def __init__(self, ctx: Context) -> None:
        self.document: dict[str, Any] = {}
        self.branches: list[Rewound] = []
        self.rewritten: list[Rewritten] = []
        self.repeated: list[str | int] = []
        # The messages by number, and the numbers of those that state an id, which need not
        # be one only: what a list repeats was not said to replace anything.
        self._kept: dict[int, Placed] = {}
        self._named: dict[str, list[int]] = {}
        self._shared: set[_Name] = set()  # names that two messages had at one time
        self._added = 0
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
            self._replace(Placed(number, record))
        else:
            ledger.mapped()
            self.merge(record, number)

    def _replace(self, placed: Placed) -> None:
        """Add a message; one of a known id takes the place of the earlier one."""
        known = self._named.get(_id(placed) or "")
        if known:
            self.repeated.append(self._kept[known[-1]].place)
            self._kept[known[-1]] = placed
        else:
            self._add(placed)

    def _add(self, placed: Placed) -> None:
        number = self._added = self._added + 1
        self._kept[number] = placed
        name = _id(placed)
        if name is None:
            return
        others = self._named.get(name)
        if others is None:
            self._named[name] = [number]
            return
        named = _name(placed)
        if any(_name(self._kept[other]) == named for other in others):
            self._shared.add(named)
        others.append(number)

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
        old = self.messages
        self._kept, self._named = {}, {}
        for place, message in jsonio.objects(messages, ledger, base):
            self._add(Placed(place, message))
        gone = self._left_out(old) if old else []
        if gone:
            self.rewritten.append(Rewritten(base, gone))

    def _left_out(self, old: list[Placed]) -> list[Placed]:
        """Give the old messages that a list has not; the others are repeated there.

        An id that names one message tells; without such an id only the same message is that.
        """
        names = set(map(_name, self._kept.values()))
        same: Counter[bytes] | None = None
        gone: list[Placed] = []
        for placed in old:
            if self._tells(name := _name(placed)):
                found = name in names
            else:
                if same is None:
                    same = Counter(jsonio.dumps(kept.message) for kept in self._kept.values())
                said = jsonio.dumps(placed.message)
                found = same[said] > 0
                same[said] -= 1
            if found:
                self.repeated.append(placed.place)
            else:
                gone.append(placed)
        return gone

    def _tells(self, name: _Name) -> bool:
        return name[0] is not None and name not in self._shared

    def path(self, messages: list[Placed], rewritten: int) -> list[Rewritten]:
        """Give what a path holds: what was rewritten before it, then its messages.

        What was left out of a list and came back stands where it came back.
        """
        path = [Rewritten("", messages)]
        later = set(map(_name, messages)) if rewritten else set()
        for place, left in reversed(self.rewritten[:rewritten]):
            back = {name for placed in left if self._tells(name := _name(placed))} & later
            gone = [placed for placed in left if _name(placed) not in back]
            self.repeated += [placed.place for placed in left if _name(placed) in back]
            path.append(Rewritten(place, gone))
            later.update(map(_name, gone))
        return path[::-1]

    def _rewind(self, target: Any) -> None:
        """Take back a message and all after it; everything when the id is unknown."""
        kept = self._kept
        own: list[Placed] = []
        known = self._named.get(target) if isinstance(target, str) else None
        last = known[0] if known else None
        while kept:
            number, placed = kept.popitem()
            own.append(placed)
            name = _id(placed)
            if name is not None:
                self._named[name].pop()
            if number == last:
                break
        if not own:
            return
        whole = self._ctx.options.branch != "active"
        before = self.messages if whole else []
        anchor = next((_anchor(placed) for placed in reversed(kept.values())), None)
        self.branches.append(Rewound(anchor, before, own[::-1], len(self.rewritten)))


def _id(placed: Placed) -> str | None:
    """Give the id of a message; an empty one names nothing."""
    return text_of(placed.message.get("id"))


def _anchor(placed: Placed) -> str:
    place = placed.place
    return _id(placed) or (f"line {place}" if isinstance(place, int) else place)


def _name(placed: Placed) -> _Name:
    return _id(placed), text_of(placed.message.get("type"))


def recording_of(source: Input, ctx: Context) -> Recording:
    """Read a file, in either container."""
    found = Recording(ctx)
    if _is_document(_start(source)):
        root = document_of(source, ctx)
        if not isinstance(root, dict):
            raise BadInput("no Gemini CLI recording", path=source.name)
        found.merge(root, None)
        return found
    with source.open() as stream:
        for number, record in jsonio.records(stream, ctx.ledger):
            found.line(number, record)
    return found


def document_of(source: Input, ctx: Context) -> Any:
    """Give the first value of a file; what follows it is counted."""
    values = jsonio.load(source.read(), ctx.ledger, path=source.name)
    if len(values) > 1:
        ctx.ledger.seen(len(values) - 1)
        ctx.ledger.skipped("text-outside-records", "", len(values) - 1)
    return values[0]


def _start(source: Input) -> bytes:
    """Give the start of a file: with its whole first line, which may be long, if more follows."""
    with source.open() as stream:
        start = stream.read(_HEAD)
        if jsonio.is_wide(start):
            return jsonio.sniff_text(start + stream.read()).encode("utf-8", "replace")
    if len(start) < _HEAD or b"\n" in start.strip():
        return start
    data = source.view()
    end = data.find(b"\n", len(start.rstrip()))
    return data[: end + _HEAD] if end >= 0 and data[end : end + _HEAD].strip() else start


def _is_document(start: bytes) -> bool:
    """Whether a file is one document, not lines: its first line is no whole value.

    Nor is the first line one that was torn, with messages in the lines after it. What says
    nothing of messages in its start may be a document that has much in front of them.
    """
    values = jsonio.leading_values(start)
    root = values[0] if len(values) == 1 else None
    if not isinstance(root, dict) or "$set" in root:
        return False
    first, _, rest = start.strip().partition(b"\n")
    if not rest:
        return "messages" in root
    if _is_whole(first):
        return False
    lines = any(
        isinstance(value, dict) and not _OF_LINES.isdisjoint(value)
        for value in jsonio.leading_values(rest)
    )
    return not lines or ("messages" in root and first.rstrip()[-1:] in b"{[,:")


def _is_whole(line: bytes) -> bool:
    try:
        jsonio.loads_exact(line)
    except ValueError:
        return False
    return True
