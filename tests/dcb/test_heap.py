"""Room in memory for large inputs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dcb import heap
from tests.paths import ROOT

LOOK = """
import re, sys
from pathlib import Path
from dcb.heap import make_room

def heap():
    maps = Path("/proc/self/smaps").read_text(encoding="utf-8")
    parts = re.findall(r"^(?=[0-9a-f]+-)(?:.*\\n)+?VmFlags:.*$", maps, re.MULTILINE)
    return [part for part in parts if "[heap]" in part.partition("\\n")[0]]

def size(parts):
    return sum(int(re.search(r"^Size: +([0-9]+) kB", part, re.MULTILINE)[1]) for part in parts)

before = heap()
make_room(int(sys.argv[1]))
kept = [bytes([n % 251]) * 2000 for n in range(1000)]
after = heap()
advised = [part for part in after if " hg" in part.rpartition("VmFlags:")[2]]
print(size(before), size(after), size(advised))
"""


def grown(size: int) -> tuple[int, int, int]:
    """Give the size of the heap before and after, and of its part in huge pages, in KiB."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(size)], capture_output=True, cwd=ROOT, text=True,
        timeout=120, check=True,
    )  # fmt: skip
    before, after, advised = (int(number) for number in done.stdout.split())
    return before, after, advised


@pytest.mark.skipif(
    heap._libc() is None or not Path("/proc/self/smaps").exists(), reason="Linux with glibc"
)
def test_the_heap_grows_at_once_for_a_large_input_only() -> None:
    before, after, advised = grown(heap.LARGE - 1)
    assert (after < before + 16_000, advised) == (True, 0)
    before, after, advised = grown(64 << 20)
    assert after >= before + 64_000
    if not re.search(r"\[never\]", _enabled()):
        assert advised >= 64_000


def _enabled() -> str:
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return path.read_text(encoding="utf-8") if path.exists() else "[never]"


def test_nothing_happens_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_libc", lambda: None)
    heap.make_room(1 << 40)
