"""JSON in the cells of Cursor's databases."""

from __future__ import annotations

from typing import Any

import msgspec

from converters import jsonio

__all__ = ["parsed"]


def parsed(value: Any) -> Any:
    """Parse a cell, text or blob; ``None`` when it is no JSON."""
    if isinstance(value, str):
        value = value.encode("utf-8", "replace")
    if not isinstance(value, bytes):
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError):
        try:
            return jsonio.loads_exact(value)
        except (ValueError, RecursionError):
            return None
