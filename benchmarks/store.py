"""How fast the store saves and searches: 20,000 snapshots of 4 KB, Chinese and English.

    python benchmarks/store.py [--snapshots N] [--json]

Saves all in one batch (with the history off), then asks for terms of two and of five
characters, drawn from the texts (so frequent ones come often) and from the vocabulary
(so rare ones come too). Medians and the slowest of twenty, by the clock and by the
processor: on a machine that does other work only the second says much.
The texts are made up: words drawn by Zipf's law from a vocabulary of syllables.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from dcb import store
from dcb.snapshot.model import Meta, Preference, Snapshot, SummarySection, VerbatimEntry

NOW = 1_772_323_200_000
QUERIES = 200


class Language:
    """A vocabulary and the way to draw from it."""

    def __init__(self, words: list[str], joint: str, dice: random.Random) -> None:
        self.words = words
        self.joint = joint
        self.dice = dice
        self.weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))

    def text(self, n: int) -> str:  # noqa: D102 - n words
        return self.joint.join(self.dice.choices(self.words, cum_weights=self.weights, k=n))


def languages(dice: random.Random) -> tuple[Language, Language]:
    syllables = [
        "".join(s) for s in itertools.product("bcdfghjklmnprstvwxyz", "aeiou", ["", "n", "r"])
    ]
    english = {
        "".join(dice.choices(syllables, k=dice.choice((1, 2, 2, 3, 3, 4)))) for _ in range(20_000)
    }
    signs = [chr(0x4E00 + dice.randrange(0x51A5)) for _ in range(3000)]
    often = list(itertools.accumulate(1 / (rank + 20) for rank in range(len(signs))))
    chinese = {
        "".join(dice.choices(signs, cum_weights=often, k=dice.choice((1, 2, 2, 2, 2, 3, 4))))
        for _ in range(20_000)
    }
    order = sorted
    made = []
    for words, joint in ((chinese, ""), (english, " ")):
        listed = order(words)
        dice.shuffle(listed)
        made.append(Language(listed, joint, dice))
    return made[0], made[1]


def snapshot(n: int, zh: Language, en: Language, dice: random.Random) -> Snapshot:
    mixed = [zh, en]

    def piece(words: int) -> str:
        return dice.choice(mixed).text(words)

    return Snapshot(
        meta=Meta(
            snapshot_id=f"snap_{n:06d}",
            source_conversation_id=f"conv-{n % 500}",
            title=piece(6),
            description=piece(15),
            tags=(en.text(1), zh.text(1)),
            created_at=NOW + n * 1000,
        ),
        verbatim=tuple(
            VerbatimEntry(
                id=f"v-{i:03d}", source_message_id=f"m{i}", content=piece(21), created_at=NOW
            )
            for i in range(1, 9)
        ),
        summary=tuple(
            SummarySection(heading=zh.text(3), bullets=tuple(piece(18) for _ in range(3)))
            for _ in range(3)
        ),
        preferences=(
            Preference(scope="style", key="comment-style", value=piece(8), explicit=True),
        ),
    )


def queries(
    size: int, snapshots: list[Snapshot], language: Language, dice: random.Random, *, chinese: bool
) -> list[str]:
    """Give terms of a size: half as they come in texts, half from the vocabulary."""
    found: list[str] = []
    while len(found) < QUERIES // 2:
        entry = dice.choice(dice.choice(snapshots).verbatim).content
        if chinese:
            if not entry.isascii() and len(entry) > size:
                start = dice.randrange(len(entry) - size)
                found.append(entry[start : start + size])
        elif words := [word for word in entry.split() if word.isascii() and len(word) == size]:
            found.append(dice.choice(words))
    if chinese:
        rare = [language.text(size)[:size] for _ in range(QUERIES)]
    else:
        rare = [word for word in language.words if len(word) == size]
    return found + dice.choices([word for word in rare if len(word) == size], k=QUERIES // 2)


def measure(kept: store.Store, terms: list[str]) -> dict[str, Any]:
    times, busy, hits = [], [], []
    for term in terms:
        start, cpu = time.perf_counter(), time.process_time()
        found = store.search(kept, term)
        busy.append((time.process_time() - cpu) * 1000)
        times.append((time.perf_counter() - start) * 1000)
        hits.append(len(found))
    times.sort()
    return {
        "median_ms": round(statistics.median(times), 2),
        "median_cpu_ms": round(statistics.median(busy), 2),
        "p95_ms": round(times[int(len(times) * 0.95)], 2),
        "with_hits": sum(map(bool, hits)),
        "queries": len(times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshots", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    dice = random.Random(20260301)
    zh, en = languages(dice)
    made = [snapshot(n, zh, en, dice) for n in range(options.snapshots)]
    result: dict[str, Any] = {"snapshots": len(made)}
    with (
        tempfile.TemporaryDirectory() as folder,
        store.open_store(Path(folder), now_ms=NOW) as kept,
    ):
        start, cpu = time.perf_counter(), time.process_time()
        store.save(kept, made, now_ms=NOW)
        took = time.perf_counter() - start
        result["saves_per_second"] = round(len(made) / took)
        result["saves_per_cpu_second"] = round(len(made) / (time.process_time() - cpu))
        sizes = [
            len(store.stored_text(kept, f"snap_{n:06d}").encode()) for n in range(0, len(made), 97)
        ]
        result["document_bytes"] = round(statistics.mean(sizes))
        result["database_mb"] = round((Path(folder) / store.DATABASE).stat().st_size / 1e6)
        result["search"] = {}
        for size in (2, 5):
            terms = {
                name: queries(size, made, language, dice, chinese=name == "Chinese")
                for name, language in (("Chinese", zh), ("English", en))
            }
            terms["both"] = [*terms["Chinese"], *terms["English"]]
            for name, listed in terms.items():
                result["search"][f"{size} characters, {name}"] = measure(kept, listed)
        mixed = [f"{zh.text(1)[:2]} {en.text(1)}" for _ in range(QUERIES)]
        result["search"]["one of each"] = measure(kept, mixed)
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
        return
    print(f"{result['snapshots']} snapshots, {result['document_bytes']} bytes each on average")
    print(
        f"saves in a batch: {result['saves_per_second']} a second "
        f"({result['saves_per_cpu_second']} a second of processor time)"
    )
    print(f"database: {result['database_mb']} MB")
    for name, found in result["search"].items():
        print(
            f"search, {name}: median {found['median_ms']} ms "
            f"({found['median_cpu_ms']} ms of processor time), 95 % under {found['p95_ms']} ms, "
            f"{found['with_hits']} of {found['queries']} with hits"
        )


if __name__ == "__main__":
    main()
