"""Looking after a store: is it whole, and does it give back the room it no longer needs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from converters.errors import DcbError
from dcb import envelope, history
from dcb.snapshot import document
from dcb.store.rows import every, opened
from dcb.store.saving import purge
from dcb.store.schema import reading, rebuild

if TYPE_CHECKING:
    from dcb.store.schema import Store

__all__ = ["Finding", "integrity", "vacuum"]


class Finding(NamedTuple):
    """Something wrong with a store: where (a snapshot id, or empty) and what."""

    snapshot_id: str
    what: str


def integrity(store: Store, passphrase: str | None = None) -> list[Finding]:
    """Check the database, both indexes and every document; gives what is wrong.

    Sealed snapshots are checked by the digest of their envelope, and opened where
    the passphrase is given.
    """
    found: list[Finding] = []
    with reading(store):
        for (said,) in store.db.execute("PRAGMA integrity_check(20)"):
            if said != "ok":
                found.append(Finding("", f"database: {said}"))
    for table in ("snapshot_fts", "dcb_grams"):
        try:
            with reading(store):
                store.db.execute(f"INSERT INTO {table}({table}) VALUES ('integrity-check')")  # noqa: S608 - our names
        except DcbError as error:
            found.append(Finding("", f"index {table}: {error.message}"))
    with reading(store):
        lost = store.db.execute(
            "SELECT snapshot_id FROM snapshots WHERE encrypted = 0"
            " AND snapshot_id NOT IN (SELECT snapshot_id FROM dcb_index)"
        )
        found += [Finding(str(name), "not in the index") for (name,) in lost]
    for row, text in every(store):
        what = _document(row.snapshot_id, text, row.checksum, passphrase, sealed=row.sealed)
        if what:
            found.append(Finding(row.snapshot_id, what))
    return found


def _document(
    snapshot_id: str, text: str, checksum: str, passphrase: str | None, *, sealed: bool
) -> str:
    """Give what is wrong with a stored text, or nothing."""
    if sealed != envelope.is_envelope(text):
        return "the row says sealed, the text is not" if sealed else "sealed, the row says clear"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    # The program keeps the checksum of the body also for a sealed text.
    if sealed and checksum != digest and not checksum.startswith("sha256:"):
        return "the envelope does not fit its digest"
    if sealed and passphrase is None:
        return ""
    try:
        clear = opened(text, snapshot_id, passphrase)
        named = document.parse(clear).meta.snapshot_id
    except DcbError as error:
        return error.message
    if not document.verify(clear):
        return "the checksum of the document does not fit"
    return "" if named == snapshot_id else f"the document has the id {named[:60]!r}"


def vacuum(store: Store) -> tuple[int, int]:
    """Rebuild dcb's index, merge both, give free pages back, pack the history.

    Words of removed snapshots are gone from the file afterwards (their versions in the
    history are not). Gives the size of the database before and after, in bytes.
    """
    path = store.home / "snapshots.db"
    before = path.stat().st_size
    rebuild(store)
    purge(store)
    with reading(store):
        store.db.execute("VACUUM")
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if store.history is not None:
        try:
            history.pack(store.history)
        except history.HistoryError as error:
            store.warnings.append(error)
    return before, path.stat().st_size
