"""Transcripts of other agents that Codex Desktop imported: tools flattened into assistant text.

``[external_agent_tool_call: NAME]...[/external_agent_tool_call]`` and
``[external_agent_tool_result]...[/external_agent_tool_result]`` (with ``: error``) become calls and
results again, paired in order. Source: fact sheet ``codex``, "External-agent envelopes".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from converters.formats.codex.records import Payload
    from converters.formats.codex.walk import Walk

__all__ = ["restore"]

_MARK: Final = "[external_agent_tool_"
_OPEN: Final = re.compile(r"\[external_agent_tool_(call|result)(?::\s*+([^\]\n]{0,200}))?\]")


def restore(item: Payload, walk: Walk, place: Any, time: int | None) -> None:
    """Give a message to the walk; one with envelopes as text, calls and results in order."""
    text = _only_text(item) if item.role == "assistant" else None
    if text is None or _MARK not in text:
        walk.message(item, place, time)
        return
    walk.mirrors.item("assistant", [text])
    walk.assistant_pieces(_pieces(text), place, time)


def _only_text(item: Payload) -> str | None:
    content = item.content
    if isinstance(content, str):
        return content
    if content and all(part.text is not None for part in content):
        return "\n".join(part.text or "" for part in content)
    return None


def _pieces(text: str) -> list[tuple[str, str, str]]:
    """Cut a text into ``(text | call | result, name or mark, body)``; unclosed ones stay text."""
    pieces: list[tuple[str, str, str]] = []
    position = 0
    while True:
        found = _OPEN.search(text, position)
        if found is None:
            break
        close = f"[/external_agent_tool_{found[1]}]"
        end = text.find(close, found.end())
        if end < 0:
            break
        before = text[position : found.start()].strip()
        if before:
            pieces.append(("text", "", before))
        pieces.append((found[1], (found[2] or "").strip(), text[found.end() : end].strip("\n")))
        position = end + len(close)
    rest = text[position:].strip()
    if rest:
        pieces.append(("text", "", rest))
    return pieces
