"""The rules of compiling that differ between the profiles: keys, doubles, titles, ids.

Source: program 0.2.0, compiler; published snapshot format, sections 2 and 5.1.
"""

from __future__ import annotations

import re
import uuid
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from converters.text import JS_SPACE, clip_units, units
from dcb.snapshot.classify import strict_pieces
from dcb.snapshot.lexing import trim, utf8
from dcb.snapshot.model import SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dcb.snapshot.classify import Cutting
    from dcb.snapshot.lexicon import Lexicon
    from dcb.snapshot.model import Preference, VerbatimEntry
    from dcb.snapshot.summarize import Extracting

__all__ = [
    "Compiling",
    "Stamp",
    "base36",
    "content_id",
    "loose_double",
    "loose_title",
    "merge_by_key",
    "merge_by_scope_and_key",
    "near_double",
    "sequence_id",
    "short_title",
    "stamp_id",
]

_BLANKS: Final = re.compile(f"[{JS_SPACE}]+")
_PUNCTUATION: Final = re.compile(f"[{JS_SPACE}。，、；：！？.,;:!?]+")
_TITLE_UNITS: Final = 48
_ELLIPSIS: Final = "\u2026"


class Stamp(NamedTuple):
    """What an id and a creation time are made of.

    ``session_id`` and ``body`` (of the finished document); ``last_ms`` is the last time
    in the session (0 if none); ``now_ms`` and ``suffix`` come from outside where the
    profile wants a clock and a random part, else they are ``None``.
    """

    session_id: str
    body: str
    last_ms: int
    now_ms: int | None = None
    suffix: str | None = None


class Compiling(NamedTuple):
    """How a profile compiles.

    ``double`` gives the key by which two verbatim entries are the same; ``merge`` makes
    one preference of each key; ``title`` cuts the first prompt to a title (empty: none);
    ``order`` puts the entries that the budget kept in order; ``snapshot_id`` and
    ``created_at`` (ms) name the result.
    """

    lexicon: Callable[[], Lexicon]
    cutting: Cutting
    extracting: Extracting
    double: Callable[[str, str], str]
    merge: Callable[[Iterable[Preference]], list[Preference]]
    title: Callable[[str], str]
    untitled: str
    described: str
    order: Callable[[Sequence[VerbatimEntry], Sequence[VerbatimEntry]], list[VerbatimEntry]]
    snapshot_id: Callable[[Stamp], str]
    created_at: Callable[[Stamp], int]


def base36(number: int) -> str:
    """Give a number in base 36, lower case."""
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"


def sequence_id(prefix: str, number: int) -> str:
    """Give ``v-001``: the number from 1, padded to three digits."""
    return f"{prefix}-{number:03}"


def stamp_id(stamp: Stamp) -> str:
    """Give ``snap_<clock in base 36>_<8 hex digits>``.

    Without a clock the last time of the session stands in, without random digits those of
    a hash of session and body, so that the same input gives the same id.
    """
    suffix = stamp.suffix or sha256(utf8(f"{stamp.session_id}\n{stamp.body}")).hexdigest()[:8]
    return f"snap_{base36(max(_clock(stamp), 0))}_{suffix}"


def _clock(stamp: Stamp) -> int:
    return stamp.last_ms if stamp.now_ms is None else stamp.now_ms


def content_id(stamp: Stamp) -> str:
    """Give the UUID (version 5, in the namespace of URLs) of session and body."""
    name = f"urn:dcb:snapshot:{stamp.session_id}\n{stamp.body}"
    return str(uuid.uuid5(uuid.NAMESPACE_URL, utf8(name).decode()))


def loose_double(kind: str, content: str) -> str:
    """Give program 0.2.0's key of doubles: no whitespace, no punctuation, lower case."""
    return f"{kind}:{_PUNCTUATION.sub('', content).lower()}"


def near_double(kind: str, content: str) -> str:
    """Give a key of doubles that keeps what matters: code whole, dots inside a text."""
    if kind == "code":
        return f"code:{content}"
    return f"{kind}:{_BLANKS.sub(' ', content).strip(' 。，、；：！？.,;:!?').lower()}"


def merge_by_key(found: Iterable[Preference]) -> list[Preference]:
    """Merge as program 0.2.0: one per key, the later time wins; sorted by key."""
    kept: dict[str, Preference] = {}
    for one in found:
        old = kept.get(one.key)
        if old is None or one.created_at >= old.created_at:
            kept[one.key] = one
    return [kept[key] for key in sorted(kept)]


def merge_by_scope_and_key(found: Iterable[Preference]) -> list[Preference]:
    """Merge by the published rule: one per scope and key, explicit beats inferred, then later."""
    kept: dict[tuple[str, str], Preference] = {}
    for one in found:
        name = (one.scope, one.key)
        old = kept.get(name)
        if old is None or (one.explicit, one.created_at) >= (old.explicit, old.created_at):
            kept[name] = one
    return sorted(kept.values(), key=lambda one: (SCOPES.index(one.scope), one.key))


def loose_title(text: str) -> str:
    """Make a title as program 0.2.0: code blocks to a blank, one line, 48 UTF-16 units."""
    folded = trim(_BLANKS.sub(" ", _without_code(text)))
    if units(folded) <= _TITLE_UNITS:
        return folded
    data = folded.encode("utf-16-le", "surrogatepass")[: _TITLE_UNITS * 2]
    return data.decode("utf-16-le", "surrogatepass") + _ELLIPSIS


def _without_code(text: str) -> str:
    """Replace each closed code block by a blank: three backticks to the next three."""
    parts = []
    start = 0
    opening = text.find("```")
    while opening >= 0:
        closing = text.find("```", opening + 3)
        if closing < 0:
            break
        parts.append(text[start:opening])
        start = closing + 3
        opening = text.find("```", start)
    parts.append(text[start:])
    return " ".join(parts)


def short_title(text: str) -> str:
    """Make a title: prose only, one line, 48 UTF-16 units, never half a character."""
    prose = " ".join(piece.text for piece in strict_pieces(text) if not piece.is_code)
    folded = trim(_BLANKS.sub(" ", prose))
    clipped = clip_units(folded, _TITLE_UNITS)
    return folded if clipped == folded else clipped.rstrip(" ") + _ELLIPSIS
