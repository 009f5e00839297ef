"""Exporting again: what an earlier run left undone, and what the index knows of it."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from converters.errors import OutputError
from converters.reading import Unit, units
from converters.types import Options
from dcb import files
from dcb.bundle.drafts import Job
from dcb.bundle.export import export
from dcb.bundle.manifest import NAME, Manifest
from dcb.bundle.verify import check_folder, check_input
from dcb.locks import held
from tests.dcb.bundle.bundles import NOW, QUESTION, exported, opened, plan, restored, tree

if TYPE_CHECKING:
    from pathlib import Path

JOB = Job(NOW, "0.0.1", Options())


def several(path: Path, count: int = 4) -> Path:
    """Write one file of several sessions."""
    path.parent.mkdir(exist_ok=True)
    documents = [
        {**QUESTION, "meta": {"id": f"s-{n}", "createdAt": n}, "title": f"T{n}"}
        for n in range(count)
    ]
    path.write_text(json.dumps(documents), "utf-8")
    return path


def statuses(path: Path, out: Path, **how: Any) -> list[str]:
    return [one.status for one in exported([path], out, **how)]


def index(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / NAME).read_bytes())
    return found


# -- all sessions of a source ------------------------------------------------------------------


def test_an_interrupted_export_is_completed_by_the_next(tmp_path: Path) -> None:
    path, out = several(tmp_path / "many.json"), tmp_path / "out"
    (unit,) = (u for u in units(path) if isinstance(u, Unit))
    running = export([unit], out, JOB)
    assert [next(running).status, next(running).status] == ["written"] * 2
    running.close()  # type: ignore[attr-defined]
    assert len(index(out)["bundles"]) == 2
    assert statuses(path, out) == ["unchanged"] * 2 + ["written"] * 2
    assert {entry["sessions"] for entry in index(out)["bundles"]} == {4}
    assert statuses(path, out) == ["unchanged"] * 4


def test_a_session_that_cannot_be_written_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = several(tmp_path / "many.json"), tmp_path / "out"
    real = files.write_whole

    def full(target: Path, data: bytes, **how: Any) -> None:
        if target.name.startswith("T1"):
            raise OutputError("cannot write: no space", path=str(target))
        real(target, data, **how)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_whole", full)
        found = exported([path], out)
    assert [one.status for one in found] == ["written", "failed", "written", "written"]
    assert (found[1].session_id, found[1].path) == ("s-1", None)
    assert statuses(path, out) == ["unchanged", "written", "unchanged", "unchanged"]


def test_a_source_read_in_part_is_not_complete(tmp_path: Path) -> None:
    path, out = several(tmp_path / "many.json"), tmp_path / "out"
    (unit,) = (u for u in units(path) if isinstance(u, Unit))

    def only(name: str) -> list[str]:
        wanted = unit._replace(only=frozenset({name}))
        return [f"{one.session_id} {one.status}" for one in export([wanted], out, JOB)]

    assert only("s-1") == ["s-1 written"]
    assert only("s-2") == ["s-2 written"]
    assert statuses(path, out) == ["written", "unchanged", "unchanged", "written"]
    assert only("s-1") == ["s-1 unchanged"]
    assert statuses(path, out) == ["unchanged"] * 4


def test_an_index_that_does_not_say_what_is_complete_is_read(tmp_path: Path) -> None:
    path, out = several(tmp_path / "many.json"), tmp_path / "out"
    exported([path], out)
    document = index(out)
    for entry in document["bundles"]:
        del entry["sessions"]
    del document["bundles"][2]
    (out / NAME).write_text(json.dumps(document), "utf-8")
    assert len(Manifest.load(out, (out / NAME).read_bytes()).by_name) == 3
    assert statuses(path, out) == ["unchanged"] * 4
    assert len(index(out)["bundles"]) == 4


# -- whose bundle it is ------------------------------------------------------------------------


def log(text: str) -> str:
    """Give a DSH log that says nothing of its id."""
    data = {"id": "u1", "role": "user", "content": [{"type": "text", "text": text}]}
    events = [
        {"type": "session", "createdAt": 1},
        {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}},
        {"type": "user/message", "seq": 1, "time": 1, "surfaceOp": "append", "data": data},
        {"type": "turn/end", "seq": 2, "time": 1, "data": {"turn": 1}},
    ]
    return "".join(json.dumps(event) + "\n" for event in events)


def test_two_files_of_one_relative_name_have_a_bundle_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "session.jsonl").write_text(log(f"of {name}"), "utf-8")
        monkeypatch.chdir(tmp_path / name)
        (done,) = exported(["session.jsonl"], out)
        assert (done.source, done.status) == ("session.jsonl", "written")
        assert statuses(tmp_path / name / "session.jsonl", out) == ["unchanged"]
    assert len(list(out.glob("*.dshbundle.json"))) == 2
    (tmp_path / "one" / "session.jsonl").write_text(log("of one, changed"), "utf-8")
    monkeypatch.chdir(tmp_path)
    (done,) = exported(["two/../one/session.jsonl"], out)
    assert done.status == "replaced"
    texts = "".join(path.read_text("utf-8") for path in out.glob("*.dshbundle.json"))
    assert "of one, changed" in texts
    assert "of two" in texts


def test_a_member_of_an_archive_is_named_by_the_place_of_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with zipfile.ZipFile(tmp_path / name / "all.zip", "w") as archive:
            archive.writestr("a/session.jsonl", log(f"of {name}"))
        monkeypatch.chdir(tmp_path / name)
        assert [one.status for one in exported(["all.zip"], out)] == ["written"]
        assert [one.status for one in exported(["../" + name + "/all.zip"], out)] == ["unchanged"]
    sources = {entry["source"] for entry in index(out)["bundles"]}
    assert sources == {f"{tmp_path}/{name}/all.zip!a/session.jsonl" for name in ("one", "two")}


def test_what_came_in_by_a_pipe_replaces_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def piped(text: str) -> list[str]:
        stream = io.BytesIO(text.encode())
        found = [unit for unit in units("-", stdin=stream) if isinstance(unit, Unit)]
        return [one.status for one in export(found, out, JOB)]

    assert [piped(log("one")), piped(log("two")), piped(log("one"))] == [
        ["written"],
        ["written"],
        ["unchanged"],
    ]


def test_an_index_with_relative_names_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    several(tmp_path / "many.json")
    monkeypatch.chdir(tmp_path)

    def older() -> None:
        exported(["many.json"], out)
        document = index(out)
        for entry in document["bundles"]:
            entry["source"] = "many.json"
            del entry["sessions"]
        (out / NAME).write_text(json.dumps(document), "utf-8")

    older()
    assert [one.status for one in exported(["many.json"], out)] == ["unchanged"] * 4
    assert {e["source"] for e in index(out)["bundles"]} == {str(tmp_path / "many.json")}
    older()
    several(tmp_path / "many.json", 5)
    # It may be another file of that name: nothing of the earlier one is lost.
    assert [one.status for one in exported(["many.json"], out)] == ["written"] * 5
    assert len(index(out)["bundles"]) == 9
    assert [one.status for one in exported(["many.json"], out)] == ["unchanged"] * 5


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    out, folder = tmp_path / "out", tmp_path / "in"
    folder.mkdir()
    for name in (b"a\xff.jsonl", b"a\xfe.jsonl", "a\u00e9.jsonl".encode()):
        (folder / os.fsdecode(name)).write_text(log(repr(name)), "utf-8")
    assert statuses(folder, out) == ["written"] * 3
    assert statuses(folder, out) == ["unchanged"] * 3
    assert {entry["source"] for entry in index(out)["bundles"]} == {
        f"{folder}/a{letter}.jsonl" for letter in ("\udcff", "\udcfe", "\u00e9")
    }
    assert b"a\\udcff.jsonl" in (out / NAME).read_bytes()
    assert [one.status for one in restored(out, plan(tmp_path / "back", None))] == ["restored"] * 3
    assert len(tree(tmp_path / "back")) == 3
    ids = {entry["sessionId"] for entry in index(out)["bundles"]}
    assert ids == {"a\\udcff", "a\\udcfe", "a\u00e9"}
    to_claude = restored(out, plan(tmp_path / "claude", "claude"))
    assert [one.status for one in to_claude] == ["restored"] * 3


# -- two at once -------------------------------------------------------------------------------


def test_two_exports_at_once_keep_the_entries_of_both(tmp_path: Path) -> None:
    out = tmp_path / "out"
    one, two = several(tmp_path / "one.json"), several(tmp_path / "two.json", 3)
    shared = several(tmp_path / "shared.json", 1)
    exported([shared], out)
    several(tmp_path / "shared.json", 2)
    found = [u for path in (one, shared) for u in units(path) if isinstance(u, Unit)]
    running = export(found, out, JOB)
    next(running)
    assert statuses(two, out) == ["written"] * 3
    assert statuses(shared, out) == ["replaced", "written"]
    assert len(list(running)) == 5
    entries = {entry["name"]: entry for entry in index(out)["bundles"]}
    assert len(entries) == 9
    names = sorted(path.name for path in out.glob("*.dshbundle.json"))
    checked = {name: check_input(opened(out / name)) for name in names}
    assert list(check_folder(out, names, checked)) == []
    for path, count in ((one, 4), (two, 3), (shared, 2)):
        assert statuses(path, out) == ["unchanged"] * count


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    seen: list[str] = []

    def other() -> None:
        with held(tmp_path):
            seen.append("other")

    with held(tmp_path):
        waiting = threading.Thread(target=other)
        waiting.start()
        waiting.join(0.2)
        seen.append("first")
    waiting.join(60)
    assert seen == ["first", "other"]
    assert list(tmp_path.iterdir()) == []
