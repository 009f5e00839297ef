"""What a conversion costs against orjson.loads over the same bytes.

    python benchmarks/convert.py [--mb 100] [--runs 3] [claude codex chatgpt openai-chat ...]

Each figure is the median processor time (user and system) of runs in processes of their own,
with the start of the interpreter taken off both sides (``dcb --version``, ``python -c "import
orjson"``). The floor parses each line, or the whole document. Memory is the peak resident size
of the conversion. ``--jobs`` measures two processes against one on 500 sessions, by the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

_FLOOR = """
import sys, orjson
with open(sys.argv[1], "rb") as file:
    if sys.argv[2] == "lines":
        for line in file:
            orjson.loads(line)
    else:
        orjson.loads(file.read())
"""
_DCB = [sys.executable, "-c", "from dcb.cli import main; main()"]
_GENERATE = Path(__file__).with_name("generate.py")
_WHOLE = ("interchange", "chatgpt")
_TARGETS = {"claude": 2.0, "codex": 2.0}


class Cost(NamedTuple):
    """Processor seconds, seconds by the clock, peak memory in MiB."""

    cpu: float
    clock: float
    mib: float


def run(command: list[str]) -> Cost:
    """Run a command and give what it cost."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    clock = time.perf_counter() - start
    return Cost(usage.ru_utime + usage.ru_stime, clock, usage.ru_maxrss / 1024)


def median(command: list[str], runs: int) -> Cost:
    """Give the median of each figure over several runs."""
    costs = [run(command) for _ in range(runs)]
    return Cost(*(statistics.median(values) for values in zip(*costs, strict=True)))


def generate(kind: str, mb: float, target: Path, *more: str) -> None:
    """Make the input."""
    command = [sys.executable, str(_GENERATE), kind, str(mb), str(target), *more]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def convert(kind: str, mb: int, runs: int, folder: Path, idle: tuple[float, float]) -> str:
    """Give the row of one kind of source."""
    whole = kind in _WHOLE
    source = folder / f"{kind}.{'json' if whole else 'jsonl'}"
    generate(kind, mb, source)
    many = kind in ("chatgpt", "openai-chat")
    out = str(folder / "out") + ("/" if many else ".json")
    command = [*_DCB, "convert", str(source), "--from", kind, "--to", "interchange", "--force"]
    cost = median([*command, "-o", out], runs)
    mode = "document" if whole else "lines"
    floor = median([sys.executable, "-c", _FLOOR, str(source), mode], runs)
    ratio = (cost.cpu - idle[0]) / (floor.cpu - idle[1])
    size = source.stat().st_size
    source.unlink()
    return (
        f"| `{kind}` | {size / 1e6:.0f} MB | {floor.cpu - idle[1]:.2f} s | {ratio:.2f} x | "
        f"{_TARGETS.get(kind, 3.0):.1f} x | {cost.mib:.0f} MiB ({cost.mib * 2**20 / size:.2f} x) |"
    )


def jobs(folder: Path) -> str:
    """Give how much two processes gain on 500 sessions."""
    source = folder / "many"
    generate("claude", 0.2, source, "--files", "500")
    command = [*_DCB, "convert", str(source), "--to", "interchange", "--force"]
    times = [
        median([*command, "-o", f"{folder}/out{n}/", "--jobs", str(n)], 3).clock for n in (1, 2)
    ]
    return f"500 sessions of 0.2 MB: --jobs 2 is {times[0] / times[1]:.2f} x as fast as one job."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", action="store_true")
    args = parser.parse_args()
    kinds = args.kinds or ["claude", "codex", "chatgpt", "openai-chat", "interchange"]
    idle = (
        median([*_DCB, "--version"], 5).cpu,
        median([sys.executable, "-c", "import orjson"], 5).cpu,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.jobs:
            print(jobs(folder))
            return
        print("| source | size | floor | convert to interchange | target | peak memory |")
        print("| --- | --- | --- | --- | --- | --- |")
        for kind in kinds:
            print(convert(kind, args.mb, args.runs, folder, idle), flush=True)


if __name__ == "__main__":
    main()
