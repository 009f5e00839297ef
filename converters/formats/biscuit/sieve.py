"""The mechanical sieve: a conversation of qqqide becomes a dump, by fixed rules.

Section 4 of the specification, from the published client. It is deterministic:
the header time, which the tool takes from its clock, is an argument.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.formats.biscuit.lines import BOX_CAP, escape
from converters.formats.biscuit.tools import (
    ABSOLUTE,
    display,
    middle_cut,
    produced_sha,
    summary,
)
from converters.text import JS_SPACE, clip_units, units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "Call",
    "action_lines",
    "answer_text",
    "box_body",
    "call_of",
    "floor_of",
    "header_line",
    "is_notice",
    "is_rules",
    "question_parts",
    "question_text",
    "sieve",
    "split_clock",
    "tool_calls",
]

FILE_MARK: Final = "[File: "
VISION_MARK: Final = "━━━ VISION ANALYSIS RESULTS"
_TIME_MARKS: Final = ("[CURRENT TIME:", "═══ CURRENT TIME")
_BREAKS: Final = re.compile(r"[\r\n]+")
_SPACES: Final = re.compile(f"[{JS_SPACE}]+")
_FILE_BLOCK: Final = re.compile(r"\n[ \t]*+\n\[File: ")


def header_line(n: int, time: str | None) -> str:
    """Give a floor header; ``time`` is ``YYYY-MM-DD HH:MM:SS``, always declared ``UTC+8``.

    Without a time it is the header of V11 and V12.
    """
    return f"=== F{n} ===" if time is None else f"=== F{n}  {time} UTC+8 ==="


class Parts(NamedTuple):
    """A user message: what was asked, and the parts that the program added."""

    text: str
    vision: str
    files: str
    clock: str


def question_parts(content: str) -> Parts:
    """Split a user message into the question, picture descriptions, files and the time text.

    Rules: specification 2.2; the cuts are those of the sieve, nothing is lost here.
    """
    found = _FILE_BLOCK.search(content)
    text, files = (content[: found.start()], content[found.start() :]) if found else (content, "")
    text, clock = split_clock(text)
    at = text.find(VISION_MARK)
    vision = ""
    if at >= 0:
        text, vision = text[:at], text[at:]
    return Parts(text, vision, files, clock)


def split_clock(text: str) -> tuple[str, str]:
    """Cut at the time mark that the program adds, unless the text begins with it."""
    for mark in _TIME_MARKS:
        at = text.find(mark)
        if at >= 0:
            return (text[:at], text[at:]) if at > 0 else (text, "")
    return text, ""


def question_text(content: str) -> str:
    """Give the text of a ``Q: `` line: cut, line breaks to blanks, trimmed."""
    parts = question_parts(content)
    return flatten(parts.text + parts.vision)


def flatten(text: str) -> str:
    """Make runs of line breaks one blank and trim; other white space stays."""
    return _BREAKS.sub(" ", text).strip(JS_SPACE)


def answer_text(content: str) -> str:
    """Give the text of an ``A: `` line: all runs of white space become one blank."""
    return _SPACES.sub(" ", content).strip(" ")


def box_body(result: str, *, escaped: bool = True) -> str | None:
    """Give the body of a box, capped and escaped; ``None`` for a blank result."""
    if not result.strip(JS_SPACE):
        return None
    mark = f"\n…[trunc {units(result) - BOX_CAP} chars]…\n"
    half = BOX_CAP // 2
    body = middle_cut(result, BOX_CAP, half, half, mark).rstrip(JS_SPACE)
    return escape(body) if escaped else body


class Call(NamedTuple):
    """A tool call as its action line shows it. ``box``: an escaped body."""

    tool: str
    shown: str
    summary: str | None = None
    sha: str | None = None
    box: str | None = None


def call_of(
    tool: str, args: Any, result: str | None, root: str = "", *, escaped: bool = True
) -> Call:
    """Give a call by the row of its tool; ``result`` is ``None`` while there is none."""
    shown = display(tool, args, root)
    if result is None:
        return Call(tool or "?", shown)
    box = box_body(result, escaped=escaped) if tool in ABSOLUTE else None
    return Call(tool or "?", shown, summary(tool, result), produced_sha(result), box)


def action_lines(calls: Iterable[Call]) -> list[str]:
    """Give the action line of one message and its boxes; elements may hold line breaks."""
    calls = list(calls)
    parts = []
    for call in calls:
        part = call.shown if call.summary is None else f"{call.shown} {call.summary}"
        parts.append(f"{part} ➜ sha={call.sha}" if call.sha else part)
    lines = [f"[A → {'+'.join(call.tool for call in calls)}] {', '.join(parts)}"]
    lines += [f"╔K\n{call.box}\n╚" for call in calls if call.box is not None]
    return lines


def tool_calls(message: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Give ``(id, tool name, arguments)`` of an assistant message; bad arguments are ``None``."""
    found: list[tuple[str, str, Any]] = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        name, call_id = function.get("name"), call.get("id")
        found.append(
            (
                call_id if isinstance(call_id, str) else "",
                name if isinstance(name, str) else "",
                arguments_of(function.get("arguments")),
            )
        )
    return found


