"""The token estimate: CJK characters count one each, everything else 3.6 UTF-16 units a token.

Source: published snapshot format, section 6; program 0.2.0, token estimate.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from converters.text import units

if TYPE_CHECKING:
    from dcb.snapshot.model import Preference, Snapshot

__all__ = ["estimate", "estimate_preference", "estimate_snapshot"]

_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_UNITS_PER_TOKEN: Final = 3.6


def estimate(text: str) -> int:
    """Give the estimated tokens of a text, rounded up."""
    if text.isascii():
        return math.ceil(len(text) / _UNITS_PER_TOKEN)
    cjk = sum(map(len, _CJK.findall(text)))
    return math.ceil(cjk + (units(text) - cjk) / _UNITS_PER_TOKEN)


def estimate_preference(preference: Preference) -> int:
    """Give the estimated tokens of ``key value``."""
    return estimate(f"{preference.key} {preference.value}")


def estimate_snapshot(snapshot: Snapshot) -> int:
    """Give the estimated tokens of the three layers, each text rounded up by itself."""
    return (
        sum(estimate(entry.content) for entry in snapshot.verbatim)
        + sum(
            estimate(section.heading) + sum(map(estimate, section.bullets))
            for section in snapshot.summary
        )
        + sum(map(estimate_preference, snapshot.preferences))
    )
