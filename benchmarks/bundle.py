"""What bundles cost: export and verify of 100 MB sources against sha256 + orjson on the same bytes.

    python benchmarks/bundle.py [--mb 100] [--runs 3] [--json]

The floor reads a file, hashes it with sha256 and parses it (a log line by line, a bundle as one
document). Every figure is the median processor time of runs in processes of their own, with the
start of the interpreter taken off both sides (``dcb --version``, ``python -c "import orjson"``).
Export is compared with the floor over the source, verify and restore with the floor over the
bundle.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

from timing import DCB, generated, options, starts, timed

_FLOOR = """
import hashlib, sys, orjson
data = open(sys.argv[1], "rb").read()
hashlib.sha256(data).hexdigest()
if sys.argv[2] == "lines":
    for line in data.split(b"\\n"):
        if line:
            orjson.loads(line)
else:
    orjson.loads(data)
"""


def fresh(command: list[str], folder: Path, runs: int) -> float:
    """Give the median seconds of a command that writes into a new folder each time."""
    return statistics.median(timed([*command, str(folder / str(n))], 1) for n in range(runs))


def measure(
    kind: str, folder: Path, mb: int, runs: int, idle: tuple[float, float]
) -> dict[str, float]:
    """Give the ratios for one kind of source."""
    source = generated(kind, mb, folder / f"{kind}.jsonl")
    floor = [sys.executable, "-c", _FLOOR]
    dcb, python = idle
    over_source = timed([*floor, str(source), "lines"], runs) - python
    export = (
        fresh([*DCB, "bundle", "export", str(source), "-o"], folder / f"{kind}-out", runs) - dcb
    )
    (bundle,) = (folder / f"{kind}-out" / "0").glob("*.dshbundle.json")
    over_bundle = timed([*floor, str(bundle), "document"], runs) - python
    verify = timed([*DCB, "bundle", "verify", str(bundle)], runs) - dcb
    restore = [*DCB, "bundle", "restore", str(bundle), "--native", "--into"]
    back = fresh(restore, folder / f"{kind}-back", runs) - dcb
    return {
        "sourceMB": source.stat().st_size / 1e6,
        "bundleMB": bundle.stat().st_size / 1e6,
        "floorSourceSeconds": over_source,
        "floorBundleSeconds": over_bundle,
        "export": export / over_source,
        "verify": verify / over_bundle,
        "restoreNative": back / over_bundle,
    }


def main() -> None:
    args = options(__doc__).parse_args()
    # So that modules are compiled before anything is measured.
    timed([*DCB, "bundle", "verify", "--help"], 1)
    idle = starts(args.runs)
    with tempfile.TemporaryDirectory() as name:
        found = {
            kind: measure(kind, Path(name), args.mb, args.runs, idle) for kind in ("dsh", "claude")
        }
    if args.json:
        print(json.dumps(found))
        return
    for kind, ratios in found.items():
        print(
            f"{kind}: {ratios['sourceMB']:.0f} MB source, {ratios['bundleMB']:.0f} MB bundle; "
            f"export {ratios['export']:.1f} x, verify {ratios['verify']:.1f} x, "
            f"restore --native {ratios['restoreNative']:.1f} x of sha256 + orjson "
            f"({ratios['floorSourceSeconds']:.2f} s and {ratios['floorBundleSeconds']:.2f} s)"
        )


if __name__ == "__main__":
    main()
