"""Alternatives of one conversation: further choices, candidates, rejected answers.

The first alternative is the session; the others are branches (DESIGN, section 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from converters.types import Options

__all__ = ["branch_id", "chosen"]


def chosen(options: Options, count: int) -> list[int]:
    """Give the alternatives that become sessions: the first, all, or the one asked for."""
    wanted = options.branch
    if wanted == "all":
        return list(range(count))
    number = 0 if wanted == "active" or not 0 <= wanted < count else wanted
    return [number] if count else []


def branch_id(identity: str, number: int) -> str:
    """Give the session id of an alternative: that of the first is the conversation's own."""
    return identity if number == 0 else f"{identity}~b{number}"
