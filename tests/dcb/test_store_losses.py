"""What of a document a store, a merge or a brief cannot keep is said or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dcb.snapshot import document
from dcb.snapshot.profile import PLUGIN
from tests.dcb.test_store_cli import lines, put, run, snapshot, wish, world

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["world"]  # the fixture


def edited(path: Path, *changes: tuple[str, str]) -> Path:
    """Edit a document by hand and reseal it, so that its checksum fits."""
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(document.reseal(text), encoding="utf-8")
    return path


BY_HAND = (
    ("tags: []", "tags: []\nreviewed_by: anna"),
    ("# 标题 s", "# 另一个标题"),
    ("- 目标是零丢失。", "- 目标是零丢失。\n* PostgreSQL was chosen."),
)
LOST = (
    "a.md:8: warning: header-unknown: 'reviewed_by' is not a name of this format",
    "a.md:17: warning: stray-text: title and description are taken from the header",
    "a.md:33: warning: stray-text: text that belongs to nothing",
)


def test_what_was_written_by_hand_and_is_lost_is_said(world: Path) -> None:
    edited(put(world / "a.md", snapshot("s")), *BY_HAND)
    put(world / "b.md", snapshot("t"))
    for command in (
        ("store", "save", "a.md", "b.md"),
        ("store", "import", "a.md", "b.md"),
        ("store", "import", "a.md", "--dry-run"),
        ("brief", "a.md"),
        ("merge", "b.md", "a.md", "--as", "snapshot"),
    ):
        done = run(*command)
        assert done.exit_code == 0, done.output
        assert [line in done.stderr for line in LOST] == [True] * 3, command
    assert "saved s (new, 3 warnings)" in run("store", "save", "a.md", DCB_HOME="x").stderr
    records = lines(run("store", "save", "a.md", "b.md", "--json"))
    assert [record["warnings"] for record in records] == [3, 0]
    assert lines(run("store", "import", "a.md", "--json"))[0]["warnings"] == 3
    assert lines(run("store", "import", "a.md", "--dry-run", "--json"))[0]["warnings"] == 3
    assert lines(run("brief", "a.md", "--json"))[0]["warnings"] == 3
    assert lines(run("merge", "a.md", "a.md", "--json"))[0]["warnings"] == 6


def test_a_written_document_loses_nothing(world: Path) -> None:
    for profile in (None, PLUGIN):
        one = snapshot("s", wish("简洁"), title="<!-- 标题 -->", description="一句话 -->")
        put(world / "a.md", one, profile)
        (record,) = lines(run("store", "save", "a.md", "--json"))
        assert record["warnings"] == 0


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("23: fence-open: ", ("最终采用方案 A。", "```\n最终采用方案 A。")),
        ("40: text-after-end: ", ("<!-- dcb:end -->", "<!-- dcb:end -->\n\nappendix")),
        ("8: header-line: ", ("tags: []", "tags: []\ntags: [x]")),
    ],
)
def test_a_damaged_document_is_kept_only_if_one_insists(
    place: str, change: tuple[str, str], world: Path
) -> None:
    edited(put(world / "a.md", snapshot("s")), change)
    put(world / "b.md", snapshot("t"))
    for command in ("save", "import"):
        done = run("store", command, "a.md", "b.md")
        assert done.exit_code == 1
        assert f"error: a.md:{place}" in done.stderr
        assert "--accept-mismatch" in done.stderr
    assert [row["snapshotId"] for row in lines(run("store", "list", "--json"))] == ["t"]
    done = run("store", "import", "a.md", "--accept-mismatch")
    assert (done.exit_code, "(new, 1 warning)" in done.stderr) == (0, True)
    assert run("brief", "a.md").exit_code == 0


def test_a_value_that_is_none_is_said_and_taken_by_its_default(world: Path) -> None:
    edited(put(world / "a.md", snapshot("s")), ("created_at: 2026", "created_at: soon"))
    done = run("store", "import", "a.md")
    assert done.exit_code == 0
    assert "a.md:8: warning: header-value: created_at: not a UTC time" in done.stderr


def test_a_snapshot_without_an_id_is_named_and_stops_no_other(world: Path) -> None:
    edited(put(world / "a.md", snapshot("s")), ("snapshot_id: s", "snapshot_id: "))
    put(world / "b.md", snapshot("t"))
    for command in ("save", "import"):
        done = run("store", command, "a.md", "b.md", "--json")
        assert done.exit_code == 1
        assert "error: a.md: '' is no id for a snapshot" in done.stderr
        assert '"saved":"t"' in done.stdout
    assert [row["snapshotId"] for row in lines(run("store", "list", "--json"))] == ["t"]
    assert lines(run("store", "import", "a.md", "--new-id", "--json"))[0]["state"] == "new"


def test_a_merged_snapshot_keeps_to_the_budget(world: Path) -> None:
    put(world / "a.md", snapshot("a", text="最终采用方案 A。" * 30))
    put(world / "b.md", snapshot("b", text="最终采用方案 B。" * 30))
    args = ("merge", "a.md", "b.md", "--as", "snapshot")
    whole = run(*args)
    assert len(document.parse(whole.stdout).verbatim) == 2
    assert "over-budget" not in whole.stderr
    done = run(*args, "--max-tokens", "300", "-o", "m.md")
    assert "warning: over-budget: left out to keep to 300 tokens: entries 1\n" in done.stderr
    assert run("check", "m.md", "--max-tokens", "300").exit_code == 0
    (record,) = lines(run(*args, "--max-tokens", "300", "--json"))
    assert [one["item"] for one in record["budget"]["dropped"]] == ["v-002"]
    assert record["tokenEstimate"] <= 300
    plugin = run(*args, "--max-tokens", "300", "--profile", "plugin")
    assert "tokens are over the budget of 300" in plugin.stderr
    (world / "dcb.toml").write_text("max-tokens = 300\n")
    assert document.parse(run(*args).stdout).verbatim == document.parse(
        (world / "m.md").read_text(encoding="utf-8")
    ).verbatim  # fmt: skip


def test_a_merge_never_passes_what_a_check_allows(world: Path) -> None:
    put(world / "a.md", snapshot("a", text="长" * 20_000))
    put(world / "b.md", snapshot("b", text="短" * 20_000))
    done = run("merge", "a.md", "b.md", "--as", "snapshot", "-o", "m.md")
    assert "left out to keep to 32768 tokens: entries 1" in done.stderr
    assert run("check", "m.md").exit_code == 0


def test_a_merge_of_the_program_takes_no_place_in_the_store(world: Path) -> None:
    put(world / "a.md", snapshot("a", text="one"))
    put(world / "b.md", snapshot("b", text="two"))
    run("store", "save", "a.md")
    args = ("merge", "a.md", "b.md", "--as", "snapshot", "--save", "-o", "m.md")
    done = run(*args, "--profile", "plugin")
    assert (done.exit_code, "--profile published" in done.stderr) == (2, True)
    (world / "dcb.toml").write_text('profile = "plugin"\n')
    assert run(*args).exit_code == 2
    assert not (world / "m.md").exists()
    assert run(*args, "--profile", "published").exit_code == 0
    assert "two" not in run("store", "show", "a").stdout
    assert len(lines(run("store", "list", "--json"))) == 2