def arguments_of(value: Any) -> Any:
    """Parse the arguments of a call: an object, or its JSON text; ``None`` for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def floor_of(message: Mapping[str, Any]) -> int:
    """Give the floor number of a message, 0 for none."""
    number = message.get("_floor")
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return number if isinstance(number, int) and 0 < number < 10**15 else 0


def content_of(message: Mapping[str, Any]) -> str:
    """Give the text of a message; anything but a string counts as empty, as in the tool."""
    content = message.get("content")
    return content if isinstance(content, str) else ""


def is_notice(message: Mapping[str, Any]) -> bool:
    """Whether an assistant message is a notice of the program about compression."""
    content = content_of(message)
    return message.get("role") == "assistant" and (
        content.startswith("ℹ️ 压缩") or "📦 Compress" in content
    )


def is_rules(message: Mapping[str, Any]) -> bool:
    """Whether a message is never sieved: rules, messages of the program, its notices."""
    return bool(message.get("_persistent") or message.get("_system")) or is_notice(message)


def sieve(
    messages: Iterable[Any],
    times: Mapping[int, str] | str | None = None,
    *,
    root: str = "",
    version: int = 16,
    escaped: bool = True,
) -> str:
    """Give the dump of a conversation.

    ``messages`` are those of qqqide (only such with ``_floor`` count), ``times``
    the header time of every floor, or one for all, as ``YYYY-MM-DD HH:MM:SS``;
    ``root`` is the project folder that paths lose. ``version`` 11 and 12 give
    the older form. The published code does not escape box marks inside bodies, its
    documents and dcb do; ``escaped=False`` gives the bytes of the code.
    """
    walk = _Sieve(times, root, escaped=escaped) if version > 12 else _OldSieve(version)
    for message in messages:
        if isinstance(message, dict) and floor_of(message) and not is_rules(message):
            walk.message(message)
    walk.flush()
    return "\n".join(walk.lines).strip(JS_SPACE)


class _Sieve:
    """The state of the sieve: the floor, and the calls whose results are awaited."""

    def __init__(
        self, times: Mapping[int, str] | str | None, root: str, *, escaped: bool = True
    ) -> None:
        self.escaped = escaped
        self.lines: list[str] = []
        self.floor = 0
        self.times = times
        self.root = root
        self.pending: list[tuple[str, str, Any]] = []
        self.results: dict[int, str] = {}

    def header(self, n: int) -> str:
        time = self.times.get(n) if self.times and not isinstance(self.times, str) else self.times
        return header_line(n, time if isinstance(time, str) else None)

    def message(self, message: dict[str, Any]) -> None:
        number = floor_of(message)
        if number != self.floor:
            self.flush()
            self.floor = number
            self.lines += ["", self.header(number)]
        role = message.get("role")
        if role == "tool":
            self.tool(message)
        elif role == "user":
            self.flush()
            self.lines.append(f"Q: {self.question(message)}")
        elif role == "assistant":
            self.flush()
            self.assistant(message)
        elif role == "system":
            text = answer_text(content_of(message))
            if text:
                self.flush()
                self.lines.append(f"[S] {text}")

    def question(self, message: dict[str, Any]) -> str:
        text = question_text(content_of(message))
        if message.get("_compressFloor"):
            return "§facts " + clip_units(text, 120)
        return text

    def assistant(self, message: dict[str, Any]) -> None:
        text = answer_text(content_of(message))
        if message.get("_compressFloor"):
            text = clip_units(text, 200).strip(JS_SPACE)
        calls = tool_calls(message)
        if not calls and message.get("_error") and text:
            self.lines.append(self.error(message, text))
        elif text:
            self.lines.append(f"A: {text}")
        if calls:
            self.calls(calls)

    def error(self, message: dict[str, Any], text: str) -> str:
        time = message.get("_errorTime")
        return f"[ERR] [{time}] {text}" if isinstance(time, str) and time else f"[ERR] {text}"

    def calls(self, calls: list[tuple[str, str, Any]]) -> None:
        self.pending = calls

    def tool(self, message: dict[str, Any]) -> None:
        if not self.pending:
            return
        wanted = message.get("tool_call_id")
        for index, (call_id, _, _) in enumerate(self.pending):
            if call_id == wanted:
                self.results[index] = content_of(message)
                return
        self.lines.append("  [T] ✓")

    def flush(self) -> None:
        if self.pending:
            self.lines += action_lines(
                call_of(tool, args, self.results.get(index), self.root, escaped=self.escaped)
                for index, (_, tool, args) in enumerate(self.pending)
            )
        self.pending = []
        self.results = {}


_OLD_UNITS: Final = {
    " hits": "处匹配",
    " items": "项",
    " results": "条结果",
    "chg": "处",
}
_OLD_CAP: Final = 8000
_OLD_KEPT: Final = ABSOLUTE | {"fetch_webpage", "search_web"}
_NO_OLD_SUMMARY: Final = frozenset({"timeline_versions", "diff_versions", "revert_file"})


class _OldSieve(_Sieve):
    """V11 and V12: no header time, bodies behind a gutter, summaries as the results come."""

    def __init__(self, version: int) -> None:
        super().__init__(None, "")
        self.version = version

    def error(self, message: dict[str, Any], text: str) -> str:
        return f"A: {text}" if self.version < 12 else super().error(message, text)

    def calls(self, calls: list[tuple[str, str, Any]]) -> None:
        names = [tool or "?" for _, tool, _ in calls]
        shown = []
        for _, _, args in calls:
            args = args if isinstance(args, dict) else {}
            value = args.get("path") or args.get("image")
            if isinstance(value, str):
                shown.append(value)
        self.lines.append(f"[A → {'+'.join(names)}] {', '.join(shown or names)}")
        self.pending = calls

    def tool(self, message: dict[str, Any]) -> None:
        wanted = message.get("tool_call_id")
        tool = next((name for call_id, name, _ in self.pending if call_id == wanted), None)
        if tool is None:
            if self.pending:
                self.lines.append("  [T] ✓")
            return
        result = content_of(message)
        short = None if tool in _NO_OLD_SUMMARY else summary(tool, result)
        if short is not None:
            self.lines[-1] += f" {_in_chinese(short)}"
        if tool in _OLD_KEPT and result.strip(JS_SPACE):
            half = _OLD_CAP // 2
            mark = f"\n…[截断 {units(result) - _OLD_CAP} chars]…\n"
            body = middle_cut(result, _OLD_CAP, half, half, mark).rstrip(JS_SPACE)
            self.lines += [f"  │ {line}" for line in body.split("\n")]

    def flush(self) -> None:
        self.pending = []


def _in_chinese(short: str) -> str:
    for unit, old in _OLD_UNITS.items():
        if short.endswith(unit):
            return short.removesuffix(unit) + old
    return short
