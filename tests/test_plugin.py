"""A format in a package of its own: found by its entry point, and by every generic test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.pack import dcb
from tests.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LINES = [
    {"session": "m-1", "role": "user", "text": "How many?", "at": "2026-01-01T00:00:00Z"},
    {"session": "m-1", "role": "assistant", "text": "Seven.", "at": "2026-01-01T00:00:02Z"},
    {"session": "m-1", "role": "weather", "text": "rain", "at": "2026-01-01T00:00:03Z"},
]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package made by following docs/adding-a-format.md: one module, one golden folder."""
    folder = tmp_path_factory.mktemp("plugin")
    text = (ROOT / "converters/formats/_template.py").read_text(encoding="utf-8")
    text = text.replace('id="template"', 'id="madeup"').replace(".tool/", ".madeup/")
    (folder / "madeup_format.py").write_text(text, encoding="utf-8")
    info = folder / "madeup_format-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: madeup-format\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dcb.formats]\nmadeup = madeup_format:FORMAT\n")
    case = folder / "golden" / "madeup" / "plain"
    case.mkdir(parents=True)
    data = "".join(json.dumps(line) + "\n" for line in LINES)
    (case / "input.jsonl").write_text(data, encoding="utf-8")
    home = folder / "home" / ".madeup" / "sessions"
    home.mkdir(parents=True)
    (home / "one.jsonl").write_text(data, encoding="utf-8")
    return folder


def run(plugin: Path, *args: str) -> str:
    path = os.pathsep.join([str(ROOT), str(plugin)])
    home = str(plugin / "home")
    done = dcb(*args, PYTHONPATH=path, HOME=home, XDG_CACHE_HOME=f"{home}/.cache")
    assert done.code == 0, done
    return done.out


def test_formats_and_matrix(plugin: Path) -> None:
    listed = [json.loads(line) for line in run(plugin, "formats", "--json").split("\n") if line]
    assert "madeup" in {record["id"] for record in listed}
    assert "| `madeup` (experimental) |" in run(plugin, "formats", "--markdown")
    assert "TOOL transcripts" in run(plugin, "formats", "madeup")


def test_detect_convert_scan(plugin: Path) -> None:
    source = str(plugin / "golden/madeup/plain/input.jsonl")
    assert ": madeup (85" in run(plugin, "detect", source)
    session = json.loads(run(plugin, "convert", source, "--to", "interchange"))
    assert session["turns"][0]["prompt"] == "How many?"
    assert session["x-dcb"]["records"] == [LINES[2]]
    back = run(plugin, "convert", source, "--to", "madeup")
    assert [json.loads(line)["text"] for line in back.split("\n") if line] == [
        "How many?",
        "Seven.",
    ]
    (found,) = [json.loads(line) for line in run(plugin, "scan", "--json").split("\n") if line]
    assert (found["tool"], found["id"], found["title"]) == ("madeup", "m-1", "How many?")
    assert found["time"] == 1767225603000 - 1000
    shown = json.loads(run(plugin, "show", "--json", "scan:last"))
    assert shown["meta"]["id"] == "m-1"


def test_without_plugins(plugin: Path) -> None:
    assert "madeup" not in run(plugin, "--no-plugins", "formats")


def test_a_broken_plugin_is_named_and_left_out(plugin: Path, tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dcb.formats]\nbroken = no_such_module:FORMAT\n")
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    done = dcb("formats", PYTHONPATH=path)
    assert done.code == 0
    assert "broken" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("name", "body", "to"),
    [("write", "raise KeyError", "madeup"), ("probe", "return 1", "interchange")],
)
def test_a_fault_in_a_plugin_is_named(
    plugin: Path, tmp_path: Path, name: str, body: str, to: str
) -> None:
    old, new = f"def {name}(", f"def {name}(*_: Any) -> Any:\n    {body}\n\n\ndef unused("
    text = (plugin / "madeup_format.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tmp_path / "madeup_format.py").write_text(text.replace(old, new), encoding="utf-8")
    path = os.pathsep.join([str(ROOT), str(tmp_path), str(plugin)])
    source = str(plugin / "golden/madeup/plain/input.jsonl")
    done = dcb("convert", source, "--to", to, "-o", str(tmp_path / "out"), PYTHONPATH=path)
    assert done.code == 1
    assert "format plugin 'madeup' failed" in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "out").exists()


def test_generic_tests_pick_it_up(plugin: Path) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(plugin)]),
        "DCB_GOLDEN": str(plugin / "golden"),
    }
    tests = ["test_golden", "test_conversions", "test_schemas", "property/test_mutations"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "madeup"]
    command += [f"tests/{name}.py" for name in tests]
    for extra in (["--snapshot-update"], []):
        done = subprocess.run(
            [*command, *extra], check=False, cwd=ROOT, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:]
    assert (plugin / "golden/madeup/plain/session.json").exists()


def test_a_plugin_that_cannot_list_is_named(plugin: Path, tmp_path: Path) -> None:
    text = (plugin / "madeup_format.py").read_text(encoding="utf-8")
    broken = text.replace('    id="madeup",', '    id="madeup",\n    listing=lambda source: 1 / 0,')
    assert broken != text
    (tmp_path / "madeup_format.py").write_text(broken, encoding="utf-8")
    path = os.pathsep.join([str(ROOT), str(tmp_path), str(plugin)])
    home = str(plugin / "home")
    done = dcb("scan", "--no-cache", PYTHONPATH=path, HOME=home)
    assert done.code == 1
    assert "format plugin 'madeup' failed" in done.err
    assert "Traceback" not in done.err
