"""Names that ``dcb scan`` gives, as inputs; and all sessions of a machine in a backup."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dcb.scan import Found, resolve
from tests.dcb.test_scan import CLAUDE, line, run, session
from tests.pack import Done, dcb
from tests.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

GOLDEN = ROOT / "golden"
LONG = "3b0f1c52-7d1e-4a6b-9c55-0f2d8e6a1b77"


def at(home: Path, *args: str) -> Done:
    return dcb(*args, HOME=str(home), XDG_CACHE_HOME=str(home / ".cache"))


def agents(home: Path) -> Path:
    """Put a session with one subagent in its file and one beside it into a home."""
    folder = home / ".claude/projects/-home-ana"
    shutil.copytree(GOLDEN / "claude/subagents/input", folder)
    return folder


def converted(home: Path, *args: str) -> tuple[Done, list[str]]:
    done = at(home, "convert", *args, "--to", "interchange", "-o", str(home / "all.jsonl"))
    path = home / "all.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return done, [json.loads(one)["meta"]["id"] for one in text.splitlines()]


def test_an_id_goes_before_longer_ones() -> None:
    def fits(name: str, *ids: str) -> list[str]:
        return [one.id for one in resolve(name, [Found("t", one, "p") for one in ids])]

    assert fits("ab", "ab", "abc", "ab~s1") == ["ab"]
    assert fits("a", "ab", "ab~s1", "ab~b1") == ["ab"]
    assert fits("ab~", "ab", "ab~s1") == ["ab~s1"]
    assert fits("ab~s1", "ab", "ab~s1", "ab~s10") == ["ab~s1"]
    assert fits("a", "ab", "ac", "ab~s1") == ["ab", "ac"]
    assert fits("x", "ab") == []


@pytest.mark.parametrize(
    ("name", "wanted"),
    [(LONG, LONG), ("3b0f", LONG), (f"{LONG}~s1", f"{LONG}~s1"), ("a1f00d2", "a1f00d2")],
)
def test_every_session_has_a_name_that_selects_it(tmp_path: Path, name: str, wanted: str) -> None:
    agents(tmp_path)
    done, ids = converted(tmp_path, f"scan:{name}")
    assert (done.code, ids) == (0, [wanted])


def test_what_only_whole_files_tell_is_found(tmp_path: Path) -> None:
    path = session(tmp_path, "aaaa1111", turns=200)
    with path.open("a", encoding="utf-8") as stream:
        record = json.loads(line("Look for it", 500, session="aaaa1111"))
        record |= {"isSidechain": True, "agentId": "late1", "parentUuid": None}
        stream.write(json.dumps(record) + "\n")
    assert [one["id"] for one in run(tmp_path, "scan", "--json")] == ["aaaa1111"]
    deep = [one["id"] for one in run(tmp_path, "scan", "--json", "--deep")]
    assert sorted(deep) == ["aaaa1111", "late1"]
    done, ids = converted(tmp_path, "scan:late1")
    assert (done.code, ids) == (0, ["late1"])


def test_a_name_that_fits_nothing_stops_nothing(tmp_path: Path) -> None:
    session(tmp_path, "aaaa1111")
    session(tmp_path, "aabb2222")
    for bad, why in (("zzz", "no session of this machine fits"), ("aa", "fits 2 sessions")):
        done, ids = converted(tmp_path, f"scan:{bad}", "scan:aaaa", "--force")
        assert done.code == 1
        assert f"error: scan:{bad}: {why}" in done.err
        assert ids == ["aaaa1111"]
    done = at(tmp_path, "detect", "scan:zzz", str(GOLDEN / "claude/plain/input.jsonl"))
    assert done.code == 1
    assert "claude" in done.out


def test_a_tool_is_all_of_its_files_read_once(tmp_path: Path) -> None:
    folder = agents(tmp_path)
    session(tmp_path, "aaaa1111")
    done, ids = converted(tmp_path, "scan:claude")
    named, same = converted(tmp_path, str(folder), str(tmp_path / CLAUDE), "--force")
    assert sorted(ids) == sorted(same) == sorted([LONG, f"{LONG}~s1", "a1f00d2", "aaaa1111"])
    assert done.err == named.err
    done, ids = converted(tmp_path, "scan:claude", "--subagents", "skip", "--force")
    assert (done.code, sorted(ids)) == (0, sorted([LONG, "aaaa1111"]))
    done, ids = converted(tmp_path, "scan:claude-code", "--force")
    assert (done.code, len(ids)) == (0, 4)
    assert at(tmp_path, "show", "scan:codex").code == 1


def test_the_last_session_is_no_subagent(tmp_path: Path) -> None:
    agents(tmp_path)
    listed = {one["id"]: one.get("parent") for one in run(tmp_path, "scan", "--json")}
    assert listed == {LONG: None, f"{LONG}~s1": LONG, "a1f00d2": LONG}
    done, ids = converted(tmp_path, "scan:last")
    assert (done.code, ids) == (0, [LONG])


def test_a_session_that_is_left_out_by_an_option_is_an_error(tmp_path: Path) -> None:
    agents(tmp_path)
    done, _ = converted(tmp_path, "scan:a1f00d2", "--subagents", "skip")
    assert done.code == 1
    assert "no session a1f00d2 in it" in done.err
    assert "hint: --subagents include" in done.err
    done = at(tmp_path, "brief", "scan:a1f00d2")
    assert done.code == 0, done
    assert "loam" in done.out


def backup(home: Path, *args: str) -> tuple[Done, list[Any]]:
    done = at(home, "bundle", "export", "--all", *args, "-o", str(home / "out"), "--json")
    lines = [json.loads(text) for text in done.out.splitlines()]
    return done, [one for one in lines if "status" in one]


def test_a_file_without_a_session_fails_no_backup(tmp_path: Path) -> None:
    path = session(tmp_path, "aaaa1111")
    summary = {"type": "summary", "summary": "About lines", "leafUuid": "u-1"}
    path.with_name("bbbb.jsonl").write_text(json.dumps(summary) + "\n", encoding="utf-8")
    path.with_name("cccc.jsonl").write_bytes(b"")
    for status in ("written", "unchanged"):
        done, made = backup(tmp_path)
        assert [(done.code, one["status"]) for one in made] == [(0, status)]
        assert "empty-session 1" in done.err
        assert "cccc.jsonl: empty file" in done.err


def test_a_backup_holds_each_session_once(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "gemini/subagents/input", tmp_path / ".gemini")
    share = tmp_path / ".local/share/opencode"
    shutil.copytree(GOLDEN / "opencode/tree/input", share / "storage")
    done, made = backup(tmp_path)
    assert done.code == 0
    assert sorted(one["session"][:5] for one in made) == ["5b0c2", "77777", "ses_t"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes in folders")
def test_a_pipe_in_a_store_stops_no_backup(tmp_path: Path) -> None:
    path = session(tmp_path, "aaaa1111")
    os.mkfifo(path.with_name("b.jsonl"))
    done, made = backup(tmp_path)
    assert (done.code, len(made)) == (0, 1)
    assert "b.jsonl: pipe" in done.err
    done = at(tmp_path, "scan")
    assert done.code == 0
    assert "b.jsonl (claude): pipe" in done.err


def test_a_tool_without_a_place_is_said(tmp_path: Path) -> None:
    done = at(tmp_path, "scan", "--tool", "sharegpt")
    assert done.code == 2
    assert "no place" in done.err
