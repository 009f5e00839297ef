"""Putting snapshots into a store and getting them back, sealed or not.

A save is one transaction with its index rows and its commit in the history; a
batch of saves is one. The history is written while the store is locked, so that
processes take turns; when git fails, the save is done all the same and the store
has a warning. A process that is killed between the commit of git and that of the
database leaves a version in the history that the store has not, never the reverse.

A sealed snapshot is kept as its envelope. Its row has title, tags, ids and times in
clear, nothing of its body: no description (which is taken from the body), and as
checksum the sha256 of the envelope, so that damage shows without the passphrase.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson
from msgspec.structs import replace

from converters.errors import BadInput, DcbError, UsageError
from dcb import envelope, history
from dcb.snapshot import document
from dcb.store import index
from dcb.store.rows import (
    Row,
    Stored,
    beginning,
    find,
    opened,
    stored,
    text_of,
    was_kept,
)
from dcb.store.schema import StoreError, reading, transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dcb.snapshot.model import Snapshot
    from dcb.store.schema import Store

__all__ = [
    "Saved",
    "Sealing",
    "known",
    "remove",
    "rollback",
    "save",
    "set_weight",
    "versions",
]

_MAX_ID: Final = 200
_ID: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Sealing:
    """How to seal.

    ``metadata``: title, tags and conversation are hidden too. ``index``: the whole text
    is indexed in clear, so that it can be found, and read in the database file.
    """

    passphrase: str = dataclasses.field(repr=False)
    metadata: bool = False
    index: bool = False


class Saved(NamedTuple):
    """What a save did: ``changes`` is how many things the document could not hold as they were."""

    snapshot_id: str
    sealed: bool
    state: str
    changes: int = 0


class _Ready(NamedTuple):
    """A snapshot before the store is locked: all that takes time is done."""

    row: tuple[str | int, ...]
    text: str
    words: index.Words | None
    sealed: bool
    changes: int


def save(
    store: Store,
    snapshots: Iterable[Snapshot],
    *,
    now_ms: int,
    sealing: Sealing | None = None,
    replace_existing: bool = True,
    on_error: Callable[[int, DcbError], None] | None = None,
) -> list[Saved]:
    """Save snapshots in one transaction; the last of an id stands.

    ``state`` of each is ``new``, ``changed`` or ``same``; without ``replace_existing``
    another content under a known id is ``refused`` and left out. A snapshot that is
    sealed in the store is never replaced by clear text: without ``sealing`` that is a
    :class:`StoreError`, and nothing of the batch is kept. With ``on_error``, which gets
    its place in the batch, what cannot be saved so is ``failed`` and left out alone.
    """
    ready = list(_prepared(store, snapshots, now_ms, sealing, on_error))
    saved: list[Saved] = []
    if not any(isinstance(item, _Ready) for item in ready):
        return [item for item in ready if isinstance(item, Saved)]
    texts: dict[str, str | None] = {}
    exposed: list[str] = []
    with transaction(store) as db:
        todo: dict[str, _Ready] = {}
        for item in ready:
            if isinstance(item, Saved):
                saved.append(item)
                continue
            snapshot_id = str(item.row[0])
            old = stored(store, snapshot_id)
            state = _state(old, item, replace_existing=replace_existing)
            saved.append(Saved(snapshot_id, item.sealed, state, item.changes))
            if state == "refused" or (state == "same" and not item.sealed):
                continue
            if _was_readable(db, old, item):
                exposed.append(snapshot_id)
            _put_row(db, item)
            todo[snapshot_id] = item
            if store.history is not None:
                texts[snapshot_id] = item.text
        # Not in the loop above: each statement that fires a trigger makes FTS5 write out
        # what it has gathered, and a batch would be five times as slow.
        with index.gathering(db, len(todo)):
            for snapshot_id, item in todo.items():
                index.put(db, snapshot_id, item.words)
        _record(store, texts, "save")
    _cover(store, exposed)
    return saved


def _was_readable(db: sqlite3.Connection, old: Stored | None, item: _Ready) -> bool:
    """Whether a snapshot that is sealed now leaves words in clear behind."""
    if old is None or not item.sealed:
        return False
    shown = index.get(db, str(item.row[0]))
    return not old.sealed or (shown is not None and shown != item.words)


def _cover(store: Store, exposed: list[str]) -> None:
    """Take what was in clear out of the file; the history cannot forget it."""
    if not exposed:
        return
    purge(store)
    if store.history is not None and any(
        not envelope.is_envelope(history.content(store.history, name, version.ref))
        for name in exposed
        for version in history.versions(store.history, name)
        if not version.removed
    ):
        store.warnings.append(
            StoreError(
                "versions from before the sealing stay readable in the history",
                path=str(store.history.folder),
                hint="remove that folder to forget all versions of all snapshots",
            )
        )


def _prepared(
    store: Store,
    snapshots: Iterable[Snapshot],
    now_ms: int,
    sealing: Sealing | None,
    on_error: Callable[[int, DcbError], None] | None,
) -> Iterator[_Ready | Saved]:
    """Make snapshots ready; one that fails is handed to ``on_error`` and stops no other."""
    for place, snapshot in enumerate(snapshots):
        try:
            yield _prepare(store, snapshot, now_ms, sealing)
        except UsageError:
            raise
        except DcbError as error:
            if on_error is None:
                raise
            on_error(place, error)
            yield Saved(snapshot.meta.snapshot_id, sealing is not None, "failed")


def _prepare(store: Store, snapshot: Snapshot, now_ms: int, sealing: Sealing | None) -> _Ready:
    snapshot_id = snapshot.meta.snapshot_id
    if not _ID.fullmatch(snapshot_id) or len(snapshot_id) > _MAX_ID:
        raise BadInput(
            f"{snapshot_id[:60]!r} is no id for a snapshot",
            hint=f"an id has 1 to {_MAX_ID} characters that can be seen; a new one is given by:"
            " dcb store import --new-id",
        )
    # Whether the text of a row is sealed is the row's to say; in the text it stays false.
    clear = replace(snapshot, meta=replace(snapshot.meta, encrypted=False))
    written = document.write(clear)
    words = index.words_of(written.snapshot)
    hidden = _is_hidden(store, snapshot_id)
    if sealing is None:
        if hidden is not None:
            raise StoreError(
                f"snapshot {snapshot_id} is sealed in the store and would be saved in clear",
                hint="give --seal and the passphrase",
            )
        row = _row(written.snapshot, now_ms, written.snapshot.meta.checksum, sealed=False)
        return _Ready(row, written.text, words, False, len(written.changes))
    text = _sealed_already(store, snapshot_id, written.text, sealing) or envelope.seal_fresh(
        written.text.encode(), sealing.passphrase
    )
    if hidden:
        sealing = dataclasses.replace(sealing, metadata=True)
    return _sealed(written.snapshot, text, sealing, now_ms, len(written.changes))


def _sealed(
    snapshot: Snapshot, text: str, sealing: Sealing, now_ms: int, changes: int = 0
) -> _Ready:
    words = index.words_of(snapshot)
    meta = snapshot.meta
    if sealing.metadata:
        meta = replace(meta, title="", tags=(), source_conversation_id="")
    if not sealing.index:
        words = index.Words(title=meta.title, tags=" ".join(meta.tags))
    digest = hashlib.sha256(text.encode()).hexdigest()
    shown = replace(snapshot, meta=replace(meta, description=""))
    hidden = sealing.metadata and not sealing.index
    return _Ready(
        _row(shown, now_ms, digest, sealed=True), text, None if hidden else words, True, changes
    )


def _is_hidden(store: Store, snapshot_id: str) -> bool | None:
    """Whether a sealed row hides its title too; ``None`` when there is no sealed row."""
    with reading(store):
        found = store.db.execute(
            "SELECT title || source_conversation_id FROM snapshots"
            " WHERE snapshot_id = ? AND encrypted != 0",
            (snapshot_id,),
        ).fetchone()
    return None if found is None else not found[0]


def _sealed_already(store: Store, snapshot_id: str, text: str, sealing: Sealing) -> str | None:
    """Give the envelope in the store when it holds just this text, so that nothing changes."""
    old = stored(store, snapshot_id)
    if old is None or not old.sealed:
        return None
    try:
        held = envelope.open_envelope(old.text, sealing.passphrase)
    except (envelope.BadEnvelope, envelope.OpenFailed):
        return None
    return old.text if held == text.encode() else None


def _row(snapshot: Snapshot, now_ms: int, checksum: str, *, sealed: bool) -> tuple[str | int, ...]:
    meta = snapshot.meta
    return (
        meta.snapshot_id,
        meta.source_conversation_id,
        meta.title,
        meta.description,
        orjson.dumps(meta.tags).decode(),
        meta.schema_version,
        int(meta.token_estimate),
        int(sealed),
        checksum,
        int(meta.created_at),
        now_ms,
    )


def _state(old: Stored | None, item: _Ready, *, replace_existing: bool) -> str:
    if old is None:
        return "new"
    if old.text == item.text:
        return "same"
    if old.sealed and not item.sealed:  # sealed by another process since it was prepared
        raise StoreError(f"snapshot {item.row[0]} is sealed in the store", hint="give --seal")
    return "changed" if replace_existing else "refused"


def _put_row(db: sqlite3.Connection, item: _Ready) -> None:
    db.execute(
        "INSERT INTO snapshots(snapshot_id, source_conversation_id, title, description, tags,"
        " schema_version, token_estimate, encrypted, checksum, created_at, updated_at, document)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(snapshot_id) DO UPDATE SET"
        " source_conversation_id = excluded.source_conversation_id, title = excluded.title,"
        " description = excluded.description, tags = excluded.tags,"
        " schema_version = excluded.schema_version, token_estimate = excluded.token_estimate,"
        " encrypted = excluded.encrypted, checksum = excluded.checksum,"
        " created_at = excluded.created_at, updated_at = excluded.updated_at,"
        " document = excluded.document",
        (*item.row, item.text),
    )
    index.done(db, str(item.row[0]))


def _record(store: Store, texts: dict[str, str | None], what: str) -> None:
    """Commit to the history; what git cannot do is a warning, the save stands."""
    if store.history is None or not texts:
        return
    ids = list(texts)
    message = f"snapshot {ids[0]}: {what}"
    if len(ids) > 1:
        message = "\n".join((f"{len(ids)} snapshots: {what}", "", *ids))
    try:
        history.record(store.history, texts, message)
    except history.HistoryError as error:
        store.warnings.append(error)


def purge(store: Store) -> None:
    """Make deleted text unreadable in the file: FTS5 keeps old words until it merges."""
    with transaction(store) as db:
        for table in ("snapshot_fts", "dcb_grams"):
            db.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")  # noqa: S608 - our names
    with reading(store):
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def remove(store: Store, snapshot_ids: Sequence[str]) -> None:
    """Remove snapshots in one transaction; the history keeps their versions."""
    with transaction(store) as db:
        for snapshot_id in snapshot_ids:
            db.execute("DELETE FROM snapshots WHERE snapshot_id = ?", (snapshot_id,))
            index.put(db, snapshot_id, None)
            index.done(db, snapshot_id)
        _record(store, dict.fromkeys(snapshot_ids), "remove")


def set_weight(
    store: Store, snapshot_id: str, weight: float, *, now_ms: int, sealing: Sealing | None = None
) -> Saved:
    """Change the weight of a snapshot, which ranks it in a merge; a sealed one stays sealed."""
    passphrase = sealing.passphrase if sealing else None
    snapshot = document.parse(text_of(store, snapshot_id, passphrase))
    changed = replace(snapshot, meta=replace(snapshot.meta, weight=weight))
    row = find(store, snapshot_id)
    keep = _as_sealed(store, row, sealing) if row.sealed else None
    return save(store, [changed], now_ms=now_ms, sealing=keep)[0]


def _as_sealed(store: Store, row: Row, sealing: Sealing | None) -> Sealing:
    """Give the sealing that a row has: what it shows stays as it is."""
    if sealing is None:
        raise StoreError(
            f"snapshot {row.snapshot_id} is sealed",
            hint="give --passphrase-file FILE, or set DCB_PASSPHRASE",
        )
    with reading(store):
        shown = index.get(store.db, row.snapshot_id)
    return Sealing(
        sealing.passphrase,
        metadata=bool(_is_hidden(store, row.snapshot_id)),
        index=shown is not None and any(shown[3:]),
    )


def versions(store: Store, snapshot_id: str) -> list[history.Version]:
    """Give the versions of a snapshot, newest first; :class:`StoreError` where history is off."""
    return history.versions(_history(store), snapshot_id)


def known(store: Store, snapshot_id: str) -> str:
    """Give the full id of a snapshot by its beginning; one that was removed is in the history.

    A whole id comes first, also that of a removed one. What is in neither is given back
    as it is. :class:`UsageError` when there are several.
    """
    live = [row.snapshot_id for row in beginning(store, snapshot_id)]
    if snapshot_id in live or was_kept(store, snapshot_id):
        return snapshot_id
    names = set(live)
    if store.history is not None and snapshot_id:
        files = {history.file_name(name).removesuffix(".md") for name in live}
        names |= set(history.removed(store.history, snapshot_id)) - files
    if len(names) > 1:
        raise UsageError(f"several snapshots began with {snapshot_id!r}: give more of the id")
    return names.pop() if names else snapshot_id


def _history(store: Store) -> history.History:
    if store.history is None:
        raise StoreError(
            "history is off: git is not installed, or the settings say history = false",
            path=store.path,
        )
    return store.history


def rollback(
    store: Store,
    snapshot_id: str,
    ref: str | None = None,
    *,
    now_ms: int,
    sealing: Sealing | None = None,
) -> tuple[Saved, str]:
    """Save an old version again and give its ref; without ``ref`` the previous one.

    The previous version of a removed snapshot is its last. An old envelope is put back
    as it is, once it opens; clear text of a snapshot that is sealed now is sealed.
    """
    repo = _history(store)
    now = stored(store, snapshot_id)
    if ref is None:
        kept = [version for version in history.versions(repo, snapshot_id) if not version.removed]
        if not kept:
            raise BadInput(f"the history has no snapshot {snapshot_id[:60]!r}")
        ref = kept[1 if now is not None and len(kept) > 1 else 0].ref
    text = history.content(repo, snapshot_id, ref)
    snapshot = document.parse(opened(text, snapshot_id, sealing.passphrase if sealing else None))
    if snapshot.meta.snapshot_id != snapshot_id:
        raise BadInput(
            f"version {ref[:60]} holds another snapshot: {snapshot.meta.snapshot_id[:60]!r}"
        )
    was_sealed = now is not None and now.sealed
    keep = _as_sealed(store, find(store, snapshot_id), sealing) if was_sealed else sealing
    if not envelope.is_envelope(text):
        saved = save(store, [snapshot], now_ms=now_ms, sealing=keep if was_sealed else None)
        return saved[0], ref
    assert keep is not None  # noqa: S101 - opened() wanted the passphrase
    item = _sealed(snapshot, text, keep, now_ms)
    with transaction(store) as db:
        exposed = _was_readable(db, now, item)
        _put_row(db, item)
        index.put(db, snapshot_id, item.words)
        _record(store, {snapshot_id: text}, "save")
    _cover(store, [snapshot_id] if exposed else [])
    state = "new" if now is None else "same" if now.text == text else "changed"
    return Saved(snapshot_id, sealed=True, state=state), ref
