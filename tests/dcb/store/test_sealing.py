"""Sealed snapshots leak nothing."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pytest

from converters.errors import DcbError
from dcb import store
from dcb.envelope import is_envelope
from dcb.snapshot import document
from dcb.snapshot.model import Meta, Preference, Snapshot, SummarySection, VerbatimEntry
from dcb.store import Sealing, StoreError
from tests.dcb.store.snapshots import NOW, PASS, ids, snapshot

if TYPE_CHECKING:
    from pathlib import Path

# -------------------------------------------------------------------- sealing

SECRETS = ("零丢失目标秘密", "SECRET-TOKEN-42", "persona-secret-value", "confidential heading")


def secret() -> Snapshot:
    return Snapshot(
        meta=Meta(
            snapshot_id="snap_s",
            source_conversation_id="conv-clear",
            title="公开的标题",
            description=SECRETS[0],
            tags=("opentag",),
            created_at=NOW,
        ),
        verbatim=(VerbatimEntry(id="v-001", content=f"the key is {SECRETS[1]}"),),
        summary=(SummarySection(heading=SECRETS[3], bullets=(SECRETS[0],)),),
        preferences=(Preference(scope="role", key="persona", value=SECRETS[2], explicit=True),),
    )


def everything(home: Path) -> bytes:
    """All bytes of a store: database, log, and the git objects unpacked."""
    parts = []
    for path in sorted(home.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            parts.append(data)
            if "objects" in path.parts and len(path.name) == 38:
                parts.append(zlib.decompress(data))
    return b"\0".join(parts)


def leaks(home: Path) -> list[str]:
    data = everything(home)
    folded = data.lower()
    found = [text for text in SECRETS if text.encode() in data or text.lower().encode() in folded]
    # Pairs of characters that stand nowhere else would show in the index of pairs.
    return found + [pair for pair in ("秘密", "密目") if pair.encode() in folded]


def test_sealed_store_leaks_no_body(versioned: store.Store) -> None:
    store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    assert versioned.warnings == []
    assert leaks(versioned.home) == []
    assert (versioned.home / "snapshots" / "snap_s.md").read_text().startswith("dcb1.")
    assert is_envelope(store.stored_text(versioned, "snap_s"))
    assert document.parse(store.text_of(versioned, "snap_s", PASS)).verbatim == secret().verbatim
    assert ids(store.search(versioned, "公开 opentag")) == ["snap_s"]
    assert store.search(versioned, "SECRET") == []
    row = store.find(versioned, "snap_s")
    assert (row.sealed, row.title, row.tags, row.description) == (
        True,
        "公开的标题",
        ("opentag",),
        "",
    )
    assert "公开的标题".encode() in everything(versioned.home)  # the test can see


def test_the_leak_test_sees_what_is_in_clear(versioned: store.Store) -> None:
    store.save(versioned, [secret()], now_ms=NOW)
    assert set(leaks(versioned.home)) >= {SECRETS[0], SECRETS[1], SECRETS[2], "秘密"}


def test_seal_metadata_too(versioned: store.Store) -> None:
    hidden = Sealing(PASS, metadata=True)
    store.save(versioned, [secret()], now_ms=NOW, sealing=hidden)
    data = everything(versioned.home)
    for text in ("公开的标题", "opentag", "conv-clear", *SECRETS):
        assert text.encode() not in data
    assert store.search(versioned, "公开") == []
    # What is hidden stays hidden, whoever saves or changes it next.
    store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    store.set_weight(versioned, "snap_s", 3, now_ms=NOW, sealing=Sealing(PASS))
    assert "公开的标题".encode() not in everything(versioned.home)
    assert document.parse(store.text_of(versioned, "snap_s", PASS)).meta.weight == 3


def test_index_plaintext_finds_all(kept: store.Store) -> None:
    store.save(kept, [secret()], now_ms=NOW, sealing=Sealing(PASS, index=True))
    assert ids(store.search(kept, "SECRET-TOKEN")) == ["snap_s"]
    assert is_envelope(store.stored_text(kept, "snap_s"))
    # Taking it back leaves nothing.
    store.save(kept, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    assert leaks(kept.home) == []


def test_sealing_what_was_clear_wipes_the_database(versioned: store.Store) -> None:
    others = [snapshot(f"s{i}") for i in range(20)]
    store.save(versioned, [secret(), *others], now_ms=NOW)
    store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    database = b"".join(path.read_bytes() for path in versioned.home.glob("snapshots.db*"))
    for text in (*SECRETS, "秘密"):
        assert text.encode() not in database
    assert ids(store.search(versioned, "FTS5", limit=50)) != []
    assert "readable in the history" in str(versioned.warnings[0])
    assert store.integrity(versioned, PASS) == []


def test_clear_text_never_replaces_sealed_text(kept: store.Store) -> None:
    store.save(kept, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    with pytest.raises(StoreError, match="sealed"):
        store.save(kept, [secret()], now_ms=NOW)
    with pytest.raises(StoreError, match="sealed"):
        store.set_weight(kept, "snap_s", 2, now_ms=NOW)
    with pytest.raises(StoreError, match="sealed"):
        store.text_of(kept, "snap_s")
    with pytest.raises(DcbError, match="wrong passphrase"):
        store.text_of(kept, "snap_s", "not the passphrase")
    assert leaks(kept.home) == []


def test_sealing_the_same_again_changes_nothing(versioned: store.Store) -> None:
    store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    before = store.stored_text(versioned, "snap_s")
    (saved,) = store.save(versioned, [secret()], now_ms=NOW, sealing=Sealing(PASS))
    assert saved.state == "same"
    assert store.stored_text(versioned, "snap_s") == before
    assert len(store.versions(versioned, "snap_s")) == 1
