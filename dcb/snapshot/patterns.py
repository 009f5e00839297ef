r"""The small pattern language of the lexicon.

``{a|b|c}``   one of these (may be empty, may be nested)
``{_}``       optional whitespace, ``{__}`` at least one
``{..12}``    up to 12 characters of the line
``{#}``       digits, ``{#.#}`` digits with optional decimals
``{^}``       an ASCII word boundary
``{+x}``      ``x`` once or more

``\`` takes the next character as it is; everything else stands for itself. ASCII case is
ignored. The expressions that come out do work bounded by the length of the text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from converters.errors import BadInput
from converters.text import JS_SPACE

__all__ = ["Trigger", "compile_any", "expression"]

_SPACE: Final = f"[{JS_SPACE}]"
_MARKS: Final = {
    "_": f"{_SPACE}*+",
    "__": f"{_SPACE}++",
    "#": "[0-9]++",
    "#.#": r"[0-9]++(?:\.[0-9]++)?",
    "^": r"\b",
}
_GAP: Final = re.compile(r"\.\.([0-9]{1,3})")
_ANY: Final = "[^\n\r\u2028\u2029]"
_DEPTH: Final = 8
# A word is whole when no letter touches it; Chinese around it does not matter.
_BEFORE: Final = r"(?:(?<![A-Za-z0-9_])|(?![A-Za-z]))"
_AFTER: Final = r"(?:(?<![A-Za-z])|(?![A-Za-z0-9_]))"
_DIGITS: Final = frozenset("0123456789")


class Trigger(NamedTuple):
    """Compiled patterns; ``anchors`` are texts of which a match has at least one, lower-case."""

    anchors: tuple[str, ...]
    pattern: re.Pattern[str]

    def within(self, lowered: str) -> Trigger | None:
        """Give the trigger for parts of a text (in lower case), ``None`` when none can match.

        It keeps the anchors that the text has, so that its parts are filtered faster.
        """
        anchors = tuple([anchor for anchor in self.anchors if anchor in lowered])
        return Trigger(anchors, self.pattern) if anchors else None

    def found(self, text: str, lowered: str) -> bool:
        """Say whether the text holds a match."""
        for anchor in self.anchors:
            if anchor in lowered:
                return self.pattern.search(text) is not None
        return False


class _Part(NamedTuple):
    """A piece of a pattern; ``anchors`` is empty when it says nothing about the text."""

    expression: str
    anchors: frozenset[str] = frozenset()


def compile_any(patterns: list[str], *, words: bool) -> Trigger:
    """Compile alternatives; ``words``: ASCII words match whole only.

    :class:`BadInput` for a pattern of another form, or one that would match anything.
    """
    parts = [_sequence(pattern, 0) for pattern in patterns]
    for pattern, part in zip(patterns, parts, strict=True):
        if not part.anchors:
            raise BadInput(f"pattern {pattern[:40]!r} has no word that it must hold")
    joined = "|".join(part.expression for part in parts)
    joined = f"{_BEFORE}(?:{joined}){_AFTER}" if words else joined
    anchors = sorted(frozenset[str]().union(*(part.anchors for part in parts)))
    return Trigger(tuple(anchors), re.compile(joined, re.ASCII | re.IGNORECASE))


def expression(pattern: str) -> str:
    """Give the regular expression of one pattern."""
    return _sequence(pattern, 0).expression


def _sequence(pattern: str, depth: int) -> _Part:
    """Compile one after the other; the best anchor of a part is that of the whole."""
    if depth > _DEPTH:
        raise BadInput(f"pattern {pattern[:40]!r} is nested too deep")
    parts = []
    literal = ""
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if char == "{":
            end = _close(pattern, place)
            parts += [_literal(literal), _mark(pattern[place + 1 : end], depth)]
            literal, place = "", end + 1
            continue
        if char == "\\" and place + 1 < len(pattern):
            place += 1
            char = pattern[place]
        elif char == "}":
            raise BadInput(f"pattern {pattern[:40]!r} has a brace without its other half")
        literal += char
        place += 1
    parts.append(_literal(literal))
    known = [part.anchors for part in parts if part.anchors]
    best = max(known, key=_strength, default=frozenset[str]())
    return _Part("".join(part.expression for part in parts), best)


def _strength(anchors: frozenset[str]) -> tuple[int, int]:
    return min(map(len, anchors)), -len(anchors)


def _literal(text: str) -> _Part:
    return _Part(re.escape(text), frozenset({text.lower()} if text.strip(JS_SPACE) else ()))


def _close(pattern: str, start: int) -> int:
    depth = 0
    place = start
    while place < len(pattern):
        if pattern[place] == "\\":
            place += 1
        elif pattern[place] == "{":
            depth += 1
        elif pattern[place] == "}":
            depth -= 1
            if depth == 0:
                return place
        place += 1
    raise BadInput(f"pattern {pattern[:40]!r} has a brace without its other half")


def _mark(inner: str, depth: int) -> _Part:
    if inner in _MARKS:
        return _Part(_MARKS[inner], _DIGITS if inner.startswith("#") else frozenset())
    gap = _GAP.fullmatch(inner)
    if gap:
        return _Part(f"{_ANY}{{0,{min(int(gap[1]), 200)}}}")
    if inner.startswith("+") and len(inner) > 1:
        part = _sequence(inner[1:], depth + 1)
        return _Part(f"(?:{part.expression})++", part.anchors)
    parts = [_sequence(choice, depth + 1) for choice in _choices(inner)]
    anchors = frozenset[str]()
    if all(part.anchors for part in parts):
        anchors = anchors.union(*(part.anchors for part in parts))
    return _Part(f"(?:{'|'.join(part.expression for part in parts)})", anchors)


def _choices(inner: str) -> list[str]:
    found = [""]
    place = depth = 0
    while place < len(inner):
        char = inner[place]
        if char == "|" and depth == 0:
            found.append("")
        else:
            depth += (char == "{") - (char == "}")
            found[-1] += char
            if char == "\\" and place + 1 < len(inner):
                place += 1
                found[-1] += inner[place]
        place += 1
    return found
