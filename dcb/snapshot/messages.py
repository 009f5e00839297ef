"""From a session of the turns IR to the messages that a snapshot is compiled from.

What feeds which layer:

- the text blocks of a prompt: one message of role ``user``
- the text blocks of a step: one message of role ``assistant``
- the summary of a compaction: a message of role ``system`` that feeds the summary
  layer only (it restates what the conversation itself holds)
- reasoning, tool calls, tool results and images: nothing. They would flood the verbatim
  layer with text that nobody decided on; they are counted in :class:`Feed`.

A message keeps the id that its source gives (``x-dcb`` member ``id``), else its place:
``t3`` for the prompt of the third turn, ``t3.2`` for its second step. A message without a
time has that of the message before it, so that sorting by time keeps it in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from converters.ir import Image, Reasoning, Text

if TYPE_CHECKING:
    from converters.ir import Block, Extra, Session

__all__ = ["Feed", "Message", "messages_of"]


class Message(NamedTuple):
    """A message: ``created_at`` in ms; ``aside``: it feeds the summary layer only."""

    id: str
    role: str
    content: str
    created_at: int = 0
    aside: bool = False


class Feed(NamedTuple):
    """The messages of a session, its last time (ms, 0 if none), and what does not feed them."""

    messages: list[Message]
    last_time: int
    left_out: dict[str, int]


def messages_of(session: Session) -> Feed:
    """Give the messages of a session in their order."""
    found: list[Message] = []
    left = {"reasoning": 0, "toolCalls": 0, "toolResults": 0, "images": 0}
    last = max(session.meta.created_at or 0, 0)
    now = 0
    for number, turn in enumerate(session.turns, 1):
        if turn.compaction is not None:
            now = turn.compaction.time or now
            text = turn.compaction.summary
            found.append(Message(f"t{number}.c", "system", text, now, aside=True))
        now = turn.time or now
        last = max(last, now)
        prompt = _text(turn.prompt_blocks, left) if turn.prompt_blocks else turn.prompt
        if prompt:
            found.append(Message(_id(turn.extra) or f"t{number}", "user", prompt, now))
        for index, step in enumerate(turn.steps, 1):
            now = step.time or now
            last = max(last, now)
            for result in step.tool_results:
                if result.time is not None and result.time > last:
                    last = result.time
            left["toolCalls"] += len(step.tool_calls)
            left["toolResults"] += len(step.tool_results)
            text = _text(step.content, left) if step.content else ""
            if text:
                name = _id(step.extra) or f"t{number}.{index}"
                found.append(Message(name, "assistant", text, now))
    return Feed(found, last, left)


def _text(blocks: list[Block], left: dict[str, int]) -> str:
    texts = []
    for block in blocks:
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, Reasoning):
            left["reasoning"] += 1
        elif isinstance(block, Image):
            left["images"] += 1
    return texts[0] if len(texts) == 1 else "\n\n".join(texts)


def _id(extra: Extra | None) -> str | None:
    value = extra.get("id") if extra else None
    return value if isinstance(value, str) and value else None
