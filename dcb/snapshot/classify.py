"""From messages to candidates of the three layers.

A message is cut into code and prose, prose into segments, and each segment goes to the
first that applies: noise (dropped), a shell line (verbatim code), a preference, the
verbatim kind with the highest weight, else the summary. How messages are cut and what
counts as a shell line differs between the profiles and comes as a :class:`Cutting`.

Source: program 0.2.0, classifier; published snapshot architecture, section 2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from converters.text import JS_SPACE
from dcb.snapshot.lexing import trim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dcb.snapshot.lexicon import Lexicon, PreferenceRule, VerbatimRule
    from dcb.snapshot.messages import Message
    from dcb.snapshot.model import Scope

__all__ = [
    "Cutting",
    "Piece",
    "Segment",
    "classify",
    "is_prompt_line",
    "is_shell_line",
    "loose_pieces",
    "loose_segments",
    "sentences",
    "strict_pieces",
]


class Piece(NamedTuple):
    """A part of a message: prose, or code with its language (may be empty)."""

    is_code: bool
    text: str
    language: str = ""


class Segment(NamedTuple):
    """A candidate: what it is for, its text, and the message that it comes from."""

    layer: Literal["verbatim", "preference", "summary"]
    text: str
    message: Message
    kind: str | None = None
    language: str | None = None
    key: str | None = None
    scope: Scope | None = None


class Cutting(NamedTuple):
    """How a profile cuts messages: into pieces, prose into segments; and its shell lines."""

    pieces: Callable[[str], list[Piece]]
    segments: Callable[[str], list[str]]
    is_shell: Callable[[str], bool]


def classify(message: Message, lexicon: Lexicon, cutting: Cutting) -> list[Segment]:
    """Give the candidates of one message, in order."""
    if not trim(message.content):
        return []
    lowered = message.content.lower()
    preferences = [
        rule._replace(trigger=trigger)
        for rule in lexicon.preferences
        if (trigger := rule.trigger.within(lowered))
    ]
    verbatim = [
        rule._replace(trigger=trigger)
        for rule in sorted(lexicon.verbatim, key=lambda rule: -rule.weight)
        if (trigger := rule.trigger.within(lowered))
    ]
    found = []
    for piece in cutting.pieces(message.content):
        if piece.is_code and not message.aside:
            found.append(Segment("verbatim", piece.text, message, "code", piece.language or None))
        elif not piece.is_code:
            for text in cutting.segments(piece.text):
                segment = _segment(text, message, lexicon, cutting, (preferences, verbatim))
                if segment is not None:
                    found.append(segment)
    return found


def _segment(
    text: str,
    message: Message,
    lexicon: Lexicon,
    cutting: Cutting,
    rules: tuple[list[PreferenceRule], list[VerbatimRule]],
) -> Segment | None:
    if len(text) < 64 and lexicon.noise.fullmatch(text):
        return None
    if message.aside:
        return Segment("summary", text, message)
    if cutting.is_shell(text):
        return Segment("verbatim", text, message, "code", "bash")
    preferences, verbatim = rules
    lowered = text.lower() if preferences or verbatim else ""
    for preference in preferences:
        if preference.trigger.found(text, lowered):
            return Segment("preference", text, message, key=preference.key, scope=preference.scope)
    for rule in verbatim:
        if rule.trigger.found(text, lowered):
            return Segment("verbatim", text, message, rule.kind)
    return Segment("summary", text, message)


# Program 0.2.0

_LOOSE_FENCE: Final = re.compile(r"```([A-Za-z0-9_+#.-]*+)\r?\n")
_LOOSE_SEGMENT: Final = re.compile("[^\n。！？；!?;]+[。！？；!?;]?")


def loose_pieces(text: str) -> list[Piece]:
    """Cut as program 0.2.0: three backticks anywhere; all code first, then the rest as one."""
    code: list[Piece] = []
    prose: list[str] = []
    start = 0
    place = text.find("```")
    while place >= 0:
        opening = _LOOSE_FENCE.match(text, place)
        if opening is None:
            place = text.find("```", place + 1)
            continue
        end = text.find("```", opening.end())
        if end < 0:
            break
        body = text[opening.end() : end].rstrip(JS_SPACE)
        if body:
            code.append(Piece(is_code=True, text=body, language=opening[1]))
        prose.append(text[start:place])
        start = end + 3
        place = text.find("```", start)
    prose.append(text[start:])
    return [*code, Piece(is_code=False, text="\n".join(prose))]


def loose_segments(text: str) -> list[str]:
    """Cut prose as program 0.2.0: at line ends and each sentence mark but the full stop."""
    return [part for part in map(trim, _LOOSE_SEGMENT.findall(text)) if part]


def is_prompt_line(text: str) -> bool:
    """Say whether program 0.2.0 takes a segment for a shell line: ``$``, ``>`` or ``#`` first."""
    return len(text) > 1 and text[0] in "$>#" and text[1] in JS_SPACE


