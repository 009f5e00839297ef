"""Texts of user messages taken apart: what a human wrote, what the program put in."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Said", "cwd_of", "is_result", "result_of", "take_apart", "xml_calls"]

_WRAPPED: Final = ("task", "feedback", "answer", "user_message")
_INJECTED: Final = (
    "environment_details",
    "file_content",
    "folder_content",
    "explicit_instructions",
    "system-reminder",
    "todos",
)
_RESULT: Final = re.compile(r"\[([a-z_]{3,40})(?: for '[^\n]{0,2000}?')?\] Result:\s?")
_CWD: Final = re.compile(r"# Current (?:Workspace|Working) Directory \(([^)\n]+)\)")
_PARAM: Final = re.compile(r"<([a-z_]{1,40})>")
TOOLS: Final = (
    "access_mcp_resource", "apply_diff", "ask_followup_question", "attempt_completion",
    "browser_action", "codebase_search", "execute_command", "fetch_instructions",
    "insert_content", "list_code_definition_names", "list_files", "load_mcp_documentation",
    "new_task", "plan_mode_respond", "read_file", "replace_in_file", "search_and_replace",
    "search_files", "switch_mode", "update_todo_list", "use_mcp_tool", "web_fetch",
    "write_to_file",
)  # fmt: skip


class Said(NamedTuple):
    """``human``: the text of a person; ``wrapped``: it stood in a tag of its own."""

    human: str
    wrapped: bool
    injected: int


def _element(text: str, name: str, start: int = 0) -> tuple[int, int, int, int] | None:
    """Give the bounds of an element and of its content; an unclosed one is none."""
    opening = f"<{name}>"
    begin = text.find(opening, start)
    if begin < 0:
        return None
    inner = begin + len(opening)
    end = text.find(f"</{name}>", inner)
    return None if end < 0 else (begin, inner, end, end + len(name) + 3)


def take_apart(text: str) -> Said:
    """Separate what a human wrote in a user message from what the program put in."""
    injected = 0
    for name in _INJECTED:
        kept: list[str] = []
        position = 0
        while (found := _element(text, name, position)) is not None:
            kept.append(text[position : found[0]])
            position = found[3]
            injected += 1
        if position:
            text = "".join([*kept, text[position:]])
    inner: list[str] = []
    for name in _WRAPPED:
        position = 0
        while (found := _element(text, name, position)) is not None:
            inner.append(text[found[1] : found[2]].strip())
            position = found[3]
    if inner:
        return Said("\n".join(filter(None, inner)), wrapped=True, injected=injected)
    return Said(text.strip("\n "), wrapped=False, injected=injected)


def cwd_of(text: str) -> str | None:
    """Give the working directory that ``<environment_details>`` names."""
    found = _CWD.search(text)
    return found[1] if found else None


def is_result(text: str) -> bool:
    """Whether a text is the result of a call that was written as XML."""
    return _RESULT.match(text) is not None


def result_of(text: str) -> tuple[str, str]:
    """Give ``(tool name, result text)`` of such a text."""
    found = _RESULT.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def xml_calls(text: str) -> list[str | tuple[str, dict[str, str]]]:
    """Cut an answer into texts and calls ``(tool name, parameters)``, in order."""
    parts: list[str | tuple[str, dict[str, str]]] = []
    position = 0
    for start, name in _openings(text):
        if start < position:
            continue
        found = _element(text, name, start)
        if found is None:
            continue
        before = text[position:start].strip()
        if before:
            parts.append(before)
        parts.append((name, _parameters(text[found[1] : found[2]])))
        position = found[3]
    rest = text[position:].strip()
    if rest:
        parts.append(rest)
    return parts


def _openings(text: str) -> list[tuple[int, str]]:
    """Give the places where a tool's tag opens at the start of a line."""
    found = []
    for match in _PARAM.finditer(text):
        at_line = match.start() == 0 or text[match.start() - 1] == "\n"
        if at_line and match[1] in TOOLS:
            found.append((match.start(), match[1]))
    return found


def _parameters(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    position = 0
    while (match := _PARAM.search(text, position)) is not None:
        found = _element(text, match[1], match.start())
        if found is None:
            position = match.end()
            continue
        values[match[1]] = text[found[1] : found[2]].strip("\n")
        position = found[3]
    return values
