"""Alternatives of one conversation: further choices, candidates, chosen and rejected answers.

The first alternative is the session; the others are branches (DESIGN, section 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from converters.ledger import Place
    from converters.types import Context, Options

__all__ = ["Answer", "answers", "branch_id", "chosen", "left_out"]


class Answer(NamedTuple):
    """An answer of a preference row: its column, and the messages it consists of.

    ``start`` is how many messages of the row's conversation go before it, ``places`` are the
    pointers of its messages below the row.
    """

    column: str
    messages: list[Any]
    start: int
    places: list[str]


def answers(
    row: dict[str, Any],
    talk: list[Any],
    is_message: Callable[[Any], bool],
    said: Callable[[str], dict[str, Any]],
) -> list[Answer]:
    """Give the answers beside a conversation: ``chosen`` and ``rejected``.

    Each is a text (``said`` makes its message), a message, or a list of messages, which may
    repeat the conversation from its beginning. Without a chosen one there are none.
    """
    found: list[Answer] = []
    for column in ("chosen", "rejected"):
        side = row.get(column)
        start, places = len(talk), [f"/{column}"]
        if isinstance(side, str) and side:
            side = [said(side)]
        elif is_message(side):
            side = [side]
        elif isinstance(side, list) and side and all(is_message(item) for item in side):
            same = 0
            while same < min(len(side), len(talk)) and side[same] == talk[same]:
                same += 1
            start = same or start
            places = [f"/{column}/{index}" for index in range(same, len(side))]
            side = side[same:]
        elif column == "chosen":
            break
        else:
            continue
        found.append(Answer(column, side, start, places))
    return found


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
