"""What is wrong with a document: one record per finding, with its place."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Problem", "Severity"]

Severity: TypeAlias = Literal["error", "warning"]


class Problem(NamedTuple):
    """One finding.

    ``code`` is stable; ``line`` counts from 1, 0 where there is none;
    ``pointer`` is a JSON pointer for findings in JSON documents.
    """

    severity: Severity
    code: str
    line: int
    message: str
    pointer: str | None = None
