"""Measures what many small runs feel: the start of the command line, and ``--jobs``.

    python benchmarks/start.py
    python benchmarks/start.py --sessions 500 --kilobytes 200 --runs 5

`dcb --help` is compared with the help of a Typer application that has one command without
options; `--jobs 2` with `--jobs 1` on a folder of sessions. All run as children, in turns; the
medians of wall time count.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import convert
import generate

_EMPTY = """
import typer
app = typer.Typer(rich_markup_mode=None)
@app.command()
def main() -> None: pass
app()
"""


def help_ratio(runs: int) -> str:
    """Give the row of the start."""
    ours, empty = [], []
    for _ in range(runs):
        empty.append(convert.child("-c", _EMPTY, "--help").wall)
        ours.append(convert.child("-c", convert.DCB, "--help").wall)
    one, other = statistics.median(ours), statistics.median(empty)
    return f"| `dcb --help` | {one:.3f} s | empty Typer app | {other:.3f} s | {one / other:.2f} x |"


def jobs_ratio(sessions: int, kilobytes: float, runs: int, folder: Path) -> str:
    """Give the row of two processes."""
    source = folder / "sessions"
    source.mkdir()
    for number in range(sessions):
        generate.write("claude", kilobytes / 1000, source / f"{number}.jsonl", seed=number)
    times: dict[int, list[float]] = {1: [], 2: []}
    command = ("-c", convert.DCB, "convert", str(source), "--to", "interchange")
    for run in range(runs):
        for jobs, found in times.items():
            # File systems are slow for seconds where many files were deleted.
            target = f"{folder}/{run}-{jobs}/"
            found.append(convert.child(*command, "-o", target, "--jobs", str(jobs)).wall)
    one, two = statistics.median(times[1]), statistics.median(times[2])
    what = f"`--jobs 1`, {sessions} files"
    return f"| {what} | {one:.2f} s | `--jobs 2` | {two:.2f} s | {one / two:.2f} x |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--kilobytes", type=float, default=200)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    print("| this | time | that | time | ratio |")
    print("| --- | --- | --- | --- | --- |")
    print(help_ratio(4 * args.runs), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(jobs_ratio(args.sessions, args.kilobytes, args.runs, Path(folder)))


if __name__ == "__main__":
    main()
