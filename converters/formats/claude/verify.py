"""Checks before a transcript is written into the tool's own store.

Rule: Interchange v1, section 10 ("Checks before writing back").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

__all__ = ["Problem", "verify"]

_MOST = 20


class Problem(NamedTuple):
    """A line number and what is wrong there.

    Codes: ``trailing-newline``, ``blank-line``, ``json-parse``, ``no-records``,
    ``first-line-not-mode``, ``dangling-parentUuid``, ``duplicate-uuid``, ``last-line-no-uuid``.
    """

    line: int
    code: str


def verify(text: str) -> list[Problem]:
    """Give the problems of a transcript as text: none when the tool can resume it."""
    problems: list[Problem] = []
    lines = text.split("\n")
    if lines[-1]:
        problems.append(Problem(1, "trailing-newline"))
    else:
        lines.pop()
    records: list[tuple[int, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            problems.append(Problem(number, "blank-line"))
            continue
        try:
            records.append((number, msgspec.json.decode(line)))
        except (msgspec.DecodeError, RecursionError, ValueError):
            problems.append(Problem(number, "json-parse"))
    if not records:
        return [*problems, Problem(1, "no-records")][:_MOST]
    return (problems + _chain(records))[:_MOST]


def _chain(records: list[tuple[int, Any]]) -> list[Problem]:
    problems: list[Problem] = []
    first = records[0][1]
    if not (
        isinstance(first, dict) and first.get("type") == "mode" and bool(first.get("sessionId"))
    ):
        problems.append(Problem(records[0][0], "first-line-not-mode"))
    seen: set[str] = set()
    for number, record in records:
        if not isinstance(record, dict):
            continue
        parent, own = record.get("parentUuid"), record.get("uuid")
        if isinstance(parent, str) and parent and parent not in seen:
            problems.append(Problem(number, "dangling-parentUuid"))
        if isinstance(own, str) and own:
            if own in seen:
                problems.append(Problem(number, "duplicate-uuid"))
            seen.add(own)
    number, last = records[-1]
    if not (isinstance(last, dict) and last.get("uuid")):
        problems.append(Problem(number, "last-line-no-uuid"))
    return problems
