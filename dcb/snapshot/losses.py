"""What a document says and no snapshot holds: gone as soon as the snapshot is written again.

Reading stays as lenient as program 0.2.0, which skips what it does not know. Who keeps,
merges or briefs what was read says first what was skipped, in the words of the check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dcb.snapshot.document import body_of
from dcb.snapshot.lexing import BOM, MARKERS, split_document, trim
from dcb.snapshot.problem import Problem
from dcb.snapshot.profile import profile_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dcb.snapshot.document import Read

__all__ = ["damage", "losses"]

# Nothing is lost by these: the checksum says more of the first three, a digest is made anew.
_NO_LOSS: Final = ("bom", "crlf", "header-digest", "header-digest-missing")
# A value that is none gives the default of its field and a report (program 0.2.0, weak
# spot 11 of its description), so it is no reason to refuse a document.
_BY_DEFAULT: Final = ("header-value", "entry-value")


def losses(text: str, found: Read) -> list[Problem]:
    """Give every problem of a document that means that something of it is not in ``found``."""
    lost = [problem for problem in found.problems if problem.code not in _NO_LOSS]
    return sorted([*lost, *_heads(text, found)], key=lambda problem: problem.line)


def damage(problems: Iterable[Problem]) -> list[Problem]:
    """Give those for which a document is not to be kept: its structure is broken."""
    return [p for p in problems if p.severity == "error" and p.code not in _BY_DEFAULT]


def _heads(text: str, found: Read) -> Iterator[Problem]:
    """Note lines above the layers that the header does not give: readers pass them over."""
    split = split_document(text.removeprefix(BOM))
    if split is None:
        return
    bare = replace(found.snapshot, verbatim=(), summary=(), preferences=())
    known = set(map(trim, body_of(bare, profile_for(found.dialect)).split("\n")))
    first = text.removeprefix(BOM).count("\n", 0, split.start) + 1
    for number, line in enumerate(split.body.split("\n"), first):
        words = trim(line)
        if words == MARKERS[0]:
            return
        if words not in known:
            what = "title and description are taken from the header, this line from nowhere"
            yield Problem("warning", "stray-text", number, what)
