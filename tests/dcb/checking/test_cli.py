"""``dcb check`` from the command line."""

import gzip
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dcb.snapshot.document import serialize, verify
from dcb.snapshot.profile import PLUGIN
from tests.dcb.checking.test_documents import interchange
from tests.dcb.checking.test_snapshots import good
from tests.pack import Done, dcb


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = serialize(good())
    (tmp_path / "good.md").write_bytes(text.encode())
    (tmp_path / "bad.md").write_bytes(text.replace("Redis", "MySQL").encode())
    (tmp_path / "notes.md").write_bytes(b"# just notes\n")
    (tmp_path / "doc.json").write_bytes(json.dumps({**interchange(), "turns": 0}).encode())
    return tmp_path


def run(*args: object) -> Done:
    return dcb("check", *map(str, args))


def test_a_folder(folder: Path) -> None:
    done = run(folder)
    assert done.code == 1
    lines = done.out.strip().split("\n")
    assert lines == [
        f"{folder}/bad.md:11: checksum: the checksum does not fit: the body was changed",
        f"{folder}/doc.json:1: schema: /turns: must be array, is integer",
    ]
    assert "3 checked: 2 errors, 0 warnings" in done.err


def test_clean_and_warnings(folder: Path) -> None:
    assert run(folder / "good.md").code == 0
    light = serialize(good(), PLUGIN).replace("weight: 1.5\n", "").encode()
    (folder / "old.md").write_bytes(light)
    done = run(folder / "old.md")
    assert (done.code, "old-version" in done.out) == (0, True)
    assert run(folder / "old.md", "--warnings-as-errors").code == 1


def test_a_named_file_of_another_kind(folder: Path) -> None:
    assert run(folder / "notes.md").code == 1
    assert run(folder / "notes.md", "--ignore-others").code == 0
    done = run(folder / "missing.md")
    assert done.code == 1
    assert "missing.md" in done.out


def test_json(folder: Path) -> None:
    for flag in (["--json"], ["--format", "json"]):
        done = run(folder, *flag)
        *files, total = (json.loads(line) for line in done.out.strip().split("\n"))
        assert total == {"files": 3, "errors": 2, "warnings": 0}
        assert [file["kind"] for file in files] == ["snapshot", "interchange", "snapshot"]


def test_machine_formats(folder: Path) -> None:
    assert "::error file=" in run(folder, "--format", "github").out
    assert json.loads(run(folder, "--format", "sarif").out)["version"] == "2.1.0"
    assert run(folder, "--format", "junit").out.count("<testcase") == 3


@pytest.mark.parametrize("args", [["--format", "x"], ["--profile", "x"], ["--max-tokens", "x"]])
def test_usage(folder: Path, args: list[str]) -> None:
    assert run(folder, *args).code == 2


def test_archives(folder: Path) -> None:
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.write(folder / "bad.md", "in/bad.md")
    done = run(folder / "all.zip")
    assert done.code == 1
    assert "all.zip!in/bad.md:11: checksum" in done.out


def test_reseal(folder: Path) -> None:
    done = run(folder / "bad.md", folder / "notes.md", "--reseal", "--ignore-others")
    assert done.code == 0, done
    text = (folder / "bad.md").read_bytes().decode()
    assert verify(text)
    assert "MySQL" in text
    before = (folder / "good.md").stat().st_mtime_ns
    assert run(folder / "good.md", "--reseal").code == 0
    assert (folder / "good.md").stat().st_mtime_ns == before
    assert not list(folder.glob(".*"))
    assert (folder / "notes.md").read_bytes() == b"# just notes\n"


def test_a_resealed_file_keeps_its_mode_and_its_link(folder: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("no modes")
    (folder / "bad.md").chmod(0o600)
    (folder / "link.md").symlink_to("bad.md")
    assert run(folder / "link.md", "--reseal").code == 0
    assert (folder / "link.md").is_symlink()
    assert (folder / "bad.md").stat().st_mode & 0o777 == 0o600
    assert verify((folder / "bad.md").read_bytes().decode())


def test_what_is_checked_after_a_reseal_is_the_new_text(folder: Path) -> None:
    text = (folder / "good.md").read_bytes().decode()
    lines = [line for line in text.split("\n") if not line.startswith("x_dcb_header")]
    (folder / "grows.md").write_bytes("\n".join(lines).encode())
    done = run(folder / "grows.md", "--reseal")
    assert (done.code, done.out) == (0, "")
    assert (folder / "grows.md").read_bytes().decode() == text


def test_reseal_of_what_is_packed_changes_nothing_and_stops_nothing(folder: Path) -> None:
    packed = gzip.compress((folder / "bad.md").read_bytes())
    (folder / "bad.md.gz").write_bytes(packed)
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.write(folder / "bad.md", "in/bad.md")
    done = run(folder / "all.zip", folder / "bad.md.gz", folder / "bad.md", "--reseal")
    assert done.code == 1
    assert f"{folder}/all.zip!in/bad.md: output-failed: packed" in done.out
    assert f"{folder}/bad.md.gz: output-failed: packed" in done.out
    assert (folder / "bad.md.gz").read_bytes() == packed
    assert verify((folder / "bad.md").read_bytes().decode())
    assert "3 checked: 4 errors" in done.err


def test_reseal_of_stdin_gives_only_the_document(folder: Path) -> None:
    data = (folder / "bad.md").read_bytes()

    def piped(*args: str) -> subprocess.CompletedProcess[bytes]:
        command = [
            sys.executable,
            "-c",
            "from dcb.__main__ import main; main()",
            "check",
            "--reseal",
        ]
        return subprocess.run([*command, "-", *args], input=data, capture_output=True, check=False)

    done = piped()
    assert done.returncode == 0, done
    assert verify(done.stdout.decode())
    broken = piped("--max-tokens", "2")
    assert broken.returncode == 1
    assert broken.stdout == done.stdout
    assert b"over-budget" in broken.stderr
    assert piped("--json").returncode == 2


def test_max_tokens(folder: Path) -> None:
    assert "over-budget" in run(folder / "good.md", "--max-tokens", "2").out


def test_names_are_safe_on_a_terminal(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("no such file names")
    path = tmp_path / "a\x1b[31m\nb.md"
    path.write_bytes(serialize(good()).replace("Redis", "x").encode())
    out = run(path).out
    assert "\x1b" not in out
    assert out.count("\n") == 2 or out.count("\n") == 1
