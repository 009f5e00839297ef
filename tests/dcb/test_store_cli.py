"""``dcb store``, ``brief`` and ``merge`` as a person uses them."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from dcb import store
from dcb.cli import _settings, _tables, app
from dcb.envelope import is_envelope
from dcb.snapshot import document
from dcb.snapshot.model import Meta, Preference, Snapshot, SummarySection, VerbatimEntry
from dcb.snapshot.profile import PLUGIN
from tests.pack import dcb
from tests.paths import ROOT

PASS = "correct horse battery"  # noqa: S105 - nobody's
HELLO = ROOT / "examples" / "hello.json"
T0 = 1_772_323_200_000


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, a configuration and a working folder of this test alone."""
    for name in ("DCB_PASSPHRASE", "OPENAI_API_KEY", "DCB_LLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DCB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "secret").write_text(PASS + "\n", encoding="utf-8")
    return work


def run(*args: str | Path, stdin: bytes | None = None, **env: str) -> Result:
    _settings.current.cache_clear()
    return CliRunner().invoke(app, list(map(str, args)), input=stdin, env=env)


def lines(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.strip().split("\n") if line]


def snapshot(
    name: str, *wishes: Preference, text: str = "最终采用方案 A。", **meta: Any
) -> Snapshot:
    given: dict[str, Any] = {"title": f"标题 {name}", "source_conversation_id": f"conv-{name}"}
    return Snapshot(
        meta=Meta(snapshot_id=name, created_at=T0, **(given | meta)),
        verbatim=(VerbatimEntry(id="v-001", content=text, created_at=T0),),
        summary=(SummarySection(heading="背景", bullets=("目标是零丢失。",)),),
        preferences=wishes,
    )


def put(path: Path, one: Snapshot, profile: Any = None) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    text = document.serialize(one, profile) if profile else document.serialize(one)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def wish(value: str) -> Preference:
    return Preference(scope="style", key="comment-style", value=value, explicit=True, created_at=T0)


# --------------------------------------------------------------------- store


def test_save_find_show_remove(world: Path) -> None:
    one = put(world / "one.md", snapshot("snap_1", text="用 LRU 缓存"))
    saved = lines(run("store", "save", one, HELLO, "--tag", "demo", "--json"))
    assert [record["state"] for record in saved] == ["new", "new"]
    listed = lines(run("store", "list", "--json"))
    assert next(row["snapshotId"] for row in listed) == "snap_1"
    assert listed[0]["tags"] == ["demo"]
    (hit,) = lines(run("store", "search", "缓存", "LRU", "--json"))
    assert hit["snapshotId"] == "snap_1"
    assert [hit["excerpt"][a:b] for a, b in hit["marks"]] == ["LRU", "缓存"]
    assert len(lines(run("store", "search", "demo", "--limit", "1", "--json"))) == 1
    shown = run("store", "show", "snap_1")
    assert document.verify(shown.stdout)
    assert lines(run("store", "show", "snap_", "--json"))[0]["meta"]["snapshotId"] == "snap_1"
    assert "📦 标题 snap_1" in run("store", "card", "snap_1").stdout
    assert lines(run("store", "rm", "snap_1", "--json")) == [
        {"removed": "snap_1", "inHistory": shutil.which("git") is not None}
    ]
    assert run("store", "show", "snap_1").exit_code == 1
    assert run("store", "search", "缓存").stdout == ""


def test_plain_output_is_safe_text(world: Path) -> None:
    put(
        world / "a.md",
        snapshot("s", title="evil \x1b[31m[bold]red[/nope]", text="ESC \x1b]0;x\x07 缓存"),
    )
    run("store", "save", "a.md")
    for command in (["list"], ["search", "缓存"], ["search", "evil"], ["card", "s"]):
        done = run("store", *command)
        assert done.exit_code == 0, done.output
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout
    assert "[bold]red[/nope]" in run("store", "list").stdout
    assert "[缓存]" in run("store", "search", "缓存").stdout


def test_tables_on_a_terminal(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(
        world / "a.md", snapshot("s", title="[link=x]t[/nope]", tags=("[red]",), text="用 缓存\x1b")
    )
    run("store", "save", "a.md")
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=200, markup=False, emoji=False, highlight=False
    )
    monkeypatch.setattr(_tables, "_console", lambda: console)
    with store.open_store(world.parent / "home") as kept:
        found, hits = store.listing(kept), store.search(kept, "缓存")
    monkeypatch.setattr("sys.stdout", type("Tty", (), {"isatty": lambda self: True})())
    _tables.rows(found)
    _tables.hits(hits)
    monkeypatch.undo()
    shown = out.getvalue().split("\n")
    assert any("[link=x]t[/nope]" in line and "[red]" in line for line in shown)
    assert any("\x1b[1;33m缓存\x1b[0m" in line for line in shown)
    assert "\\x1b" in out.getvalue()


@pytest.mark.parametrize("width", [40, 80])
def test_an_id_stays_on_one_line_where_there_is_room(
    width: int, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "4008318f-5418-5a29-88c5-32fe1a5d7e03"
    put(world / "a.md", snapshot(name, title="A title of several words", tags=("one", "two")))
    run("store", "save", "a.md")
    out = io.StringIO()
    monkeypatch.setattr(_tables, "_console", lambda: Console(file=out, width=width))
    with store.open_store(world.parent / "home") as kept:
        found = store.listing(kept)
    monkeypatch.setattr("sys.stdout", type("Tty", (), {"isatty": lambda self: True})())
    _tables.rows(found)
    monkeypatch.undo()
    assert (name in out.getvalue()) is (width == 80)
    assert "words" in out.getvalue()


def test_no_store_yet(world: Path) -> None:
    for command in (["list"], ["search", "x"], ["show", "x"], ["integrity"]):
        done = run("store", *command)
        assert done.exit_code == 1
        assert "there is no store" in done.stderr
    assert not (world.parent / "home").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_history_and_rollback(world: Path) -> None:
    for i in range(3):
        put(world / "a.md", snapshot("s", text=f"version {i}"))
        run("store", "save", "a.md")
    found = lines(run("store", "history", "s", "--json"))
    assert [version["subject"] for version in found] == ["snapshot s: save"] * 3
    assert lines(run("store", "rollback", "s", "--json"))[0]["ref"] == found[1]["ref"]
    assert "version 1" in run("store", "show", "s").stdout
    assert run("store", "rollback", "s", "--to", found[2]["ref"][:10]).exit_code == 0
    assert "version 0" in run("store", "show", "s").stdout
    assert run("store", "rollback", "s", "--to", "--output=x").exit_code != 0
    run("store", "rm", "s")
    assert lines(run("store", "history", "s", "--json"))[0]["removed"]
    assert run("store", "rollback", "s").exit_code == 0
    assert "version 0" in run("store", "show", "s").stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("how", ["variable", "setting"])
def test_a_relative_home_has_a_history(how: str, world: Path) -> None:
    home = "kept" if how == "variable" else ""
    if how == "setting":
        (world / "dcb.toml").write_text('home = "kept"\n')
    put(world / "a.md", snapshot("s"))
    assert run("store", "save", "a.md", DCB_HOME=home).exit_code == 0
    assert (world / "kept" / "snapshots" / ".git").is_dir()
    assert len(lines(run("store", "history", "s", "--json", DCB_HOME=home))) == 1


def test_history_can_be_switched_off(world: Path) -> None:
    (world / "dcb.toml").write_text("history = false\n")
    put(world / "a.md", snapshot("s"))
    assert run("store", "save", "a.md").exit_code == 0
    assert not (world.parent / "home" / "snapshots").exists()
    done = run("store", "history", "s")
    assert done.exit_code == 1
    assert "history is off" in done.stderr


def test_without_git_the_store_works_and_says_so(world: Path, tmp_path: Path) -> None:
    put(world / "a.md", snapshot("s"))
    (tmp_path / "bin").mkdir()
    done = run("store", "save", "a.md", PATH=str(tmp_path / "bin"))
    assert done.exit_code == 0
    assert "history is off" in done.stderr
    assert run("store", "show", "s").exit_code == 0


def test_sealed_life(world: Path) -> None:
    put(world / "a.md", snapshot("s", text="the secret text", tags=("open",)))
    secret = ("--passphrase-file", "secret")
    assert run("store", "save", "a.md", "--seal").exit_code == 2  # nobody to ask
    done = run("store", "save", "a.md", "--seal", *secret)
    assert "new, sealed" in done.stderr
    assert lines(run("store", "list", "--json"))[0]["sealed"]
    assert lines(run("store", "search", "open", "--json"))[0]["sealed"]
    assert run("store", "search", "secret").stdout == ""
    assert run("store", "show", "s").exit_code == 2
    assert "the secret text" in run("store", "show", "s", *secret).stdout
    wrong = run("store", "show", "s", DCB_PASSPHRASE="not this one")  # noqa: S106
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    clear = run("store", "save", "a.md")
    assert clear.exit_code == 1
    assert "would be saved in clear" in clear.stderr
    assert run("store", "weight", "s", "4").exit_code == 1
    assert run("store", "weight", "s", "4", *secret).exit_code == 0
    assert "weight: 4" in run("store", "show", "s", *secret).stdout
    assert run("store", "integrity").exit_code == run("store", "integrity", *secret).exit_code == 0
    assert "the secret text" in run("brief", "store:s", *secret).stdout
    run("store", "export", "s", "-o", "kept", "--keep-sealed")
    (kept,) = (world / "kept").iterdir()
    assert kept.name.endswith(".md.sealed")
    assert is_envelope(kept.read_bytes())
    assert run("store", "export", "s", "-o", "opened").exit_code != 0
    assert list((world / "opened").iterdir()) == []
    assert run("store", "export", "s", "-o", "opened", *secret).exit_code == 0
    (opened,) = (world / "opened").iterdir()
    assert "the secret text" in opened.read_text(encoding="utf-8")
    assert opened.stat().st_mode & 0o077 == 0


def test_seal_metadata_and_settings(world: Path) -> None:
    (world / "dcb.toml").write_text("seal = true\nseal-metadata = true\n")
    put(world / "a.md", snapshot("s", title="hidden title"))
    assert run("store", "save", "a.md", DCB_PASSPHRASE=PASS).exit_code == 0
    (row,) = lines(run("store", "list", "--json"))
    assert (row["title"], row["conversation"], row["sealed"]) == ("", "", True)
    assert run("store", "search", "hidden").stdout == ""
    done = run("compile", HELLO, "--save", DCB_PASSPHRASE=PASS)
    assert done.exit_code == 0, done.output
    assert all(row["sealed"] for row in lines(run("store", "list", "--json")))


@pytest.mark.parametrize("command", ["save", "import"])
def test_seal_metadata_seals_or_says_that_it_cannot(command: str, world: Path) -> None:
    put(world / "a.md", snapshot("s", title="hidden title"))
    done = run("store", command, "a.md", "--no-seal", "--seal-metadata", DCB_PASSPHRASE=PASS)
    assert (done.exit_code, "--no-seal" in done.stderr) == (2, True)
    assert not (world.parent / "home").exists()
    assert run("store", command, "a.md", "--seal-metadata", DCB_PASSPHRASE=PASS).exit_code == 0
    (row,) = lines(run("store", "list", "--json"))
    assert (row["title"], row["sealed"]) == ("", True)


@pytest.mark.parametrize("number", ["-1", "-0.5", "-1e3", "2"])
def test_a_weight_is_any_number(number: str, world: Path) -> None:
    put(world / "a.md", snapshot("s"))
    run("store", "save", "a.md")
    for args in (("s", number), ("s", number, "--json"), ("s", "--", number)):
        assert run("store", "weight", *args).exit_code == 0
    shown = lines(run("store", "show", "s", "--json"))[0]
    assert shown["meta"]["weight"] == float(number)
    for wrong in (("s", "-x"), ("s", "--jsn"), ("s", "1", "--jsn"), ("s", "-inf")):
        assert run("store", "weight", *wrong).exit_code == 2


def test_export_and_import(world: Path, tmp_path: Path) -> None:
    made = [snapshot(f"s{i}", text=f"text {i}") for i in range(3)]
    for one in made:
        put(world / "in" / f"{one.meta.snapshot_id}.md", one)
    assert len(lines(run("store", "import", "in", "--json"))) == 3
    assert run("store", "export", "--all", "-o", "out").exit_code == 0
    assert sorted(p.name for p in (world / "out").iterdir()) == [
        f"s{i}__标题_s{i}.md" for i in range(3)
    ]
    again = lines(run("store", "export", "--all", "-o", "out", "--json"))
    assert [record["state"] for record in again] == ["same"] * 3
    other: dict[str, Any] = {"DCB_HOME": str(tmp_path / "other")}
    assert [r["state"] for r in lines(run("store", "import", "out", "--json", **other))] == [
        "new"
    ] * 3
    assert [r["state"] for r in lines(run("store", "import", "out", "--json", **other))] == [
        "same"
    ] * 3
    assert run("store", "export", "-o", "x").exit_code == 2
    assert run("store", "import", HELLO, **other).exit_code == 2


def test_import_refuses_what_was_changed(world: Path) -> None:
    path = put(world / "a.md", snapshot("s", text="the words"))
    path.write_text(path.read_text(encoding="utf-8").replace("the words", "other words"), "utf-8")
    put(world / "b.md", snapshot("t"))
    done = run("store", "import", "a.md", "b.md")
    assert done.exit_code == 1
    assert "a.md" in done.stderr
    assert "--accept-mismatch" in done.stderr
    assert [row["snapshotId"] for row in lines(run("store", "list", "--json"))] == ["t"]
    assert run("store", "import", "a.md", "--dry-run").exit_code == 1
    done = run("store", "import", "a.md", "--accept-mismatch")
    assert done.exit_code == 0
    assert "was changed" in done.stderr
    assert run("store", "integrity").exit_code == 0


def test_import_does_not_replace_another_snapshot(world: Path) -> None:
    put(world / "a.md", snapshot("s", text="first"))
    put(world / "b.md", snapshot("s", text="second"))
    run("store", "import", "a.md")
    done = run("store", "import", "b.md")
    assert done.exit_code == 1
    assert "error: b.md: the store has another snapshot s\n" in done.stderr
    assert "--new-id" in done.stderr
    assert "first" in run("store", "show", "s").stdout
    (new,) = lines(run("store", "import", "b.md", "--new-id", "--json"))
    assert new["saved"] != "s"
    assert lines(run("store", "import", "b.md", "--new-id", "--json"))[0]["state"] == "same"
    assert run("store", "import", "b.md", "--force").exit_code == 0
    assert "second" in run("store", "show", "s").stdout


def test_import_takes_plugin_documents_and_envelopes(world: Path) -> None:
    put(world / "p.md", snapshot("p"), PLUGIN)
    run("seal", "p.md", "-o", "q.sealed", "--passphrase-file", "secret")
    (world / "p.md").unlink()
    done = run("store", "import", "q.sealed", "--passphrase-file", "secret")
    assert done.exit_code == 0, done.output
    assert 'dcb_schema: "1.0"' in run("store", "show", "p").stdout


def test_vacuum_and_integrity(world: Path) -> None:
    put(world / "a.md", snapshot("s"))
    run("store", "save", "a.md")
    assert set(lines(run("store", "vacuum", "--json"))[0]) == {"before", "after"}
    assert "all well" in run("store", "integrity").stderr


# ----------------------------------------------------------- brief and merge


def test_brief_of_anything(world: Path) -> None:
    put(world / "a.md", snapshot("snap_1", wish("少注释")))
    text = run("brief", "a.md").stdout
    assert text.startswith(
        "<!-- dcb:import mode=inject snapshotId=snap_1 srcConv=conv-snap_1 -->\n"
    )
    assert text.endswith("<!-- dcb:import:end -->\n")
    assert run("brief", "-", stdin=(world / "a.md").read_bytes()).stdout == text
    run("seal", "a.md", "-o", "a.sealed", "--passphrase-file", "secret")
    assert run("brief", "a.sealed", "--passphrase-file", "secret").stdout == text
    run("store", "save", "a.md")
    assert run("brief", "store:snap_1").stdout == text
    assert run("brief", "a.md", "-o", "out.md").stdout == ""
    assert (world / "out.md").read_text(encoding="utf-8") == text
    assert run("brief", "a.md", "-o", "out.md").exit_code == 1
    assert run("brief", "a.md", "-o", "a.md", "--force").exit_code != 0
    plugin = run("brief", "a.md", "--profile", "plugin").stdout
    assert "3/1/2026, 12:00:00 AM" in plugin
    (record,) = lines(run("brief", HELLO, "--json"))
    assert record["mode"] == "inject"
    assert "42 lines" in record["brief"]
    assert (
        run("brief", HELLO, stdin=None).stdout == run("brief", "-", stdin=HELLO.read_bytes()).stdout
    )


def test_brief_says_when_the_snapshot_was_changed(world: Path) -> None:
    path = put(world / "a.md", snapshot("s", text="the words"))
    path.write_text(path.read_text(encoding="utf-8").replace("the words", "other words"), "utf-8")
    done = run("brief", "a.md")
    assert done.exit_code == 0
    assert "was changed" in done.stderr
    assert "other words" in done.stdout


@pytest.mark.parametrize("name", ["missing.md", "store:none", "work"])
def test_brief_of_nothing(world: Path, name: str) -> None:
    done = run("brief", name)
    assert done.exit_code in (1, 2)
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""


def test_merge_as_brief_and_as_snapshot(world: Path) -> None:
    put(world / "base.md", snapshot("base", wish("多注释"), text="one"))
    put(world / "over.md", snapshot("over", wish("少 | 注释"), text="two"))
    done = run("merge", "base.md", "over.md")
    assert "1 conflict decided" in done.stderr
    assert "mode=merge baseSnapshot=base overlayConv=conv-over policy=newWins" in done.stdout
    assert "**少 \\| 注释** | newWins |" in done.stdout
    done = run("merge", "base.md", "over.md", "--policy", "snapshotWins", "--as", "snapshot")
    assert document.verify(done.stdout)
    merged = document.parse(done.stdout)
    assert [p.value for p in merged.preferences] == ["多注释"]
    assert [e.content for e in merged.verbatim] == ["one", "two"]
    (record,) = lines(run("merge", "base.md", "over.md", "--json"))
    assert record["conflicts"][0]["reason"] == "newWins"
    assert record["doubles"] == 1
    (world / "dcb.toml").write_text("policy = 'snapshotWins'\n")
    assert "policy=snapshotWins" in run("merge", "base.md", "over.md").stdout
    assert run("merge", "base.md", "over.md", "--policy", "mine").exit_code == 2
    assert run("merge", "base.md", "over.md", "--as", "pdf").exit_code == 2
    done = run("merge", "base.md", HELLO, "--as", "snapshot", "--save", "-o", "m.md")
    assert done.exit_code == 0, done.output
    assert "saved " in done.stderr
    assert len(lines(run("store", "list", "--json"))) == 1
    done = run("merge", "over.md", HELLO, "--as", "snapshot", "--save", "-o", "m.md")
    assert (done.exit_code, "the file exists" in done.stderr) == (1, True)
    assert len(lines(run("store", "list", "--json"))) == 1


def test_copy_puts_it_on_the_clipboard(world: Path, tmp_path: Path) -> None:
    put(world / "a.md", snapshot("s"))
    tools = tmp_path / "bin"
    tools.mkdir()
    none = run("brief", "a.md", "--copy", PATH=str(tools))
    assert "no clipboard" in none.stderr
    assert none.stdout.startswith("<!-- dcb:import")
    board = tmp_path / "board"
    for name, code in (
        ("wl-copy", "exit 1"),
        ("xclip", f'test "$2" = clipboard && /bin/cat > {board}'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{code}\n")
        (tools / name).chmod(0o755)
    done = run("brief", "a.md", "--copy", PATH=str(tools))
    assert "copied" in done.stderr
    assert done.stdout == ""
    assert board.read_text(encoding="utf-8") == none.stdout


def test_llm_needs_a_model_and_says_when_it_falls_back(world: Path) -> None:
    pytest.importorskip("openai")
    assert run("brief", HELLO, "--summary", "llm").exit_code == 2
    assert run("brief", HELLO, "--summary", "magic").exit_code == 2
    config = world.parent / "config" / "dcb"
    config.mkdir(parents=True)
    (config / "dcb.toml").write_text("llm-timeout = 2\n")
    given = ("--llm-base-url", "http://127.0.0.1:9/v1", "--llm-model", "m")
    for command in ("brief", "compile"):
        done = run(command, HELLO, *given)
        assert done.exit_code == 0, done.output
        assert "summarized without the LLM" in done.stderr
        assert "42 lines" in done.stdout


def test_a_setting_that_is_wrong_is_named(world: Path) -> None:
    (world / "dcb.toml").write_text("polcy = 'newWins'\n")
    done = run("store", "list")
    assert done.exit_code == 2
    assert "dcb.toml" in done.stderr
    assert "did you mean policy?" in done.stderr


def test_through_the_real_program(world: Path, tmp_path: Path) -> None:
    put(world / "a.md", snapshot("s", text="缓存方案"))
    home: dict[str, Any] = {"DCB_HOME": str(tmp_path / "real")}
    assert dcb("store", "save", str(world / "a.md"), **home).code == 0
    done = dcb("store", "search", "缓存", **home)
    assert done.code == 0
    assert "[缓存]方案" in done.out
