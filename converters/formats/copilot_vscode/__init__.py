r"""GitHub Copilot Chat in VS Code.

``<User>/workspaceStorage/<hash>/chatSessions/<session id>.json`` (March 2025 to 1.108) or
``.jsonl`` (from 1.109: a log of mutations); windows without a folder in
``<User>/globalStorage/emptyWindowChatSessions/``. ``<User>`` is ``~/.config/Code/User`` on Linux,
``~/Library/Application Support/Code/User`` on macOS, ``%APPDATA%\Code\User`` on Windows; Insiders
and VSCodium have their own. The working directory stands in ``workspace.json`` of the hash folder.
The same object comes out of "Chat: Export Chat...".

A record is a request or an item of its response; in a log, a line. Kinds of lines: 0 a whole
object, 1 set at a path, 2 push to a list (``i`` truncates it first, as VS Code does), 3 delete.
Mutations of ``inputState`` are skipped: they are the input box, not the dialogue.

- A request is a turn. Where ``toolCallRounds`` exist they are the steps, with arguments and
  results; else the response items are, and arguments are what the item says of the command.
- The response repeats the rounds. What it alone holds (an answer after the last round, thinking,
  a call) is kept between them; an item is mapped when its words or its call are in a step. Its
  edits are counted (``attachment-skipped``).
- Results are there only where the file holds them (``tool-result-missing``).
- A ``summary`` of a round, or beside the rounds (``summary``, ``summaries``), is a compaction
  before the turn; where a request has several the last counts.
- Items with ``subAgentInvocationId`` are the work of a subagent: a session of its own.
- Withdrawn requests (``isHidden``, ``shouldBeRemovedOnSend``) are skipped, a repeated request id
  replaces the earlier one.
- Token counts of a request, where newer builds write them, go to its last step. One count without
  the other is no usage (``usage-invalid``) and stays in ``x-dcb.usage``.
- Where a session's ``.json`` has its ``.jsonl`` beside it, the editor went on in the second.

Names of people in exports are not read. Older sessions inside ``state.vscdb`` are not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.formats.copilot_vscode.read import read
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FORMAT"]

_OWNERS: Final = ("requesterUsername", "responderUsername", "creationDate", "initialLocation")


def probe(head: Head) -> Match | None:
    """Recognise requests with a session, or the first line of a mutation log."""
    first: Mapping[str, Any] = head.records[0] if head.records else {}
    if first.get("kind") == 0 and isinstance(first.get("v"), dict):
        state = first["v"]
        if "requests" in state or "sessionId" in state:
            return Match(92, "a mutation log that starts with a chat session")
        return Match(60, "a mutation log") if len(first) == 2 else None
    requests = first.get("requests")
    if isinstance(requests, list):
        if "sessionId" in first and any(name in first for name in _OWNERS):
            return Match(92, "sessionId and requests of a chat session")
        if any(isinstance(r, dict) and "requestId" in r for r in requests[:5]):
            return Match(88, "requests with requestId")
    return None


_EDITORS: Final = ("Code", "Code - Insiders", "VSCodium")


def _places(base: str) -> tuple[str, ...]:
    roots = [f"{base}/{editor}/User" for editor in _EDITORS]
    roots += [".vscode-server/data/User", ".vscode-server-insiders/data/User"]
    parts = (
        "workspaceStorage/*/chatSessions/*.json",
        "workspaceStorage/*/chatSessions/*.jsonl",
        "globalStorage/emptyWindowChatSessions/*.json*",
        "globalStorage/transferredChatSessions/*.json*",
    )
    return tuple(f"{root}/{part}" for root in roots for part in parts)


FORMAT = Format(
    id="copilot-vscode",
    title="GitHub Copilot Chat (VS Code)",
    kinds=frozenset({"json", "jsonl"}),
    probe=probe,
    read=read,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        cwd=True,
        timestamps=True,
        usage=True,
        compacted=True,
        notes={
            "tool_results": "copilot-vscode: only where the file holds them",
            "usage": "copilot-vscode: of a whole request, on its last step",
            "compacted": "copilot-vscode: the summary of a round",
            "cwd": "copilot-vscode: from workspace.json",
        },
    ),
    places={
        "linux": _places(".config"),
        "darwin": _places("Library/Application Support"),
        "win32": _places("AppData/Roaming"),
    },
    companions=("{stem}.json", "../workspace.json"),
)
