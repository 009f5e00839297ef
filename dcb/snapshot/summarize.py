"""The summary layer: a summarizer is a callable, and the offline one extracts sentences.

Source: program 0.2.0, summarizer (extractive); published snapshot format, section 4.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

from converters.text import JS_SPACE, units
from dcb.snapshot.lexing import trim
from dcb.snapshot.model import SummarySection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dcb.snapshot.lexicon import Lexicon

__all__ = [
    "Candidate",
    "Extracting",
    "LeaveOut",
    "Reason",
    "Summarizer",
    "bucket",
    "extractive",
    "keywords",
    "loose_bullet",
    "tidy_bullet",
]

_LEAST_UNITS: Final = 6
_WORD: Final = re.compile("[a-z][a-z0-9_-]{2,}")
_CHINESE: Final = re.compile("[\u4e00-\u9fff]{2,}")
_BLANKS: Final = re.compile(f"[{JS_SPACE}]+")
_LOOSE_SIGN: Final = re.compile(f"(?:[-*+]|[0-9]++[.)])[{JS_SPACE}]*+")
_TIDY_SIGN: Final = re.compile(f"(?:[-*+•]|[0-9]{{1,3}}[.)])[{JS_SPACE}]++(?:\\[[ xX]\\] )?")
_ENDS: Final = "。！？.!?;；"
_TIDY_ENDS: Final = _ENDS + ":：…,，、)）\"'”」』`|>"


class Candidate(NamedTuple):
    """A text for the summary and the role that said it."""

    role: str
    text: str


class Summarizer(Protocol):
    """Makes sections of at most ``limit`` bullets each out of candidates, in their order."""

    def __call__(self, candidates: Sequence[Candidate], limit: int, /) -> Sequence[SummarySection]:
        """Give the sections, those without bullets left out."""


class Extracting(NamedTuple):
    """How a profile extracts: the form of a bullet, and whether doubles go before the cut."""

    bullet: Callable[[str], str]
    unique_first: bool


Reason = Literal["bullet-limit", "double", "too-short"]
"""Why the offline summarizer leaves a text out."""

LeaveOut: TypeAlias = "Callable[[str, str, Reason], object]"
"""Takes heading, text and reason of a text that is left out."""


def extractive(
    lexicon: Lexicon, how: Extracting, leave_out: LeaveOut = lambda *_: None
) -> Summarizer:
    """Give the offline summarizer: the sentences with the most frequent words, per bucket.

    ``leave_out`` is told of every candidate that becomes no bullet.
    """

    def summarize(candidates: Sequence[Candidate], limit: int, /) -> list[SummarySection]:
        texts = []
        for one in candidates:
            if units(trim(one.text)) >= _LEAST_UNITS:
                texts.append(one.text)
            else:
                leave_out(bucket(one.text, lexicon), one.text, "too-short")
        scores = _scores(texts, lexicon)
        buckets: dict[str, list[int]] = {rule.heading: [] for rule in lexicon.buckets}
        buckets.setdefault(lexicon.other, [])
        for index, text in enumerate(texts):
            buckets[bucket(text, lexicon)].append(index)
        sections = []
        for heading, indexes in buckets.items():
            told = partial(leave_out, heading)
            if how.unique_first:
                indexes = list(_unique(indexes, texts, how, told).values())
            ranked = sorted(indexes, key=lambda index: -scores[index])
            for index in sorted(ranked[limit:]):
                told(texts[index], "bullet-limit")
            bullets = list(_unique(sorted(ranked[:limit]), texts, how, told))
            if bullets:
                sections.append(SummarySection(heading=heading, bullets=tuple(bullets)))
        return sections

    return summarize


def _unique(
    indexes: Iterable[int],
    texts: list[str],
    how: Extracting,
    leave_out: Callable[[str, Reason], object],
) -> dict[str, int]:
    """Give each bullet once, with the index of its first text."""
    found: dict[str, int] = {}
    for index in indexes:
        if found.setdefault(how.bullet(texts[index]), index) != index:
            leave_out(texts[index], "double")
    return found


def _scores(texts: list[str], lexicon: Lexicon) -> list[float]:
    """Sum of the words' frequencies over the root of the length, later texts a little more."""
    words = [list(keywords(text, lexicon)) for text in texts]
    frequency = Counter(word for found in words for word in found)
    return [
        sum(frequency[word] for word in found)
        / math.sqrt(units(text))
        * (1 + 0.2 * index / len(texts))
        for index, (text, found) in enumerate(zip(texts, words, strict=True))
    ]


def keywords(text: str, lexicon: Lexicon) -> Iterator[str]:
    """Give the Latin words and the pairs of Chinese characters of a text, stop words left out."""
    stop = lexicon.stop_words
    for word in _WORD.findall(text.lower()):
        if word not in stop:
            yield word
    for run in _CHINESE.findall(text):
        for index in range(len(run) - 1):
            pair = run[index : index + 2]
            if pair not in stop:
                yield pair


def bucket(text: str, lexicon: Lexicon) -> str:
    """Give the heading of the first bucket whose words a text has, else that of the rest."""
    lowered = text.lower()
    for rule in lexicon.buckets:
        if rule.trigger.found(text, lowered):
            return rule.heading
    return lexicon.other


def loose_bullet(text: str) -> str:
    """Make a bullet as program 0.2.0 does: one list sign and ``#`` off, ``。`` at the end."""
    folded = trim(_BLANKS.sub(" ", text))
    sign = _LOOSE_SIGN.match(folded)
    folded = trim((folded[sign.end() :] if sign else folded).lstrip("#"))
    return folded if folded.endswith(tuple(_ENDS)) else f"{folded}。"


def tidy_bullet(text: str) -> str:
    """Make a bullet: a list sign only with a blank after it (``-5`` and ``1.5`` stay).

    The end mark that is added is that of the text's script; a colon, bracket or quote
    at the end needs none.
    """
    folded = trim(_BLANKS.sub(" ", text))
    folded = folded.removeprefix("> ")
    sign = _TIDY_SIGN.match(folded)
    folded = folded[sign.end() :] if sign else folded
    folded = trim(folded.lstrip("#")) or folded
    if folded.endswith(tuple(_TIDY_ENDS)):
        return folded
    return f"{folded}。" if _CHINESE.search(folded) else f"{folded}."
