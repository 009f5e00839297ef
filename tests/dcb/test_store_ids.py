"""Which snapshot the commands of the store take an id for."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.dcb.test_store_cli import lines, put, run, snapshot, world

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["world"]  # the fixture


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_removed_snapshot_is_found_by_the_beginning_of_its_id(world: Path) -> None:
    put(world / "a.md", snapshot("snap-one"))
    put(world / "b.md", snapshot("snap-other"))
    run("store", "save", "a.md", "b.md")
    run("store", "rm", "snap-one", "snap-other")
    found = lines(run("store", "history", "snap-on", "--json"))
    assert [version["removed"] for version in found] == [True, False]
    assert run("store", "history", "snap-").exit_code == 2
    done = run("store", "rollback", "snap-on")
    assert (done.exit_code, "snap-one is again" in done.stderr) == (0, True)
    assert run("store", "history", "no-such-id").exit_code == 1


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_what_is_removed_twice_takes_nothing_else_with_it(world: Path) -> None:
    put(world / "a.md", snapshot("notes"))
    put(world / "b.md", snapshot("notes-2"))
    run("store", "save", "a.md", "b.md")
    assert "removed notes\n" in run("store", "rm", "notes", "notes").stderr
    for command in ("rm", "show", "card"):
        done = run("store", command, "notes")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "dcb store rollback notes" in done.stderr
    assert [row["snapshotId"] for row in lines(run("store", "list", "--json"))] == ["notes-2"]
    found = lines(run("store", "history", "notes", "--json"))
    assert [version["removed"] for version in found] == [True, False]
    assert "notes is again as in" in run("store", "rollback", "notes").stderr


def test_without_a_history_the_beginning_of_an_id_removes_nothing(world: Path) -> None:
    (world / "dcb.toml").write_text("history = false\n")
    put(world / "a.md", snapshot("notes-2"))
    run("store", "save", "a.md")
    done = run("store", "rm", "notes")
    assert (done.exit_code, "give the whole id: notes-2" in done.stderr) == (2, True)
    assert run("store", "rm", "notes-2").exit_code == 0
