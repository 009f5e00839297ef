"""Search in a store: any text is a query, no term is lost, no query is an error.

A term is what stands between blanks, and all terms must be found, anywhere in the
indexed text. Terms of three characters and more go to the trigram index, shorter ones to
the index of pairs. Hits are ranked by bm25 with the column weights of program 0.2.0,
equal ones by time of saving. FTS5's own bm25 reads every hit of a term twice; here a term
that is in very many texts is ranked among its newest hits and those that have it in the
title, description or tags.

:func:`search_as_plugin` is program 0.2.0 itself: short terms are dropped beside long
ones, and a query of short terms is a LIKE pattern whose wildcards are alive.

Source: DialogueContextBridge 0.2.0, snapshot format, section 15 (search).
"""

from __future__ import annotations

from itertools import islice
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
_WEIGHTS: Final = (10.0, 6.0, 4.0, 3.0, 2.0, 2.5)
_K1: Final = 1.2
_B: Final = 0.75
_CANDIDATES: Final = 100
"""Hits that are ranked: this many of the newest, and as many with a term in the head."""
_FEW: Final = 30
"""The same for a query of short terms only, of which many texts are full."""
_HEAD: Final = "{title description tags}"
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
        folded = list(map(index.fold, terms))
        most = max(limit, _CANDIDATES if any(len(t) >= _TRIGRAM for t in terms) else _FEW)
        found = _ranked(_candidates(store, terms, folded, most), folded)
        return [
            hit
            for score, row, texts in found[:limit]
            if (hit := _hit(store, row, score, texts, folded))
        ]


def terms_of(query: str) -> list[str]:
    """Give the distinct terms of a query; :class:`UsageError` past :data:`MAX_TERMS`.

    Half a surrogate pair cannot be in the store; it becomes U+FFFD.
    """
    text = query.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    terms = list({index.fold(term): term for term in text.translate(_BLANKS).split()}.values())
    if len(terms) > MAX_TERMS:
        raise UsageError(f"the query has {len(terms)} terms, the limit is {MAX_TERMS}")
    return terms


class _Candidate(NamedTuple):
    """A row that may be a hit: its texts, and the same folded."""

    row: int
    texts: list[str]
    folded: list[str]


def _candidates(
    store: Store, terms: list[str], folded: list[str], most: int
) -> Iterator[_Candidate]:
    """Give the newest hits, and more of those that stand out when these are not all."""
    if store.tokenizer == "trigram":
        newest = list(_texts(store, _newest(store, terms, most)))
    else:
        newest = list(islice(_holding(store, _by_pairs(store, folded), folded), most))
    yield from newest
    if len(newest) == most:
        seen = {one.row for one in newest}
        rows = _with_head(store, folded, most)
        yield from _holding(store, (row for row in rows if row not in seen), folded)


def _newest(store: Store, terms: list[str], most: int) -> list[int]:
    long = [term for term in terms if len(term) >= _TRIGRAM]
    short = [index.fold(term) for term in terms if len(term) < _TRIGRAM]
    if not long:
        found = store.db.execute(
            "SELECT rowid FROM dcb_grams WHERE dcb_grams MATCH ? ORDER BY rowid DESC LIMIT ?",
            (_all(short), most),
        )
    else:
        # The unary plus keeps SQLite from running the first index once per row of the second.
        also = "AND +rowid IN (SELECT rowid FROM dcb_grams WHERE dcb_grams MATCH :short)"
        found = store.db.execute(
            "SELECT rowid FROM snapshot_fts WHERE snapshot_fts MATCH :long"  # noqa: S608 - our names
            f" {also if short else ''} ORDER BY rowid DESC LIMIT :most",
            {"long": _all(long), "short": _all(short), "most": most},
        )
    return [row for (row,) in found]


