"""JSON as JavaScript's ``JSON.stringify`` writes it: the canonical form of fingerprints.

Source: Interchange v1, section 7.2 (ECMAScript, ``JSON.stringify`` and ``Number::toString``).
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

__all__ = ["js_dumps", "js_number"]

_ESCAPE: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_SHORT: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
_INDEX: Final = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z", re.ASCII)
_LAST_INDEX: Final = 4294967294


def js_number(value: float) -> str:
    """Give a number as JavaScript prints it; integers beyond 2^53 lose precision first."""
    if isinstance(value, int) and -(1 << 53) <= value <= 1 << 53:
        return str(value)
    try:
        number = float(value)
    except OverflowError:
        return "null"
    if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124
        return "null"
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        if len(digits) <= point:
            return sign + digits.ljust(point, "0")
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"e{point - 1:+d}"
    return sign + digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "") + power


def _string(text: str) -> str:
    try:
        # Escapes as JavaScript does; refuses lone surrogates.
        return orjson.dumps(text).decode()
    except TypeError:
        pass
    return '"' + _ESCAPE.sub(_escape, text) + '"' if _ESCAPE.search(text) else f'"{text}"'


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"


def _members(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Put names that are array indexes first, in ascending order."""
    indexes = [name for name in value if _INDEX.match(name) and int(name) <= _LAST_INDEX]
    if not indexes:
        return list(value.items())
    indexes.sort(key=int)
    first = set(indexes)
    return [(name, value[name]) for name in indexes] + [
        (name, item) for name, item in value.items() if name not in first
    ]


def js_dumps(value: Any) -> str:
    """Write a parsed JSON value like ``JSON.stringify`` without indentation.

    The text may hold no lone surrogate (they are escaped) and encodes as UTF-8.
    Walks with an explicit stack, so depth is no limit.
    """
    out: list[str] = []
    stack: list[Any] = [(value,)]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        (node,) = item
        if node is None:
            out.append("null")
        elif node is True:
            out.append("true")
        elif node is False:
            out.append("false")
        elif isinstance(node, str):
            out.append(_string(node))
        elif isinstance(node, int | float):
            out.append(js_number(node))
        elif isinstance(node, dict):
            parts: list[Any] = []
            for name, child in _members(node):
                parts += ["," if parts else "{", _string(name) + ":", (child,)]
            stack += reversed([*parts, "}"] if parts else ["{}"])
        else:
            parts = []
            for child in node:
                parts += ["," if parts else "[", (child,)]
            stack += reversed([*parts, "]"] if parts else ["[]"])
    return "".join(out)
