"""Lines of DSH logs for tests, read and written in memory."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from converters.formats import dsh
from converters.ledger import Ledger
from converters.opening import Memory
from converters.types import Context, Options
from tests.paths import VECTORS

if TYPE_CHECKING:
    from converters.ir import Session

LOGS = VECTORS / "interchange" / "dsh-log"


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


def event(kind: str, seq: int, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": kind, "seq": seq, "time": 1_700_000_000_000 + seq, "data": data, **more}


def read(
    data: bytes, around: dict[str, bytes] | None = None, **options: Any
) -> tuple[list[Session], Ledger]:
    ledger = Ledger()
    assert dsh.FORMAT.read is not None
    ctx = Context(ledger, Options(**options))
    found = list(dsh.FORMAT.read(Memory(data, "session.jsonl", around), ctx))
    assert ledger.report().balanced
    return found, ledger


# -- properties --------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