# Published

_FENCE: Final = re.compile(r" {0,12}(`{3,}+|~{3,}+)([^\n]*)")
_STOP: Final = re.compile(
    r"[。！？；]++[”’」』）]*+|(?<![.!?;])[.!?;]++[\"')\]]*+(?=[ \t\u3000]|\Z)"
)
_ABBREVIATION: Final = re.compile(r"(?:^|[\s(])(?:[A-Za-z]|e\.g|i\.e|etc|vs|cf|approx|no|[0-9]+)\Z")
_MARKUP: Final = re.compile(r"[|\-=_*#>~`:+.\s\u2500-\u257f]+")


def strict_pieces(text: str) -> list[Piece]:
    """Cut at fences as CommonMark has them: whole lines, tildes too, closed by as many.

    Indented ones count, they stand in lists. Pieces keep their order. A fence that is
    never closed is prose.
    """
    if "```" not in text and "~~~" not in text:
        return [Piece(is_code=False, text=text)]
    lines = text.replace("\r\n", "\n").split("\n")
    closings = _closing_fences(lines)
    found: list[Piece] = []
    prose: list[str] = []
    index = 0
    while index < len(lines):
        opening = _FENCE.fullmatch(lines[index])
        closing = _closed_at(opening, index, closings) if opening else None
        if opening is None or closing is None:
            prose.append(lines[index])
            index += 1
            continue
        _add_prose(prose, found)
        body = "\n".join(lines[index + 1 : closing]).rstrip(JS_SPACE)
        if body:
            info = trim(opening[2])
            language = info.split()[0] if info else ""
            found.append(Piece(is_code=True, text=body, language=language))
        index = closing + 1
    _add_prose(prose, found)
    return found


def _add_prose(prose: list[str], found: list[Piece]) -> None:
    if prose:
        found.append(Piece(is_code=False, text="\n".join(prose)))
        prose.clear()


def _closing_fences(lines: list[str]) -> dict[str, list[tuple[int, int]]]:
    """List lines that can close a fence, by sign, last first: ``(index, length)``."""
    found: dict[str, list[tuple[int, int]]] = {"`": [], "~": []}
    for index in range(len(lines) - 1, -1, -1):
        match = _FENCE.fullmatch(lines[index])
        if match and not trim(match[2]):
            found[match[1][0]].append((index, len(match[1])))
    return found


def _closed_at(
    opening: re.Match[str], index: int, closings: dict[str, list[tuple[int, int]]]
) -> int | None:
    fence = opening[1]
    if fence[0] == "`" and "`" in opening[2]:
        return None
    candidates = closings[fence[0]]
    while candidates and candidates[-1][0] <= index:
        candidates.pop()
    for place, length in reversed(candidates[-_LOOK_AHEAD:]):  # nearest first
        if length >= len(fence):
            return place
    return None


_LOOK_AHEAD: Final = 200


def sentences(text: str) -> list[str]:
    """Cut prose at line ends and sentence ends; marks inside a word (a URL) do not cut.

    Lines of markup only (rules, table borders) give nothing.
    """
    return [part for line in text.split("\n") for part in _line_sentences(trim(line))]


def _line_sentences(line: str) -> Iterator[str]:
    if not line or _MARKUP.fullmatch(line):
        return
    start = 0
    for stop in _STOP.finditer(line):
        if stop[0] == "." and _ABBREVIATION.search(
            line, max(start, stop.start() - 8), stop.start()
        ):
            continue
        part = trim(line[start : stop.end()])
        if part:
            yield part
        start = stop.end()
    rest = trim(line[start:])
    if rest:
        yield rest


def is_shell_line(text: str) -> bool:
    """Say whether a segment is a shell line: ``$`` and a command, not a sum of money."""
    return text.startswith("$ ") and not text[2:3].isdigit()
