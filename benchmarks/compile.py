"""What a snapshot costs: ``dcb compile`` of a 100 MB source against orjson.loads over its lines.

    python benchmarks/compile.py [--mb 100] [--runs 3] [--kinds claude codex interchange] [--json]

The floor reads the file and parses each line (an interchange document as one). Every figure is
the median processor time of runs in processes of their own, with the start of the interpreter
taken off both sides (``dcb --version``, ``python -c "import orjson"``). ``compile`` reads the last
400 messages, as it does unless told otherwise; ``compileMost`` the last 5000. Target: at most 4.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from timing import DCB, generated, options, starts, timed

_FLOOR = """
import sys, orjson
data = open(sys.argv[1], "rb").read()
if sys.argv[2] == "lines":
    for line in data.split(b"\\n"):
        if line:
            orjson.loads(line)
else:
    orjson.loads(data)
"""
_WHOLE = ("interchange", "chatgpt")


def measure(
    kind: str, folder: Path, mb: int, runs: int, idle: tuple[float, float]
) -> dict[str, float]:
    """Give the ratios for one kind of source."""
    whole = kind in _WHOLE
    source = generated(kind, mb, folder / f"{kind}.{'json' if whole else 'jsonl'}")
    dcb, python = idle
    mode = "document" if whole else "lines"
    floor = timed([sys.executable, "-c", _FLOOR, str(source), mode], runs) - python
    out = folder / "snapshot.md"
    command = [*DCB, "compile", str(source), "--force", "-o", str(out)]
    compiled = timed(command, runs) - dcb
    most = timed([*command, "--max-messages", "5000"], runs) - dcb
    checked = timed([*DCB, "check", str(out)], runs) - dcb
    return {
        "sourceMB": source.stat().st_size / 1e6,
        "floorSeconds": floor,
        "compile": compiled / floor,
        "compileMost": most / floor,
        "checkSeconds": checked,
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--kinds", nargs="+", default=["claude", "codex", "interchange"])
    args = parser.parse_args()
    idle = starts(args.runs)
    with tempfile.TemporaryDirectory() as name:
        found = {kind: measure(kind, Path(name), args.mb, args.runs, idle) for kind in args.kinds}
    if args.json:
        print(json.dumps(found))
        return
    for kind, ratios in found.items():
        print(
            f"{kind}: {ratios['sourceMB']:.0f} MB; compile {ratios['compile']:.2f} x of orjson "
            f"({ratios['floorSeconds']:.2f} s), of 5000 messages {ratios['compileMost']:.2f} x; "
            f"check {ratios['checkSeconds']:.2f} s"
        )


if __name__ == "__main__":
    main()
