"""Where ``dcb scan`` looks: what it cannot enter, what it finds twice, what is no file."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from converters import opening
from converters.registry import lookup
from dcb.scan import Cache, Found, Machine, Unreadable, scan
from dcb.scan.folders import is_inside, spellings
from tests.dcb.test_scan import CLAUDE, found, line, machine, session
from tests.paths import ROOT

GOLDEN = ROOT / "golden"


def troubles(home: Path, *tools: str, **env: str) -> dict[str, Unreadable]:
    formats = [record for tool in tools or ("claude",) for record in lookup(tool)]
    listed = scan(formats, machine(home, **env))
    return {str(Path(o.path).relative_to(home)): o for o in listed if isinstance(o, Unreadable)}


def lock(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Let nobody into folders, as ``chmod 000`` does for anyone but root."""
    names = [str(folder) for folder in folders]
    stat, scandir = os.stat, os.scandir

    def closed(path: Any) -> bool:
        return any(str(path).startswith(f"{name}/") for name in names)

    def guarded_stat(path: Any, **how: Any) -> os.stat_result:
        if closed(path):
            raise PermissionError(13, "Permission denied", path)
        return stat(path, **how)

    def guarded_scandir(path: Any = ".") -> Any:
        if closed(path) or str(path) in names:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "stat", guarded_stat)
    monkeypatch.setattr(os, "scandir", guarded_scandir)


def test_what_cannot_be_entered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path, "aaaa1111")
    (tmp_path / ".codex/sessions/2026/01/01").mkdir(parents=True)
    (tmp_path / ".claude/projects/other").mkdir()
    lock(monkeypatch, tmp_path / CLAUDE, tmp_path / ".codex")
    named = troubles(tmp_path, "claude", "codex", "gemini")
    assert list(named) == [CLAUDE, ".codex"]
    assert {one.reason for one in named.values()} == {"permission denied"}
    assert not any(one.skipped for one in named.values())


def test_a_store_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    from tests.pack import dcb

    path = tmp_path / ".local/share/goose/sessions/sessions.db"
    path.parent.mkdir(parents=True)
    path.write_text("not a database", encoding="utf-8")
    session(tmp_path, "aaaa1111")
    home: dict[str, Any] = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    done = dcb("scan", "--json", **home)
    assert done.code == 1
    lines = [json.loads(text) for text in done.out.splitlines()]
    assert [("error" in one, one.get("id")) for one in lines] == [(True, None), (False, "aaaa1111")]
    assert "sessions.db (goose): no store of goose" in done.err
    done = dcb("bundle", "export", "--all", "-o", str(tmp_path / "out"), **home)
    assert done.code == 1
    assert "1 written; 1 failed" in done.err


