"""Reading in memory for reader tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from converters.ledger import Ledger, Report
from converters.opening import Memory
from converters.types import Context, Options

if TYPE_CHECKING:
    from converters.ir import Session
    from converters.types import Format


def read(
    record: Format,
    data: bytes,
    name: str = "session.jsonl",
    around: dict[str, bytes] | None = None,
    **options: Any,
) -> tuple[list[Session], Report]:
    """Give the sessions of bytes and the account, which must balance."""
    ledger = Ledger(name)
    assert record.read is not None
    context = Context(ledger, Options(**options))
    sessions = list(record.read(Memory(data, name, around), context))
    report = ledger.report()
    assert report.balanced, report
    return sessions, report


def lines(*records: Any) -> bytes:
    """Give JSON Lines of objects; bytes go in as they are."""
    return b"".join(
        (r if isinstance(r, bytes) else json.dumps(r, ensure_ascii=False).encode()) + b"\n"
        for r in records
    )


def counts(report: Report) -> dict[str, int]:
    """Give how often each rule applied."""
    return {entry.rule: entry.count for entry in report.entries}
