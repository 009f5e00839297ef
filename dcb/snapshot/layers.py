"""The body of a snapshot document: its three layers, cut and read.

Two ways to cut. :func:`cut_by_search` is program 0.2.0: the first occurrence of
each marker, wherever it stands. :func:`cut_by_line` takes a marker only as a whole
line, outside a fence, in order. Both give lines with the number of the first.

Source: published snapshot format, sections 3 to 5; program 0.2.0, reading rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from converters.errors import BadInput
from dcb.snapshot.lexing import (
    END,
    MARKERS,
    attributes,
    bullet_of,
    entry_attributes,
    fence_of,
    heading_of,
    js_lines,
    preference_of,
    trim,
    unescape,
)
from dcb.snapshot.model import Number, Preference, SummarySection, VerbatimEntry
from dcb.snapshot.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "EMPTY",
    "HEADINGS",
    "Cut",
    "Layer",
    "LayersError",
    "Rules",
    "cut_by_line",
    "cut_by_search",
    "read_entries",
    "read_preferences",
    "read_sections",
]

HEADINGS = ("## 1. 关键消息原文", "## 2. 结构化摘要", "## 3. 用户偏好与设定")
EMPTY = (
    "_（本快照没有需要逐字保留的内容。）_",
    "_（无摘要内容。）_",
    "_（未识别到显式偏好。）_",
)


class LayersError(BadInput):
    """The layers are missing, repeated or out of order; ``position`` is the line."""

    code = "layers"


class Layer(NamedTuple):
    """The lines of one layer; ``first`` is the number of the first line in the document."""

    first: int
    lines: list[str]


class Cut(NamedTuple):
    """The three layers."""

    verbatim: Layer
    summary: Layer
    preference: Layer


class Rules(NamedTuple):
    """How the body of one dialect is read under one profile.

    ``takes_fence`` says for an entry's kind whether a fence right after its header
    holds the content; ``decode`` undoes what the writer encoded in attributes, keys
    and tags; ``heading`` undoes the escape of a heading; ``number`` reads a time and
    gives ``None`` for a bad one, which becomes ``bad``; ``signed`` times of preferences
    may be negative; ``angles``: entry headers may hold ``>``.
    """

    cut: Callable[[str, int, Rules, list[Problem]], Cut]
    takes_fence: Callable[[str], bool]
    decode: Callable[[str], str]
    heading: Callable[[str], str]
    number: Callable[[str], Number | None]
    bad: Number
    signed: bool
    angles: bool


def cut_by_search(body: str, first: int, rules: Rules, notes: list[Problem]) -> Cut:
    """Cut at the first occurrence of each marker; out of order a layer is empty."""
    del rules, notes
    places = [body.find(marker) for marker in MARKERS]
    if min(places) < 0:
        raise LayersError("a layer marker is missing", position="body")
    end = body.find(END, places[2])
    ends = [places[1], places[2], end if end >= 0 else len(body)]
    layers = []
    for marker, start, stop in zip(MARKERS, places, ends, strict=True):
        begin = start + len(marker)
        text = body[begin:stop] if stop > begin else ""
        layers.append(Layer(first + body.count("\n", 0, begin), js_lines(text)))
    return Cut(*layers)


def cut_by_line(body: str, first: int, rules: Rules, notes: list[Problem]) -> Cut:
    """Cut at marker lines outside fences.

    :class:`LayersError` unless each marker is there once, in order.
    """
    lines = body.split("\n")
    marks: list[int] = []
    end = None
    fences = True
    index = 0
    while index < len(lines):
        text = trim(lines[index])
        if text == END and len(marks) == 3:
            end = index
            break
        if text in MARKERS:
            wanted = MARKERS[len(marks)] if len(marks) < 3 else END
            if text != wanted:
                raise LayersError(
                    f"{text} stands where {wanted} must come: layers out of order or repeated",
                    position=first + index,
                )
            marks.append(index)
        elif fences and len(marks) == 1 and _opens_fence(lines, index, rules):
            closing = _closing(lines, index + 2, len(lines), fence_of(lines[index + 1]))
            fences = closing is not None  # after an open fence nothing can be told apart
            index = index if closing is None else closing
        index += 1
    if len(marks) < 3:
        raise LayersError(
            f"{MARKERS[len(marks)]} is missing: no line outside a code fence is this marker",
            position=first + (marks[-1] if marks else 0),
        )
    if end is None:
        notes.append(Problem("error", "end-missing", first + len(lines) - 1, f"{END} is missing"))
        end = len(lines)
    elif any(trim(line) for line in lines[end + 1 :]):
        text = f"text after {END} is no part of the snapshot"
        notes.append(Problem("error", "text-after-end", first + end + 1, text))
    stops = [marks[1], marks[2], end]
    return Cut(
        *(
            Layer(first + mark + 1, lines[mark + 1 : stop])
            for mark, stop in zip(marks, stops, strict=True)
        )
    )


def _opens_fence(lines: list[str], index: int, rules: Rules) -> bool:
    """Say whether the line is an entry header and the next one opens the fence of its content."""
    text = (
        entry_attributes(lines[index], angles=rules.angles) if "dcb:entry" in lines[index] else None
    )
    if text is None or index + 1 >= len(lines) or not fence_of(lines[index + 1]):
        return False
    return rules.takes_fence(_kind(attributes(text), rules))


def _closing(lines: list[str], start: int, stop: int, fence: str) -> int | None:
    for index in range(start, stop):
        line = lines[index]
        if fence in line and trim(line) == fence:
            return index
    return None


def _kind(found: dict[str, str], rules: Rules) -> str:
    return rules.decode(found.get("kind", "decision"))


def read_entries(layer: Layer, rules: Rules, notes: list[Problem]) -> list[VerbatimEntry]:
    """Read the verbatim layer. Lines outside entries are skipped and noted."""
    lines = layer.lines
    entries: list[VerbatimEntry] = []
    index = 0
    while index < len(lines):
        text = entry_attributes(lines[index], angles=rules.angles)
        if text is None:
            _stray(lines[index], layer.first + index, notes, HEADINGS[0], EMPTY[0])
            index += 1
            continue
        place = layer.first + index
        found = attributes(text)
        content, index = _content(layer, index + 1, _kind(found, rules), rules, notes)
        entries.append(
            _entry(found, content, len(entries) + 1, place=place, rules=rules, notes=notes)
        )
    return entries


def _content(
    layer: Layer, start: int, kind: str, rules: Rules, notes: list[Problem]
) -> tuple[str, int]:
    """Give an entry's content and the index of the next entry header (or the end)."""
    lines = layer.lines
    fence = fence_of(lines[start]) if start < len(lines) else ""
    if not fence or not rules.takes_fence(kind):
        stop = _next_entry(lines, start, rules)
        for index in range(start, stop):
            _lost_header(lines[index], layer.first + index, notes)
        return unescape(trim("\n".join(lines[start:stop]))), stop
    closing = _closing(lines, start + 1, len(lines), fence)
    if closing is None:
        notes.append(
            Problem("error", "fence-open", layer.first + start, f"no line closes the fence {fence}")
        )
        return "\n".join(lines[start + 1 :]), len(lines)
    stop = _next_entry(lines, closing + 1, rules)
    for index in range(closing + 1, stop):
        _stray(lines[index], layer.first + index, notes)
    return "\n".join(lines[start + 1 : closing]), stop


