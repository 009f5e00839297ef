"""The names of native files: kept where any system takes them, and never met twice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from converters.errors import BadInput
from converters.formats.dsh_bundle import document as bundle
from converters.opening import Memory
from dcb.bundle.native import file_entry
from dcb.bundle.restore import Restored, restore
from tests.dcb.bundle.bundles import exported, plan, restored, tree
from tests.paths import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

LOG = '{"type":"user/message","seq":0,"data":{"content":"hello"}}\n'
CLAUDE = GOLDEN / "claude" / "plain" / "input.jsonl"


def held(names: list[str], into: Path, kind: str = "files", **more: Any) -> Restored:
    entries = [file_entry(name, str(number).encode()) for number, name in enumerate(names)]
    native = {"format": "claude", "kind": kind, "files": entries, **more}
    made = bundle.make(LOG, exported_at=1, source_session_id="s", extra={"native": native})
    return restore(Memory(bundle.text(made), "b"), plan(into, None))


@pytest.mark.parametrize(
    "name",
    [
        "My session.jsonl",
        "n" * 150 + ".jsonl",
        "n" * 249 + ".jsonl",
        "\u8a18" * 83 + ".jsonl",
        ".codex/sessions/a.jsonl",
        "-x",
        "2025-01-01T10:00:00 (1) [a]&b.jsonl",
        "caf\u00e9 e\u0301.json",
        "caf\udce9.jsonl",
    ],
)
def test_a_file_gets_its_own_name_back(name: str, tmp_path: Path) -> None:
    source = tmp_path / "in" / name
    source.parent.mkdir(parents=True)
    source.write_bytes(CLAUDE.read_bytes())
    exported([source], tmp_path / "out")
    for status in ("restored", "already-there"):
        (done,) = restored(tmp_path / "out", plan(tmp_path / "back", None))
        assert (done.status, done.renamed) == (status, [])
        assert tree(tmp_path / "back") == {source.name: CLAUDE.read_bytes()}
    done.paths[0].write_bytes(b"another")
    (done,) = restored(tmp_path / "out", plan(tmp_path / "back", None))
    assert done.paths[0].name.endswith("-2" + source.suffix)
    assert len(tree(tmp_path / "back")) == 2


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("../../up/x.jsonl", r"up/x-[0-9a-f]{12}\.jsonl"),
        ("/abs/y", r"abs/y-[0-9a-f]{12}"),
        ("C:\\win\\z.db", r"win/z-[0-9a-f]{12}\.db"),
        ("con.jsonl", r"_con-[0-9a-f]{12}\.jsonl"),
        ("a /b.jsonl", r"a-[0-9a-f]{12}/b\.jsonl"),
        ("end.", r"end-[0-9a-f]{12}"),
        ("a\x1b]0;\0b.tar.gz", r"a-\]0;-b-[0-9a-f]{12}\.tar\.gz"),
        ("l" * 300 + ".jsonl", r"l{120}-[0-9a-f]{12}\.jsonl"),
        ("\ud800.json", r"--[0-9a-f]{12}\.json|-[0-9a-f]{12}\.json"),
    ],
)
def test_a_name_that_changes_keeps_its_suffix_and_is_told(
    name: str, given: str, tmp_path: Path
) -> None:
    done = held([name], tmp_path / "back")
    ((original, path),) = done.renamed
    assert original == name
    assert done.paths == [tmp_path / "back" / path]
    assert re.fullmatch(given, path), path
    assert tree(tmp_path) == {f"back/{path}": b"0"}


def test_a_companion_beside_a_folder_stays_beside_it(tmp_path: Path) -> None:
    done = held(["a.json", "../index.json"], tmp_path, folder="task")
    assert done.renamed == []
    assert set(tree(tmp_path)) == {"task/a.json", "index.json"}


def test_what_came_from_standard_input_is_named_like_its_session(tmp_path: Path) -> None:
    assert held(["-"], tmp_path).paths == [tmp_path / "s-s.jsonl"]


@pytest.mark.parametrize(
    "names",
    [
        ["a.jsonl", "a.jsonl"],
        ["a.jsonl", "./A.jsonl"],
        ["x/a.jsonl", "X\\a.jsonl"],
        ["\u00e9", "e\u0301"],
        ["stra\u00dfe", "STRASSE"],
        ["a", "a/b"],
        ["a/b/c", "A"],
    ],
)
def test_two_files_of_one_name_are_refused(names: list[str], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="of one name"):
        held(names, tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("kind", ["object", "line"])
def test_two_parts_of_one_session_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="of one name"):
        held(["x.json", "y.json"], tmp_path / "back", kind)
    assert not (tmp_path / "back").exists()


def test_two_attachments_of_one_name_are_refused(tmp_path: Path) -> None:
    extra = {
        "native": {"format": "dsh", "kind": "log", "name": "s/session.jsonl"},
        "attachments": [file_entry("o/a", b"1"), file_entry("o/a", b"2")],
    }
    made = bundle.make(LOG, exported_at=1, source_session_id="s", extra=extra)
    with pytest.raises(BadInput, match="of one name"):
        restore(Memory(bundle.text(made), "b"), plan(tmp_path / "back", None))
    assert not (tmp_path / "back").exists()
