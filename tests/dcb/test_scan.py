"""``dcb scan`` over homes of three systems, with a cache, filters, and names as inputs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from converters.registry import all_formats, lookup
from dcb import scan as scanning
from dcb.scan import Cache, Found, Machine, Unreadable, scan
from tests.goldens import cases
from tests.pack import dcb
from tests.paths import ROOT

CLAUDE = ".claude/projects/-home-user-demo"


def line(text: str, second: int, role: str = "user", session: str = "s-1") -> str:
    content = text if role == "user" else [{"type": "text", "text": text}]
    record = {
        "type": role,
        "uuid": f"u-{session}-{second}",
        "parentUuid": None if second == 0 else f"u-{session}-{second - 1}",
        "sessionId": session,
        "timestamp": f"2026-01-01T00:{second // 60 % 60:02}:{second % 60:02}.000Z",
        "cwd": "/home/user/demo",
        "message": {"role": role, "content": content},
    }
    return json.dumps(record) + "\n"


def session(home: Path, name: str, turns: int = 1, first: str = "How many lines?") -> Path:
    path = home / CLAUDE / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [line(first, 0, session=name)]
    lines += [
        line(f"line {n} " + "x" * 400, n, ("user", "assistant")[n % 2], name)
        for n in range(1, 2 * turns)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def machine(home: Path, platform: str = "linux", **env: str) -> Machine:
    return Machine(home, env, platform)


def found(home: Path, **how: Any) -> list[Found]:
    listed = scan(how.pop("formats", lookup("claude")), machine(home, **how.pop("env", {})), **how)
    return [one for one in listed if isinstance(one, Found)]


def test_lists_by_the_ends_of_a_file(tmp_path: Path) -> None:
    session(tmp_path, "aaaa1111", turns=400)
    (one,) = found(tmp_path)
    assert (one.tool, one.id, one.title) == ("claude", "aaaa1111", "How many lines?")
    assert one.cwd == "/home/user/demo"
    assert one.time is not None
    assert one.time == 1767225600000 + 799 * 1000
    assert one.turns is None
    (deep,) = found(tmp_path, deep=True)
    assert deep.turns == 400
    assert deep.time == one.time


def test_only_the_ends_are_read(tmp_path: Path) -> None:
    path = session(tmp_path, "aaaa1111", turns=2000)
    data = bytearray(path.read_bytes())
    middle = slice(2 * scanning.EDGE, len(data) - 2 * scanning.EDGE)
    data[middle] = b"\0" * len(data[middle])
    path.write_bytes(data)
    (one,) = found(tmp_path)
    assert (one.id, one.title, one.size) == ("aaaa1111", "How many lines?", len(data))
    assert one.time == 1767225600000 + 3999 % 3600 * 1000


def test_a_last_line_over_the_edge_is_as_late_as_its_file(tmp_path: Path) -> None:
    path = session(tmp_path, "aaaa1111", turns=200)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line("x" * 2 * scanning.EDGE, 500, session="aaaa1111"))
    os.utime(path, (1767230000, 1767230000))
    (one,) = found(tmp_path)
    assert one.time == 1767230000000
    (deep,) = found(tmp_path, deep=True)
    assert deep.time == 1767225600000 + 500 * 1000


def chat(tmp_path: Path, text: str, n: int) -> Path:
    """Write a Gemini document of ``n`` messages."""
    messages = [
        {"id": f"m-{i}", "type": "user", "timestamp": f"2026-01-01T00:00:{i % 60:02}Z",
         "content": text} for i in range(n)
    ]  # fmt: skip
    head = {"sessionId": "g-1", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"}
    path = tmp_path / ".gemini/tmp/h/chats/session-1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**head, "messages": messages}), encoding="utf-8")
    os.utime(path, (1767230000, 1767230000))
    return path


def test_a_large_document_is_as_late_as_its_file(tmp_path: Path) -> None:
    chat(tmp_path, "x" * 900, 200)
    (one,) = found(tmp_path, formats=lookup("gemini"))
    assert (one.id, one.time, one.guessed) == ("g-1", 1767230000000, False)
    (deep,) = found(tmp_path, formats=lookup("gemini"), deep=True)
    assert deep.time == 1767225659000


def test_a_document_whose_start_tells_nothing(tmp_path: Path) -> None:
    chat(tmp_path, "x" * 3 * scanning.EDGE, 1)
    (one,) = found(tmp_path, formats=lookup("gemini"))
    assert (one.id, one.time, one.guessed) == ("session-1", 1767230000000, True)
    (shown,) = run(tmp_path, "show", "--json", "scan:session-1")
    assert shown["meta"]["id"] == "g-1"


def test_an_id_made_of_the_content_is_not_made_of_its_start(tmp_path: Path) -> None:
    contents = [
        {"role": ("user", "model")[n % 2], "parts": [{"text": f"m{n} " + "x" * 500}]}
        for n in range(300)
    ]
    path = tmp_path / ".gemini/tmp/h/checkpoint-t.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(contents), encoding="utf-8")
    (one,) = found(tmp_path, formats=lookup("gemini"))
    assert (one.id, one.guessed, (one.title or "")[:3]) == ("checkpoint-t", True, "m0 ")
    (shown,) = run(tmp_path, "show", "--json", "scan:checkpoint-t")
    assert len(shown["turns"]) == 150


@pytest.mark.parametrize("size", [0, 2 * scanning.EDGE])
def test_small_files_around_a_session_are_read(tmp_path: Path, size: int) -> None:
    base = tmp_path / ".config/Code/User/workspaceStorage/demo"
    shutil.copytree(ROOT / "golden/copilot-vscode/with-folder/input", base)
    (path,) = base.glob("chatSessions/*.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    document["padding"] = "x" * size
    path.write_text(json.dumps(document), encoding="utf-8")
    (one,) = found(tmp_path, formats=lookup("copilot-vscode"))
    assert one.cwd == "/home/user/demo two"
    listed = run(tmp_path, "scan", "--json", "--cwd", "/home/user/demo two")
    assert [o["id"] for o in listed] == [one.id]


def test_large_subagents_are_listed_by_their_start(tmp_path: Path) -> None:
    path = session(tmp_path, "aaaa1111")
    agent = path.with_suffix("") / "subagents/agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    lines = [line(f"m{n} " + "x" * 900, n, ("user", "assistant")[n % 2]) for n in range(200)]
    agent.write_text("".join(lines), encoding="utf-8")
    os.utime(agent, (1767230000, 1767230000))
    os.utime(path, (1767229000, 1767229000))
    main, one = found(tmp_path)
    assert (main.id, main.time) == ("aaaa1111", 1767225601000)
    assert (one.id, (one.title or "")[:2], one.time) == ("a1", "m0", 1767230000000)


def test_cache_by_size_and_time(tmp_path: Path) -> None:
    path = session(tmp_path / "home", "aaaa1111")
    where = tmp_path / "cache" / "scan.json"
    assert len(found(tmp_path / "home", cache=Cache(where))) == 1
    assert where.exists()
    stat = path.stat()
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("How many", "How much"), encoding="utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (same,) = found(tmp_path / "home", cache=Cache(where))
    assert same.title == "How many lines?"
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    (new,) = found(tmp_path / "home", cache=Cache(where))
    assert new.title == "How much lines?"
    where.write_text("{broken", encoding="utf-8")
    assert len(found(tmp_path / "home", cache=Cache(where))) == 1


def test_environment_moves_a_place(tmp_path: Path) -> None:
    session(tmp_path / "elsewhere", "aaaa1111")
    home = tmp_path / "home"
    home.mkdir()
    assert not found(home)
    moved = str(tmp_path / "elsewhere" / ".claude")
    assert len(found(home, env={"CLAUDE_CONFIG_DIR": moved})) == 1


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_every_tool_is_found_in_its_place(tmp_path: Path, platform: str) -> None:
    """Golden files put where each tool keeps its own are found, on every system."""
    placed = set()
    for case in cases():
        (record,) = lookup(case.format)
        if case.name != "plain" or not case.source.is_file():
            continue
        kind = case.source.suffix
        for pattern in record.places.get(platform, ()):
            name = pattern.rpartition("/")[2]
            fits = kind in name or (
                kind == ".db" and not name.endswith((".json", ".jsonl", ".txt"))
            )
            if fits and "$" not in pattern:
                target = tmp_path / pattern.replace("*", "demo")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(case.source.read_bytes())
                placed.add(case.format)
                break
    listed = list(scan(all_formats(), machine(tmp_path, platform)))
    assert {one.tool for one in listed} == placed
    assert not [one for one in listed if isinstance(one, Unreadable)]
    assert {"claude", "codex", "cursor", "gemini", "goose", "opencode"} <= placed


def test_a_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / ".local/share/goose/sessions/sessions.db"
    path.parent.mkdir(parents=True)
    path.write_text("not a database", encoding="utf-8")
    (one,) = scan(lookup("goose"), machine(tmp_path))
    assert isinstance(one, Unreadable)
    assert one.path == str(path)
    assert one.reason


def run(home: Path, *args: str) -> list[dict[str, Any]]:
    done = dcb(*args, HOME=str(home), XDG_CACHE_HOME=str(home / ".cache"))
    assert done.code == 0, done
    return [json.loads(text) for text in done.out.split("\n") if text]


def test_filters(tmp_path: Path) -> None:
    session(tmp_path, "aaaa1111", first="About apples")
    session(tmp_path, "bbbb2222", turns=2, first="About pears")
    assert len(run(tmp_path, "scan", "--json")) == 2
    assert [o["id"] for o in run(tmp_path, "scan", "--json", "--grep", "apples")] == ["aaaa1111"]
    deep = run(tmp_path, "scan", "--json", "--grep", "line 3", "--deep")
    assert [one["id"] for one in deep] == ["bbbb2222"]
    assert run(tmp_path, "scan", "--json", "--since", "2026-01-01T00:00:03Z")
    assert not run(tmp_path, "scan", "--json", "--since", "2026-01-02")
    assert run(tmp_path, "scan", "--json", "--cwd", "/home/user")
    assert not run(tmp_path, "scan", "--json", "--cwd", "/home/other")
    assert not run(tmp_path, "scan", "--json", "--tool", "codex")


def test_names_as_inputs(tmp_path: Path) -> None:
    session(tmp_path, "aaaa1111")
    session(tmp_path, "bbbb2222", turns=3)
    for name, wanted in (("scan:aaaa", "aaaa1111"), ("scan:last", "bbbb2222")):
        (shown,) = run(tmp_path, "show", "--json", name)
        assert shown["meta"]["id"] == wanted
    assert len(run(tmp_path, "convert", "scan:claude", "--to", "interchange")) == 2
    done = dcb("show", "scan:zzzz", HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / ".c"))
    assert done.code == 1
    assert "no session of this machine fits" in done.err


def test_bundle_of_everything(tmp_path: Path) -> None:
    session(tmp_path, "aaaa1111")
    session(tmp_path, "bbbb2222", turns=3)
    out = tmp_path / "backup"
    command = ("bundle", "export", "--all", "--tool", "claude", "-o", str(out), "--json")
    lines = run(tmp_path, *command)
    assert {one["status"] for one in lines if "status" in one} == {"written"}
    assert len(list(out.glob("*.dshbundle.json"))) == 2
    again = run(tmp_path, *command)
    assert {one["status"] for one in again if "status" in one} == {"unchanged"}
    done = dcb("bundle", "export", "-o", str(out), HOME=str(tmp_path))
    assert done.code == 2
