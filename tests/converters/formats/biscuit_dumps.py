"""A dump for tests, and reading and writing in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.formats.biscuit import FORMAT
from converters.ledger import Ledger, Report
from converters.opening import Memory
from converters.types import Context, Options

if TYPE_CHECKING:
    from converters.ir import Session
    from converters.types import Input


DUMP = """=== F1  2026-08-01 09:15:00 UTC+8 ===
Q: one
A: look
[A → run_command] ls 5c
╔K
a
b
╚
[A → edit_file] /p/a.js 2chg ➜ sha=00112233aabb
A: done

=== F2  2026-08-01 09:20:00 UTC+8 ===
Q: two
A: yes"""


DAY = 1_785_546_000_000
"""2026-08-01 09:00:00 in UTC+8."""


def session_of(data: bytes | str, name: str = "x", **options: Any) -> tuple[Session, Report]:
    return read(Memory(data.encode() if isinstance(data, str) else data, name), **options)


def read(source: Input, **options: Any) -> tuple[Session, Report]:
    ledger = Ledger()
    assert FORMAT.read is not None
    (session,) = FORMAT.read(source, Context(ledger, Options(**options)))
    report = ledger.report()
    assert report.balanced
    assert report.records.total > 0
    return session, report
