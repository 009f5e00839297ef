"""Checks of the documents that dcb reads and writes, for people and for CI.

:func:`check_snapshot` and :func:`check_json` give every problem of one document;
:mod:`dcb.checking.secrets` finds credentials; :mod:`dcb.checking.output` writes findings
for terminals and for the machines of CI.
"""

from __future__ import annotations

from dcb.checking.documents import Kind, check_json, kind_of
from dcb.checking.snapshots import MOST_TOKENS, check_snapshot
from dcb.snapshot.problem import Problem

__all__ = ["MOST_TOKENS", "Kind", "Problem", "check_json", "check_snapshot", "kind_of"]
