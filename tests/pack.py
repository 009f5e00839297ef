"""The hostile pack: generated once per run, each case run as a child of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.paths import ROOT, SHARED

GENERATOR = SHARED / "hostile" / "gen_hostile.py"


class Done(NamedTuple):
    """What a child left: exit code and streams."""

    code: int
    out: str
    err: str


@cache
def pack() -> Path:
    """Give the folder of the pack, made anew for this process."""
    folder = Path(tempfile.mkdtemp(prefix="dcb-pack-"))
    subprocess.run([sys.executable, str(GENERATOR), str(folder)], check=True, capture_output=True)
    return folder


def cases(*kinds: str) -> list[dict[str, Any]]:
    """Give the manifest's cases of these kinds (all without any)."""
    if not GENERATOR.exists():
        return []
    manifest = json.loads((pack() / "manifest.json").read_text(encoding="utf-8"))
    return [case for case in manifest["cases"] if not kinds or case["kind"] in kinds]


def dcb(*args: str | bytes, seconds: float = 60, **env: str) -> Done:
    """Run the command line in a child and wait for it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [sys.executable, "-c", "from dcb.__main__ import main; main()", *args],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "", **env},
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        streams = [stream.read().decode("utf-8", "backslashreplace") for stream in (out, err)]
    return Done(process.returncode, *streams)


def tree_hash(path: Path) -> str:
    """Give a digest of names, sizes and bytes below a path; links and pipes by name."""
    digest = hashlib.sha256()
    for file in sorted([path, *path.rglob("*")] if path.is_dir() else [path]):
        digest.update(os.fsencode(file))
        if file.is_file() and not file.is_symlink():
            digest.update(file.read_bytes())
    return digest.hexdigest()
