"""What a person wrote in a Codex prompt, and what the tool put around it.

Source: fact sheet ``codex``, "Injections". All scans are linear in the text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Human", "scan"]

_TAGS: Final = frozenset(
    {
        "environment_context",
        "user_instructions",
        "INSTRUCTIONS",
        "system-reminder",
        "permissions",
        "turn_aborted",
        "user_shell_command",
        "skill",
        "subagent_notification",
        "collaboration_mode",
    }
)
_OPEN: Final = re.compile(r"\s*+<([A-Za-z][A-Za-z_-]*+)(?:\s[^<>]*+)?>")
_IMAGE_TAG: Final = re.compile(r"\s*+(?:<image(?:\s[^<>]*+)?>|</image>)\s*+")
_HEADINGS: Final = ("# AGENTS.md instructions", "# Files mentioned", "# Context from my IDE setup:")
_REQUEST: Final = "## My request for Codex:"


class Human(NamedTuple):
    """The human part of a text (``None``: there is none); ``injected``: something was left out."""

    text: str | None
    injected: bool = False
    aborted: bool = False


def scan(text: str) -> Human:
    """Split one block of a user message into its human part and the rest."""
    if text[:1] not in "<# \t\r\n":
        return Human(text)
    position = 0
    aborted = False
    while (found := _OPEN.match(text, position)) is not None and found[1] in _TAGS:
        aborted |= found[1] == "turn_aborted"
        end = text.find(f"</{found[1]}>", found.end())
        position = len(text) if end < 0 else end + len(found[1]) + 3
    if _IMAGE_TAG.fullmatch(text):
        # The tool marks where an image stands; the image itself is a block of its own.
        return Human(None, injected=True)
    rest = text[position:].lstrip() if position else text
    if rest.lstrip().startswith(_HEADINGS):
        start = rest.find(_REQUEST)
        if start < 0:
            return Human(None, injected=True, aborted=aborted)
        return Human(rest[start + len(_REQUEST) :].strip() or None, injected=True)
    if not rest or rest.isspace():
        return Human(None, injected=position > 0, aborted=aborted)
    return Human(rest, injected=position > 0, aborted=aborted)
