"""Numbers and times as text: the loose rules of JavaScript and the strict ones of the format."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from converters.canonical import js_number
from converters.errors import BadInput
from converters.text import iso_ms
from dcb.snapshot.lexing import trim

if TYPE_CHECKING:
    from dcb.snapshot.model import Number

__all__ = [
    "MAX_DATE",
    "MAX_SAFE",
    "date_text",
    "integer",
    "js_date",
    "js_text",
    "loose_number",
    "plain_number",
    "strict_date",
]

MAX_SAFE: Final = (1 << 53) - 1
MAX_DATE: Final = 8_640_000_000_000_000

_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?", re.ASCII
)
_PLAIN: Final = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]{1,30})?(?:e[+-][0-9]{1,3})?", re.ASCII)
_RADIX: Final = re.compile(r"0(?:[xX][0-9a-fA-F]++|[oO][0-7]++|[bB][01]++)", re.ASCII)
_DATE: Final = re.compile(
    r"([+-][0-9]{6}|[0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?"
    r"(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?",
    re.ASCII,
)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def js_text(value: Number) -> str:
    """Give a number as JavaScript prints it: ``0``, ``1.5``, ``NaN``."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return js_number(value)


def loose_number(text: str) -> Number:
    """Convert as JavaScript's ``Number``: blank is 0, garbage is NaN."""
    text = trim(text)
    if not text:
        return 0
    if _DECIMAL.fullmatch(text):
        return _whole(float(text))
    if _RADIX.fullmatch(text):
        try:
            return _whole(float(int(text, 0)))
        except OverflowError:
            return math.inf
    return {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}.get(text, math.nan)


def plain_number(text: str) -> Number | None:
    """Read a number as this format writes it; ``None`` for anything else."""
    if not _PLAIN.fullmatch(text):
        return None
    value = float(text)
    return _whole(value) if abs(value) <= MAX_SAFE else None


def integer(text: str) -> int | None:
    """Read an integer of at most 2^53-1 as this format writes it."""
    value = plain_number(text)
    return value if isinstance(value, int) and "." not in text and "e" not in text else None


def _whole(value: float) -> Number:
    return int(value) if math.isfinite(value) and value.is_integer() else value


def js_date(text: str) -> Number:
    """Give the milliseconds of an ISO 8601 text, NaN for anything else.

    The reference runtime reads other forms too, in its own time zone; they are not written by it.
    """
    ms = _date(text)
    return math.nan if ms is None else ms


def strict_date(text: str) -> int | None:
    """Read a UTC time exactly as :func:`date_text` writes it."""
    ms = _date(text)
    return ms if ms is not None and iso_ms(ms) == text else None


def date_text(value: Number) -> str:
    """Give ``2026-03-01T00:00:00.000Z``; parts below a millisecond are cut.

    :class:`BadInput` for a time that is no time (NaN, or outside the calendar).
    """
    if math.isfinite(value) and abs(value) <= MAX_DATE:
        return iso_ms(math.trunc(value))
    raise BadInput("the snapshot's creation time is no date", position="meta.createdAt")


def _date(text: str) -> int | None:
    match = _DATE.fullmatch(text)
    if not match or text.startswith("-000000"):
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups("")
    y, m, d = int(year), int(month or 1), int(day or 1)
    leap = m == 2 and (y % 4 == 0 and (y % 100 != 0 or y % 400 == 0))
    if not 1 <= m <= 12 or not 1 <= d <= _DAYS[m - 1] + leap:
        return None
    h, n, s = int(hour or 0), int(minute or 0), int(second or 0)
    ms = int(fraction[:3].ljust(3, "0")) if fraction else 0
    if n > 59 or s > 59 or h > 24 or (h == 24 and (n or s or ms)):
        return None
    total = _day_number(y, m, d) * 86_400_000 + h * 3_600_000 + n * 60_000 + s * 1000 + ms
    if len(zone) > 1:
        if int(zone[1:3]) > 23 or int(zone[4:]) > 59:
            return None
        offset = (int(zone[1:3]) * 60 + int(zone[4:])) * 60_000
        total -= offset if zone[0] == "+" else -offset
    return total if abs(total) <= MAX_DATE else None


def _day_number(year: int, month: int, day: int) -> int:
    """Give the days since 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    era, rest = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + rest * 365 + rest // 4 - rest // 100 + of_year - 719_468
