"""The store with its history, and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from converters.errors import BadInput, UsageError
from dcb import history, store
from dcb.envelope import is_envelope
from dcb.snapshot import document
from dcb.store import Sealing, StoreError
from tests.dcb.store.snapshots import NOW, PASS, ids, snapshot

if TYPE_CHECKING:
    from pathlib import Path

# -------------------------------------------------------------------- history


def test_rollback_goes_back_and_is_a_version_itself(versioned: store.Store) -> None:
    for i in range(3):
        store.save(versioned, [snapshot("s", f"version {i}")], now_ms=NOW + i)
    saved, ref = store.rollback(versioned, "s", now_ms=NOW + 10)
    assert (saved.state, saved.sealed) == ("changed", False)
    assert "version 1" in store.text_of(versioned, "s")
    assert ids(store.search(versioned, "version 1")) == ["s"]
    found = store.versions(versioned, "s")
    assert [version.subject for version in found] == ["snapshot s: save"] * 4
    assert ref == found[2].ref
    store.rollback(versioned, "s", found[-1].ref, now_ms=NOW + 11)
    assert "version 0" in store.text_of(versioned, "s")
    with pytest.raises(BadInput):
        store.rollback(versioned, "s", "nope", now_ms=NOW)
    with pytest.raises(BadInput):
        store.rollback(versioned, "unknown", now_ms=NOW)


def test_rollback_brings_a_removed_snapshot_back(versioned: store.Store) -> None:
    store.save(versioned, [snapshot("s", "the last words")], now_ms=NOW)
    store.remove(versioned, ["s"])
    assert store.listing(versioned) == []
    assert store.search(versioned, "words") == []
    assert [version.removed for version in store.versions(versioned, "s")] == [True, False]
    saved, _ = store.rollback(versioned, "s", now_ms=NOW)
    assert saved.state == "new"
    assert ids(store.search(versioned, "last words")) == ["s"]


def test_rollback_keeps_the_sealed_flag_right(versioned: store.Store) -> None:
    sealing = Sealing(PASS)
    store.save(versioned, [snapshot("s", "first text")], now_ms=NOW)  # clear
    store.save(versioned, [snapshot("s", "second text")], now_ms=NOW, sealing=sealing)
    store.save(versioned, [snapshot("s", "third text")], now_ms=NOW, sealing=sealing)
    with pytest.raises(StoreError, match="sealed"):
        store.rollback(versioned, "s", now_ms=NOW)
    second = (versioned.home / "snapshots" / ".git", store.versions(versioned, "s")[1].ref)
    saved, ref = store.rollback(versioned, "s", now_ms=NOW, sealing=sealing)
    assert (saved.sealed, ref) == (True, second[1])
    assert store.find(versioned, "s").sealed
    assert "second text" in store.text_of(versioned, "s", PASS)
    assert versioned.history is not None
    assert store.stored_text(versioned, "s") == history.content(versioned.history, "s", ref)
    # A clear version of what is sealed now comes back sealed.
    oldest = store.versions(versioned, "s")[-1].ref
    saved, _ = store.rollback(versioned, "s", oldest, now_ms=NOW, sealing=sealing)
    assert saved.sealed
    assert store.find(versioned, "s").sealed
    assert is_envelope(store.stored_text(versioned, "s"))
    assert "first text" in store.text_of(versioned, "s", PASS)
    assert store.search(versioned, "first") == []
    assert store.integrity(versioned, PASS) == []


def test_the_id_of_a_removed_snapshot_stands_for_no_other(versioned: store.Store) -> None:
    both = [snapshot("notes", "the first"), snapshot("notes-2", "the second")]
    store.save(versioned, both, now_ms=NOW)
    store.remove(versioned, ["notes"])
    with pytest.raises(BadInput, match="not in the store any more"):
        store.find(versioned, "notes")
    assert store.known(versioned, "notes") == "notes"
    assert store.find(versioned, "notes-").snapshot_id == "notes-2"
    with pytest.raises(UsageError):  # of the one that is there and the one that was
        store.known(versioned, "note")
    store.rollback(versioned, store.known(versioned, "notes"), now_ms=NOW)
    assert "the first" in store.text_of(versioned, "notes")


def test_a_beginning_of_an_id_that_is_no_file_name_names_one(versioned: store.Store) -> None:
    store.save(versioned, [snapshot("two words")], now_ms=NOW)
    store.remove(versioned, ["two words"])
    store.rollback(versioned, "two words", now_ms=NOW)
    assert store.known(versioned, "two") == "two words"


def test_a_batch_is_one_commit(versioned: store.Store) -> None:
    store.save(versioned, [snapshot(f"s{i}") for i in range(30)], now_ms=NOW)
    assert len(store.versions(versioned, "s7")) == 1
    assert store.versions(versioned, "s7")[0].ref == store.versions(versioned, "s8")[0].ref


def test_without_history_the_store_works(kept: store.Store) -> None:
    store.save(kept, [snapshot("s")], now_ms=NOW)
    assert not (kept.home / "snapshots").exists()
    with pytest.raises(StoreError, match="history is off"):
        store.versions(kept, "s")
    with pytest.raises(StoreError, match="history is off"):
        store.rollback(kept, "s", now_ms=NOW)


def test_a_failing_git_is_a_warning_and_the_save_stands(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho 'fatal: no' >&2\nexit 128\n")
    program.chmod(0o755)
    repo = history.open_history(tmp_path / "h" / "snapshots", environ={"PATH": str(tmp_path)})
    with store.open_store(tmp_path / "h", history=repo) as kept:
        store.save(kept, [snapshot("s")], now_ms=NOW)
        assert "fatal: no" in str(kept.warnings[0])
        assert store.find(kept, "s")


def test_weight(kept: store.Store) -> None:
    store.save(kept, [snapshot("s")], now_ms=NOW)
    store.set_weight(kept, "s", 7, now_ms=NOW)
    assert document.parse(store.text_of(kept, "s")).meta.weight == 7
    assert document.verify(store.text_of(kept, "s"))
