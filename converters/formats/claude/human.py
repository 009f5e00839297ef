"""What a person wrote, and what the tool put around it.

Claude Code sends reminders, command expansions, shell output and notices as user messages. They
are known by how they begin; the human part of a mixed message is kept. Source: fact sheet
``claude``, "Injections to skip". All scans are linear in the text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Human", "scan", "strip_reminders"]

_SKIPPED_TAGS: Final = frozenset(
    {
        "system-reminder",
        "local-command-caveat",
        "local-command-stdout",
        "local-command-stderr",
        "task-notification",
        "bash-input",
        "bash-stdout",
        "bash-stderr",
        "user-prompt-submit-hook",
        "user-memory-input",
    }
)
_COMMAND_TAGS: Final = frozenset({"command-name", "command-message", "command-args"})
_SENTENCES: Final = (
    "Caveat: The messages below",
    "[Request interrupted",
    "This session is being continued",
    "Stop hook feedback:",
)
_OPEN: Final = re.compile(r"\s*+<([a-z][a-z_-]*+)(?:\s[^<>]*+)?>")
_SPACE: Final = re.compile(r"\s*+")
_REMINDER: Final = "<system-reminder>"
_REMINDER_END: Final = "</system-reminder>"
_PASTED: Final = re.compile(r"</?pasted_content(?:\s[^<>]*+)?>")


class Human(NamedTuple):
    """The human part of a text: ``None`` when there is none.

    ``injected`` counts what was left out; ``interrupted``: the text is the notice that
    the person stopped the model; ``command``: a slash command without arguments.
    """

    text: str | None
    injected: int = 0
    interrupted: bool = False
    command: bool = False


def scan(text: str) -> Human:
    """Split a user text into its human part and the rest."""
    first = text[:1]
    if first not in "<[CS \t\r\nT" and "<" not in text:
        return Human(text if first else None)
    position, injected = 0, 0
    command: dict[str, str] = {}
    while True:
        found = _OPEN.match(text, position)
        tag = found[1] if found else ""
        if found is None or (tag not in _SKIPPED_TAGS and tag not in _COMMAND_TAGS):
            break
        end = text.find(f"</{tag}>", found.end())
        if tag in _COMMAND_TAGS:
            command.setdefault(tag, text[found.end() : end if end >= 0 else None].strip())
        else:
            injected += 1
        position = len(text) if end < 0 else end + len(tag) + 3
    start = _SPACE.match(text, position)
    begin = start.end() if start else position
    if text.startswith(_SENTENCES, begin):
        interrupted = text.startswith("[Request interrupted", begin)
        return Human(None, injected + 1, interrupted, command=False)
    rest = text[begin:] if position else text
    rest, inner = _without_inner(rest)
    return _human(rest, command, injected + inner)


def _human(rest: str, command: dict[str, str], injected: int) -> Human:
    blank = not rest or rest.isspace()
    if not command:
        return Human(None if blank else rest, injected)
    name, arguments = command.get("command-name", ""), command.get("command-args", "")
    if not name:
        name = "/" + command.get("command-message", "").partition(" ")[0]
    typed = f"{name} {arguments}" if arguments else None
    if blank:
        return Human(typed, injected, command=typed is None)
    return Human(f"{typed}\n{rest}" if typed else rest, injected)


def _without_inner(text: str) -> tuple[str, int]:
    """Take reminders out of the middle and unwrap pasted content."""
    if "<pasted_content" in text:
        text = _PASTED.sub("", text)
    start = text.find(_REMINDER)
    if start < 0:
        return text, 0
    parts: list[str] = []
    position = count = 0
    while start >= 0:
        end = text.find(_REMINDER_END, start)
        if end < 0:
            break
        parts.append(text[position:start])
        position = end + len(_REMINDER_END)
        count += 1
        start = text.find(_REMINDER, position)
    parts.append(text[position:])
    joined = "".join(parts)
    return (joined.strip() if count else joined), count


def strip_reminders(text: str) -> tuple[str, int]:
    """Take the reminders off both ends of a tool result; give the rest and their number.

    Only the ends: a file that was read may speak of reminders in its middle.
    """
    count = 0
    end = len(text)
    while True:
        close = text.rfind(_REMINDER_END, max(0, end - 64), end)
        if close < 0 or (
            not text[close + len(_REMINDER_END) : end].isspace()
            and (close + len(_REMINDER_END) != end)
        ):
            break
        start = text.rfind(_REMINDER, 0, close)
        if start < 0:
            break
        count += 1
        end = start
    begin = 0
    while text.startswith(_REMINDER, begin):
        close = text.find(_REMINDER_END, begin, end)
        if close < 0:
            break
        count += 1
        begin = close + len(_REMINDER_END)
    return (text[begin:end].rstrip("\n") if count else text), count
