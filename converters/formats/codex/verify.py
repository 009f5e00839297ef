"""Checks before a rollout is written into the tool's own store.

Rule: Interchange v1, section 10, and the reference exporter's own checks.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

__all__ = ["Problem", "verify"]

_MOST = 20


class Problem(NamedTuple):
    """A line number and what is wrong there.

    Codes: ``trailing-newline``, ``blank-line``, ``json-parse``, ``no-records``,
    ``no-session-meta``.
    """

    line: int
    code: str


def verify(text: str) -> list[Problem]:
    """Give the problems of a rollout as text: none when the tool can resume it."""
    problems: list[Problem] = []
    lines = text.split("\n")
    if lines[-1] or len(lines) == 1:
        problems.append(Problem(1, "trailing-newline"))
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    found = False
    kind = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            problems.append(Problem(number, "blank-line"))
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, ValueError):
            problems.append(Problem(number, "json-parse"))
            continue
        if not found:
            kind = value.get("type") if isinstance(value, dict) else None
        found = True
    if not found:
        problems.append(Problem(1, "no-records"))
    elif kind != "session_meta":
        problems.append(Problem(1, "no-session-meta"))
    return problems[:_MOST]
