"""Export and restore killed at random moments leave only whole files; the next run completes."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from converters.formats.dsh_bundle import document as bundle
from dcb.bundle.manifest import NAME, Manifest
from tests.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 25
SESSIONS = 16
TEMPORARY = re.compile(r"\..*\.tmp\Z")


def command(*args: object) -> list[str]:
    return [
        sys.executable,
        "-c",
        "from dcb.__main__ import main; main()",
        "bundle",
        *map(str, args),
    ]


def run(*args: object) -> str:
    done = subprocess.run(command(*args), check=True, cwd=ROOT, capture_output=True, text=True)
    return done.stdout


def killed(limit: float, rng: random.Random, *args: object) -> None:
    """Start the command and kill it at a random moment of its usual time."""
    with subprocess.Popen(
        command(*args), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        time.sleep(rng.uniform(0.0, limit))
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    for n in range(SESSIONS):
        turns = [
            {
                "prompt": f"question {n} {k}",
                "steps": [{"content": [{"type": "text", "text": "x" * 500}]}],
            }
            for k in range(60)
        ]
        document = {
            "interchange": "dsh-chat-import",
            "version": 1,
            "meta": {"id": f"session-{n:03}", "createdAt": 1_786_000_000_000},
            "title": f"Session {n}",
            "provider": "demo",
            "turns": turns,
        }
        (folder / f"{n:03}.json").write_text(json.dumps(document), "utf-8")
    return folder


def whole_files(folder: Path) -> dict[str, bytes]:
    """Give the files of a folder; what a kill left under a temporary name does not count."""
    if not folder.exists():
        return {}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not TEMPORARY.match(path.name)
    }


def timed(*args: object) -> float:
    start = time.monotonic()
    run(*args)
    return time.monotonic() - start


def test_killed_exports_leave_whole_bundles(source: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    limit = timed("export", source, "-o", tmp_path / "reference")
    out = tmp_path / "out"
    for _ in range(KILLS):
        killed(limit, rng, "export", source, "-o", out)
        for name, data in whole_files(out).items():
            if name == NAME:
                Manifest.load(out, data)
            else:
                assert bundle.verify(bundle.parse(data)) == [], name
    run("export", source, "-o", out)
    names = set(whole_files(out))
    assert names == set(whole_files(tmp_path / "reference"))
    run("verify", out)


def test_killed_restores_leave_whole_files(source: Path, tmp_path: Path) -> None:
    rng = random.Random(2)
    bundles = tmp_path / "bundles"
    run("export", source, "-o", bundles)
    for how in (("--native",), ("--to", "dsh")):
        reference = tmp_path / f"reference{len(how)}"
        limit = timed("restore", bundles, *how, "--into", reference)
        expected = whole_files(reference)
        into = tmp_path / f"into{len(how)}"
        for _ in range(KILLS // 2 + 1):
            killed(limit, rng, "restore", bundles, *how, "--into", into)
            found = whole_files(into)
            assert found.items() <= expected.items()
        run("restore", bundles, *how, "--into", into)
        assert whole_files(into) == expected