@pytest.mark.parametrize("name", ["h[ab]x", "h*", "what?"])
def test_a_home_is_no_pattern(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    session(home, "aaaa1111")
    assert [one.id for one in found(home)] == ["aaaa1111"]
    moved = {"CLAUDE_CONFIG_DIR": str(home / ".claude")}
    assert [one.id for one in found(tmp_path, env=moved)] == ["aaaa1111"]


def test_a_session_is_listed_once_whatever_way_leads_to_it(tmp_path: Path) -> None:
    session(tmp_path / "real", "aaaa1111")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".claude").symlink_to(tmp_path / "real/.claude")
    (home / ".claude/projects/linked").symlink_to(tmp_path / "real" / CLAUDE)
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path / "real/.claude")}
    (one,) = found(home, env=moved, formats=lookup("claude") * 2)
    assert one.path.startswith(str(tmp_path / "real"))
    assert len(found(home)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and sockets in folders")
def test_what_is_no_file_is_skipped_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = session(tmp_path, "aaaa1111").parent
    os.mkfifo(folder / "b.jsonl")
    (folder / "c.jsonl").symlink_to("nowhere")
    (folder / "d.jsonl").mkdir()
    (folder / "e.jsonl").write_bytes(b"")
    monkeypatch.chdir(folder)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("f.jsonl")
        named = troubles(tmp_path)
    reasons = {Path(name).name: one.reason for name, one in named.items()}
    assert reasons == {
        "b.jsonl": "pipe",
        "c.jsonl": "symbolic link to nothing",
        "d.jsonl": "folder",
        "e.jsonl": "empty file",
        "f.jsonl": "socket",
    }
    assert all(one.skipped for one in named.values())
    assert [one.id for one in found(tmp_path)] == ["aaaa1111"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes in folders")
def test_a_found_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    (one,) = opening.open_inputs(tmp_path / "p", found=True)
    assert one == opening.Skipped(str(tmp_path / "p"), "pipe")


def test_what_belongs_to_another_file_is_no_session_of_its_own(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "gemini/subagents/input", tmp_path / ".gemini")
    for deep in (False, True):
        listed = found(tmp_path, formats=lookup("gemini"), deep=deep)
        assert sorted((Path(one.path).suffix, one.id[:4]) for one in listed) == [
            (".jsonl", "5b0c"),
            (".jsonl", "7777"),
        ]


def test_the_cache_sees_what_comes_into_a_folder(tmp_path: Path) -> None:
    tree = tmp_path / "home/.local/share/opencode/storage"
    shutil.copytree(GOLDEN / "opencode/tree/input", tree)
    how: dict[str, Any] = {"formats": lookup("opencode")}

    def ids() -> list[str]:
        listed = found(tmp_path / "home", cache=Cache(tmp_path / "scan.json"), **how)
        assert {one.size for one in listed} == {total()}
        return [one.id for one in listed]

    def total() -> int:
        return sum(file.stat().st_size for file in tree.rglob("*") if file.is_file())

    assert ids() == ["ses_t"]
    (old,) = tree.glob("session/*/*.json")
    text = old.read_text(encoding="utf-8")
    new = old.with_name("ses_new.json")
    new.write_text(text.replace("ses_t", "ses_new"), encoding="utf-8")
    os.utime(new, ns=(0, 0))
    os.utime(new.parent, ns=(0, 0))
    assert ids() == ["ses_new", "ses_t"]
    new.unlink()
    assert ids() == ["ses_t"]


def test_the_cache_sees_a_new_companion(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = session(home, "aaaa1111")
    assert len(found(home, cache=Cache(tmp_path / "scan.json"))) == 1
    agent = path.with_suffix("") / "subagents/agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_text(line("Compare", 0), encoding="utf-8")
    listed = found(home, cache=Cache(tmp_path / "scan.json"))
    assert [one.id for one in listed] == ["aaaa1111", "a1"]


def test_whole_files_are_remembered_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = session(home, "aaaa1111", turns=3)
    for _ in range(2):
        (one,) = found(home, cache=Cache(tmp_path / "scan.json"), deep=True)
        assert one.turns == 3
        # What the file holds is not asked again as long as it looks the same.
        stat = path.stat()
        path.write_bytes(b" " * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not found(home, deep=True)


def test_folders_however_they_are_spelled(tmp_path: Path) -> None:
    real = tmp_path / "real/project"
    real.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    for recorded in (real, link / "project", link / "project/", real / "sub/.."):
        for asked in (real, link / "project", tmp_path / "real", link, link / "project" / ".."):
            assert is_inside(str(recorded), spellings(str(asked))), (recorded, asked)
    assert not is_inside(str(real), spellings(str(real / "sub")))
    assert not is_inside(str(tmp_path / "real2"), spellings(str(tmp_path / "real")))
    assert not is_inside("project", spellings(str(real)))


@pytest.mark.parametrize("recorded", [r"C:\Users\me\code", "c:/Users/me/code", "/c:/users/Me/code"])
def test_folders_of_windows(recorded: str) -> None:
    for asked in (r"C:\Users\me", r"c:\users\ME\code", "C:/Users/me/", "C:\\"):
        assert is_inside(recorded, spellings(asked)), asked
    assert not is_inside(recorded, spellings(r"C:\Users\you"))
    assert not is_inside(recorded, spellings(r"D:\Users\me"))
    assert is_inside(r"\\host\share\x", spellings(r"\\HOST\share"))


def test_a_place_below_any_folders(tmp_path: Path) -> None:
    (record,) = lookup("dsh")
    assert any("**" in place for place in record.places["linux"])
    source = (GOLDEN / "dsh/plain/input.jsonl").read_bytes()
    for folder in (".", "a", "a/b/c"):
        path = tmp_path / ".dsh/sessions" / folder / "session.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)
    (tmp_path / ".dsh/sessions/loop").symlink_to(".")
    listed = list(scan([record], Machine(tmp_path, {}, "linux")))
    assert len(listed) == 3
    assert all(isinstance(one, Found) for one in listed)
