"""The writer's side of the ledger: what became of every item of one session."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from converters.ir import Image, Reasoning, Text, ToolCallBlock, prompt_of
from converters.ledger import count_items

if TYPE_CHECKING:
    from converters.ir import Block, Extra, Session, Turn, Usage
    from converters.ledger import Ledger

__all__ = ["Account"]

_KINDS = {Text: "text", Reasoning: "reasoning", Image: "image"}


class Account:
    """Counts what a writer keeps and loses of a session.

    A writer sets ``turn`` and ``step`` while it walks, so that losses have a place
    (``SESSION/turns/N/steps/M``), and ends with :meth:`close`. ``own``: the target is
    the format that the session came from, so its ``native`` members go back.
    """

    __slots__ = ("_identity", "_itemize", "_kept", "_ledger", "own", "provider", "step", "turn")

    def __init__(self, ledger: Ledger, session: Session, *, own: bool = False) -> None:
        self.own = own
        self.provider = session.provider
        self.turn: int | None = None
        self.step: int | None = None
        self._ledger = ledger
        self._identity = session.meta.id
        self._itemize = ledger.itemize
        self._kept: Counter[str] = Counter()
        if ledger.itemize:
            ledger.total(count_items(session))

    @property
    def place(self) -> str:
        """Where the writer is, as a JSON pointer behind the session id."""
        place = self._identity
        if self.turn is not None:
            place += f"/turns/{self.turn}"
            if self.step is not None:
                place += f"/steps/{self.step}"
        return place

    def kept(self, kind: str, n: int = 1) -> None:
        """Count items that are in the output."""
        self._kept[kind] += n

    def lost(self, rule: str, kind: str, n: int = 1) -> None:
        """Count items that are not in the output, or only as something else."""
        if n and self._itemize:
            self._ledger.lost(rule, kind, self.place, n)
        elif n:
            self._ledger.note(rule, self.place, n, kind)

    def note(self, rule: str, kind: str = "", n: int = 1) -> None:
        """Count a change that loses no item."""
        if n:
            self._ledger.note(rule, self.place, n, kind)

    def time(self, value: int | None) -> None:
        """Count a time that the target has no place for."""
        if value is not None:
            self.lost("time-dropped", "time")

    def model(self, value: str | None) -> None:
        """Count a model that the target has no place for."""
        if value is not None:
            self.lost("model-dropped", "model")

    def members(self, extra: Extra | None, *written: str) -> None:
        """Account for the members of an ``x-dcb``: those named went into the output.

        ``native`` went too when the session is the target's own.
        """
        for name in extra or ():
            if name in written or (name == "native" and self.own):
                self.kept("extra")
            else:
                self.lost("extra-dropped", "extra")

    def native(self, extra: Extra | None) -> dict[str, Any]:
        """Give the native members to write back: none for another format's session."""
        found = extra.get("native") if extra and self.own else None
        return found if isinstance(found, dict) else {}

    def fields(
        self, session: Session, *, title: bool = False, model: bool = False, time: bool = False
    ) -> None:
        """Account for the fields of the session itself; those named are in the output."""
        self.turn = self.step = None
        if session.title is not None and title:
            self.kept("title")
        elif session.title is not None:
            self.lost("title-dropped", "title")
        if session.meta.cwd is not None:
            self.lost("cwd-dropped", "cwd")
        if session.meta.created_at is not None and time:
            self.kept("time")
        else:
            self.time(session.meta.created_at)
        if session.model is not None and model:
            self.kept("model")
        else:
            self.model(session.model)
        self.members(session.meta.extra)

    def turn_state(self, turn: Turn) -> None:
        """Account for the marks of a turn, which messages have no place for."""
        self.lost("state-dropped", "state", turn.aborted + turn.shadowed)

    def prompt(self, turn: Turn) -> list[Block]:
        """Give the blocks of a turn's prompt, and account for the turn.

        Without any there is no message for the turn: its ``x-dcb`` is lost.
        """
        blocks = prompt_of(turn)
        self.time(turn.time)
        self.turn_state(turn)
        if blocks:
            self.kept("prompt")
        else:
            self.no_prompt(turn, first=self.turn == 0)
            self.all_lost(turn.extra)
        return blocks

    def no_prompt(self, turn: Turn, *, first: bool) -> None:
        """Say what becomes of a turn without a prompt: it joins the one before, or goes."""
        if not turn.steps:
            self.note("empty-message", "turn")
        elif not first:
            self.note("turn-merged")

    def compaction(self, turn: Turn) -> str | None:
        """Give the summary that the target gets as text, and account for the rest of it."""
        found = turn.compaction
        if found is None:
            return None
        self.lost("compaction-text", "compaction")
        self.time(found.time)
        self.model(found.model)
        self.members(found.extra)
        return found.summary

    def usage(self, usage: Usage | None) -> None:
        """Count usage that the target has no place for."""
        if usage is not None:
            self.lost("usage-dropped", "usage")
            self.members(usage.extra)

    def image(self, block: Image) -> None:
        """Account for an image whose bytes are in the output, its name is not."""
        self.kept("block.image")
        self.members(block.extra)
        if block.name is not None:
            self.note("text-changed", "image name")

    def image_text(self, block: Image) -> str:
        """Give the text that stands for an image without bytes, and account for it."""
        self.lost("image-text", "block.image")
        self.members(block.extra)
        return f"[image] {block.name}" if block.name else "[image]"

    def foreign(self, block: Block) -> None:
        """Count a block where it has no place: a call in a prompt, reasoning in a result."""
        if not isinstance(block, ToolCallBlock):
            self.lost("block-dropped", f"block.{_KINDS.get(type(block), 'text')}")
        self.members(block.extra)

    def all_lost(self, extra: Extra | None) -> None:
        """Count every member of an ``x-dcb`` whose holder is not written."""
        self.lost("extra-dropped", "extra", len(extra or ()))

    def finish(self, session: Session, document: dict[str, Any], *, time: bool = False) -> None:
        """Account for the session itself, whose model and system prompts are in the document.

        The title is where the source's own members had it, ``time`` says whether the
        session's time is. This is the end of the account.
        """
        self.fields(session, title=document.get("title") == session.title, model=True, time=time)
        self.members(session.extra, "system")
        self.close()

    def close(self) -> None:
        """Hand the counts to the ledger."""
        if self._itemize:
            self._ledger.keep_all(self._kept)
