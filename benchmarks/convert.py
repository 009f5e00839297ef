"""Measures `dcb convert FILE --to interchange` against the floor: reading the JSON and no more.

    python benchmarks/convert.py                      # claude, codex and chatgpt at 100 MB
    python benchmarks/convert.py claude --megabytes 20 --runs 9

The floor is `orjson.loads` over each line of a JSONL file, or over the whole document. Both sides
run as children of this process, in turns; the medians count, and the start of the interpreter
(`dcb --version`, `python -c "import orjson"`) is taken off both. Wall time is what the design
asks for; CPU time says the same on a machine that does other work. Memory is the peak of the child.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import generate

if TYPE_CHECKING:
    from collections.abc import Iterator

DCB = "from dcb.__main__ import main; main()"
_FLOORS = {
    ".jsonl": "import sys, orjson\nfor line in open(sys.argv[1], 'rb'): orjson.loads(line)",
    ".json": "import sys, orjson\norjson.loads(open(sys.argv[1], 'rb').read())",
}


_MANY = ("chatgpt", "openai-chat")


class Run(NamedTuple):
    """What a child took: seconds on the clock, seconds of CPU, peak memory in bytes."""

    wall: float
    cpu: float
    memory: int


def child(*arguments: str) -> Run:
    """Run Python in a child and measure it; raises when it fails."""
    start = time.perf_counter()
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        # As installed: compiled modules are there.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pid = os.posix_spawn(
        sys.executable, [sys.executable, *arguments], environment, file_actions=quiet
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"child failed with status {status}: {arguments}")
    wall = time.perf_counter() - start
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def median(runs: list[Run], start: Run | None = None) -> Run:
    """Give the medians of runs, less what the start of the interpreter takes."""
    wall = statistics.median(run.wall for run in runs)
    cpu = statistics.median(run.cpu for run in runs)
    memory = max(run.memory for run in runs)
    return Run(wall - start.wall, cpu - start.cpu, memory) if start else Run(wall, cpu, memory)


def measure(kind: str, megabytes: float, runs: int, folder: Path) -> Iterator[str]:
    """Give the row of one format; one that holds many sessions also into a folder of files."""
    suffix = generate.KINDS[kind][4]
    source = folder / f"{kind}{suffix}"
    size = generate.write(kind, megabytes, source)
    yield _row(kind, size, _compare(source, runs, folder / f"{kind}-out", ".jsonl"))
    if kind in _MANY:
        found = _compare(source, runs, folder / f"{kind}-out", "/")
        yield _row(f"{kind}, a file each", size, found)


def _compare(source: Path, runs: int, target: Path, end: str) -> tuple[Run, Run]:
    """Give the medians of the floor and of dcb, which writes to another place each time.

    File systems are slow for seconds where many files were deleted.
    """
    kind, suffix = source.stem, source.suffix
    convert = ("-c", DCB, "convert", "--from", kind, str(source), "--to", "interchange", "-o")
    floors: list[Run] = []
    ours: list[Run] = []
    starts: list[Run] = []
    bare: list[Run] = []
    child(*convert, f"{target}-0{end}")
    for number in range(1, runs + 1):
        bare.append(child("-c", "import orjson"))
        starts.append(child("-c", DCB, "--version"))
        floors.append(child("-c", _FLOORS[suffix], str(source)))
        ours.append(child(*convert, f"{target}-{number}{end}"))
    return median(floors, median(bare)), median(ours, median(starts))


def _row(name: str, size: int, found: tuple[Run, Run]) -> str:
    floor, dcb = found
    return (
        f"| {name} | {size / 1e6:.0f} MB | {floor.wall:.2f} s | {dcb.wall:.2f} s "
        f"| {dcb.wall / floor.wall:.2f} x | {dcb.cpu / floor.cpu:.2f} x "
        f"| {dcb.memory / 1e6:.0f} MB | {dcb.memory / size:.2f} x |"
    )


def main() -> None:
    """Print the table for the formats that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", help="formats that generate.py makes")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    print("| format | file | floor | dcb | wall | cpu | peak memory | of the file |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.kinds or ("claude", "codex", "chatgpt"):
            for row in measure(kind, args.megabytes, args.runs, Path(folder)):
                print(row, flush=True)


if __name__ == "__main__":
    main()