def _next_entry(lines: list[str], start: int, rules: Rules) -> int:
    for index in range(start, len(lines)):
        line = lines[index]
        if "dcb:entry" in line and entry_attributes(line, angles=rules.angles) is not None:
            return index
    return len(lines)


def _entry(
    found: dict[str, str],
    content: str,
    position: int,
    *,
    place: int,
    rules: Rules,
    notes: list[Problem],
) -> VerbatimEntry:
    value = {name: rules.decode(text) for name, text in found.items()}
    at: Number | None = rules.number(found["at"]) if found.get("at") else 0
    if at is None:
        notes.append(Problem("error", "entry-value", place, "at: not a time in milliseconds"))
        at = rules.bad
    return VerbatimEntry(
        id=value.get("id", f"v-{position}"),
        source_message_id=value.get("src", ""),
        source_role=value.get("role", "user"),
        kind=value.get("kind", "decision"),
        language=value.get("lang") or None,
        content=content,
        created_at=at,
    )


def _stray(line: str, place: int, notes: list[Problem], *known: str) -> None:
    text = trim(line)
    if _lost_header(text, place, notes):
        return
    if text and text not in known:
        notes.append(Problem("warning", "stray-text", place, "text that belongs to nothing"))


def _lost_header(line: str, place: int, notes: list[Problem]) -> bool:
    """Note a line that was meant as an entry header and is none, as with ``>`` in a value."""
    lost = "<!-- dcb:entry" in line and trim(line).startswith("<!-- dcb:entry")
    if lost:
        what = "an entry header that no reader takes for one: its entry is lost in the text"
        notes.append(Problem("warning", "content-loss", place, what))
    return lost


def read_sections(layer: Layer, rules: Rules, notes: list[Problem]) -> list[SummarySection]:
    """Read the summary layer; sections without bullets are dropped and noted."""
    sections: list[SummarySection] = []
    heading: str | None = None
    place = layer.first
    bullets: list[str] = []

    def close() -> None:
        if bullets and heading is not None:
            sections.append(SummarySection(heading=heading, bullets=tuple(bullets)))
        elif heading is not None:
            notes.append(Problem("warning", "section-empty", place, "section without bullets"))

    for number, line in enumerate(layer.lines, layer.first):
        title = heading_of(line)
        bullet = bullet_of(line) if title is None and heading is not None else None
        if title is not None:
            close()
            heading, place, bullets = rules.heading(title), number, []
        elif bullet is not None:
            bullets.append(trim(unescape(bullet)))
        else:
            _stray(line, number, notes, HEADINGS[1], EMPTY[1])
    close()
    return sections


def read_preferences(layer: Layer, rules: Rules, notes: list[Problem]) -> list[Preference]:
    """Read the preference layer; lines that are no preference are skipped and noted."""
    found = []
    for number, line in enumerate(layer.lines, layer.first):
        part = preference_of(line)
        if part is None:
            _stray(line, number, notes, HEADINGS[2], EMPTY[2])
            continue
        value, at = part.value, part.at
        if at is not None and at.startswith("-") and not rules.signed:
            value, at = f"{value} <!-- at={at} -->", None
        time: Number | None = rules.number(at) if at else 0
        if time is None:
            notes.append(Problem("error", "entry-value", number, "at: not a time in milliseconds"))
            time = rules.bad
        found.append(
            Preference(
                scope=part.scope,
                key=rules.decode(part.key),
                value=unescape(value),
                explicit=part.explicit,
                created_at=time,
            )
        )
    return found
