"""``dcb bundle`` from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from converters.formats.dsh_bundle import document
from dcb.bundle.native import file_entry
from dcb.cli import app
from tests.paths import GOLDEN, ROOT, SHARED, needs_shared

DSH = GOLDEN / "dsh" / "plain" / "input.jsonl"
BUNDLE = GOLDEN / "dsh-bundle" / "plain" / "input.dshbundle.json"
TAMPERED = GOLDEN / "dsh-bundle" / "tampered" / "input.dshbundle.json"


def dcb(*args: object) -> Result:
    return CliRunner().invoke(app, ["bundle", *map(str, args)])


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.split("\n") if line]


def test_export_verify_restore(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = dcb("export", DSH, "-o", out, "--json")
    assert result.exit_code == 0, result.output
    first, last = records(result)
    assert first["session"] == "5b8e1a40-plain"
    assert first["status"] == "written"
    assert last["failed"] == 0
    result = dcb("verify", out)
    assert result.exit_code == 0
    assert result.stdout == f"{first['output']}: ok\n"
    result = dcb("restore", out, "--native", "--into", tmp_path / "back", "--json")
    assert result.exit_code == 0
    (path,) = records(result)[0]["paths"]
    assert (ROOT / path).read_bytes() == DSH.read_bytes()


def test_verify_names_the_codes_and_fails(tmp_path: Path) -> None:
    result = dcb("verify", BUNDLE, TAMPERED)
    assert result.exit_code == 1
    assert result.stdout == f"{BUNDLE}: ok\n{TAMPERED}: bundle-fingerprint-mismatch\n"
    result = dcb("verify", TAMPERED, "--json")
    assert result.exit_code == 1
    (record,) = records(result)
    assert record["problems"] == ["bundle-fingerprint-mismatch"]
    assert record["ok"] is False


def test_verify_reports_what_the_index_misses(tmp_path: Path) -> None:
    out = tmp_path / "out"
    dcb("export", DSH, "-o", out)
    (out / "extra.dshbundle.json").write_bytes(BUNDLE.read_bytes())
    (bundle,) = out.glob("Open*")
    bundle.unlink()
    result = dcb("verify", out)
    assert result.exit_code == 1
    assert f"{bundle}: missing" in result.stdout
    assert f"{out / 'extra.dshbundle.json'}: extra" in result.stdout


def test_a_pattern_that_names_the_index_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    dcb("export", DSH, "-o", out)
    everything = sorted(out.iterdir())
    assert len(everything) == 2
    result = dcb("verify", *everything)
    assert (result.exit_code, result.stdout.count("\n")) == (0, 1)
    assert dcb("restore", *everything, "--into", tmp_path / "back").exit_code == 0


def test_one_bad_bundle_never_stops_the_rest(tmp_path: Path) -> None:
    result = dcb("restore", TAMPERED, BUNDLE, "--into", tmp_path)
    assert result.exit_code == 1
    assert "bundle-fingerprint-mismatch" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["Open-orders-5b8e1a40.jsonl"]


def a_bundle(path: Path, **more: Any) -> Path:
    log = '{"type":"user/message","seq":0,"data":{"content":"hello"}}\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document.text(document.make(log, exported_at=1, **more)))
    return path


@pytest.mark.parametrize("cwd", ["/" + "x" * 300, "/a\0b", "/\ud800", "/" + "x/" * 5000])
def test_a_cwd_that_no_system_takes_is_one_that_is_not_here(tmp_path: Path, cwd: str) -> None:
    two = tmp_path / "two"
    a_bundle(two / "a.dshbundle.json", source_session_id="a", cwd=cwd)
    a_bundle(two / "b.dshbundle.json", source_session_id="b")
    result = dcb("restore", two, "--into", tmp_path / "back", "--json")
    assert result.exit_code == 0, result.output
    first, second, _ = records(result)
    assert (first["cwdAvailable"], first["groupedTo"]) == (False, str(two))
    assert second["status"] == "restored"


def test_a_bundle_in_an_archive_lands_beside_the_archive(tmp_path: Path) -> None:
    held = a_bundle(tmp_path / "a.dshbundle.json", source_session_id="a", cwd="/gone")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.write(held, "sub/a.dshbundle.json")
    into = tmp_path / "back"
    result = dcb("restore", tmp_path / "z.zip", "--to", "dsh", "--into", into, "--json")
    record = records(result)[0]
    assert record["groupedTo"] == str(tmp_path)
    header = json.loads(Path(record["paths"][0]).read_bytes().split(b"\n")[0])
    assert header["cwd"] == str(tmp_path)


def test_what_the_system_says_of_one_bundle_never_stops_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dcb.bundle import restore as module

    def failing(source: Any, plan: Any) -> Any:
        if source.name.endswith("a.dshbundle.json"):
            raise OSError(5, "Input/output error")
        return whole(source, plan)

    whole = module.restore
    monkeypatch.setattr(module, "restore", failing)
    for name in "ab":
        a_bundle(tmp_path / "two" / f"{name}.dshbundle.json", source_session_id=name)
    result = dcb("restore", tmp_path / "two", "--into", tmp_path / "back")
    assert result.exit_code == 1
    assert "a.dshbundle.json: Input/output error" in result.stderr
    assert result.stdout.startswith("restored ")


def test_landing_is_always_said(tmp_path: Path) -> None:
    result = dcb("restore", BUNDLE, "--into", tmp_path, "--json")
    record = records(result)[0]
    assert record["cwdAvailable"] is False
    assert record["groupedTo"] == str(BUNDLE.parent)
    assert record["landingHint"] == "shop"
    assert "not on this machine" in record["restoreNote"]
    result = dcb("restore", BUNDLE, "--into", tmp_path, "--map-cwd", f"/home/dev={tmp_path}")
    assert f"grouped to {tmp_path}/shop as asked" in result.stderr
    result = dcb("restore", BUNDLE, "--into", tmp_path / "x", "--dry-run")
    assert result.stdout.startswith("would-restore ")
    assert not (tmp_path / "x").exists()


def test_a_native_file_that_gets_another_name_is_told(tmp_path: Path) -> None:
    native = {"format": "claude", "kind": "files", "files": [file_entry("../up\x1b.db", b"1")]}
    held = a_bundle(tmp_path / "a.dshbundle.json", source_session_id="a", extra={"native": native})
    result = dcb("restore", held, "--native", "--into", tmp_path / "back")
    assert result.exit_code == 0, result.output
    assert "note: ../up\\x1b.db is no name for every system; it is up" in result.stderr
    result = dcb("restore", held, "--native", "--into", tmp_path / "back", "--json")
    (change,) = records(result)[0]["renamed"]
    assert change["name"] == "../up\x1b.db"
    assert records(result)[0]["paths"] == [str(tmp_path / "back" / change["given"])]


def test_usage_errors(tmp_path: Path) -> None:
    for args in (
        ("restore", BUNDLE, "--native", "--to", "dsh"),
        ("restore", BUNDLE, "--map-cwd", "nothing"),
        ("restore", BUNDLE, "--to", "no-such-format"),
        ("restore", BUNDLE, BUNDLE, "--session-id", "x"),
        ("export", DSH, "-o", tmp_path, "--branch", "neither"),
    ):
        assert dcb(*args).exit_code == 2, args
    assert dcb("verify", tmp_path).exit_code == 1
    assert dcb("export", tmp_path, "-o", tmp_path / "out").exit_code == 1


def test_passphrase_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"ein langes Geheimnis\n")
    out = tmp_path / "out"
    result = dcb("export", DSH, "-o", out, "--passphrase-file", secret)
    assert result.exit_code == 0, result.output
    assert dcb("verify", out).exit_code == 1
    assert dcb("verify", out, "--passphrase-file", secret).exit_code == 0
    result = dcb(
        "restore", out, "--native", "--into", tmp_path / "back", "--passphrase-file", secret
    )
    assert result.exit_code == 0
    assert (tmp_path / "back" / "input.jsonl").read_bytes() == DSH.read_bytes()
    assert dcb("export", DSH, "-o", out, "--passphrase-file", tmp_path / "none").exit_code == 1


def test_bundles_in_the_output_folder_are_no_input(tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_bytes(DSH.read_bytes())
    for _ in range(2):
        dcb("export", tmp_path, "-o", tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.dshbundle.json"))) == 1


def test_inputs_in_the_output_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.jsonl").write_bytes(DSH.read_bytes())
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.dshbundle.json").write_bytes(BUNDLE.read_bytes())
    result = dcb("export", "s.jsonl", "-o", ".")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (0, "1 written")
    (made,) = tmp_path.glob("*.dshbundle.json")
    result = dcb("export", ".", "-o", ".")
    assert (result.exit_code, "skipped" in result.stderr) == (0, False)
    assert result.stderr.splitlines()[0] == "1 written, 1 unchanged"
    everything = sorted(path.name for path in tmp_path.iterdir())
    result = dcb("export", *everything, "-o", ".")
    assert result.exit_code == 0, result.output
    assert f"skipped: {made.name}: belongs to the output folder" in result.stderr
    assert "skipped: manifest.json: belongs to the output folder" in result.stderr
    assert result.stderr.splitlines()[-1] == "2 unchanged"
    assert dcb("verify", made).exit_code == 0
    made.write_bytes(b"{")
    result = dcb("export", *everything, "-o", ".")
    assert result.exit_code == 0, result.output
    assert dcb("verify", made).exit_code == 0


@needs_shared
def test_hostile_bundles(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    generator = SHARED / "hostile" / "gen_hostile.py"
    subprocess.run([sys.executable, generator, pack], check=True, stdout=subprocess.DEVNULL)
    manifest = json.loads((pack / "manifest.json").read_text("utf-8"))
    cases = [case for case in manifest["cases"] if case["kind"] == "bundle"]
    assert len(cases) == 5
    for case in cases:
        path = pack / case["name"]
        before = path.read_bytes()
        into = tmp_path / "into"
        for args in (("verify", path), ("restore", path, "--into", into)):
            result = dcb(*args)
            classes = {0: "ok-with-report", 1: "clean-error"}
            assert classes[result.exit_code] in (case["expect"], case.get("also")), case["name"]
            assert "Traceback" not in result.output
            if result.exit_code == 1 and args[0] == "restore":
                assert result.stderr.startswith(f"error: {path}:")
        assert path.read_bytes() == before
        assert not list(tmp_path.rglob("*.tmp"))
    assert not (pack.parent / "dcb-escape").exists()


@pytest.mark.parametrize("name", ["export", "verify", "restore"])
def test_help_fits(name: str) -> None:
    result = dcb(name, "--help")
    assert result.exit_code == 0
    assert "Example: dcb bundle" in result.output