def _by_pairs(store: Store, folded: list[str]) -> Iterator[int]:
    """Give the rows that have all pairs of all terms, the newest first; not all are hits."""
    found = store.db.execute(
        "SELECT rowid FROM dcb_grams WHERE dcb_grams MATCH ? ORDER BY rowid DESC",
        (_all(sorted({pair for term in folded for pair in _pairs(term)})),),
    )
    return (row for (row,) in found)


def _with_head(store: Store, folded: list[str], most: int) -> list[int]:
    """Give the newest rows that have all pairs of some term in title, description or tags."""
    any_term = " OR ".join(f"({_HEAD} : ({_all(_pairs(term))}))" for term in folded)
    found = store.db.execute(
        "SELECT rowid FROM dcb_grams WHERE dcb_grams MATCH ? ORDER BY rowid DESC LIMIT ?",
        (any_term, most),
    )
    return [row for (row,) in found]


def _pairs(term: str) -> list[str]:
    return list(dict.fromkeys(term[i : i + 2] for i in range(max(1, len(term) - 1))))


def _holding(store: Store, rows: Iterable[int], folded: list[str]) -> Iterator[_Candidate]:
    """Give the rows in which every term stands as it is."""
    waiting = iter(rows)
    while some := list(islice(waiting, _CANDIDATES)):
        for one in _texts(store, some):
            if all(any(term in text for text in one.folded) for term in folded):
                yield one


def _texts(store: Store, rows: list[int]) -> Iterator[_Candidate]:
    """Give the indexed texts of rows, in the same order."""
    found = store.db.execute(
        f"SELECT f.rowid, {_FIELDS} FROM snapshot_fts AS f"  # noqa: S608 - our names
        " WHERE f.rowid IN (SELECT value FROM json_each(?))",
        (f"[{','.join(map(str, rows))}]",),
    )
    texts = {row: [str(text or "") for text in values] for row, *values in found}
    for row in rows:
        if row in texts:
            yield _Candidate(row, texts[row], _folded(texts[row]))


def _folded(texts: list[str]) -> list[str]:
    """Fold all at once: six calls for a candidate would take longer than all the rest."""
    folded = index.fold("\0".join(texts)).split("\0")
    return folded if len(folded) == len(texts) else list(map(index.fold, texts))


def _ranked(
    candidates: Iterable[_Candidate], folded: list[str]
) -> list[tuple[float, int, list[str]]]:
    """Rank by bm25; all hits have all terms, so no term weighs more than another.

    Source: SQLite FTS5, section 5.1.1 (the bm25 function), k1 = 1.2 and b = 0.75.
    """
    found = list(candidates)
    sizes = [sum(map(len, one.texts)) for one in found]
    mean = sum(sizes) / len(sizes) if found else 1
    ranked = []
    for one, size in zip(found, sizes, strict=True):
        rest = _K1 * (1 - _B + _B * size / (mean or 1))
        score = 0.0
        for term in folded:
            counts = [text.count(term) for text in one.folded]
            often = sum(weight * n for weight, n in zip(_WEIGHTS, counts, strict=True))
            score += often * (_K1 + 1) / (often + rest)
        ranked.append((score, one.row, one.texts))
    return sorted(ranked, key=lambda item: item[:2], reverse=True)


def _all(terms: Iterable[str]) -> str:
    return " AND ".join(map(_quoted, terms))


def _quoted(term: str) -> str:
    """Give a term as an FTS5 string, in which nothing has a meaning but a quote."""
    return '"' + term.replace('"', '""') + '"'


def _hit(store: Store, row: int, score: float, texts: list[str], terms: list[str]) -> Hit | None:
    found = store.db.execute(
        "SELECT snapshot_id, title, created_at, encrypted FROM snapshots WHERE snapshot_id ="
        " (SELECT snapshot_id FROM dcb_index WHERE id = ?)",
        (row,),
    ).fetchone()
    if found is None:
        return None
    snapshot_id, title, created_at, encrypted = found
    excerpt, marks = _excerpt(texts, terms)
    return Hit(snapshot_id, title, texts[2], created_at, bool(encrypted), score, excerpt, marks)


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
