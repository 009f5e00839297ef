"""What a store holds: rows, texts, and the way from a sealed text to its document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from converters.errors import BadInput, UsageError
from dcb import envelope, history
from dcb.snapshot import document
from dcb.store.schema import StoreError, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dcb.store.schema import Store

__all__ = [
    "Row",
    "Stored",
    "beginning",
    "every",
    "find",
    "listing",
    "opened",
    "stored",
    "stored_text",
    "text_of",
    "was_kept",
]

_COLUMNS: Final = (
    "snapshot_id, source_conversation_id, title, description, tags, token_estimate,"
    " encrypted, checksum, created_at, updated_at"
)


class Row(NamedTuple):
    """A snapshot as the store lists it. Times in ms; ``tokens`` is the estimate."""

    snapshot_id: str
    conversation: str
    title: str
    description: str
    tags: tuple[str, ...]
    tokens: int
    sealed: bool
    checksum: str
    created_at: int
    updated_at: int


class Stored(NamedTuple):
    """The text that a store keeps of a snapshot, and whether it is an envelope."""

    text: str
    sealed: bool


def stored(store: Store, snapshot_id: str) -> Stored | None:
    """Give what is kept of a snapshot, ``None`` when there is no such snapshot."""
    with reading(store):
        found = store.db.execute(
            "SELECT document, encrypted FROM snapshots WHERE snapshot_id = ?", (snapshot_id,)
        ).fetchone()
    return None if found is None else Stored(str(found[0]), bool(found[1]))


def find(store: Store, snapshot_id: str) -> Row:
    """Give the row of a snapshot by its id or an unambiguous beginning of it.

    The id of a snapshot that was removed stands for no other whose id begins so.
    :class:`BadInput` when there is none, :class:`UsageError` when there are several.
    """
    rows = beginning(store, snapshot_id)
    exact = bool(rows) and rows[0].snapshot_id == snapshot_id
    if not exact and was_kept(store, snapshot_id):
        raise BadInput(
            f"snapshot {snapshot_id[:60]!r} is not in the store any more",
            hint=f"its history brings it back: dcb store rollback {snapshot_id}",
        )
    if not rows:
        raise BadInput(
            f"the store has no snapshot {snapshot_id[:60]!r}", hint="see: dcb store list"
        )
    if len(rows) > 1 and not exact:
        raise UsageError(f"several snapshots begin with {snapshot_id!r}: give more of the id")
    return rows[0]


def beginning(store: Store, start: str) -> list[Row]:
    """Give two rows at most whose ids begin so, letter for letter; a whole id comes first."""
    if not start:
        return []
    with reading(store):
        rows = store.db.execute(
            f"SELECT {_COLUMNS} FROM snapshots"  # noqa: S608 - our names
            " WHERE snapshot_id >= ?1 AND substr(snapshot_id, 1, length(?1)) = ?1"
            " ORDER BY snapshot_id LIMIT 2",
            (_bindable(start),),
        ).fetchall()
    return list(map(_as_row, rows))


def was_kept(store: Store, snapshot_id: str) -> bool:
    """Whether the history has versions under this very id."""
    if store.history is None or not snapshot_id:
        return False
    try:
        return bool(history.versions(store.history, snapshot_id))
    except history.HistoryError:
        return False  # a history that git cannot read stops no reading of the store


def _bindable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def listing(store: Store, *, limit: int = 20, conversation: str | None = None) -> list[Row]:
    """Give the newest snapshots by the time they were made; ``limit`` -1 gives all."""
    where = "" if conversation is None else "WHERE source_conversation_id = :conversation"
    with reading(store):
        rows = store.db.execute(
            f"SELECT {_COLUMNS} FROM snapshots {where}"  # noqa: S608 - our names
            " ORDER BY created_at DESC, snapshot_id LIMIT :limit",
            {"limit": limit, "conversation": conversation},
        ).fetchall()
    return list(map(_as_row, rows))


def every(store: Store) -> Iterator[tuple[Row, str]]:
    """Give all rows with their stored texts, by id; one at a time is in memory."""
    with reading(store):
        for found in store.db.execute(
            f"SELECT {_COLUMNS}, document FROM snapshots ORDER BY snapshot_id"  # noqa: S608 - our names
        ):
            yield _as_row(found), str(found[-1])


def _as_row(found: Sequence[object]) -> Row:
    snapshot_id, conversation, title, description, tags, tokens, sealed, checksum = found[:8]
    created_at, updated_at = found[8:10]
    return Row(
        str(snapshot_id),
        str(conversation),
        str(title),
        str(description),
        _tags(tags),
        _whole(tokens),
        bool(sealed),
        str(checksum),
        _whole(created_at),
        _whole(updated_at),
    )


def _tags(value: object) -> tuple[str, ...]:
    try:
        tags = orjson.loads(str(value))
    except orjson.JSONDecodeError:
        return ()
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 1 << 62 else 0


def stored_text(store: Store, snapshot_id: str) -> str:
    """Give what the store keeps of a snapshot: its document, or its envelope."""
    old = stored(store, snapshot_id)
    if old is None:
        raise BadInput(
            f"the store has no snapshot {snapshot_id[:60]!r}", hint="see: dcb store list"
        )
    return old.text


def text_of(store: Store, snapshot_id: str, passphrase: str | None = None) -> str:
    """Give the document of a snapshot; a sealed one needs its passphrase."""
    return opened(stored_text(store, snapshot_id), snapshot_id, passphrase)


def opened(text: str, snapshot_id: str, passphrase: str | None) -> str:
    """Give the document that a stored text holds; :class:`StoreError` without a passphrase."""
    if not envelope.is_envelope(text):
        return text
    if passphrase is None:
        raise StoreError(
            f"snapshot {snapshot_id} is sealed",
            hint="give --passphrase-file FILE, or set DCB_PASSPHRASE",
        )
    return document.decode(envelope.open_envelope(text, passphrase), snapshot_id)
