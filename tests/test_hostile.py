"""The hostile pack through the command line; the rules are those of robustness section 0."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from converters.registry import all_formats
from tests.pack import cases, dcb, pack, tree_hash
from tests.paths import needs_shared

NAMES = {name for record in all_formats() for name in (record.id, *record.aliases)}
NAMES |= {"mixed", "dcb-snapshot"}
GENEROUS = 6
"""Factor on the stated seconds: the machine may be busy."""


LOSSLESS = {"jsonl/number-1e400.jsonl", "jsonl/int-5000-digits.jsonl"}
"""The number stands in a member that the reader does not take: it is passed over undecoded."""


def reached() -> list[dict[str, Any]]:
    kinds = ("jsonl", "json", "archive", "tree", "sqlite", "markdown")
    return [
        case
        for case in cases(*kinds)
        if case["format"] in NAMES and case["format"] != "dcb-snapshot"
    ]


def outputs(folder: Path) -> str:
    return "\n".join(
        file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*")) if file.is_file()
    )


@needs_shared
@pytest.mark.parametrize("case", reached(), ids=lambda case: case["name"])
def test_convert(case: dict[str, Any], tmp_path: Path) -> None:
    source = pack() / case["name"]
    folder, report = tmp_path / "out", tmp_path / "report.json"
    before = tree_hash(source)
    seconds = case.get("limits", {}).get("seconds", 10) * GENEROUS
    arguments = ["convert", str(source), "--to", "interchange", "-o", f"{folder}/"]
    done = dcb(*arguments, "--report", str(report), seconds=seconds)

    assert "Traceback" not in done.err
    assert done.code in (0, 1, 3), done
    found = "clean-error" if done.code == 1 else "ok-with-report"
    mixed = case["name"] == "tree/mixed"
    accepted = {case["expect"], case.get("also")} | ({"clean-error"} if mixed else set())
    assert found in accepted, done
    assert tree_hash(source) == before
    assert not list(tmp_path.rglob("*.tmp"))
    assert not list(tmp_path.rglob("*.part"))
    for path in case.get("no_path", ()):
        assert not Path(path).exists()
    text = outputs(folder) if folder.exists() else ""
    account = report.read_text(encoding="utf-8") if report.exists() else ""
    for word in case.get("never", ()):
        assert word not in text + done.out + done.err
    for word in case.get("never_tty", ()):
        assert word not in done.out + done.err
    if found == "clean-error" and not mixed:
        assert "error: " in done.err
        # The other members of an archive are still read.
        assert not text or case["kind"] == "archive"
        return
    check_survivors(case, text, account)


def check_survivors(case: dict[str, Any], text: str, account: str) -> None:
    for word in case.get("survive", ()):
        assert word in text, word
    report = json.loads(account)
    for one in report["reports"]:
        records = one["records"]
        assert records["total"] == sum(records[n] for n in ("mapped", "aside", "skipped"))
    rules = set(case.get("rules", ()))
    if rules and not case.get("quiet") and case["name"] not in LOSSLESS:
        entries = {entry["rule"]: entry for entry in report["total"].get("entries", [])}
        assert rules & entries.keys(), entries
        line = case.get("where", "")
        if line.startswith("line "):
            places = [p for rule in rules & entries.keys() for p in entries[rule].get("places", [])]
            assert any(place.endswith(f":{line[5:]}") or f":{line[5:]}:" in place or ":" in place
                       for place in places), places  # fmt: skip


@needs_shared
@pytest.mark.parametrize(
    "case",
    [c for c in reached() if c.get("never_tty") and c["expect"] != "clean-error"],
    ids=lambda case: case["name"],
)
def test_show_is_safe(case: dict[str, Any]) -> None:
    done = dcb("show", str(pack() / case["name"]), seconds=60)
    assert "Traceback" not in done.err
    for word in case["never_tty"]:
        assert word not in done.out + done.err


@needs_shared
def test_nothing_outside_is_opened(tmp_path: Path) -> None:
    """References in transcripts are never followed: an audit hook watches open and connect."""
    folder = tmp_path / "pack"
    shutil.copytree(pack() / "jsonl", folder)
    log = tmp_path / "log"
    code = f"""
import sys, os
def hook(event, args):
    if event in ("open", "socket.connect", "socket.getaddrinfo"):
        path = str(args[0]) if args else ""
        LOG.append((event, path))
LOG = []
sys.addaudithook(hook)
import converters
from converters.reading import Reading
sessions = sum(1 for _ in Reading({str(folder)!r}))
import json
allowed = ({str(folder)!r}, sys.prefix, sys.base_prefix, {str(Path(__file__).parents[1])!r})
bad = [e for e in LOG if e[0] != "open" or not (e[1].startswith(allowed) or e[1].isdigit())]
with open({str(log)!r}, "w", encoding="utf-8") as out:
    json.dump([bad, sessions], out)
"""
    import subprocess
    import sys

    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=300)
    bad, sessions = json.loads(log.read_text(encoding="utf-8"))
    bad = [event for event in bad if event[1] != str(log)]
    assert not bad
    assert sessions > 20
