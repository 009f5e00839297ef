"""Companions of an output lie where its tool looks for them, by name from the main file."""

from __future__ import annotations

import base64
import json
import shutil
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from converters.errors import OutputError
from dcb import files
from dcb.cli import app
from tests.dcb.bundle.bundles import exported, plan, restored, tree

if TYPE_CHECKING:
    from pathlib import Path

DATA = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def dcb(*args: object) -> Result:
    return CliRunner().invoke(app, list(map(str, args)))


def pictured(path: Path, identity: str) -> Path:
    picture = {"type": "image", "mediaType": "image/png", "data": base64.b64encode(DATA).decode()}
    turn = {"prompt": "look", "promptBlocks": [{"type": "text", "text": "look"}, picture]}
    meta = {"id": identity, "createdAt": 1_786_000_000_000}
    steps = [{"content": [{"type": "text", "text": "so"}]}]
    document = {"interchange": "dsh-chat-import", "version": 1, "meta": meta, "provider": "demo"}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**document, "turns": [{**turn, "steps": steps}]}), "utf-8")
    return path


def stored(folder: Path) -> list[str]:
    return [name for name in tree(folder) if name.startswith("attachments/v1/objects/")]


def test_two_outputs_of_a_folder_share_a_companion(tmp_path: Path) -> None:
    for number in (1, 2):
        pictured(tmp_path / "in" / f"{number}.json", f"s{number}")
    result = dcb("convert", tmp_path / "in", "--to", "dsh", "-o", tmp_path / "out/")
    result = result if result.exit_code else dcb("detect", tmp_path / "out")
    assert result.exit_code == 0, result.output
    (name,) = stored(tmp_path / "out")
    assert tree(tmp_path / "out")[name] == DATA
    assert len(tree(tmp_path / "out")) == 3
    result = dcb("convert", tmp_path / "out", "--to", "interchange", "-o", tmp_path / "back.jsonl")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "back.jsonl").read_bytes().count(base64.b64encode(DATA)) == 2


def test_a_named_output_has_its_companions_too(tmp_path: Path) -> None:
    source = pictured(tmp_path / "in" / "1.json", "s1")
    (tmp_path / "out").mkdir()
    result = dcb("convert", source, "--to", "dsh", "-o", tmp_path / "out" / "log.jsonl")
    assert result.exit_code == 0, result.output
    assert len(stored(tmp_path / "out")) == 1


def test_a_restored_log_has_its_images_where_they_are_looked_for(tmp_path: Path) -> None:
    exported([pictured(tmp_path / "in" / "1.json", "s1")], tmp_path / "out")
    back = tmp_path / "back"
    for status in ("restored", "already-there"):
        (done,) = restored(tmp_path / "out", plan(back))
        assert done.status == status
        assert [str(path.relative_to(back)) for path in done.paths[1:]] == stored(back)
    shutil.rmtree(back)
    back.mkdir()
    (back / "attachments").write_bytes(b"something else")
    (done,) = restored(tmp_path / "out", plan(back))
    assert done.status == "restored"
    assert [path.parent for path in done.paths] == [back, back]
    assert done.paths[0].name.endswith("-2.jsonl")


@pytest.mark.parametrize("name", ["../../up", "/abs", "a/../../../b", "C:\\x", ""])
def test_a_companion_stays_below_the_folder(name: str, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out" / "main.jsonl"
    path = files.write_beside(target, name, b"1")
    assert path.resolve().is_relative_to(target.parent)
    assert path.read_bytes() == b"1"


def test_another_companion_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "main.jsonl"
    files.write_beside(target, "s/agent.jsonl", b"1")
    files.write_beside(target, "s/agent.jsonl", b"1")
    with pytest.raises(OutputError, match="exists"):
        files.write_beside(target, "s/agent.jsonl", b"2")
    files.write_beside(target, "s/agent.jsonl", b"2", force=True)
    assert tree(tmp_path) == {"s/agent.jsonl": b"2"}
    with pytest.raises(OutputError):
        files.write_beside(target, "s/agent.jsonl/below", b"3")
