"""Bundles that are exported, sealed and verified."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from converters.errors import BadInput, DcbError, VerifyError
from converters.formats import dsh_bundle
from converters.formats.dsh_bundle import document as bundle
from converters.ir import Image
from converters.ledger import Ledger
from converters.opening import Memory
from converters.reading import Unit, units
from converters.types import Context, Options
from dcb.bundle.drafts import Job
from dcb.bundle.export import export
from dcb.bundle.manifest import NAME, Manifest
from dcb.bundle.native import file_entry, relative_names
from dcb.bundle.restore import restore
from dcb.bundle.verify import check_folder, check_input
from tests.dcb.bundle.bundles import NOW, QUESTION, exported, opened, plan, restored, tree
from tests.paths import GOLDEN

PASSPHRASE = "correct horse battery"  # noqa: S105 - a test


# -- export ------------------------------------------------------------------------------------


def test_export_is_incremental(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (first,) = exported([source], out)
    assert first.status == "written"
    assert first.path is not None
    before = tree(out)
    assert set(before) == {first.path.name, NAME}
    (again,) = exported([source], out, now_ms=NOW + 1)
    assert again.status == "unchanged"
    assert tree(out) == before
    source.write_text(json.dumps({**QUESTION, "title": "Changed"}), "utf-8")
    (changed,) = exported([source], out, now_ms=NOW + 2)
    assert (changed.status, changed.path) == ("replaced", first.path)
    assert set(tree(out)) == set(before)
    document = bundle.parse(first.path.read_bytes())
    assert document["title"] == "Changed"
    assert document["exportedAt"] == NOW + 2
    (entry,) = Manifest.load(out, (out / NAME).read_bytes()).by_name.values()
    assert entry.sha256 == hashlib.sha256(first.path.read_bytes()).hexdigest()
    assert entry.session_id == "q-1"


@pytest.mark.parametrize("damage", [b"", b"{}", None])
def test_a_damaged_bundle_is_written_again(
    damage: bytes | None, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (first,) = exported([source], out)
    assert first.path is not None
    before = first.path.read_bytes()
    first.path.write_bytes(before + b" " if damage is None else damage)
    (again,) = exported([source], out)
    assert (again.status, again.path) == ("replaced", first.path)
    assert first.path.read_bytes() == before
    assert exported([source], out)[0].status == "unchanged"


def test_bundles_that_the_index_lost_are_taken_in_again(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported([source], out)
    before = tree(out)
    (out / NAME).unlink()
    (again,) = exported([source], out, now_ms=NOW + 9)
    assert again.status == "unchanged"
    assert tree(out) == before


def test_a_foreign_file_of_the_same_name_stays(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (first,) = exported([source], out)
    assert first.path is not None
    (out / NAME).unlink()
    first.path.write_bytes(b"not ours")
    (second,) = exported([source], out)
    assert second.path is not None
    assert second.path.name == first.path.name.replace(bundle.SUFFIX, "-2" + bundle.SUFFIX)
    assert first.path.read_bytes() == b"not ours"


def test_a_link_that_leads_nowhere_keeps_its_name(source: Path, tmp_path: Path) -> None:
    (first,) = exported([source], tmp_path / "first")
    assert first.path is not None
    out = tmp_path / "out"
    out.mkdir()
    link = out / first.path.name
    link.symlink_to("nowhere")
    (done,) = exported([source], out)
    assert (done.status, done.error) == ("written", None)
    assert done.path is not None
    assert done.path.name == link.name.replace(bundle.SUFFIX, "-2" + bundle.SUFFIX)
    assert link.is_symlink()
    assert exported([source], out)[0].status == "unchanged"


def test_a_new_version_of_dcb_writes_anew(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported([source], out)
    (unit,) = (u for u in units(source) if isinstance(u, Unit))
    (done,) = export([unit], out, Job(NOW, "0.0.2", Options()))
    assert done.status == "replaced"


def test_other_options_read_a_known_source_again(tmp_path: Path) -> None:
    path, out = GOLDEN / "claude" / "branches" / "input.jsonl", tmp_path / "out"

    def states(**given: Any) -> list[str]:
        (unit,) = (u for u in units(path) if isinstance(u, Unit))
        return [one.status for one in export([unit], out, Job(NOW, "0.0.1", Options(**given)))]

    assert states() == ["written"]
    assert states() == ["unchanged"]
    assert "options" not in (out / NAME).read_text("utf-8")
    assert states(branch="all") == ["replaced", "written", "written"]
    assert states(branch="all") == ["unchanged"] * 3
    assert len(list(out.glob("*.dshbundle.json"))) == 3
    assert states() == ["replaced"]
    assert len(list(out.glob("*.dshbundle.json"))) == 3


def test_a_sealed_bundle_replaces_the_clear_one(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (clear,) = exported([source], out)
    (sealed,) = exported([source], out, passphrase=PASSPHRASE)
    assert clear.path is not None
    assert sealed.path is not None
    assert set(tree(out)) == {sealed.path.name, NAME}
    (again,) = exported([source], out)
    assert set(tree(out)) == {clear.path.name, NAME}
    assert again.path == clear.path
    clear.path.write_bytes(b"edited by somebody")
    exported([source], out, passphrase=PASSPHRASE)
    assert clear.path.read_bytes() == b"edited by somebody"


def test_a_damaged_index_is_an_error(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / NAME).write_text("{", "utf-8")
    with pytest.raises(BadInput, match="index"):
        exported([source], out)


@pytest.mark.parametrize("name", ["../victim", "/victim", "..", "a\\b", "c:x", ""])
def test_an_index_names_only_files_of_its_folder(name: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported([source], out)
    index = json.loads((out / NAME).read_text("utf-8"))
    index["bundles"][0]["name"] = name
    (out / NAME).write_text(json.dumps(index), "utf-8")
    before = tree(tmp_path)
    with pytest.raises(BadInput, match="names no file of its folder"):
        exported([source], out)
    assert tree(tmp_path) == before


def test_one_bad_input_stops_nothing(source: Path, tmp_path: Path) -> None:
    bad = tmp_path / "in" / "bad.json"
    bad.write_text(json.dumps({**QUESTION, "version": 7}), "utf-8")
    found = exported([bad, source], tmp_path / "out")
    assert [one.status for one in found] == ["failed", "written"]
    assert found[0].error is not None
    assert found[0].error.code == "unsupported-version"


def test_a_dsh_log_goes_in_unchanged(tmp_path: Path) -> None:
    log = (GOLDEN / "dsh" / "damaged" / "input.jsonl").read_bytes()
    path = tmp_path / "abc" / "session.jsonl"
    path.parent.mkdir()
    path.write_bytes(log)
    (done,) = exported([path], tmp_path / "out")
    assert done.path is not None
    document = bundle.parse(done.path.read_bytes())
    assert document["log"].encode() == log
    assert document["x-dcb"]["native"] == {
        "format": "dsh",
        "kind": "log",
        "name": "abc/session.jsonl",
    }
    (back,) = restored(tmp_path / "out", plan(tmp_path / "back", None))
    assert tree(tmp_path / "back") == {"abc/session.jsonl": log}
    assert back.status == "restored"


def test_a_dsh_log_travels_with_its_images(tmp_path: Path) -> None:
    folder = GOLDEN / "dsh" / "images" / "input"
    exported([folder], tmp_path / "out")
    (path,) = (tmp_path / "out").glob("*" + bundle.SUFFIX)
    document = bundle.parse(path.read_bytes())
    (entry,) = document["x-dcb"]["attachments"]
    image = next((folder / "attachments").rglob("c4*7"))
    assert dsh_bundle.unpack(entry) == image.read_bytes()
    restored(tmp_path / "out", plan(tmp_path / "back", None))
    assert tree(tmp_path / "back") == {f"input/{name}": data for name, data in tree(folder).items()}
    (done,) = restored(tmp_path / "out", plan(tmp_path / "log"))
    assert len(done.paths) == 2
    (unit,) = (u for u in units(done.paths[0]) if isinstance(u, Unit))
    assert unit.format.read is not None
    (session,) = unit.format.read(unit.input, Context(Ledger()))
    assert session.turns[0].prompt_blocks is not None
    shown = session.turns[0].prompt_blocks[1]
    assert isinstance(shown, Image)
    assert shown.data is not None


def test_a_bundle_goes_through_unchanged(tmp_path: Path) -> None:
    path = GOLDEN / "dsh-bundle" / "plain" / "input.dshbundle.json"
    (done,) = exported([path], tmp_path / "out")
    assert done.path is not None
    assert bundle.parse(done.path.read_bytes()) == bundle.parse(path.read_bytes())
    (bad,) = exported(
        [GOLDEN / "dsh-bundle" / "tampered" / "input.dshbundle.json"], tmp_path / "out"
    )
    assert isinstance(bad.error, VerifyError)


def test_sessions_of_one_file_get_their_own_part(tmp_path: Path) -> None:
    documents = [
        {**QUESTION, "meta": {"id": f"s-{n}", "createdAt": n}, "title": f"T{n}"} for n in range(3)
    ]
    path = tmp_path / "many.json"
    path.write_text(json.dumps(documents), "utf-8")
    found = exported([path], tmp_path / "out")
    assert [one.status for one in found] == ["written"] * 3
    for n, one in enumerate(found):
        assert one.path is not None
        native = bundle.parse(one.path.read_bytes())["x-dcb"]["native"]
        (entry,) = native.pop("files")
        assert native.pop("path").endswith("/many.json")
        assert native == {"format": "interchange", "kind": "object", "pointer": f"/{n}", "wrap": ""}
        assert json.loads(dsh_bundle.unpack(entry)) == documents[n]
    back = restored(tmp_path / "out", plan(tmp_path / "back", "interchange"))
    assert [one.status for one in back] == ["restored"] * 3
    titles = {json.loads(data)["title"] for data in tree(tmp_path / "back").values()}
    assert titles == {"T0", "T1", "T2"}


def test_sessions_of_one_folder(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    for name in ("ses_a", "ses_b"):
        rows = {
            f"session/p/{name}.json": {"id": name, "title": name, "time": {"created": 1}},
            f"message/{name}/m_{name}.json": {"id": f"m_{name}", "role": "user", "time": {}},
            f"part/m_{name}/p_{name}.json": {"id": f"p_{name}", "type": "text", "text": name},
        }
        for file, row in rows.items():
            (storage / file).parent.mkdir(parents=True, exist_ok=True)
            (storage / file).write_text(json.dumps(row), "utf-8")
    found = exported([storage], tmp_path / "out")
    assert [(one.status, one.session_id) for one in found] == [
        ("written", "ses_a"),
        ("written", "ses_b"),
    ]
    assert [one.status for one in exported([storage], tmp_path / "out")] == ["unchanged"] * 2
    back = restored(tmp_path / "out", plan(tmp_path / "back", "interchange"))
    assert [one.status for one in back] == ["restored"] * 2
    titles = {json.loads(data)["title"] for data in tree(tmp_path / "back").values()}
    assert titles == {"ses_a", "ses_b"}


def test_entries_are_reproducible() -> None:
    one, two = file_entry("a", b"x" * 1000), file_entry("a", b"x" * 1000)
    assert one == two
    packed = base64.b64decode(one["data"])
    assert packed[4:8] == b"\0\0\0\0"
    assert gzip.decompress(packed) == b"x" * 1000


@pytest.mark.parametrize(
    "change",
    [
        {"data": None},
        {"data": "!!!"},
        {"data": base64.b64encode(b"no gzip").decode()},
        {"size": 3},
        {"size": -1},
        {"size": True},
        {"size": 3 << 30},
        {"sha256": "0" * 64},
        {"data": file_entry("a", b"y" * 100)["data"]},
        {"data": base64.b64encode(gzip.compress(b"x" * 100)[:-9]).decode()},
    ],
)
def test_a_damaged_entry_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DcbError):
        dsh_bundle.unpack({**file_entry("a", b"x" * 100), **change})


def test_relative_names() -> None:
    assert relative_names(["/a/b/c.jsonl"]) == {"/a/b/c.jsonl": "c.jsonl"}
    assert relative_names(["a/b/c.jsonl", "a/b/c/s/1.jsonl"]) == {
        "a/b/c.jsonl": "c.jsonl",
        "a/b/c/s/1.jsonl": "c/s/1.jsonl",
    }
    assert relative_names(["x.zip!d/a.json"]) == {"x.zip!d/a.json": "a.json"}
    assert relative_names(["/s/05/a", "/s/04/b"]) == {"/s/05/a": "05/a", "/s/04/b": "04/b"}
    assert relative_names(["-"]) == {"-": "-"}
    assert relative_names(["C:\\x\\a.json"]) == {"C:\\x\\a.json": "a.json"}


# -- sealed ------------------------------------------------------------------------------------


def test_sealed_bundles(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (done,) = exported([source], out, passphrase=PASSPHRASE)
    assert done.path is not None
    assert done.path.name.endswith(".dshbundle.json.sealed")
    assert b"why?" not in done.path.read_bytes()
    assert exported([source], out, passphrase=PASSPHRASE)[0].status == "unchanged"
    sealed = opened(done.path)
    assert check_input(sealed).problems == ["sealed"]
    assert check_input(sealed, "wrong passphrase").problems == ["open-failed"]
    assert check_input(sealed, PASSPHRASE).problems == []
    with pytest.raises(DcbError, match="sealed"):
        restore(sealed, plan(tmp_path / "back"))
    restore(sealed, plan(tmp_path / "back", None, passphrase=PASSPHRASE))
    assert tree(tmp_path / "back") == {"question.json": source.read_bytes()}
    (out / NAME).unlink()
    assert exported([source], out, passphrase=PASSPHRASE)[0].status == "unchanged"


# -- verify ------------------------------------------------------------------------------------


def test_a_folder_is_checked_against_its_index(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = source.with_name("other.json")
    other.write_text(json.dumps({**QUESTION, "meta": {"id": "q-2"}, "title": "Other"}), "utf-8")
    one, two = exported([source, other], out)
    assert one.path is not None
    assert two.path is not None

    def check() -> list[tuple[str, list[str]]]:
        names = sorted(p.name for p in out.glob("*" + bundle.SUFFIX))
        checked = {name: check_input(opened(out / name)) for name in names}
        return [(Path(c.name).name, c.problems) for c in check_folder(out, names, checked)]

    assert check() == []
    document = bundle.parse(two.path.read_bytes())
    two.path.write_bytes(bundle.text(bundle.seal({**document, "title": "swapped"})))
    one.path.rename(out / ("moved" + bundle.SUFFIX))
    assert check() == [
        (one.path.name, ["missing"]),
        (two.path.name, ["changed"]),
        ("moved" + bundle.SUFFIX, ["extra"]),
    ]
    (out / NAME).unlink()
    assert check() == []


def test_native_bytes_are_checked(source: Path, tmp_path: Path) -> None:
    (done,) = exported([source], tmp_path / "out")
    assert done.path is not None
    document = bundle.parse(done.path.read_bytes())
    document["x-dcb"]["native"]["files"][0]["sha256"] = "0" * 64
    resealed = Memory(bundle.text(bundle.seal(document)), "b")
    assert check_input(resealed).problems == ["native-damaged"]
    with pytest.raises(BadInput):
        restore(resealed, plan(tmp_path / "back", None))
    assert not (tmp_path / "back").exists()


def test_every_flipped_byte_is_found_or_changes_nothing(tmp_path: Path) -> None:
    small = {**QUESTION, "title": "T", "turns": [{"prompt": "why?", "steps": []}]}
    path = tmp_path / "q.json"
    path.write_text(json.dumps(small), "utf-8")
    (done,) = exported([path], tmp_path / "out")
    assert done.path is not None
    data = done.path.read_bytes()
    whole = bundle.parse(data)
    body = {name: value for name, value in whole.items() if name != "sha256"}
    silent = 0
    for position in range(len(data)):
        for bit in (1, 32):
            flipped = bytearray(data)
            flipped[position] ^= bit
            if check_input(Memory(bytes(flipped))).problems:
                continue
            silent += 1
            document = bundle.parse(bytes(flipped))
            kept = {name: value for name, value in document.items() if name != "sha256"}
            assert json.dumps(kept) == json.dumps(body), position
    # White space between the members, and nothing else.
    assert silent < 400
