"""Text rules that several formats share: JavaScript's whitespace, UTF-16 units, titles, times."""

from __future__ import annotations

import contextlib
import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = [
    "JS_SPACE",
    "Time",
    "clip_units",
    "datetime_ms",
    "estimate_tokens",
    "iso_ms",
    "normalize_title",
    "parse_time",
    "units",
]

JS_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""The whitespace of JavaScript's ``trim`` and ``\\s``; ``str.strip()`` differs."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_RUN: Final = re.compile(f"[{JS_SPACE}]+")
# Compiled on first use: that takes longer than the rest of this module.
_WIDE: Final = (
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3000-\u303f\uff00-\uffef\U00020000-\U0002a6df]+"
)
_ISO: Final = re.compile(
    r"([+-]\d{6}|\d{4})-(\d\d)(?:-(\d\d))?"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|z|UTC|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_USUAL: Final = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d\.\d{3}Z", re.ASCII)
_MAX_SAFE: Final = (1 << 53) - 1
_MAX_DATE: Final = 8_640_000_000_000_000


def units(text: str) -> int:
    """Give the length in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def clip_units(text: str, limit: int) -> str:
    """Give the first ``limit`` UTF-16 units; a pair that would be cut in half is left out."""
    if len(text) * 2 <= limit or units(text) <= limit:
        return text
    data = text.encode("utf-16-le", "surrogatepass")[: limit * 2]
    if 0xD8 <= data[-1] <= 0xDB:
        data = data[:-2]
    return data.decode("utf-16-le", "surrogatepass")


def normalize_title(text: str) -> str:
    """Fold whitespace runs, trim, cut to 80 UTF-16 units (79 and an ellipsis).

    The cut counts units, so it can leave half of a surrogate pair, as the
    reference does; :func:`converters.turns.title_of` mends that.
    Rule: Interchange v1, section 4.3.
    """
    folded = _RUN.sub(" ", text[:4096] if len(text) > 4096 else text).strip(" ")
    if units(folded) <= 80:
        return folded
    data = folded.encode("utf-16-le", "surrogatepass")[: 79 * 2]
    return data.decode("utf-16-le", "surrogatepass") + "\u2026"


class Time(NamedTuple):
    """A parsed time: milliseconds since the epoch, and whether a zone had to be assumed."""

    ms: int
    assumed: bool = False


def parse_time(value: Any, tz: tzinfo | None = None) -> Time | None:
    """Read a foreign time: a number in s, ms or us by magnitude, or ISO 8601 text.

    Numbers: 1e14 and more are microseconds, 1e11 and more milliseconds, below
    seconds. A text without a zone is taken in ``tz`` (UTC) and marked
    ``assumed``; a date without a time is UTC by ISO rule. ``None`` when it is
    not a time. Source: shared rule 1 of the source fact sheets; Interchange v1, section 4.1.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        ms = number_ms(value, micro=True)
        return None if ms is None else Time(ms)
    if not isinstance(value, str):
        return None
    if _USUAL.fullmatch(value):
        # Nearly every time of every tool; the parts would take five times as long.
        with contextlib.suppress(ValueError):
            return Time(datetime_ms(datetime.fromisoformat(value)))
    match = _ISO.fullmatch(value.strip(" \t\r\n"))
    return _from_parts(match, tz) if match else None


def number_ms(value: float, *, micro: bool = False) -> int | None:
    """Give milliseconds for a number: below 1e11 it is seconds; rounded half up."""
    if not -1e18 < value < 1e18:  # also refuses NaN
        return None
    if abs(value) < 1e11:
        value = value * 1000
    elif micro and abs(value) >= 1e14:
        value = value / 1000
    ms = value if isinstance(value, int) else math.floor(value + 0.5)
    return ms if -_MAX_SAFE <= ms <= _MAX_SAFE else None


def _from_parts(match: re.Match[str], tz: tzinfo | None) -> Time | None:
    year, month, day, hour, minute, second, fraction, zone = match.groups("")
    try:
        at = datetime(
            int(year),
            int(month),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            tzinfo=UTC,
        )
        if hour != "" and zone == "" and tz is not None:
            at = at.replace(tzinfo=tz).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    ms = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    ms += int(fraction[:3].ljust(3, "0")) if fraction else 0
    if zone and zone[0] in "+-":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        if hours > 23 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * 60_000
        ms -= offset if zone[0] == "+" else -offset
    return Time(ms, assumed=bool(hour) and not zone)


def datetime_ms(time: datetime) -> int:
    """Give a time with a zone in whole ms since the epoch, as :func:`parse_time` does."""
    return (time - _EPOCH) // _MILLISECOND


def iso_ms(ms: int) -> str:
    """Give ``2026-03-01T00:00:00.000Z``; years outside 0..9999 get six digits and a sign."""
    if not -_MAX_DATE <= ms <= _MAX_DATE:
        raise ValueError("time out of range")
    days, rest = divmod(ms, 86_400_000)
    year, month, day = _civil(days)
    clock = f"{rest // 3_600_000:02}:{rest // 60_000 % 60:02}:{rest // 1000 % 60:02}"
    text = f"{year:04}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):06}"
    return f"{text}-{month:02}-{day:02}T{clock}.{rest % 1000:03}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """Give the proleptic Gregorian date of a day number, also outside datetime's years."""
    cycle, day = divmod(days + 719_162, 146_097)
    date = datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return date.year + cycle * 400, date.month, date.day


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per CJK character, all others together a quarter.

    Rule: Interchange v1, section 8 (characters are code points).
    """
    if text.isascii():
        return (len(text) + 3) // 4
    narrow = len(re.sub(_WIDE, "", text))
    return len(text) - narrow + (narrow + 3) // 4
