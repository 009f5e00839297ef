"""The small linear lexers of the snapshot format.

Each works in one pass over its text with ``find``, ``startswith`` and character
sets; none backtracks. Whitespace is JavaScript's, digits are ASCII.

Source: published snapshot format, sections 1 to 5; program 0.2.0, reading rules.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from converters.text import JS_SPACE
from dcb.snapshot.model import SCOPES

if TYPE_CHECKING:
    from dcb.snapshot.model import Scope

__all__ = [
    "BOM",
    "END",
    "MARKERS",
    "HeaderLine",
    "PreferenceLine",
    "Split",
    "attributes",
    "bullet_of",
    "digest",
    "entry_attributes",
    "escape",
    "fence_for",
    "fence_of",
    "header_lines",
    "heading_of",
    "js_lines",
    "percent_decode",
    "percent_encode",
    "plain_lines",
    "preference_of",
    "single_line",
    "split_document",
    "trim",
    "unescape",
    "utf8",
]

BOM: Final = "\ufeff"
MARKERS: Final = (
    "<!-- dcb:layer:verbatim -->",
    "<!-- dcb:layer:summary -->",
    "<!-- dcb:layer:preference -->",
)
END: Final = "<!-- dcb:end -->"

_OPEN: Final = "<!--"
_ESCAPED: Final = "&lt;!--"
_BLANKS: Final = re.compile(f"[{JS_SPACE}]+")
_HORIZONTAL: Final = JS_SPACE.replace("\r", "").replace("\n", "")
_TICKS: Final = re.compile("`+")
_ENCODED: Final = re.compile("(?:%[0-9A-F][0-9A-F])+")
_LITERAL_PERCENT: Final = re.compile("%(?=[0-9A-F][0-9A-F])")
_AT: Final = re.compile(r"at=(-?[0-9]+)")


def trim(text: str) -> str:
    """Strip JavaScript's whitespace from both ends."""
    return text.strip(JS_SPACE)


def plain_lines(text: str) -> list[str]:
    """Split at LF only: a CR belongs to its line."""
    return text.split("\n")


def js_lines(text: str) -> list[str]:
    """Split at LF or CRLF; a CR that no LF follows stays."""
    lines = text.split("\n")
    if "\r" not in text:
        return lines
    last = lines.pop()
    return [line.removesuffix("\r") for line in lines] + [last]


def single_line(text: str) -> str:
    """Give the single-line form: each LF or CRLF becomes a space, then trim; a lone CR stays."""
    return text.replace("\r\n", " ").replace("\n", " ").strip(JS_SPACE)


def escape(text: str) -> str:
    """Write ``<!--`` as ``&lt;!--``; nothing else changes."""
    return text.replace(_OPEN, _ESCAPED)


def unescape(text: str) -> str:
    """Read ``&lt;!--`` as ``<!--``."""
    return text.replace(_ESCAPED, _OPEN)


def utf8(text: str) -> bytes:
    """Encode as UTF-8; half of a surrogate pair becomes U+FFFD, two halves become one character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def digest(text: str) -> str:
    """Give the SHA-256 of the text in lower-case hex."""
    return hashlib.sha256(utf8(text)).hexdigest()


def fence_for(content: str) -> str:
    """Give the fence for a content: backticks, longer than any run inside, at least three."""
    return "`" * max(3, 1 + max(map(len, _TICKS.findall(content)), default=0))


def fence_of(line: str) -> str:
    """Give the backticks that a line starts with (trimmed), three or more, else nothing."""
    text = trim(line)
    length = len(text) - len(text.lstrip("`"))
    return text[:length] if length >= 3 else ""


class Split(NamedTuple):
    """A document cut at its header: texts, and the offset of the body."""

    header: str
    body: str
    start: int


def split_document(text: str) -> Split | None:
    """Cut a document into header and body, ``None`` when there is no closed header.

    The header closes at the first line that is ``---`` and horizontal whitespace; all
    line ends after it are swallowed. Source: program 0.2.0, splitting rule.
    """
    first = next((len(mark) for mark in ("---\n", "---\r\n") if text.startswith(mark)), 0)
    if not first:
        return None
    at = text.find("\n---", first)
    while at >= 0:
        place = at + 4
        while place < len(text) and text[place] in _HORIZONTAL:
            place += 1
        body = _skip_line_ends(text, place)
        if body > place:
            end = at - 1 if at > first and text[at - 1] == "\r" else at
            return Split(text[first:end], text[body:], body)
        at = text.find("\n---", at + 1)
    return None


def _skip_line_ends(text: str, place: int) -> int:
    while True:
        if text.startswith("\n", place):
            place += 1
        elif text.startswith("\r\n", place):
            place += 2
        else:
            return place


class HeaderLine(NamedTuple):
    """A header line: ``number`` counts lines of the document from 1; ``name`` may be empty."""

    number: int
    name: str
    value: str
    raw: str


def header_lines(header: str) -> list[HeaderLine]:
    """Cut a header into lines; a line without a name has an empty ``name``."""
    found = []
    for number, raw in enumerate(js_lines(header), 2):
        colon = raw.find(":")
        if colon > 0:
            found.append(HeaderLine(number, trim(raw[:colon]), trim(raw[colon + 1 :]), raw))
        else:
            found.append(HeaderLine(number, "", trim(raw), raw))
    return found


def entry_attributes(line: str, *, angles: bool = False) -> str | None:
    """Give the attribute text of an entry header line, ``None`` for any other line.

    ``angles``: also with ``>`` in a value, which program 0.2.0 writes and does not read.
    """
    text = trim(line)
    if len(text) < 7 or not (text.startswith(_OPEN) and text.endswith("-->")):
        return None
    inner = text[4:-3].lstrip(JS_SPACE)
    if not inner.startswith("dcb:entry"):
        return None
    rest = inner[9:]
    if (">" in rest and not angles) or not rest or rest[0] not in JS_SPACE:
        return None
    return trim(rest)


def attributes(text: str) -> dict[str, str]:
    """Cut ``name=value`` pieces at whitespace; the last of a name counts."""
    found = {}
    for piece in _BLANKS.split(text):
        name, equals, value = piece.partition("=")
        if equals:
            found[name] = value
    return found


def heading_of(line: str) -> str | None:
    """Give the text of a ``###`` line (exactly three signs), else ``None``."""
    return _after(trim(line), "###")


