"""A session as a writer of messages goes over it: system messages and calls in their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.ir import ToolCallBlock
from converters.shapes.talk import system_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Image, Reasoning, Session, Step, Text, ToolCall, Turn
    from converters.shapes.account import Account

    Standing = tuple[tuple[int, int], dict[str, Any]]

__all__ = ["Walk", "in_order", "numbered", "place_of", "system_parts"]


def place_of(note: dict[str, Any]) -> tuple[int, int]:
    """Give where a system message stood: behind so many turns, and steps of the last of them."""
    turn, step = note.get("turn"), note.get("step")
    return turn if type(turn) is int else 0, step if type(step) is int else 0


def system_parts(session: Session, native: dict[str, Any]) -> tuple[list[str], list[Standing]]:
    """Give the system prompts that are texts only, and those that were messages, with places."""
    texts: list[str] = []
    standing: list[Standing] = []
    for text, note in system_places(session, native):
        message = note.get("message")
        if isinstance(message, dict):
            standing.append((place_of(note), message))
        else:
            texts.append(text)
    return texts, standing


class Walk:
    """Goes over the turns and steps of a session for a writer.

    It tells the account where the writer is, and puts the ``standing`` messages back into
    ``out``, each in front of what it stood before; those that are left come last.
    """

    __slots__ = ("_account", "_out", "_turns", "standing")

    def __init__(
        self,
        session: Session,
        account: Account,
        standing: list[Standing],
        out: list[dict[str, Any]],
    ) -> None:
        self._turns = session.turns
        self._account = account
        self.standing = standing[::-1]
        self._out = out

    def turns(self) -> Iterator[Turn]:
        """Give the turns; the steps of each are asked for before the next turn."""
        account, before = self._account, 0
        for number, turn in enumerate(self._turns):
            account.turn, account.step = number, None
            if self.standing:
                self._put((number, before))
            yield turn
            before = len(turn.steps)
        self._out += [message for _, message in reversed(self.standing)]

    def steps(self, turn: Turn) -> Iterator[Step]:
        """Give the steps of the turn that the walk is at."""
        account = self._account
        for index, step in enumerate(turn.steps):
            account.step = index
            if self.standing:
                self.before_step(index)
            yield step

    def before_step(self, index: int) -> None:
        """Put the messages that stood before a step of the turn that the walk is at."""
        self._put(((self._account.turn or 0) + 1, index))

    def _put(self, place: tuple[int, int]) -> None:
        while self.standing and self.standing[-1][0] <= place:
            self._out.append(self.standing.pop()[1])


def in_order(step: Step, account: Account) -> Iterator[Text | Reasoning | Image | ToolCall]:
    """Give the blocks of a step, each call in the place of its block; calls without one come last.

    The blocks of calls are accounted for here, the calls are not.
    """
    return (item for _, item in numbered(step, account))


def numbered(
    step: Step, account: Account
) -> Iterator[tuple[int, Text | Reasoning | Image | ToolCall]]:
    """Give what :func:`in_order` gives, each with the number of its block."""
    calls = {call.id: call for call in step.tool_calls}
    for number, block in enumerate(step.content):
        if isinstance(block, ToolCallBlock):
            account.members(block.extra)
            if block.id in calls:
                yield number, calls.pop(block.id)
        else:
            yield number, block
    for call in calls.values():
        yield len(step.content), call
