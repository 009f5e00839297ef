"""Search in a store: any text is a query, no term is lost, no query is an error.

A term is what stands between blanks, and all terms must be found, anywhere in the
indexed text. Terms of three characters and more go to the trigram index and are ranked
by bm25 with the column weights of program 0.2.0; shorter ones go to the index of pairs.
Where all terms are short, bm25 says little (each is in many texts): a hit in the title
comes before one in the description, tags or body, newer before older.

:func:`search_as_plugin` is program 0.2.0 itself: short terms are dropped beside long
ones, and a query of short terms is a LIKE pattern whose wildcards are alive.

Source: DialogueContextBridge 0.2.0, snapshot format, section 15 (search).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from converters.errors import UsageError
from converters.text import JS_SPACE, units
from dcb.store import index
from dcb.store.schema import reading, sync

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from dcb.store.schema import Store, Tokenizer

__all__ = ["Hit", "Plan", "PluginHit", "plan_as_plugin", "search", "search_as_plugin", "terms_of"]

MAX_TERMS: Final = 200
"""Terms of one query; FTS5 takes no expression of any depth."""
_TRIGRAM: Final = 3
_BM25: Final = "bm25(0, 10, 6, 4, 3, 2, 2.5)"
_BM25_GRAMS: Final = "bm25(10, 6, 4, 2.5)"
_EXCERPT: Final = 80
_FIELDS: Final = ", ".join(f"f.{column}" for column in index.COLUMNS)
_BLANKS: Final = str.maketrans(dict.fromkeys((*JS_SPACE, "\0"), " "))


class Hit(NamedTuple):
    """A snapshot that was found.

    ``score``: higher is better, comparable within one search only. ``excerpt`` is a
    piece of the indexed text on one line; ``marks`` are the places of terms in it
    (start and end in characters).
    """

    snapshot_id: str
    title: str
    tags: str
    created_at: int
    sealed: bool
    score: float
    excerpt: str
    marks: tuple[tuple[int, int], ...]


def search(store: Store, query: str, *, limit: int = 10) -> list[Hit]:
    """Give the snapshots in which all terms of ``query`` are found, the best first."""
    terms = terms_of(query)
    if not terms or limit < 1:
        return []
    with reading(store):
        sync(store)
        found = _ranked(store, terms, limit)
        folded = list(map(index.fold, terms))
        return [hit for row, score in found if (hit := _hit(store, row, score, folded))]


def terms_of(query: str) -> list[str]:
    """Give the distinct terms of a query; :class:`UsageError` past :data:`MAX_TERMS`.

    Half a surrogate pair cannot be in the store; it becomes U+FFFD.
    """
    text = query.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    terms = list({index.fold(term): term for term in text.translate(_BLANKS).split()}.values())
    if len(terms) > MAX_TERMS:
        raise UsageError(f"the query has {len(terms)} terms, the limit is {MAX_TERMS}")
    return terms


def _ranked(store: Store, terms: list[str], limit: int) -> list[tuple[int, float]]:
    if store.tokenizer != "trigram":
        return _verified(store, terms, limit)
    long = [term for term in terms if len(term) >= _TRIGRAM]
    short = [index.fold(term) for term in terms if len(term) < _TRIGRAM]
    if not long:
        return list(_tiers(store, _all(short), limit))
    # The unary plus keeps SQLite from running the first index once per row of the second.
    also = "AND +rowid IN (SELECT rowid FROM dcb_grams WHERE dcb_grams MATCH :short)"
    rows = store.db.execute(
        f"SELECT rowid, -rank FROM snapshot_fts WHERE snapshot_fts MATCH :long"  # noqa: S608 - our names
        f" AND rank MATCH '{_BM25}' {also if short else ''} ORDER BY rank LIMIT :limit",
        {"long": _all(long), "short": _all(short), "limit": limit},
    )
    return [(row, float(score)) for row, score in rows]


def _tiers(store: Store, expression: str, limit: int) -> Iterator[tuple[int, float]]:
    """Give the newest hits in the title, then with the description, and so on."""
    seen: set[int] = set()
    for tier in range(len(index.GRAM_COLUMNS)):
        columns = " ".join(index.GRAM_COLUMNS[: tier + 1])
        rows = store.db.execute(
            "SELECT rowid FROM dcb_grams WHERE dcb_grams MATCH ? ORDER BY rowid DESC LIMIT ?",
            (f"{{{columns}}} : ({expression})", limit),
        )
        for (row,) in rows:
            if row not in seen and len(seen) < limit:
                seen.add(row)
                yield row, float(len(index.GRAM_COLUMNS) - tier)
        if len(seen) >= limit:
            return


def _verified(store: Store, terms: list[str], limit: int) -> list[tuple[int, float]]:
    """Search without trigram: all pairs of a term must be there, then the term itself."""
    terms = list(map(index.fold, terms))
    pairs = {term[i : i + 2] for term in terms for i in range(max(1, len(term) - 1))}
    found: list[tuple[int, float]] = []
    for row, score in _tiers(store, _all(sorted(pairs)), 1 << 40):
        texts = _texts(store, row)
        if texts is not None and all(any(term in text for text in texts) for term in terms):
            found.append((row, score))
            if len(found) == limit:
                break
    return found


def _texts(store: Store, row: int) -> list[str] | None:
    texts = store.db.execute(
        f"SELECT {_FIELDS} FROM snapshot_fts AS f WHERE rowid = ?",  # noqa: S608 - our names
        (row,),
    ).fetchone()
    return None if texts is None else [index.fold(str(text or "")) for text in texts]


def _all(terms: Iterable[str]) -> str:
    return " AND ".join(map(_quoted, terms))


def _quoted(term: str) -> str:
    """Give a term as an FTS5 string, in which nothing has a meaning but a quote."""
    return '"' + term.replace('"', '""') + '"'


def _hit(store: Store, row: int, score: float, terms: list[str]) -> Hit | None:
    found = store.db.execute(
        f"SELECT s.snapshot_id, s.title, f.tags, s.created_at, s.encrypted, {_FIELDS}"  # noqa: S608 - our names
        " FROM snapshot_fts AS f JOIN snapshots AS s USING (snapshot_id) WHERE f.rowid = ?",
        (row,),
    ).fetchone()
    if found is None:
        return None
    snapshot_id, title, tags, created_at, encrypted, *texts = found
    excerpt, marks = _excerpt([str(text or "") for text in texts], terms)
    return Hit(snapshot_id, title, tags, created_at, bool(encrypted), score, excerpt, marks)


def _excerpt(texts: list[str], terms: list[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Cut around the first place of a term; the body says more than the title, which is shown."""
    lines = [" ".join(text.split()) for text in (*texts[3:], *texts[1:3], texts[0])]
    counts = [sum(term in index.fold(line) for term in terms) for line in lines]
    line = lines[counts.index(max(counts))]
    folded = index.fold(line)
    first = min((place for term in terms if (place := folded.find(term)) >= 0), default=0)
    start = max(0, first - _EXCERPT // 4)
    stop = start + _EXCERPT
    before, after = "…" * (start > 0), "…" * (stop < len(line))
    text = before + line[start:stop] + after
    return text, _marks(folded[start:stop], terms, len(before))


def _marks(text: str, terms: list[str], shift: int) -> tuple[tuple[int, int], ...]:
    """Give the places of all terms, those that touch as one."""
    places = []
    for term in terms:
        place = text.find(term)
        while place >= 0:
            places.append((place + shift, place + shift + len(term)))
            place = text.find(term, place + len(term))
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(places):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)


