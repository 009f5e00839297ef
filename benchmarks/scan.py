"""List 10,000 session files from a warm cache: ``python benchmarks/scan.py``.

Prints seconds for the cold and the warm scan; the floor is one ``stat`` of each file.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from converters.registry import lookup
from dcb.scan import Cache, Machine, scan

FILES = 10_000


def generate(home: Path) -> list[Path]:
    """Write small Claude Code sessions in 100 projects."""
    paths = []
    for number in range(FILES):
        folder = home / ".claude/projects" / f"-home-user-p{number % 100}"
        folder.mkdir(parents=True, exist_ok=True)
        identity = f"{number:08d}-0000-4000-8000-000000000000"
        record = {
            "type": "user",
            "uuid": f"u-{number}",
            "parentUuid": None,
            "sessionId": identity,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "cwd": f"/home/user/p{number % 100}",
            "message": {"role": "user", "content": f"question {number}"},
        }
        path = folder / f"{identity}.jsonl"
        path.write_text(json.dumps(record) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def timed(home: Path, cache: Path) -> float:
    start = time.perf_counter()
    n = sum(1 for _ in scan(lookup("claude"), Machine(home, {}, "linux"), cache=Cache(cache)))
    if n != FILES:
        raise SystemExit(f"{n} sessions listed, not {FILES}")
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, cache = Path(folder), Path(folder, "cache", "scan.json")
        paths = generate(home)
        cold = timed(home, cache)
        warm = statistics.median(timed(home, cache) for _ in range(5))
        start = time.perf_counter()
        for path in paths:
            path.stat()
        floor = time.perf_counter() - start
    sys.stdout.write(
        f"| {FILES} sessions | cold {cold:.1f} s | warm {warm:.2f} s | stat alone {floor:.2f} s |\n"
    )


if __name__ == "__main__":
    main()
