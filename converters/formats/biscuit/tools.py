"""The 20 tools of qqqide: what the sieve shows of a call, and how a summary is recognised.

Source: the tool table of the published client (V13 to V16) and the older Chinese units.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.text import JS_SPACE, clip_units, units

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ABSOLUTE",
    "GENTLE",
    "KEPT_BEFORE_V13",
    "KNOWN",
    "PATH_TOOLS",
    "READING",
    "WRITING",
    "cut",
    "display",
    "produced_sha",
    "read_sha",
    "summary",
    "summary_at_end",
    "was_cut",
]

WRITING: Final = ("edit_file", "write_file", "create_file", "delete_file", "revert_file")
"""The tools that change a file; the edit-only step keeps their lines."""

READING: Final = frozenset(
    {
        "read_file",
        "search_text",
        "search_content",
        "find_files",
        "list_files",
        "get_diagnostics",
        "fetch_webpage",
        "search_web",
        "timeline_versions",
        "diff_versions",
    }
)
GENTLE: Final = READING | frozenset(WRITING)
"""Tools whose output can be had again: a summary, never a box."""

ABSOLUTE: Final = frozenset(
    {"run_command", "generate_image", "remove_background", "analyze_image", "get_vision_context"}
)
"""Tools whose output cannot be had again: a summary and a box."""

KNOWN: Final = GENTLE | ABSOLUTE
KEPT_BEFORE_V13: Final = ABSOLUTE | {"fetch_webpage", "search_web"}
PATH_TOOLS: Final = frozenset(
    {
        *WRITING,
        "read_file",
        "list_files",
        "get_diagnostics",
        "timeline_versions",
        "diff_versions",
    }
)
_SHA_TOOLS: Final = frozenset({"read_file", "search_text", "search_content", "get_diagnostics"})
_NULL_TOOLS: Final = frozenset({"read_file", "get_diagnostics"})
_CUT_AT: Final = {
    "search_text": 110,
    "search_web": 110,
    "find_files": 80,
    "fetch_webpage": 100,
    "generate_image": 80,
}
_COMMAND_CAP, _COMMAND_HEAD, _COMMAND_TAIL = 80, 49, 30
_SHA_MARK: Final = "[sha256: "
_HEX: Final = re.compile(r"[0-9a-f]{12}")


def cut(text: str, limit: int) -> str:
    """Cut to ``limit`` UTF-16 units, the last of them an ellipsis."""
    return text if units(text) <= limit else clip_units(text, limit - 1) + "…"


def _last_units(text: str, count: int) -> str:
    """Give the last ``count`` UTF-16 units; half of a pair is left out."""
    data = text[-count:].encode("utf-16-le", "surrogatepass")[-count * 2 :]
    if 0xDC <= data[1] <= 0xDF:
        data = data[2:]
    return data.decode("utf-16-le", "surrogatepass")


def middle_cut(text: str, cap: int, head: int, tail: int, mark: str) -> str:
    """Keep ``head`` and ``tail`` units of a text longer than ``cap`` units, ``mark`` between."""
    if units(text) <= cap:
        return text
    return clip_units(text, head) + mark + _last_units(text, tail)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _path(args: dict[str, Any], root: str, *names: str) -> str | None:
    for name in names or ("path",):
        value = args.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str) and value:
            return value[len(root) :] if root and value.startswith(root) else value
    return None


def _quoted(args: dict[str, Any], tool: str) -> str | None:
    query = _text(args.get("query"))
    return None if query is None else f'"{cut(query, _CUT_AT[tool])}"'


def _keywords(args: dict[str, Any]) -> str | None:
    words = args.get("keywords")
    if isinstance(words, str):
        return f"[{words}]"
    return f"[{','.join(map(str, words))}]" if isinstance(words, list) else None


def _shown(tool: str, args: dict[str, Any], root: str) -> str | None:
    if tool in PATH_TOOLS:
        return _path(args, root)
    if tool in ("search_text", "search_web"):
        return _quoted(args, tool)
    if tool == "search_content":
        return _keywords(args)
    if tool in ("find_files", "fetch_webpage"):
        value = _text(args.get("pattern" if tool == "find_files" else "url"))
        return None if value is None else cut(value, _CUT_AT[tool])
    if tool == "run_command":
        value = _text(args.get("command"))
        return value and middle_cut(value, _COMMAND_CAP, _COMMAND_HEAD, _COMMAND_TAIL, "…")
    if tool == "generate_image":
        prompt = _text(args.get("prompt"))
        if prompt is not None:
            return cut(prompt, _CUT_AT[tool])
        return _path(args, root, "path", "image", "images")
    if tool == "remove_background":
        return _path(args, root, "image", "path")
    if tool == "analyze_image":
        image, action = _path(args, root, "image", "path"), _text(args.get("action"))
        return " ".join(part for part in (image, action) if part) or None
    if tool == "get_vision_context":
        return None
    for name in ("path", "image", "url", "query", "pattern"):
        found = _path(args, root, name) if name in ("path", "image") else _text(args.get(name))
        if found:
            return found
    return None


def display(tool: str, args: Any, root: str = "") -> str:
    """Give what an action line shows of a call; ``args`` is ``None`` when it cannot be parsed.

    ``root`` is the project folder that paths lose. Arguments of the form
    ``{"display": ...}``, as dcb reads them from a dump, are shown as they are.
    """
    name = tool or "?"
    if not isinstance(args, dict):
        return name
    shown = args.get("display")
    if not isinstance(shown, str) or not shown:
        shown = _shown(tool, args, root)
    if shown is None:
        shown = "null" if tool in _NULL_TOOLS or tool not in KNOWN else name
    sha = read_sha(tool, args)
    return f"{shown} @sha={sha}" if sha else shown


def read_sha(tool: str, args: Any) -> str | None:
    """Give the first 12 digits of the ``sha256`` argument, for tools that show it."""
    if not isinstance(args, dict) or (tool in KNOWN and tool not in _SHA_TOOLS):
        return None
    sha = args.get("sha256")
    return sha[:12] if isinstance(sha, str) and len(sha) >= 12 else None


def produced_sha(result: str) -> str | None:
    """Give the 12 hex digits after the first ``[sha256: `` of a result."""
    start = result.find(_SHA_MARK)
    found = _HEX.match(result, start + len(_SHA_MARK)) if start >= 0 else None
    return found[0] if found else None


def _chars(text: str) -> str:
    return f"{units(text)}c"


def _count(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip(JS_SPACE))


def _found(pattern: str, text: str, form: str, other: Callable[[str], str]) -> str:
    match = re.search(pattern, text, re.ASCII)
    return match.expand(form) if match else other(text)


def _edit(text: str) -> str:
    if "✓" in text:
        return "✓"
    return "✗" if "Error" in text or "✗" in text else "?"


def _diagnosis(text: str) -> str:
    if "[SYNTAX OK]" in text:
        return "✓ OK"
    return "✗" if "[SYNTAX ERROR]" in text else "?"


def _command(text: str) -> str:
    if "Command failed" not in text:
        return _chars(text)
    return _found(r"exit (?:code )?(-?\d{1,15})", text, r"✗ exit \1", lambda _: "✗ exit ?")


_SUMMARIES: Final[dict[str, Callable[[str], str]]] = {
    "read_file": lambda text: _found(
        r"\[paginated (\d{1,15})-(\d{1,15}) of (\d{1,15}) lines", text, r"L:\1-\2/\3", _chars
    ),
    "edit_file": lambda text: _found(r"✓ (\d{1,15}) edit", text, r"\1chg", _edit),
    "write_file": lambda _: "✓",
    "create_file": lambda _: "✓",
    "delete_file": lambda _: "✓",
    "revert_file": lambda text: "✗" if "Error" in text and "Reverted" not in text else "✓",
    "search_text": lambda text: f"{_count(text)} hits",
    "search_content": lambda text: f"{_count(text)} hits",
    "find_files": lambda text: f"{_count(text)} items",
    "list_files": lambda text: f"{_count(text)} items",
    "get_diagnostics": _diagnosis,
    "search_web": lambda text: f"{_count(text)} results",
    "timeline_versions": lambda text: _found(
        r"(?<!\d)(\d{1,15}) versions?", text, r"\1 versions", _chars
    ),
    "diff_versions": lambda text: _found(r"\+N=(\d{1,15}) -M=(\d{1,15})", text, r"+\1/-\2", _chars),
    "run_command": _command,
}


def summary(tool: str, result: str) -> str | None:
    """Give the summary of a result by the tool's row; ``None`` for tools without a row."""
    if tool not in KNOWN:
        return None
    return _SUMMARIES.get(tool, _chars)(result)


_LENGTH = r"(?P<chars>\d{1,15})c"
_FORMS: Final = {
    "read_file": r"L:(?P<from>\d{1,15})-(?P<to>\d{1,15})/(?P<total>\d{1,15})|" + _LENGTH,
    "edit_file": r"(?P<edits>\d{1,15})(?:chg|处)|[✓✗?]",
    "write_file": "[✓✗]",
    "create_file": "[✓✗]",
    "delete_file": "[✓✗]",
    "revert_file": "[✓✗]",
    "search_text": r"(?P<hits>\d{1,15})(?: hits?|处匹配)",
    "search_content": r"(?P<hits>\d{1,15})(?: hits?|处匹配)",
    "find_files": r"(?P<items>\d{1,15})(?: items?|项)",
    "list_files": r"(?P<items>\d{1,15})(?: items?|项)",
    "get_diagnostics": "✓ OK|[✗?]",
    "search_web": r"(?P<results>\d{1,15})(?: results?|条结果)",
    "timeline_versions": r"(?P<versions>\d{1,15}) versions?|" + _LENGTH,
    "diff_versions": r"\+(?P<added>\d{1,15})/-(?P<removed>\d{1,15})|" + _LENGTH,
    "run_command": r"✗ exit (?:(?P<exit>-?\d{1,15})|\?)|" + _LENGTH,
}
_PATTERNS: Final = {tool: re.compile(_FORMS.get(tool, _LENGTH), re.ASCII) for tool in sorted(KNOWN)}


class Ending(NamedTuple):
    """A summary at the end of a part: the text before it, and its match."""

    rest: str
    match: re.Match[str]


def summary_at_end(tool: str, text: str) -> Ending | None:
    """Find the summary of a tool at the end of a part; it stands alone or after a blank."""
    pattern = _PATTERNS.get(tool)
    if pattern is None:
        return None
    position = len(text)
    for _ in range(3):  # the longest form, `✗ exit 1`, has three words
        position = text.rfind(" ", 0, position)
        match = pattern.fullmatch(text, position + 1)
        if match:
            return Ending(text[: max(position, 0)], match)
        if position < 0:
            break
    return None


def was_cut(tool: str, shown: str) -> bool:
    """Whether a display has lost its end or middle, as far as its form tells."""
    if tool == "run_command":
        if len(shown) > _COMMAND_CAP or "…" not in shown:
            return False
        data = shown.encode("utf-16-le", "surrogatepass")
        lost = 2 if any(ord(c) > 0xFFFF for c in shown) else 0
        mark = "…".encode("utf-16-le")
        return len(data) // 2 >= _COMMAND_CAP - lost and any(
            data[2 * at : 2 * at + 2] == mark for at in range(_COMMAND_HEAD - 1, _COMMAND_HEAD + 1)
        )
    limit = _CUT_AT.get(tool)
    if limit is None:
        return False
    inner = shown[1:-1] if shown.startswith('"') and shown.endswith('"') else shown
    return inner.endswith("…") and units(inner) >= limit - 1
