"""Processor time of commands in processes of their own, and the sources they are given."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

__all__ = ["DCB", "generated", "options", "starts", "timed"]

DCB = [sys.executable, "-c", "from dcb.__main__ import main; main()"]
_GENERATE = Path(__file__).with_name("generate.py")


def timed(command: list[str], runs: int) -> float:
    """Give the median processor seconds (user and system) of a command."""
    times = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times)


def starts(runs: int) -> tuple[float, float]:
    """Give what the start of dcb and of an interpreter with orjson costs, in seconds."""
    return timed([*DCB, "--version"], runs), timed([sys.executable, "-c", "import orjson"], runs)


def generated(kind: str, megabytes: int, source: Path) -> Path:
    """Write a made-up transcript and give its path."""
    subprocess.run(
        [sys.executable, _GENERATE, kind, str(megabytes), source],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return source


def options(description: str | None) -> argparse.ArgumentParser:
    """Give the options that the comparisons share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    return parser
