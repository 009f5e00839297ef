"""What the readers of message lists share: system prompts, results, the finished session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from converters.ir import Meta, Session, Text, ToolCallBlock, ToolResult
from converters.shapes.pairing import Pairing
from converters.turns import TurnBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from converters.ir import Block, Extra
    from converters.ledger import Ledger, Place

__all__ = ["Found", "Given", "Talk", "plain", "system_places"]


class Given(NamedTuple):
    """A result as it was met: the id and tool name it states, and what it says."""

    call_id: Any
    name: Any
    content: list[Block]
    is_error: bool = False
    extra: Extra | None = None


class Found(NamedTuple):
    """The content of one message: blocks, results, and opaque parts kept for the way back.

    ``stood`` has the results and opaque parts in order, each with the number of blocks before.
    """

    blocks: list[Block]
    results: list[Given]
    opaque: list[Any]
    stood: list[tuple[Literal["result", "opaque"], int]]

    def add_result(self, result: Given) -> None:
        """Add a result where the reading is."""
        self.stood.append(("result", len(self.blocks)))
        self.results.append(result)

    def add_opaque(self, part: Any) -> None:
        """Add an opaque part where the reading is."""
        self.stood.append(("opaque", len(self.blocks)))
        self.opaque.append(part)


class Talk:
    """One conversation while it is read: the turns, the calls, the system prompts.

    ``system`` collects the system and developer prompts, ``notes`` where they stood and
    what else they carried. ``later`` is that of :class:`Pairing`.
    """

    __slots__ = ("builder", "ledger", "notes", "pairing", "system")

    def __init__(self, ledger: Ledger, later: Callable[[], Iterable[str]] = frozenset) -> None:
        self.ledger = ledger
        self.builder = TurnBuilder(ledger)
        self.pairing = Pairing(ledger, later)
        self.system: list[str] = []
        self.notes: list[dict[str, Any]] = []

    def placed(
        self, messages: list[Any], base: Place, places: list[int | str] | None = None
    ) -> Iterator[tuple[dict[str, Any], Place]]:
        """Give the messages with their places; what is no object is skipped as malformed.

        ``places`` are theirs, else they are elements of ``base``.
        """
        for index, message in enumerate(messages):
            place = places[index] if places else f"{base}/{index}"
            if isinstance(message, dict):
                yield message, place
            else:
                self.ledger.skipped("malformed-record", place, kind=type(message).__name__)

    def add_system(self, text: str, message: dict[str, Any] | None = None) -> None:
        """Keep a system prompt with its place; ``message`` is what the text does not say."""
        note: dict[str, Any] = {}
        if self.builder.turns:
            note = {
                "turn": len(self.builder.turns),
                "step": len(self.builder.turns[-1].steps),
            }
        if message is not None:
            note["message"] = message
        self.system.append(text)
        self.notes.append(note)

    def add_prompts(self, found: list[Block], place: Place) -> None:
        """Keep the texts that a document gives as system prompts beside its messages."""
        texts = [block.text for block in found if isinstance(block, Text) and block.text]
        for text in texts:
            self.add_system(text)
        if texts:
            self.ledger.note("system-prompt-aside", place, len(texts))

    def system_message(self, found: list[Block], message: dict[str, Any], place: Place) -> None:
        """Keep the texts of a system message as one prompt, and say what became of it."""
        text = "\n".join(block.text for block in found if isinstance(block, Text))
        if not text:
            self.ledger.skipped("empty-message", place, kind="system")
            return
        self.add_system(text, message)
        self.ledger.aside("system-prompt-aside", place)

    def name_calls(self, blocks: list[Block], place: Place) -> None:
        """Settle the ids of the calls among the blocks of one message."""
        for block in blocks:
            if isinstance(block, ToolCallBlock):
                native = block.id
                block.id = self.pairing.call(native, block.name, place)
                if block.id != native:
                    about: Extra = {"id": native} if native else {"minted": True}
                    block.extra = {**(block.extra or {}), **about}

    def attach(self, results: list[Given], place: Place) -> tuple[int, list[str]]:
        """Give results to their calls; how many found one, and the rules of the others."""
        attached, rules = 0, []
        for given in results:
            call_id, rule = self.pairing.answer(given.call_id, given.name)
            if call_id is None:
                rules.append(rule or "orphan-tool-result")
                continue
            extra = given.extra
            if rule is not None and given.call_id is not None:
                self.ledger.note(rule, place)
                extra = {**(extra or {}), "callId": given.call_id}
            self.builder.result(
                ToolResult(call_id, given.content, given.is_error, None, extra), place
            )
            attached += 1
        return attached, rules

    def fate(self, rules: list[str], place: Place, *, kept: bool, kind: str) -> None:
        """Say what became of a message: mapped, or skipped by the first rule that applied."""
        if kept:
            self.ledger.mapped()
        elif rules:
            self.ledger.skipped(rules[0], place)
            rules = rules[1:]
        else:
            self.ledger.skipped("empty-message", place, kind=kind)
        for rule in rules:
            self.ledger.note(rule, place)

    def session(self, identity: str, provider: str, native: dict[str, Any]) -> Session:
        """Give the session; ``native`` is what the same format wants back."""
        extra: Extra = {}
        if self.system:
            extra["system"] = self.system
            if any(self.notes):
                native = {**native, "system": self.notes}
        if native:
            extra["native"] = native
        turns = self.builder.finish()
        return Session(meta=Meta(identity), provider=provider, turns=turns, extra=extra or None)


def system_places(session: Session, native: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Give the system prompts of a session, each with its note: turn, step, message."""
    texts = session.extra.get("system") if session.extra else None
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list):
        return []
    notes = native.get("system")
    if not isinstance(notes, list) or len(notes) != len(texts):
        notes = [{}] * len(texts)
    return [
        (text if isinstance(text, str) else str(text), note if isinstance(note, dict) else {})
        for text, note in zip(texts, notes, strict=True)
    ]


def plain(blocks: list[Block]) -> str | None:
    """Give the text of one plain text block that is all there is."""
    if len(blocks) == 1 and isinstance(blocks[0], Text) and blocks[0].extra is None:
        return blocks[0].text or None
    return None