def bullet_of(line: str) -> str | None:
    """Give the text of a ``-`` line, still escaped, else ``None``."""
    return _after(trim(line), "-")


def _after(text: str, sign: str) -> str | None:
    rest = text[len(sign) :]
    if not text.startswith(sign) or not rest or rest[0] not in JS_SPACE:
        return None
    return rest.lstrip(JS_SPACE) or None


class PreferenceLine(NamedTuple):
    """The parts of a preference line; key and value still as written, ``at`` as digits."""

    scope: Scope
    key: str
    explicit: bool
    value: str
    at: str | None


def preference_of(line: str) -> PreferenceLine | None:
    """Read ``- **[scope] key** (explicit|inferred) - value <!-- at=ms -->`` (with an em dash)."""
    text = _after(trim(line), "-")
    if text is None or not text.startswith("**["):
        return None
    close = text.find("]", 3, 3 + 12)
    scope = text[3:close]
    after = text[close + 1 :]
    token = after.lstrip(JS_SPACE)
    if close < 0 or scope not in SCOPES or token == after:
        return None
    blank = _BLANKS.search(token)
    limit = blank.start() if blank else len(token)
    end = token.find("**", 1, limit)
    while end >= 0:
        tail = _flag_and_dash(token, end + 2)
        if tail is not None:
            explicit, value, at = tail
            return PreferenceLine(cast("Scope", scope), token[:end], explicit, value, at)
        end = token.find("**", end + 1, limit)
    return None


def _flag_and_dash(token: str, start: int) -> tuple[bool, str, str | None] | None:
    """Read the flag, the dash, the value and the time, from ``start`` on."""
    if start < len(token) and token[start] not in JS_SPACE and token[start] not in "(\u2014":
        return None
    rest = token[start:].lstrip(JS_SPACE)
    explicit = True
    for flag in ("(explicit)", "(inferred)"):
        if rest.startswith(flag):
            explicit = flag == "(explicit)"
            rest = rest[len(flag) :].lstrip(JS_SPACE)
            break
    if not rest.startswith("\u2014"):
        return None
    value = rest[1:]
    at = None
    if value.endswith("-->"):
        opening = value.rfind(_OPEN)
        found = _AT.fullmatch(trim(value[opening + 4 : -3])) if opening >= 0 else None
        if found:
            at, value = found[1], value[:opening]
    return explicit, trim(value), at


def percent_encode(text: str, unsafe: str) -> str:
    """Write each character of ``unsafe`` as ``%XX`` per UTF-8 byte.

    A ``%`` is encoded only where two upper-case hex digits follow, so that
    :func:`percent_decode` gives the text back and ordinary text stays readable.
    """
    text = _LITERAL_PERCENT.sub("%25", text)
    wanted = set(unsafe)
    if wanted.isdisjoint(text):
        return text
    return "".join(
        "".join(f"%{byte:02X}" for byte in char.encode()) if char in wanted else char
        for char in text
    )


def percent_decode(text: str) -> str:
    """Read ``%XX`` runs that are UTF-8; anything else stays as it is."""
    return _ENCODED.sub(_decoded, text) if "%" in text else text


def _decoded(match: re.Match[str]) -> str:
    try:
        return bytes.fromhex(match[0].replace("%", "")).decode()
    except UnicodeDecodeError:
        return match[0]
