"""What the store indexes of a snapshot: the words for trigram, pairs of characters for the rest.

The trigram index finds no term of two characters, and most Chinese words have two.
Here every pair of neighbouring characters and every character of a text is a token
of its own, once for each column.
"""

from __future__ import annotations

import contextlib
from operator import add
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from dcb.snapshot.model import Snapshot

__all__ = ["COLUMNS", "GRAM_COLUMNS", "GRAM_TOKENIZER", "Words", "fold", "grams", "words_of"]

COLUMNS: Final = (
    "title",
    "description",
    "tags",
    "summary_text",
    "verbatim_text",
    "preference_text",
)
GRAM_COLUMNS: Final = ("title", "description", "tags", "body")

# The ascii tokenizer takes all above ASCII as part of a token; here all of ASCII is but
# blanks. Quotes are doubled: once for the list, once for the option.
_SIGNS: Final = "".join(c for c in map(chr, range(1, 0x80)) if not c.isalnum() and not c.isspace())
GRAM_TOKENIZER: Final = "\"ascii tokenchars '{}'\"".format(
    _SIGNS.replace("'", "''").replace('"', '""')
)


class Words(NamedTuple):
    """The indexed text of a snapshot, a column each; :data:`COLUMNS` names them."""

    title: str = ""
    description: str = ""
    tags: str = ""
    summary: str = ""
    verbatim: str = ""
    preference: str = ""


def words_of(snapshot: Snapshot) -> Words:
    """Give the text to index. Source: snapshot format, section 6 (index text)."""
    meta = snapshot.meta
    return Words(
        meta.title,
        meta.description,
        " ".join(meta.tags),
        "\n".join(f"{part.heading}\n" + "\n".join(part.bullets) for part in snapshot.summary),
        "\n".join(entry.content for entry in snapshot.verbatim),
        "\n".join(f"{wish.key} {wish.value}" for wish in snapshot.preferences),
    )


def fold(text: str) -> str:
    """Give a text in lower case, each character where it was."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(c if len(c.lower()) != 1 else c.lower() for c in text)


def grams(text: str) -> str:
    """Give the pairs and the single characters of a text, each once.

    A pair with a blank falls apart into its character when it is indexed.
    """
    line = " ".join(fold(text).split())
    return " ".join({*map(add, line, line[1:]), *line})


def get(db: sqlite3.Connection, snapshot_id: str) -> Words | None:
    """Give what the index shows of a snapshot."""
    found = db.execute(
        f"SELECT {', '.join(COLUMNS)} FROM snapshot_fts"  # noqa: S608 - our names
        " WHERE rowid = (SELECT id FROM dcb_index WHERE snapshot_id = ?)",
        (snapshot_id,),
    ).fetchone()
    return None if found is None else Words(*(str(text or "") for text in found))


def put(db: sqlite3.Connection, snapshot_id: str, words: Words | None) -> None:
    """Set the index rows of a snapshot; ``None`` leaves it without."""
    row = db.execute("SELECT id FROM dcb_index WHERE snapshot_id = ?", (snapshot_id,)).fetchone()
    if row is not None:
        db.execute("DELETE FROM snapshot_fts WHERE rowid = ?", row)
        db.execute("DELETE FROM dcb_grams WHERE rowid = ?", row)
    if words is None:
        db.execute("DELETE FROM dcb_index WHERE snapshot_id = ?", (snapshot_id,))
        return
    # The program gives the next free row, which dcb may not know yet.
    new = (
        row
        or db.execute(
            "SELECT max(coalesce((SELECT max(id) FROM dcb_index), 0),"
            " coalesce((SELECT max(rowid) FROM snapshot_fts), 0)) + 1"
        ).fetchone()
    )
    if row is None:
        db.execute("INSERT INTO dcb_index VALUES (?, ?)", (new[0], snapshot_id))
    db.execute(
        f"INSERT INTO snapshot_fts(rowid, snapshot_id, {', '.join(COLUMNS)})"  # noqa: S608 - our names
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (new[0], snapshot_id, *words),
    )
    _put_grams(db, new[0], words)


def _put_grams(db: sqlite3.Connection, row: int, words: Words) -> None:
    body = f"{words.summary}\n{words.verbatim}\n{words.preference}"
    texts = map(grams, (words.title, words.description, words.tags, body))
    db.execute(
        f"INSERT INTO dcb_grams(rowid, {', '.join(GRAM_COLUMNS)}) VALUES (?, ?, ?, ?, ?)",  # noqa: S608 - our names
        (row, *texts),
    )


_BATCH: Final = 100
_USUAL: Final = {"automerge": 4, "crisismerge": 16, "hashsize": 1 << 20}
_GATHER: Final = {"automerge": 0, "crisismerge": 64, "hashsize": 64 << 20}


@contextlib.contextmanager
def gathering(db: sqlite3.Connection, count: int) -> Iterator[None]:
    """Let both indexes gather more before they write and merge, while many rows are put.

    Saves a fifth of the time of a batch. FTS5 keeps these settings in the database, so
    they are set back, in the same transaction.
    """
    if count < _BATCH:
        yield
        return
    _configure(db, _GATHER)
    yield
    _configure(db, _USUAL)


def _configure(db: sqlite3.Connection, values: Mapping[str, int]) -> None:
    for table in ("snapshot_fts", "dcb_grams"):
        for name, value in values.items():
            db.execute(f"INSERT INTO {table}({table}, rank) VALUES (?, ?)", (name, value))  # noqa: S608 - our names


def adopt(db: sqlite3.Connection) -> None:
    """Index what the program changed: its own index is right, dcb's follows it."""
    if db.execute("SELECT 1 FROM dcb_pending LIMIT 1").fetchone() is None:
        return
    db.execute(
        "DELETE FROM dcb_grams WHERE rowid IN (SELECT id FROM dcb_index"
        " WHERE snapshot_id IN (SELECT snapshot_id FROM dcb_pending))"
    )
    db.execute("DELETE FROM dcb_index WHERE snapshot_id IN (SELECT snapshot_id FROM dcb_pending)")
    found = db.execute(
        f"SELECT rowid, snapshot_id, {', '.join(COLUMNS)} FROM snapshot_fts"  # noqa: S608 - our names
        " WHERE snapshot_id IN (SELECT snapshot_id FROM dcb_pending)"
    )
    for row, snapshot_id, *texts in found:
        words = Words(*(text if isinstance(text, str) else "" for text in texts))
        db.execute("INSERT OR REPLACE INTO dcb_index VALUES (?, ?)", (row, str(snapshot_id)))
        db.execute("DELETE FROM dcb_grams WHERE rowid = ?", (row,))
        _put_grams(db, row, words)
    db.execute("DELETE FROM dcb_pending")


def done(db: sqlite3.Connection, snapshot_id: str) -> None:
    """Take a snapshot that dcb itself indexed off the list of the triggers."""
    db.execute("DELETE FROM dcb_pending WHERE snapshot_id = ?", (snapshot_id,))
