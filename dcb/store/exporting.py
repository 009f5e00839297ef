"""Names of exported snapshots."""

from __future__ import annotations

import unicodedata
from typing import Final

from converters.text import clip_units
from dcb import files

__all__ = ["export_name"]

_UNITS: Final = 40


def export_name(snapshot_id: str, title: str) -> str:
    """Give ``<id>__<title>.md``.

    Runs of what is no letter, number, ``_`` or ``-`` become one ``_``; the title is cut
    at 40 UTF-16 units, never inside a character. An id that is no safe file name is
    made one. Source: program 0.2.0, export (section 14 of its description).
    """
    parts: list[str] = []
    for char in title:
        kept = char in "_-" or unicodedata.category(char)[0] in "LN"
        if kept:
            parts.append(char)
        elif not parts or parts[-1] != "":
            parts.append("")  # stands for the one underscore of the run
    name = clip_units("".join(part or "_" for part in parts), _UNITS) or "snapshot"
    return f"{files.safe_name(snapshot_id)}__{name}.md"
