"""The session id that an importing side mints, and the structural validator."""

from __future__ import annotations

import re
from typing import Any, Final

from converters.ir import MARKER

__all__ = ["mint_session_id", "problems"]

_NO_SLUG: Final = re.compile(r"[^A-Za-z0-9_-]")
_MOST: Final = 20


def mint_session_id(*sources: str | None, now_ms: int) -> str:
    """Give ``import-<slug>`` of the first non-empty source; an empty slug is the time in ms.

    Rule: Interchange v1, section 3.3.
    """
    source = next((text for text in sources if text), "generic")
    return f"import-{_NO_SLUG.sub('', source)[:64] or now_ms}"


def problems(document: Any) -> list[str]:
    """Give the kinds of up to 20 structural problems. Rule: Interchange v1, section 1.6."""
    if not isinstance(document, dict):
        return ["not-object"]
    found: list[str] = []
    if document.get("interchange") != MARKER:
        found.append("namespace")
    version = document.get("version")
    if isinstance(version, bool) or version != 1:
        found.append("version")
    meta = document.get("meta")
    if not isinstance(meta, dict):
        found.append("meta")
    else:
        if not isinstance(meta.get("id"), str) or not meta["id"]:
            found.append("meta-id")
        created = meta.get("createdAt")
        if isinstance(created, bool) or not isinstance(created, int | float):
            found.append("meta-created-at")
    turns = document.get("turns")
    if not isinstance(turns, list):
        found.append("turns")
        return found[:_MOST]
    for turn in turns:
        found += _turn(turn)
        if len(found) >= _MOST:
            break
    return found[:_MOST]


def _turn(turn: Any) -> list[str]:
    if not isinstance(turn, dict):
        return ["turn"]
    found = [] if isinstance(turn.get("prompt"), str) else ["turn-prompt"]
    steps = turn.get("steps")
    if not isinstance(steps, list):
        return [*found, "turn-steps"]
    for step in steps:
        found += _step(step)
    return found


def _step(step: Any) -> list[str]:
    if not isinstance(step, dict):
        return ["step"]
    calls = [
        "tool-call"
        for call in _list(step.get("toolCalls"))
        if not _has(call, "id") or not _has(call, "name")
    ]
    results = [
        "tool-result"
        for result in _list(step.get("toolResults"))
        if not _has(result, "toolCallId") or not isinstance(result.get("content"), list)
    ]
    return calls + results


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _has(value: Any, name: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(name), str) and bool(value[name])
