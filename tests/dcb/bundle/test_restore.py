"""Bundles that are restored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from converters.errors import BadInput, OutputError, UsageError
from converters.formats.dsh_bundle import document as bundle
from converters.opening import Memory
from dcb.bundle.landing import Rule
from dcb.bundle.native import file_entry
from dcb.bundle.restore import restore
from dcb.bundle.verify import check_input
from tests.dcb.bundle.bundles import NOW, QUESTION, exported, opened, plan, restored, tree
from tests.paths import GOLDEN

# -- restore -----------------------------------------------------------------------------------


def test_restoring_twice_changes_nothing(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    for to in ("dsh", "interchange", None):
        into = tmp_path / f"back-{to}"
        (first,) = restored(tmp_path / "out", plan(into, to))
        before = tree(into)
        (second,) = restored(tmp_path / "out", plan(into, to))
        assert (first.status, second.status) == ("restored", "already-there")
        assert first.paths == second.paths
        assert tree(into) == before


def test_another_session_is_never_overwritten(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    for to in ("dsh", "interchange", None):
        into = tmp_path / f"back-{to}"
        (first,) = restored(tmp_path / "out", plan(into, to))
        first.paths[0].write_bytes(b"something else")
        (second,) = restored(tmp_path / "out", plan(into, to))
        assert second.status == "restored"
        name = first.paths[0].name
        assert second.paths[0].name == f"{name.split('.')[0]}-2.{name.split('.', 1)[1]}"
        assert first.paths[0].read_bytes() == b"something else"
        (third,) = restored(tmp_path / "out", plan(into, to))
        assert (third.status, third.paths) == ("already-there", second.paths)


def test_dry_run_writes_nothing(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    (done,) = restored(tmp_path / "out", plan(tmp_path / "back", dry_run=True))
    assert done.status == "would-restore"
    assert not (tmp_path / "back").exists()


def test_a_restored_log_has_a_whole_header_and_lands(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")

    def header(**more: Any) -> dict[str, Any]:
        (done,) = restored(tmp_path / "out", plan(tmp_path / "back", **more))
        found: dict[str, Any] = json.loads(done.paths[0].read_bytes().split(b"\n")[0])
        return found

    expected = {
        "type": "session",
        "version": 3,
        "id": "q-1",
        "createdAt": NOW,
        "isSeeded": False,
        "delegationDepth": 0,
        "cwd": str(tmp_path / "out"),
    }
    assert header() == expected
    assert header(session_id="other")["id"] == "other"
    assert header(rules=(Rule("/nowhere", "/srv"),))["cwd"] == "/srv/project"
    (done,) = restored(tmp_path / "out", plan(tmp_path / "kept")._replace(is_folder=lambda _: True))
    assert b'"cwd":"/nowhere/project"' in done.paths[0].read_bytes()
    assert done.landing.cwd_available


def test_a_rule_that_was_refused_gives_the_absolute_folder(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    climbing = {**QUESTION, "meta": {"id": "q-1", "createdAt": NOW, "cwd": "/nowhere/../root"}}
    source.write_text(json.dumps(climbing), "utf-8")
    monkeypatch.chdir(tmp_path)
    exported([source], tmp_path / "out")
    rule = Rule("/nowhere", "/srv")
    (path,) = Path("out").glob("*.dshbundle.json")
    done = restore(opened(path), plan(tmp_path / "back", rules=(rule,)))
    first = json.loads(done.paths[0].read_text("utf-8").split("\n")[0])
    assert first["cwd"] == "/here/out"


def test_the_log_of_a_host_comes_back_as_it_was(tmp_path: Path) -> None:
    log = (GOLDEN / "dsh" / "events" / "input.jsonl").read_bytes()
    path = tmp_path / "session.jsonl"
    path.write_bytes(log)
    exported([path], tmp_path / "out")
    (done,) = restored(tmp_path / "out", plan(tmp_path / "back"))
    assert done.paths[0].read_bytes() == log


def test_a_log_with_gaps_is_numbered_anew(tmp_path: Path) -> None:
    events = [
        {"type": "session/imported", "seq": 0, "time": 1, "ignorable": True, "data": {}},
        {"type": "turn/start", "seq": 1, "time": 1, "data": {"turn": 1}},
        {"type": "user/message", "seq": 5, "time": 2, "data": {"content": "q"}, "ignorable": True},
    ]
    log = "".join(json.dumps(record) + "\n" for record in [{"type": "session", "id": "s"}, *events])
    made = bundle.make(log + '{"type":"tu', exported_at=7, source_session_id="s")
    done = restore(Memory(bundle.text(made), "s"), plan(tmp_path))
    records = [json.loads(line) for line in done.paths[0].read_bytes().strip().split(b"\n")]
    assert [record.get("seq") for record in records] == [None, 0, 1]
    assert records[0]["createdAt"] == 1
    assert "ignorable" not in records[2]
    assert records[2]["surfaceOp"] == "append"


@pytest.mark.parametrize("exported", [None, "x", -1, True, 1.5])
def test_a_bundle_need_not_say_when_it_was_made(exported: Any, tmp_path: Path) -> None:
    log = '{"type":"session","id":"s"}\n{"type":"user/message","seq":0,"data":{"content":"q"}}\n'
    made = {**bundle.make(log, exported_at=1, source_session_id="s"), "exportedAt": exported}
    if exported is None:
        made.pop("exportedAt")
    source = Memory(bundle.text(bundle.seal(made)), "s")
    assert check_input(source).problems == []
    done = restore(source, plan(tmp_path))
    assert json.loads(done.paths[0].read_bytes().split(b"\n")[0])["createdAt"] == 0
    assert restore(source, plan(tmp_path, "interchange")).status == "restored"


@pytest.mark.parametrize("log", ["x\n", '{"type":"session","id":"s"}\n', "[1]\n{}\n"])
def test_a_log_without_events_is_refused(log: str, tmp_path: Path) -> None:
    made = bundle.make(log, exported_at=1, source_session_id="s")
    for to in ("dsh", "interchange"):
        with pytest.raises(BadInput):
            restore(Memory(bundle.text(made), "s"), plan(tmp_path / "back", to))
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../../evil",
        "/etc/evil",
        "..\\..\\evil",
        "C:\\evil",
        "a/../../../evil",
        "",
        ".",
        "con",
        "-x",
    ],
)
def test_names_in_a_bundle_stay_below_the_folder(name: str, tmp_path: Path) -> None:
    extra = {
        "native": {"format": "interchange", "kind": "files", "files": [file_entry(name, b"x")]}
    }
    made = bundle.make(
        '{"type":"turn/start","seq":0}\n',
        exported_at=1,
        source_session_id="../../id",
        title="../t",
        cwd="../../../tmp/x",
        extra=extra,
    )
    into = tmp_path / "deep" / "back"
    for to in (None, "dsh"):
        done = restore(Memory(bundle.text(made), "b"), plan(into, to))
        assert all(path.resolve().is_relative_to(into) for path in done.paths)
    assert set(tree(tmp_path)) == {f"deep/back/{n}" for n in tree(into)}


def test_rows_are_never_written_natively(tmp_path: Path) -> None:
    extra = {"native": {"format": "crush", "kind": "rows", "files": []}}
    log = '{"type":"turn/start","seq":0}\n'
    made = bundle.make(log, exported_at=1, source_session_id="s", extra=extra)
    with pytest.raises(BadInput, match="database"):
        restore(Memory(bundle.text(made), "b"), plan(tmp_path, None))


@pytest.mark.parametrize(
    "native", [None, 5, {}, {"kind": "files"}, {"kind": "files", "files": [5]}, {"kind": "new"}]
)
def test_odd_native_members_are_refused_or_unused(native: Any, tmp_path: Path) -> None:
    log = '{"type":"user/message","seq":0,"data":{"content":"hello"}}\n'
    made = bundle.make(log, exported_at=1, source_session_id="s", extra={"native": native, "x": 1})
    source = Memory(bundle.text(made), "b")
    with pytest.raises(BadInput, match="native"):
        restore(source, plan(tmp_path, None))
    assert restore(source, plan(tmp_path, "interchange")).status == "restored"


def test_into_must_be_a_folder(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    with pytest.raises(OutputError):
        restored(tmp_path / "out", plan(source))
    with pytest.raises(OutputError):
        restored(tmp_path / "out", plan(source / "below"))


def test_session_id_and_native_exclude_each_other(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    with pytest.raises(UsageError):
        restored(tmp_path / "out", plan(tmp_path, None, session_id="x"))
