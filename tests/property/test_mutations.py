"""Damaged input raises nothing but DcbError, and its account still adds up.

Seeded, so that a failure repeats; a found case becomes a golden case.
"""

from __future__ import annotations

import os
import random
import zlib
from typing import TYPE_CHECKING

import pytest

from converters.errors import DcbError
from converters.ledger import Ledger
from converters.opening import Memory
from converters.registry import lookup
from converters.types import Context, Limits
from tests.goldens import Case, case_id, cases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROUNDS = int(os.environ.get("DCB_MUTATIONS", "60"))
INTERESTING = (
    b"null", b"[]", b"{}", b"-1", b"1e999", b"NaN", b"\\ud83d", b"\xff\xfe", b"\x00", b'"', b"}",
    b"]}", b",", b"\n", b"\xed\xa0\x80", b"18446744073709551616", b"\xe2\x80\xa8", b"true", b"[[[[",
)  # fmt: skip


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def flip(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


def insert(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(INTERESTING) + data[at:]


def drop(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at + dice.randrange(1, 64) :]


def repeat(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    end = at + dice.randrange(1, 400)
    return data[:end] + data[at:end] + data[end:]


def swap_value(data: bytes, dice: random.Random) -> bytes:
    """Put something else in the place of one JSON value."""
    starts = [i for i in range(len(data) - 1) if data[i : i + 1] == b":"]
    if not starts:
        return flip(data, dice)
    at = dice.choice(starts) + 1
    end = min((e for e in (data.find(b",", at), data.find(b"}", at)) if e > 0), default=at)
    return data[:at] + dice.choice(INTERESTING) + data[end:]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    cut, flip, insert, drop, repeat, swap_value,
)  # fmt: skip


def around(source: Path) -> tuple[bytes, str, dict[str, bytes]]:
    """Give the main file of a case, its name and its companions."""
    if source.is_file():
        return source.read_bytes(), source.name, {}
    files = {
        str(f.relative_to(source)): f.read_bytes() for f in sorted(source.rglob("*")) if f.is_file()
    }
    main = next(name for name in files if "/" not in name or len(files) == 1)
    return files.pop(main), main, files


def overwrite(data: bytes, dice: random.Random) -> bytes:
    """Damage 16 bytes of a database in place, as a bad sector does."""
    at = 512 * dice.randrange(max(1, len(data) // 512))
    return data[:at] + dice.randbytes(16) + data[at + 16 :]


PAGES = (overwrite, overwrite, cut)


@pytest.mark.parametrize(
    "case", [c for c in cases() if c.source.is_file() or any(c.source.glob("*.*"))], ids=case_id
)
def test_mutated(case: Case) -> None:
    data, name, beside = around(case.source)
    (record,) = lookup(case.format)
    mutations = PAGES if data.startswith(b"SQLite") else MUTATIONS
    dice = random.Random(zlib.crc32(case_id(case).encode()))
    for _ in range(ROUNDS):
        mutated = data
        for _ in range(dice.randrange(1, 4)):
            mutated = dice.choice(mutations)(mutated, dice) if mutated else mutated
        ledger = Ledger(name)
        source = Memory(mutated, name, beside)
        try:
            source.head.values  # noqa: B018 - probes must not raise either
            record.probe(source.head)
            assert record.read is not None
            for _ in record.read(source, Context(ledger, limits=Limits())):
                pass
        except DcbError:
            continue
        assert ledger.report().balanced, mutated
