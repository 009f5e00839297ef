"""Nested items of a response: the work of subagents, as sessions of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from converters.formats.copilot_vscode.items import Items, Shown, tool_data
from converters.ir import Block, Meta, Session, Text
from converters.turns import TurnBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from converters.types import Context

__all__ = ["Subagents"]


class _Subagent(NamedTuple):
    items: list[Shown]
    asked: dict[str, Any]
    time: int | None


class Subagents:
    """The subagents of a session, by the id of the call that started each."""

    def __init__(self, ctx: Context, fate: Callable[..., None]) -> None:
        self._ctx = ctx
        self._fate = fate
        self._found: dict[str, _Subagent] = {}

    def take(self, items: list[Shown], time: int | None) -> list[Shown]:
        """Take the nested items (``subAgentInvocationId``) of a response; give the others."""
        own = []
        for shown in items:
            call = _text(shown.item, "subAgentInvocationId")
            if call is None:
                own.append(shown)
            else:
                self._found.setdefault(call, _Subagent([], {}, time)).items.append(shown)
        for _, item in own if self._found else ():
            subagent = self._found.get(_text(item, "toolCallId") or "")
            if subagent is not None:
                subagent.asked.update(tool_data(item)[0])
        return own

    def sessions(self, parent: Meta) -> Iterator[Session]:
        """Give the session of each subagent: its prompt is the one that the call states."""
        for number, (call, subagent) in enumerate(self._found.items(), 1):
            if self._ctx.options.subagents == "skip":
                for shown in subagent.items:
                    self._fate("subagent-skipped", shown.place)
                continue
            turns = TurnBuilder(self._ctx.ledger)
            prompt = _text(subagent.asked, "prompt")
            blocks: list[Block] = [Text(prompt)] if prompt else []
            turns.prompt(blocks, time=subagent.time)
            Items(turns, self._ctx, self._fate).take(subagent.items, None, subagent.time)
            yield Session(
                meta=Meta(f"{parent.id}~s{number}", subagent.time, parent.cwd),
                title=_text(subagent.asked, "description"),
                provider="copilot-vscode",
                turns=turns.finish(),
                extra={"parent": {"sessionId": parent.id, "callId": call}},
            )


def _text(value: Any, member: str) -> str | None:
    found = value.get(member) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None
