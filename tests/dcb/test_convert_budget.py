"""``dcb convert --budget``: every way out trims, and the report names what went."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import converters
from converters.types import Options
from tests.pack import dcb
from tests.sinks import MemorySink

TURNS, COST = 30, 2 * 100
DROPPED = {"block.text": 2, "prompt": 1, "time": 1}


def document(name: str, turns: int = TURNS) -> dict[str, Any]:
    def turn(number: int) -> dict[str, Any]:
        content = [{"type": "text", "text": "word" * (COST // 2)}]
        prompt = f"{number:04}" + "word" * (COST // 2 - 1)
        return {"prompt": prompt, "steps": [{"content": content, "time": 1767225600000}]}

    return {
        "interchange": "dsh-chat-import",
        "version": 1,
        "meta": {"id": name},
        "title": f"About {name}",
        "provider": "demo",
        "turns": [turn(number) for number in range(turns)],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "in"
    source.mkdir()
    for name, turns in (("long", TURNS), ("longer", 2 * TURNS), ("short", 2)):
        text = json.dumps(document(name, turns))
        (source / f"{name}.json").write_text(text, encoding="utf-8")
    return source


def check(report: dict[str, Any], source: str, turns: int) -> None:
    """Check the account of one trimmed session: 2000 tokens hold seven turns of 200."""
    gone = turns - 7
    entries = {entry["rule"]: entry for entry in report["entries"]}
    dropped = entries["budget-turn-dropped"]
    assert dropped["count"] == gone
    name = Path(source).stem
    assert dropped["places"] == [f"{source}:{name}/turns/{n}" for n in range(3, 8)]
    assert entries["budget-item-dropped"]["kinds"] == {k: n * gone for k, n in DROPPED.items()}
    assert entries["budget-notice"]["count"] == 1
    for kind, item in report["items"].items():
        assert item["total"] == item["kept"] + item["reported"], kind
    assert report["items"]["prompt"]["total"] == turns


def prompts(data: dict[str, Any]) -> list[int]:
    return [int(turn["prompt"][:4]) for turn in data["turns"]]


KEPT = [0, 1, 2, TURNS - 4, TURNS - 3, TURNS - 2, TURNS - 1]


def test_into_one_file_with_a_report(folder: Path, tmp_path: Path) -> None:
    source, target, report = folder / "long.json", tmp_path / "o.json", tmp_path / "r.json"
    done = dcb(
        "convert", str(source), "--to", "interchange", "-o", str(target), "--budget", "2000",
        "--report", str(report),
    )  # fmt: skip
    assert done.code == 0, done
    assert f"budget-turn-dropped {TURNS - 7}" in done.err
    written = json.loads(target.read_bytes())
    assert prompts(written) == KEPT
    notice = written["turns"][3]["steps"][0]["content"][0]
    assert notice["type"] == "reasoning"
    assert f"{TURNS - 7} turns" in notice["text"]
    (one,) = json.loads(report.read_bytes())["reports"]
    check(one, str(source), TURNS)
    assert one["records"]["total"] == one["records"]["mapped"]


def test_to_stdout_and_off_by_default(folder: Path) -> None:
    source = str(folder / "long.json")
    assert prompts(json.loads(dcb("convert", source, "--to", "interchange").out)) == list(
        range(TURNS)
    )
    off = dcb("convert", source, "--to", "interchange", "--budget", "0", "--strict")
    assert off.code == 0
    assert prompts(json.loads(off.out)) == list(range(TURNS))
    on = dcb("convert", source, "--to", "interchange", "--budget", "2000", "--strict")
    assert on.code == 3
    assert prompts(json.loads(on.out)) == KEPT


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_session_of_a_folder_has_its_own_budget(
    folder: Path, tmp_path: Path, jobs: str
) -> None:
    out, report = tmp_path / "out", tmp_path / "r.json"
    done = dcb(
        "convert", str(folder), "--to", "claude", "-o", f"{out}/", "--budget", "2000",
        "-j", jobs, "--report", str(report),
    )  # fmt: skip
    assert done.code == 0, done
    assert len(list(out.iterdir())) == 3
    reports = {Path(one["source"]).stem: one for one in json.loads(report.read_bytes())["reports"]}
    check(reports["long"], str(folder / "long.json"), TURNS)
    check(reports["longer"], str(folder / "longer.json"), 2 * TURNS)
    rules = {entry["rule"] for entry in reports["short"]["entries"]}
    assert not [rule for rule in rules if rule.startswith("budget-")]


def test_many_sessions_into_one_file(folder: Path, tmp_path: Path) -> None:
    out, report = tmp_path / "all.jsonl", tmp_path / "r.json"
    done = dcb(
        "convert", str(folder), "--to", "interchange", "-o", str(out), "--budget", "2000",
        "--report", str(report),
    )  # fmt: skip
    assert done.code == 0, done
    sessions = [json.loads(line) for line in out.read_bytes().split(b"\n") if line]
    assert [len(session["turns"]) for session in sessions] == [7, 7, 2]
    reports = json.loads(report.read_bytes())["reports"]
    check(reports[0], str(folder / "long.json"), TURNS)
    check(reports[1], str(folder / "longer.json"), 2 * TURNS)
    # What one file trimmed in the first run is within the budget in the next.
    again = dcb("convert", str(out), "--to", "interchange", "--budget", "2000")
    assert again.out.encode() == out.read_bytes()


@pytest.mark.parametrize("wrong", ["-1", "many"])
def test_a_budget_is_a_number(folder: Path, wrong: str) -> None:
    done = dcb("convert", str(folder / "short.json"), "--to", "interchange", "--budget", wrong)
    assert done.code == 2
    assert not done.out


@pytest.mark.parametrize("to", ["openai-chat", "codex", "claude", "sharegpt", "interchange", "dsh"])
def test_library(folder: Path, to: str) -> None:
    source = folder / "long.json"
    sink = MemorySink()
    report = converters.convert(source, sink, to=to, options=Options(budget=2000))
    assert sink.data
    assert report.balanced
    assert report.items["prompt"].total == TURNS
    whole = converters.convert(source, io.BytesIO(), to=to)
    for kind, item in whole.items.items():
        extra = kind == "block.reasoning"
        assert report.items[kind].total == item.total + extra, kind