class Plan(NamedTuple):
    """What program 0.2.0 makes of a query: an FTS5 expression, a LIKE pattern, or nothing."""

    mode: Literal["match", "like", "empty"]
    expression: str = ""


class PluginHit(NamedTuple):
    """A hit as program 0.2.0 gives it; ``excerpt`` marks terms with brackets."""

    snapshot_id: str
    score: float
    excerpt: str


def plan_as_plugin(query: str, tokenizer: Tokenizer) -> Plan:
    """Give the plan of program 0.2.0: with trigram, terms below 3 UTF-16 units are dropped."""
    text = query.strip(JS_SPACE)
    if not text:
        return Plan("empty")
    least = _TRIGRAM if tokenizer == "trigram" else 1
    terms = [term for term in text.translate(_BLANKS).split() if units(term) >= least]
    return Plan("match", _all(terms)) if terms else Plan("like", f"%{text}%")


def search_as_plugin(store: Store, query: str, *, limit: int = 10) -> list[PluginHit]:
    """Search as program 0.2.0 does, losses included; what dcb itself uses is :func:`search`."""
    plan = plan_as_plugin(query, store.tokenizer)
    if plan.mode == "empty":
        return []
    with reading(store):
        return [PluginHit(*row) for row in _plugin_rows(store.db, plan, limit)]


def _plugin_rows(db: sqlite3.Connection, plan: Plan, limit: int) -> list[tuple[str, float, str]]:
    if plan.mode == "match":
        return db.execute(
            "SELECT snapshot_id, -rank, snippet(snapshot_fts, -1, '[', ']', '…', 16)"  # noqa: S608 - our names
            f" FROM snapshot_fts WHERE snapshot_fts MATCH ? AND rank MATCH '{_BM25}'"
            " ORDER BY rank LIMIT ?",
            (plan.expression, limit),
        ).fetchall()
    anywhere = " OR ".join(f"f.{column} LIKE :pattern" for column in index.COLUMNS)
    return db.execute(
        "SELECT f.snapshot_id, -0.0, substr(f.summary_text, 1, 160)"  # noqa: S608 - our names
        " FROM snapshot_fts AS f JOIN snapshots AS s USING (snapshot_id)"
        f" WHERE {anywhere} ORDER BY s.created_at DESC LIMIT :limit",
        {"pattern": plan.expression, "limit": limit},
    ).fetchall()
