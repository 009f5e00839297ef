"""What the tests of the Codex reader and writer share."""

from __future__ import annotations

from tests.converters.formats.vectors import table

DEVIATIONS = table("deviations_codex.json")
SID = "019e3b4a-1111-7222-aaaa-bbbbccccdddd"
START = 1772438400000
