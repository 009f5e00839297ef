r"""Cline tasks, and those of Roo Code and the older Kilo Code.

Classic: ``<User>/globalStorage/<extension>/tasks/<id>/`` of VS Code and its relatives
(``saoudrizwan.claude-dev``, ``rooveterinaryinc.roo-cline``, ``kilocode.kilo-code``) holds
``api_conversation_history.json`` (the dialogue), ``ui_messages.json`` (what the panel showed) and
side files; ``state/taskHistory.json`` has title, folder, model and token totals.
SDK and CLI (4.x): ``~/.cline/data/sessions/<id>/<id>.messages.json`` with a manifest ``<id>.json``.

A record is a message of the history. ``ui_messages.json`` is read alone only where the history is
missing; beside it, it is a companion.

- Results ride in user messages. What a human wrote in them (``<feedback>``, ``<answer>``,
  ``<user_message>``) opens a turn; ``<environment_details>`` and the like are injections. The
  program sets its tags on lines of their own; any other tag was typed and stays in the prompt.
- A picture beside a result is part of the result before it, behind a human's words part of them.
- Older tasks have no tool blocks: calls are XML in the answer (``<read_file>...``), results are the
  next user message: a text ``[read_file for 'x'] Result:`` and the texts behind it, up to the next
  such text or the environment. Both are taken apart, ids are made, also where a task goes on
  with tool blocks later.
- ``conversationHistoryDeletedRange``, Roo's condensing and truncation and the SDK's sidecar name
  messages that are out of the context. A turn is shadowed when all its messages are out; one of
  which a part is still in the context is not, and what is out in it is counted
  (``state-dropped``). A summary that nothing follows makes a turn of its own.
- The classic history has no times and no usage: the session time is the task id, totals stay in
  ``x-dcb.usage``. The SDK has both per answer.

Lost: the panel's own messages beside a history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from converters.formats.cline.read import read
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from typing import Any

__all__ = ["FORMAT"]

_HISTORY: Final = "api_conversation_history.json"
_PANEL: Final = ("ui_messages.json", "claude_messages.json")
_MARKS: Final = ('"<environment_details>', '"<task>', "</task>\\n<environment_details>")


def probe(head: Head) -> Match | None:
    """Recognise the SDK's document, the panel's messages, or a history by its injections."""
    root = head.root
    if isinstance(root, dict):
        if {"version", "agent", "sessionId", "messages"} <= root.keys():
            return Match(90, "version, agent, sessionId and messages")
        return None
    first: dict[str, Any] = head.records[0] if isinstance(root, list) and head.records else {}
    if first.get("type") in ("say", "ask") and "ts" in first:
        return Match(90, "messages of type say or ask with ts")
    if first.get("role") in ("user", "assistant") and "content" in first:
        if any("modelInfo" in record for record in head.records):
            return Match(94, "messages with modelInfo")
        if any(head.mentions(mark) for mark in _MARKS):
            return Match(94, "messages with <task> or <environment_details>")
    named = head.name.replace("!", "/").rpartition("/")[2] in (_HISTORY, *_PANEL)
    if named and ("role" in first or ("type" in first and "text" in first)):
        # The messages alone are Anthropic's; only the name tells that they are a task's.
        return Match(93, "a file name of Cline with messages in it")
    return None


_EXTENSIONS: Final = (
    "saoudrizwan.claude-dev",
    "rooveterinaryinc.roo-cline",
    "kilocode.kilo-code",
)
_EDITORS: Final = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")


def _places(base: str) -> tuple[str, ...]:
    classic = tuple(
        f"{base}/{editor}/User/globalStorage/{extension}/tasks/*/{_HISTORY}"
        for editor in _EDITORS
        for extension in _EXTENSIONS
    )
    server = tuple(
        f".vscode-server/data/User/globalStorage/{extension}/tasks/*/{_HISTORY}"
        for extension in _EXTENSIONS
    )
    return (
        *classic,
        *server,
        ".cline/data/sessions/*/*.messages.json",
        "$CLINE_SESSION_DATA_DIR/*/*.messages.json",
    )


FORMAT = Format(
    id="cline",
    title="Cline task (also Roo Code, Kilo Code)",
    kinds=frozenset({"json"}),
    probe=probe,
    read=read,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        compacted=True,
        attachments=True,
        timestamps=True,
        usage=True,
        notes={
            "images": "cline: base64 blocks of the history",
            "compacted": "cline: a deleted range or a condensed summary",
            "timestamps": "cline: the SDK's answers; the classic history has none",
            "usage": "cline: the SDK's answers; totals otherwise",
            "attachments": "cline: documents kept in x-dcb",
        },
    ),
    aliases=("roo-code", "kilo-code-legacy"),
    places={
        "linux": _places(".config"),
        "darwin": _places("Library/Application Support"),
        "win32": _places("AppData/Roaming"),
    },
    companions=(
        "ui_messages.json",
        "claude_messages.json",
        "task_metadata.json",
        "context_history.json",
        "history_item.json",
        "../../state/taskHistory.json",
        "../state/taskHistory.json",
        "{stem}.json",
        "{stem}.compaction.json",
    ),
)
