"""Ids of tool calls inside one conversation: minted, renamed when reused, found by name."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from converters.ir import ToolCallBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from converters.ir import Block
    from converters.ledger import Ledger, Place

__all__ = ["Answer", "Pairing"]


class Answer(NamedTuple):
    """The call that a result answers, or ``None`` and the rule by which it is left out."""

    call_id: str | None
    rule: str | None = None


class Pairing:
    """Knows the calls of a conversation and which of them have an answer.

    A result belongs to the newest earlier message that declared its id, there to the first
    open call of it; without an id to the oldest open call (of the same tool name if it names
    one). An id that no call has belongs to the oldest open call without an id of the same
    tool name. An id that is used again, answered or not, gets a suffix. ``later`` gives the ids of
    all calls of the conversation, for results that stand before their call; it is asked at
    most once.
    """

    __slots__ = (
        "_again",
        "_answered",
        "_coming",
        "_early",
        "_later",
        "_ledger",
        "_minted",
        "_open",
        "_places",
        "_queues",
        "_unnamed",
    )

    def __init__(self, ledger: Ledger, later: Callable[[], Iterable[str]] = frozenset) -> None:
        self._ledger = ledger
        self.expect(later)
        # The calls of an id that was used again: those of its newest message, in order.
        self._again: dict[str, deque[str]] = {}
        self._places: dict[str, Place | None] = {}
        self._open: dict[str, str] = {}
        self._answered: set[str] = set()
        self._early: set[str] = set()
        self._minted = 0
        # Calls that came without an id, in order, by tool name; answered ones may be among them.
        self._unnamed: dict[str, deque[str]] = {}
        # Open calls in order, by tool name and (None) all; made when a result has no id.
        # Ordered dicts: taking the first key of a plain dict again and again is quadratic.
        self._queues: dict[str | None, OrderedDict[str, None]] | None = None

    def expect(self, later: Callable[[], Iterable[str]]) -> None:
        """Take another ``later``: the conversation goes on with other messages."""
        self._later = later
        self._coming: frozenset[str] | None = None

    def _comes(self, native: str) -> bool:
        if self._coming is None:
            self._coming = frozenset(self._later())
        return native in self._coming

    def call(self, native: Any, name: str, place: Place | None = None) -> str:
        """Give the id for a call that declares ``native``."""
        if type(native) is not str or not native:
            call_id = self._mint("call", place)
            self._unnamed.setdefault(name, deque()).append(call_id)
        elif native in self._early:
            self._early.discard(native)
            return native
        elif native in self._answered or native in self._open:
            call_id = self._mint(native, place)
            if place is None or self._places.get(native) != place:
                self._again[native] = deque((call_id,))
            else:
                self._again.setdefault(native, deque((native,))).append(call_id)
            self._places[native] = place
        else:
            call_id = native
            self._places[native] = place
        self._open[call_id] = name
        if self._queues is not None:
            self._enqueue(call_id, name)
        return call_id

    def declare(self, blocks: list[Block]) -> bool:
        """Declare the calls among blocks if all their ids are new; else nothing happens."""
        calls = [block for block in blocks if type(block) is ToolCallBlock]
        if len(calls) > 1 and len({block.id for block in calls}) < len(calls):
            return False
        for block in calls:
            native = block.id
            if not native or native in self._answered or native in self._open:
                return False
        for block in calls:
            self._open[block.id] = block.name
            if self._queues is not None:
                self._enqueue(block.id, block.name)
        return True

    def _mint(self, stem: str, place: Place | None) -> str:
        self._ledger.note("id-minted", place)
        while True:
            self._minted += 1
            call_id = f"{stem}-{self._minted}"
            if call_id not in self._answered and call_id not in self._open:
                return call_id

    def _enqueue(self, call_id: str, name: str) -> None:
        queues = self._queues
        if queues is not None:
            queues.setdefault(None, OrderedDict())[call_id] = None
            queues.setdefault(name, OrderedDict())[call_id] = None

    def open(self, name: Any = None) -> str | None:
        """Give the oldest call without an answer, of this tool name if it is one."""
        if self._queues is None:
            self._queues = {}
            for call_id, known in self._open.items():
                self._enqueue(call_id, known)
        wanted = name if isinstance(name, str) and name else None
        return next(iter(self._queues.get(wanted, ())), None)

    def take(self, native: str) -> bool:
        """Mark the open call of exactly this id as answered; false when it needs a look."""
        if native in self._again or native not in self._open or self._queues is not None:
            return False
        del self._open[native]
        self._answered.add(native)
        return True

    def _close(self, call_id: str) -> None:
        name = self._open.pop(call_id)
        self._answered.add(call_id)
        if self._queues is not None:
            self._queues[None].pop(call_id, None)
            self._queues[name].pop(call_id, None)

    def _newest(self, native: str) -> str:
        """Give the call of an id that is next to be answered, or was the last to be."""
        found = self._again.get(native)
        if found is None:
            return native
        while len(found) > 1 and found[0] not in self._open:
            found.popleft()
        return found[0]

    def _without_id(self, name: Any) -> str | None:
        """Give the oldest open call of a tool name that came without an id."""
        found = self._unnamed.get(name) if isinstance(name, str) else None
        while found and found[0] not in self._open:
            found.popleft()
        return found[0] if found else None

    def answer(self, native: Any, name: Any = None) -> Answer:
        """Find the call of a result and mark it as answered."""
        rule = None
        if isinstance(native, str) and native:
            call_id = self._newest(native)
            if call_id in self._answered:
                return Answer(None, "duplicate-tool-result")
            if call_id not in self._open and self._comes(native):
                self._answered.add(native)
                self._early.add(native)
                return Answer(native)
            if call_id not in self._open:
                found = self._without_id(name)
                if found is None:
                    return Answer(None, "orphan-tool-result")
                call_id, rule = found, "tool-result-text-fallback"
        else:
            oldest = self.open(name)
            if oldest is None:
                return Answer(None, "orphan-tool-result")
            call_id, rule = oldest, "tool-result-text-fallback"
        self._close(call_id)
        return Answer(call_id, rule)
