"""The history of snapshots, with the real git."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from converters.errors import BadInput
from dcb import history
from dcb.history import HistoryError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment without anybody's git configuration."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
    }


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> history.History:
    opened = history.open_history(tmp_path / "store" / "snapshots", environ=environ)
    assert opened is not None
    return opened


def git(repo: history.History, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", repo.folder, *args], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_save_change_remove_and_read_back(repo: history.History) -> None:
    assert history.versions(repo, "snap_1") == []
    assert history.record(repo, {"snap_1": "one\n"}, "snapshot snap_1: save")
    assert history.record(repo, {"snap_1": "two 中文 🚀\r\n"}, "snapshot snap_1: save")
    assert not history.record(repo, {"snap_1": "two 中文 🚀\r\n"}, "snapshot snap_1: save")
    assert history.record(repo, {"snap_1": None}, "snapshot snap_1: remove")
    found = history.versions(repo, "snap_1")
    assert [v.subject for v in found] == [
        "snapshot snap_1: remove",
        "snapshot snap_1: save",
        "snapshot snap_1: save",
    ]
    assert [v.removed for v in found] == [True, False, False]
    assert found[0].time > 1_600_000_000_000
    assert history.content(repo, "snap_1", found[1].ref) == "two 中文 🚀\r\n"
    assert history.content(repo, "snap_1", "HEAD~2") == "one\n"
    assert not (repo.folder / "snap_1.md").exists()


def test_a_batch_is_one_commit(repo: history.History) -> None:
    texts = {f"snap_{i}": f"text {i}\n" for i in range(50)}
    history.record(repo, texts, "save 50 snapshots")
    assert git(repo, "rev-list", "--count", "HEAD") == "1"
    assert len(git(repo, "ls-files").split("\n")) == 50
    assert [v.subject for v in history.versions(repo, "snap_7")] == ["save 50 snapshots"]
    assert git(repo, "status", "--porcelain") == ""


def test_own_identity_only_where_none_is_set(repo: history.History, tmp_path: Path) -> None:
    history.record(repo, {"a": "1"}, "m")
    assert git(repo, "log", "-1", "--format=%an <%ae> %cn") == "dcb <dcb@localhost> dcb"
    (tmp_path / "home" / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n")
    history._identity.cache_clear()
    history.record(repo, {"a": "2"}, "m")
    assert git(repo, "log", "-1", "--format=%an <%ae> %cn") == "Ada <ada@example.org> Ada"


def test_git_variables_of_a_hook_do_not_lead_elsewhere(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", other], check=True)
    environ |= {"GIT_DIR": str(other / ".git"), "GIT_INDEX_FILE": str(other / ".git" / "index")}
    repo = history.open_history(tmp_path / "snapshots", environ=environ)
    assert repo is not None
    history.record(repo, {"a": "1"}, "m")
    assert [v.subject for v in history.versions(repo, "a")] == ["m"]
    assert not (other / ".git" / "index").exists()


def test_configuration_of_the_person_does_not_change_the_text(
    repo: history.History, tmp_path: Path
) -> None:
    hook = tmp_path / "hooks" / "pre-commit"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (tmp_path / "home" / ".gitconfig").write_text(
        f"[core]\nautocrlf = true\nhooksPath = {hook.parent}\n[commit]\ngpgSign = true\n"
    )
    history.record(repo, {"a": "one\r\ntwo\n"}, "m")
    assert history.content(repo, "a", "HEAD") == "one\r\ntwo\n"


@pytest.mark.parametrize("name", ["../../escape", "a/b", "-rf", ".git", "CON", "a\nb", "中文"])
def test_any_id_gives_a_file_of_its_own_in_the_folder(repo: history.History, name: str) -> None:
    history.record(repo, {name: "mine\n", "other": "x\n"}, f"snapshot {name}: save")
    assert history.content(repo, name, "HEAD") == "mine\n"
    listed = {path.name for path in repo.folder.iterdir()} - {".git"}
    assert len(listed) == 2
    assert [path.name for path in repo.folder.parent.iterdir()] == ["snapshots"]
    assert len(history.versions(repo, name)) == 1


@pytest.mark.parametrize("ref", ["", "nope", "--output=x", "HEAD:a.md", "HEAD~9", "a\0b", "\ud800"])
def test_unknown_versions_are_refused(repo: history.History, ref: str) -> None:
    history.record(repo, {"a": "1"}, "m")
    with pytest.raises((BadInput, HistoryError)):
        history.content(repo, "a", ref)
    with pytest.raises(BadInput):
        history.content(repo, "b", "HEAD")


def test_a_lock_of_a_killed_process_is_removed(
    repo: history.History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_PATIENCE", 0.2)
    history.record(repo, {"a": "1"}, "m")
    for lock in ("index.lock", "HEAD.lock", "refs/heads/main.lock"):
        (repo.folder / ".git" / lock).touch()
    assert history.record(repo, {"a": "2"}, "m")
    assert history.content(repo, "a", "HEAD") == "2"


def test_removing_what_was_never_recorded_commits_nothing(repo: history.History) -> None:
    assert not history.record(repo, {"a": None}, "m")
    history.record(repo, {"b": "1"}, "m")
    assert not history.record(repo, {"a": None}, "m")


def test_no_git_no_history(tmp_path: Path) -> None:
    assert history.open_history(tmp_path, environ={"PATH": str(tmp_path)}) is None


def test_a_failing_git_is_an_error_with_the_folder(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho 'fatal: disk on fire' >&2\nexit 128\n")
    program.chmod(0o755)
    repo = history.open_history(tmp_path / "s", environ={"PATH": str(tmp_path)})
    assert repo is not None
    with pytest.raises(HistoryError, match="disk on fire"):
        history.record(repo, {"a": "1"}, "m")


def test_packing_keeps_everything(repo: history.History) -> None:
    for i in range(5):
        history.record(repo, {"a": str(i)}, "m")
    history.pack(repo)
    assert [history.content(repo, "a", v.ref) for v in history.versions(repo, "a")] == list("43210")
