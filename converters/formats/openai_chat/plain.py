"""The common row, ``{"messages": [...]}`` of texts, calls and results, in one pass.

Nearly all rows of fine-tuning and log files are made of five shapes of message. They are
decoded into structs that refuse everything else, and become turns in one loop. A row
that needs any decision (an id that comes twice, a result out of order, an empty
message, a member that is not known here) is left to :mod:`~converters.shapes.openai_messages`,
whose outcome for the rows taken here is the same: sessions, ids and account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from converters.ir import Meta, Session, Step, Text, ToolCall, ToolCallBlock, ToolResult, Turn

if TYPE_CHECKING:
    from converters.ir import Extra
    from converters.ledger import Ledger
    from converters.shapes.rows import Row

__all__ = ["DECODER", "ID", "Conversation", "session"]

ID: Final = "openai-chat"


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Common settings: any other member is refused."""


class _Message(_Plain, tag_field="role"):
    """A message; its role is its type."""


class _Function(_Plain):
    name: str
    arguments: str


class _Call(_Plain):
    id: str
    type: Literal["function"]
    function: _Function


class System(_Message, tag="system"):
    """A system prompt."""

    content: str


class User(_Message, tag="user"):
    """A prompt."""

    content: str


class Assistant(_Message, tag="assistant"):
    """An answer: text, calls, or both."""

    content: str | None = None
    tool_calls: list[_Call] | None = None


class Tool(_Message, tag="tool"):
    """The result of a call."""

    content: str
    tool_call_id: str


class Conversation(_Plain):
    """A row of nothing but messages."""

    messages: list[System | User | Assistant | Tool]


DECODER: Final = msgspec.json.Decoder(Conversation)


def session(row: Row, found: Conversation, ledger: Ledger) -> Session | None:
    """Give the session of a row and count its messages; ``None`` when it needs a closer look."""
    turns: list[Turn] = []
    steps: list[Step] = []
    waiting: dict[str, Step] = {}
    known: set[str] = set()
    system: list[tuple[int, str]] = []
    notes: list[dict[str, int]] = []
    for index, message in enumerate(found.messages):
        text = message.content
        if type(message) is Assistant:
            step = Step([Text(text)] if text else [], [], [])
            if message.tool_calls:
                if not _declare(message.tool_calls, step, waiting, known):
                    return None
            elif not text:
                return None
            if not turns:
                turns.append(Turn("", None, steps))
            steps.append(step)
        elif type(message) is Tool:
            call_id = message.tool_call_id
            called = waiting.pop(call_id, None)
            # Results stand in the order of their calls.
            if called is None or called.tool_calls[len(called.tool_results)].id != call_id:
                return None
            called.tool_results.append(ToolResult(call_id, [Text(text)] if text else []))
        elif not text:
            return None
        elif type(message) is User:
            steps = []
            turns.append(Turn(text, None, steps))
        else:
            system.append((index, text))
            notes.append({"turn": len(turns), "step": len(steps)} if turns else {})
    if not turns:
        return None
    ledger.seen(len(found.messages))
    for index, _ in system:
        ledger.aside("system-prompt-aside", f"{row.place}/messages/{index}")
    ledger.mapped(len(found.messages) - len(system))
    if waiting:
        ledger.note("tool-result-missing", None, len(waiting))
    extra: Extra | None = None
    if system:
        extra = {"system": [text for _, text in system]}
        if any(notes):
            extra["native"] = {"system": notes}
    return Session(meta=Meta(row.identity), provider=ID, turns=turns, extra=extra)


def _declare(calls: list[_Call], step: Step, waiting: dict[str, Step], known: set[str]) -> bool:
    """Put calls into their step; false when one is not in plain form or its id is not new."""
    content, made = step.content, step.tool_calls
    for call in calls:
        call_id, function = call.id, call.function
        name, arguments = function.name, function.arguments
        if not call_id or call_id in known or not name:
            return False
        if arguments[:1] != "{" or arguments[-1:] != "}":
            return False
        known.add(call_id)
        waiting[call_id] = step
        content.append(ToolCallBlock(call_id, name, arguments))
        made.append(ToolCall(call_id, name, arguments))
    return True
