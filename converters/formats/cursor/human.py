"""User text without the wrappers that Cursor puts around it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["said", "stamped"]

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


_STAMP: Final = ("<timestamp>", "</timestamp>")
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"
_SPOKEN: Final = re.compile(
    r"(?:[A-Z][a-z]+, )?([A-Z][a-z]{2})[a-z]* ([0-9]{1,2}), ([0-9]{4}), "
    r"([0-9]{1,2}):([0-9]{2}) ([AP])M(?: \(UTC(?:([+-])([0-9]{1,2})(?::([0-9]{2}))?)?\))?"
)


def stamped(text: str) -> tuple[str, str | None]:
    """Give a text without the time that the agent puts before a prompt, and that time.

    ``Sunday, Jul 26, 2026, 1:06 PM (UTC+3)`` comes as ISO 8601, anything else as it stands.
    Source: the notes of deja-vu on Cursor's transcripts (public repository, 2026).
    """
    start = text.lstrip("\n ")
    end = start.find(_STAMP[1]) if start.startswith(_STAMP[0]) else -1
    if end < 0:
        return text, None
    return start[end + len(_STAMP[1]) :], _iso(start[len(_STAMP[0]) : end].strip())


def _iso(spoken: str) -> str:
    found = _SPOKEN.fullmatch(spoken) if len(spoken) < 80 else None
    month = _MONTHS.find(found[1]) if found is not None else -1
    if found is None or month % 3:
        return spoken
    day, year, hour, minute, half, sign, hours, minutes = found.groups()[1:]
    clock = int(hour) % 12 + (12 if half == "P" else 0)
    zone = "" if "(" not in spoken else f"{sign}{hours:0>2}:{minutes or '00'}" if sign else "Z"
    return f"{year}-{month // 3 + 1:02}-{day:0>2}T{clock:02}:{minute}:00{zone}"


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
