"""User text without the wrappers that Cursor puts around it."""

from __future__ import annotations

from typing import Final

__all__ = ["said"]

_DROPPED: Final = (
    "user_info",
    "project_layout",
    "rules",
    "attached_files",
    "system_reminder",
    "open_and_recently_viewed_files",
    "additional_data",
    "git_status",
    "agent_transcripts",
)


def said(text: str) -> tuple[str, int]:
    """Give what the human wrote, and how many wrappers of the program were taken off."""
    dropped = 0
    for name in _DROPPED:
        opening, closing = f"<{name}>", f"</{name}>"
        kept: list[str] = []
        position = 0
        while (start := text.find(opening, position)) >= 0:
            end = text.find(closing, start)
            if end < 0:
                break
            kept.append(text[position:start])
            position = end + len(closing)
            dropped += 1
        if kept:
            text = "".join([*kept, text[position:]])
    queries = _inner(text, "user_query")
    return ("\n".join(queries) if queries else text.strip("\n ")), dropped


def _inner(text: str, name: str) -> list[str]:
    found: list[str] = []
    position = 0
    opening, closing = f"<{name}>", f"</{name}>"
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        found.append(text[start + len(opening) : end].strip("\n "))
        position = end + len(closing)
    return found
