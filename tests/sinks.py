"""Sinks in memory for writer tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from converters.ledger import Ledger
from converters.types import Context, Options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Session
    from converters.types import Format


class MemorySink:
    """Collects the main file and its companions."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.files: dict[str, bytes] = {}

    def write(self, data: bytes | bytearray, /) -> object:
        self.data += data
        return len(data)

    def beside(self, name: str, data: bytes) -> None:
        self.files[name] = data


def written(
    record: Format, sessions: Iterable[Session], ledger: Ledger | None = None, **options: object
) -> bytes:
    """Give what a format writes for sessions."""
    assert record.write is not None
    sink = MemorySink()
    record.write(iter(sessions), sink, Context(ledger or Ledger(), Options(format=options)))
    return bytes(sink.data)
