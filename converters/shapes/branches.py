"""Alternatives of one conversation: further choices, candidates, rejected answers.

The first alternative is the session; the others are branches (DESIGN, section 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from converters.ledger import Place
    from converters.types import Context, Options

__all__ = ["branch_id", "chosen", "left_out"]


def chosen(options: Options, count: int) -> list[int]:
    """Give the alternatives that become sessions: the first, all, or the one asked for.

    Without alternatives (``count`` 0) there is the conversation itself, number 0. None is
    chosen where the one asked for is missing.
    """
    there = range(max(count, 1))
    wanted = options.branch
    if wanted == "all":
        return list(there)
    number = 0 if wanted == "active" else wanted
    return [number] if number in there else []


def left_out(ctx: Context, place: Place, records: int, count: int = 0) -> bool:
    """Whether a conversation lacks the alternative asked for; its records are counted then."""
    if chosen(ctx.options, count):
        return False
    ctx.ledger.skipped("branch-collapsed", place, records)
    return True


def branch_id(identity: str, number: int) -> str:
    """Give the session id of an alternative: that of the first is the conversation's own."""
    return identity if number == 0 else f"{identity}~b{number}"
