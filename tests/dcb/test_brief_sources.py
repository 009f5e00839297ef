"""What ``dcb brief`` and ``dcb merge`` take for their one snapshot: folders, archives, globs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dcb.cli import app
from dcb.snapshot.document import serialize
from tests.dcb.snapshot.test_document_published import SMALL

TALK = {"messages": [{"role": "user", "content": "You must use Postgres."}]}


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(map(str, args)), input=stdin)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "in"
    found.mkdir()
    (found / "s.md").write_bytes(serialize(SMALL).encode())
    (found / "notes.md").write_bytes(b"# notes\n")
    return found


def packed(folder: Path) -> Path:
    path = folder.parent / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return path


def test_one_snapshot_in_a_folder_an_archive_or_a_glob(folder: Path) -> None:
    archive = packed(folder)
    wanted = run("brief", folder / "s.md")
    assert wanted.exit_code == 0
    for source in (folder, archive, folder / "s*.md"):
        done = run("brief", source)
        assert (done.exit_code, done.stdout) == (0, wanted.stdout), done.output
    assert run("brief", "-", stdin=archive.read_bytes()).stdout == wanted.stdout
    merged = run("merge", archive, folder / "s.md")
    assert merged.stdout == run("merge", folder / "s.md", folder / "s.md").stdout != ""


def test_a_snapshot_beside_a_transcript_is_not_passed_over_in_silence(folder: Path) -> None:
    (folder / "talk.json").write_text(json.dumps(TALK), encoding="utf-8")
    for source in (folder, packed(folder)):
        done = run("brief", source)
        assert done.exit_code == 2
        assert "a snapshot and a session, and one is wanted" in done.stderr
    named = run("brief", folder, "--session", "")
    assert named.exit_code == 0
    assert f"skipped: {folder}/s.md: a snapshot, and --session names a session" in named.stderr
    assert "Postgres" in named.stdout


def test_several_snapshots(folder: Path) -> None:
    (folder / "t.md").write_bytes(serialize(SMALL).encode())
    done = run("brief", folder)
    assert done.exit_code == 2
    assert "several snapshots, and one is wanted" in done.stderr


def test_nothing_and_broken_things(folder: Path) -> None:
    broken = (folder / "s.md").read_bytes().replace(b"<!-- dcb:layer:summary -->", b"")
    (folder / "s.md").write_bytes(broken)
    done = run("brief", folder)
    assert done.exit_code == 1
    assert f"error: {folder}/s.md:" in done.stderr
    (folder / "s.md").unlink()
    assert run("brief", folder).exit_code == 2
    assert "no such file" in run("brief", folder / "s.md").stderr
