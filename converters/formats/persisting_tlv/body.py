"""What the capture puts into a body: text, tool fences, image placeholders and footers.

:func:`split` and :func:`join` are inverse for what :func:`join` writes, as far as the format
can hold it: inner runs of backticks are not lengthened, so that a tool result that contains a
bare fence line is ambiguous (specification, section 4.2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from converters.formats.persisting_tlv import placeholders
from converters.formats.persisting_tlv.frame import SPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "Call",
    "Footers",
    "Part",
    "Result",
    "Said",
    "Split",
    "add_footers",
    "compact_json",
    "cut_footers",
    "footers_of",
    "join",
    "paragraphs",
    "split",
]

_GAP: Final = "\n\n"
_OPEN: Final = re.compile(r"^```(tool|tool_result):([^\n]*+)(?:\n|\Z)", re.MULTILINE)
_CLOSE: Final = re.compile(r"^```[ \t\r]*+$", re.MULTILINE)
_FOOTER: Final = "<!-- persisting:subagent-"


@dataclass(frozen=True, slots=True)
class Said:
    """Text; ``image`` says what it stands for when it is a placeholder."""

    text: str
    image: dict[str, str] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: ``arguments`` is compact JSON text, or raw text that is no JSON."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Result:
    """A tool result by the id that its fence names."""

    id: str
    text: str


Part: TypeAlias = Said | Call | Result


@dataclass(frozen=True, slots=True)
class Split:
    """The parts of a body; ``ambiguous`` counts fences whose end is not certain."""

    parts: list[Part]
    ambiguous: int = 0
    raw_arguments: int = 0


@dataclass(frozen=True, slots=True)
class Footers:
    """The file names that footers at the end of a body give."""

    own: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()


def split(text: str, fence: str) -> Split:
    """Cut a visible text into parts; ``fence`` is ``tool``, ``tool_result`` or empty."""
    if not fence or "```" not in text:
        return Split(list(_said(text)))
    marks = [mark for mark in _OPEN.finditer(text) if mark[1] == fence]
    if not marks:
        return Split(list(_said(text)))
    parts: list[Part] = []
    ambiguous = raw = 0
    position = 0
    for index, mark in enumerate(marks):
        if mark.start() < position:
            continue
        limit = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        found = _call(text, mark, limit) if fence == "tool" else None
        if found is None:
            closes = list(_CLOSE.finditer(text, mark.end(), limit))
            if not closes:
                ambiguous += 1
                continue  # never closed: it stays text
            ambiguous += len(closes) > 1
            close = closes[-1]
            content = text[mark.end() : max(close.start() - 1, mark.end())]
            part: Part = Result(mark[2], content)
            if fence == "tool":
                raw += 1
                part = Call(mark[2].strip() or "tool", content)
            found = part, close.end()
        before = text[position : mark.start()]
        parts += _said(_trim(before, start=position > 0, end=True))
        parts.append(found[0])
        position = found[1]
    parts += _said(_trim(text[position:], start=position > 0, end=False))
    return Split(parts, ambiguous, raw)


def _call(text: str, mark: re.Match[str], limit: int) -> tuple[Part, int] | None:
    """Read a call whose arguments are JSON: they hold no bare fence line, so the first ends it."""
    close = _CLOSE.search(text, mark.end(), limit)
    if close is None:
        return None
    arguments = compact_json(text[mark.end() : close.start()])
    if arguments is None:
        return None
    return Call(mark[2].strip() or "tool", arguments), close.end()


def compact_json(text: str) -> str | None:
    """Give JSON text without white space between its tokens, ``None`` if it is no JSON."""
    try:
        return msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _trim(text: str, *, start: bool, end: bool) -> str:
    """Take off the blank line that separates parts."""
    if start:
        text = text[2:] if text.startswith(_GAP) else text.removeprefix("\n")
    if end:
        text = text[:-2] if text.endswith(_GAP) else text.removesuffix("\n")
    return text


def _said(text: str) -> Iterator[Said]:
    """Give a text, with placeholders that are paragraphs of their own as parts of their own."""
    if "[image" not in text:
        if text:
            yield Said(text)
        return
    plain: list[str] = []
    for paragraph in text.split(_GAP):
        image = placeholders.find(paragraph)
        if image is None:
            plain.append(paragraph)
            continue
        if before := _GAP.join(plain):
            yield Said(before)
        plain.clear()
        yield Said(paragraph, image)
    if after := _GAP.join(plain):
        yield Said(after)


def paragraphs(text: str) -> list[Said]:
    """Give the parts of a text without tool fences."""
    return list(_said(text))


def join(parts: Iterable[Part]) -> str:
    """Write parts, separated by a blank line."""
    return _GAP.join(map(_written, parts))


def _written(part: Part) -> str:
    if isinstance(part, Said):
        return part.text
    if isinstance(part, Result):
        return f"```tool_result:{part.id}\n{part.text}\n```"
    try:
        arguments = msgspec.json.format(part.arguments, indent=2) if part.arguments else "{}"
    except (msgspec.DecodeError, RecursionError, ValueError):
        arguments = part.arguments
    return f"```tool:{part.name or 'tool'}\n{arguments}\n```"


def cut_footers(text: str) -> tuple[str, Footers]:
    """Take the footer lines off the end of a body; those inside stay text."""
    if _FOOTER not in text:
        return text, Footers()
    lines: list[tuple[str, list[str]]] = []
    end = len(text)
    while True:
        last = end
        while last and text[last - 1] in "\r\n":
            last -= 1
        start = text.rfind("\n", 0, last) + 1
        line = text[start:last].strip(SPACE)
        if not (line.startswith(_FOOTER) and line.endswith("-->")):
            break
        name, _, files = line[len(_FOOTER) : -3].strip().partition(" ")
        lines.append((name, files.split()))
        end = start
    if not lines:
        return text, Footers()
    lines.reverse()
    own = tuple(file for name, files in lines if name == "self" for file in files)
    refs = tuple(file for name, files in lines if name != "self" for file in files)
    visible = text[:end].removesuffix("\n").removesuffix("\r")
    return visible, Footers(own, refs)


def footers_of(fields: dict[str, Any]) -> Footers:
    """Give the footers that a header asks for."""
    own = fields.get("subagent_trajectory")
    refs = fields.get("subagent_trajectories")
    return Footers(
        (own,) if isinstance(own, str) and own else (),
        tuple(name for name in refs if isinstance(name, str)) if isinstance(refs, list) else (),
    )


def add_footers(text: str, footers: Footers) -> str:
    """Append footers to a body as the capture does: ``self`` first, one final line break."""
    lines = []
    if footers.own:
        lines.append(f"{_FOOTER}self {' '.join(footers.own)} -->")
    if footers.refs:
        lines.append(f"{_FOOTER}refs {' '.join(footers.refs)} -->")
    return "\n".join([text, *lines, ""]) if lines else text
