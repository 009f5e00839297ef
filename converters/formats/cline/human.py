"""Texts of user messages taken apart: what a human wrote, what the program put in.

The program sets its tags on lines of their own, so a tag inside a line is a quotation and stays.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Said",
    "cwd_of",
    "is_result",
    "result_of",
    "take_apart",
    "without_environment",
    "words_in",
    "xml_calls",
]

_TASK: Final = "task"
_WORDS: Final = re.compile(r"^[ \t]*<(feedback|answer|user_message)>", re.MULTILINE)
_WRAPPED: Final = re.compile(r"\s*<(task|feedback|answer|user_message)>")
_INJECTED: Final = re.compile(
    r"^[ \t]*<(environment_details|file_content|folder_content|explicit_instructions"
    r"|system-reminder|todos)(?: [^<>\n]*)?>",
    re.MULTILINE,
)
# The line before a human's words where the program says whose they are.
_LEAD: Final = re.compile(r"(?:The user |You seem |New (?:instructions|message) )[^\n]*\s*\Z")
_LEAD_ROOM: Final = 400
# Tools that ask: their results are words of the human, not contents that may look like them.
_ASKING: Final = frozenset(
    {
        "ask_followup_question",
        "attempt_completion",
        "condense",
        "new_task",
        "plan_mode_respond",
        "plan_mode_response",
        "switch_mode",
    }
)
_RESULT: Final = re.compile(
    r"\[([a-z_]{3,40})(?: (?:for|in|to|with) .{0,4000}?)?\] Result:\s?", re.DOTALL
)
_ENVIRONMENT: Final = ("<environment_details>", "</environment_details>")
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
    """``human``: the text of a person; ``injected``: how many parts the program put in."""

    human: str
    injected: int


class _Element(NamedTuple):
    """The bounds of an element and of its content."""

    begin: int
    inner: int
    close: int
    end: int


def _element(text: str, name: str, start: int = 0) -> _Element | None:
    """Give the first element of a name; an unclosed one is none."""
    opening = f"<{name}>"
    begin = text.find(opening, start)
    if begin < 0:
        return None
    inner = begin + len(opening)
    end = text.find(f"</{name}>", inner)
    return None if end < 0 else _Element(begin, inner, end, end + len(name) + 3)


def _on_lines(text: str, opening: re.Pattern[str]) -> Iterator[_Element]:
    """Give the elements that stand on lines of their own, in order."""
    closings: dict[str, int] = {}
    position = 0
    for match in opening.finditer(text):
        if match.start() < position:
            continue
        name = match[1]
        close = closings.get(name, 0)
        if 0 <= close < match.end():
            # Each closing tag is looked for once: many openings cost no more than one.
            close = closings[name] = text.find(f"</{name}>", match.end())
        end = close + len(name) + 3
        if close >= 0 and not _rest_of_line(text, end):
            yield _Element(match.start(), match.end(), close, end)
            position = end


def _rest_of_line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : len(text) if end < 0 else end].strip()


def _without_injections(text: str) -> Said:
    """Take out what the program put in on lines of its own."""
    kept: list[str] = []
    position = injected = 0
    for found in _on_lines(text, _INJECTED):
        kept.append(text[position : found.begin])
        position = found.end
        injected += 1
    return Said("".join([*kept, text[position:]]).strip("\n "), injected)


def take_apart(text: str, *, first: bool, classic: bool) -> Said:
    """Separate what a human wrote in a prompt from what the program put in.

    A tag around the whole is the program's (``<task>`` only in the ``first`` prompt); so are, in
    the ``classic`` history, words behind a line that says they are the user's, as after a
    resumption. Any other tag was typed.
    """
    whole = _whole(text, first=first)
    if whole is not None:
        return whole
    said = _without_injections(text)
    words = words_in(said.human, led=True) if classic else []
    return Said("\n".join(words), said.injected + 1) if words else said


def _whole(text: str, *, first: bool) -> Said | None:
    """Give the content of a tag around all of a text but injections before and after it."""
    start = injected = 0
    for found in _on_lines(text, _INJECTED):
        if text[start : found.begin].strip():
            break
        start, injected = found.end, injected + 1
    match = _WRAPPED.match(text, start)
    if match is None or (match[1] == _TASK and not first):
        return None
    closing = f"</{match[1]}>"
    for close in dict.fromkeys((text.find(closing, match.end()), text.rfind(closing))):
        if close < match.end():
            continue
        rest = _without_injections(text[close + len(closing) :])
        if not rest.human.strip():
            parts = re.split(rf"{closing}\s*<{match[1]}>", text[match.end() : close])
            human = "\n".join(filter(None, (part.strip() for part in parts)))
            return Said(human, injected + rest.injected)
    return None


def words_in(text: str, tool: str | None = None, *, led: bool = False) -> list[str]:
    """Give the words of a human in a carrier: ``feedback``, ``answer``, ``user_message``.

    What a ``tool`` gave may hold such tags itself (a file that was read): there, and where
    ``led``, the line before must say whose words they are. Tools that ask need no such line.
    """
    whole = _whole(text, first=False) if tool is None and not led else None
    if whole is not None:
        return [whole.human] if whole.human else []
    led = led or (tool is not None and tool not in _ASKING)
    words = []
    for found in _on_lines(text, _WORDS):
        before = text[max(found.begin - _LEAD_ROOM, 0) : found.begin]
        said = text[found.inner : found.close].strip()
        if said and (not led or _LEAD.search(before)):
            words.append(said)
    return words


def without_environment(text: str) -> Said:
    """Take ``<environment_details>`` off the end of a result; the rest is left as it is."""
    opening, closing = _ENVIRONMENT
    end = text.rstrip()
    begin = text.rfind(opening) if end.endswith(closing) else -1
    if begin < 0 or text[text.rfind("\n", 0, begin) + 1 : begin].strip():
        return Said(text, 0)
    return Said(text[:begin].rstrip("\n"), 1)


def cwd_of(text: str) -> str | None:
    """Give the working directory that ``<environment_details>`` names."""
    found = _CWD.search(text)
    return found[1] if found else None


def is_result(text: str) -> bool:
    """Whether a text is, or heads, the result of a call that was written as XML."""
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
