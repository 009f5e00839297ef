"""Several processes at one store, and processes that are killed."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

from dcb import store
from dcb.store import schema
from tests.dcb.store.snapshots import NOW, snapshot
from tests.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# ------------------------------------------------------------ several at once

WORKER = """
    import sys
    from pathlib import Path
    import os
    sys.path.insert(0, {root!r})
    from dcb import history, store
    from dcb.store import Sealing
    from tests.dcb.store.snapshots import NOW, PASS, snapshot
    home, name, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    env = {{"PATH": os.environ["PATH"], "HOME": str(home)}}
    repo = history.open_history(home / "snapshots", environ=env) if "git" in sys.argv else None
    print("go", flush=True)
    for i in range(n):
        with store.open_store(home, history=repo, now_ms=NOW) as kept:
            store.save(kept, [snapshot(f"{{name}}-{{i}}", f"共同 text {{name}} {{i}}")], now_ms=NOW)
            assert not kept.warnings, kept.warnings
            found = store.search(kept, f"共同 {{name}}", limit=100)
            assert len(found) == i + 1, (len(found), i)
            print(i, flush=True)
"""


def worker(home: Path, name: str, n: int, *more: str) -> subprocess.Popen[str]:
    code = textwrap.dedent(WORKER.format(root=str(ROOT)))
    return subprocess.Popen(
        [sys.executable, "-c", code, home, name, str(n), *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def test_four_processes_save_and_search_at_once(tmp_path: Path) -> None:
    more = ["git"] if shutil.which("git") else []
    started = [worker(tmp_path, f"w{k}", 12, *more) for k in range(4)]
    for process in started:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
    with store.open_store(tmp_path) as kept:
        assert len(store.listing(kept, limit=-1)) == 48
        assert len(store.search(kept, "共同", limit=100)) == 48
        assert store.integrity(kept) == []
    if more:
        listed = subprocess.run(
            ["git", "-C", tmp_path / "snapshots", "rev-list", "--count", "HEAD"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert listed.stdout.strip() == "48"


def test_killed_while_saving_it_stays_whole(tmp_path: Path) -> None:
    more = ["git"] if shutil.which("git") else []
    dice = random.Random(7)
    told: set[str] = set()
    for k in range(12):
        process = worker(tmp_path, f"k{k}", 200, *more)
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(dice.uniform(0.01, 0.5))
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        told |= {f"k{k}-{line}" for line in out.split()}
    with store.open_store(tmp_path) as kept:
        assert store.integrity(kept) == []
        names = {row.snapshot_id for row in store.listing(kept, limit=-1)}
        assert told <= names  # what a save returned from is there
        assert len(store.search(kept, "共同", limit=9999)) == len(names)
    last = worker(tmp_path, "last", 2, *more)
    _, errors = last.communicate(timeout=120)
    assert last.returncode == 0, errors


def test_a_reader_sees_no_half_batch(tmp_path: Path) -> None:
    with store.open_store(tmp_path) as one, store.open_store(tmp_path) as other:
        with schema.transaction(one):
            one.db.execute("DELETE FROM snapshots")
            assert store.listing(other) == []
        store.save(one, [snapshot("a"), snapshot("b")], now_ms=NOW)
        assert len(store.listing(other)) == 2
