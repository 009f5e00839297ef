r"""Cursor: the editor's database, the agent's database of a chat, and the agent's transcripts.

Editor: ``<User>/globalStorage/state.vscdb`` (SQLite; ``<User>`` is ``~/.config/Cursor/User`` on
Linux, ``~/Library/Application Support/Cursor/User`` on macOS, ``%APPDATA%\Cursor\User`` on
Windows), table ``cursorDiskKV``: ``composerData:<id>`` is a session, ``bubbleId:<id>:<bubble>`` a
message. Before 0.40: ``tabs[].bubbles[]`` and ``conversationMap`` there, and in
``<User>/workspaceStorage/<hash>/state.vscdb``, table ``ItemTable``, the keys of the chat panel
(``workbench.panel.aichat.view.aichat.chatdata``) and of the first composers
(``composer.composerData``); ``workspace.json`` beside it names the folder. Beside these keys only
``composer.composerHeaders`` and the table ``composerHeaders`` are read, for what they say of
subagents and folders; the databases also hold tokens of the account.
Agent: ``~/.cursor/chats/<md5 of the folder>/<id>/store.db``, tables ``blobs`` and ``meta`` (JSON in
hexadecimal digits); newer versions put ``meta.json`` with folder and title beside it. And
``~/.cursor/projects/<project>/agent-transcripts/<id>/<id>.jsonl`` (or ``.txt``), a poorer copy.

A record is a row ``bubbleId:...`` and a message inside of a session's own row, and a session row
that cannot be read; a row of ``blobs``, and a ``meta`` row that cannot be read; in a transcript, a
line.

- The headers give the order. A header without its row, and a bubble that no header names (left by
  an edit), are counted; so is a bubble whose session has no row (``malformed-record``): without
  headers it has no place.
- Call and result stand in one bubble (``toolFormerData``): ``result`` and ``error`` as they stand,
  an error mark for ``error``, ``cancelled`` and ``rejected``, an empty result for ``pending``; a
  call that ended otherwise and holds neither is a ``tool-result-missing``. Transcripts have no
  results and models at all: each call is a ``tool-result-missing``, ids are made.
- ``latestConversationSummary`` comes behind the last message that it says it covers, else before
  the last turn.
- Wrappers of the program (``<user_query>``, ``<attached_files>`` ...) are taken off user text.
- ``[REDACTED]`` in transcripts is text that Cursor withheld; it is taken off and counted.
- A ``<timestamp>`` that newer agents put before a prompt is the time of its turn, to the minute.
- ``store.db``: messages are JSON in the words of the AI SDK, other rows are nodes of a tree
  (``record-skipped``, kind ``tree node``). The tree gives the order. Messages outside of it are
  earlier history (before the first in it: shadowed turns), newer than it (after its root: taken),
  or withdrawn (``message-discarded``). Without a readable root the order of the rows counts. No
  message has token counts; the key for encryption in ``meta`` is not read.
- The same chat can lie in all three places under one id. Each input is read as its own; ``dcb
  scan`` leaves out a transcript whose ``store.db`` holds messages.

Evidence: editor and transcripts have samples (A); ``store.db`` and the generations before 0.40 are
known from the notes and readers of others only (B; images and files in ``store.db`` C).

Not read: prompt history without answers (``aiService.prompts`` and ``aiService.generations`` are
counted), tool calls still pending and times inside the nodes of a tree, images of bubbles, usage
of stores where the counts are zero. Subagents are sessions with ``x-dcb.parent``, or with
``x-dcb.native.isSubagent`` where no row names the parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.formats.cursor import editor, store, transcript
from converters.formats.cursor.transcript import is_text_transcript
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from converters.ir import Session
    from converters.types import Context, Input, Listed

__all__ = ["FORMAT"]

_CHAT: Final = frozenset({"blobs", "meta"})


def probe(head: Head) -> Match | None:
    """Recognise the tables of the databases, or lines with role and message.content."""
    if head.is_sqlite:
        return _tables(head)
    first: Mapping[str, Any] = head.records[0] if head.records else {}
    message = first.get("message")
    if (
        first.get("role") in ("user", "assistant")
        and isinstance(message, dict)
        and "content" in message
        and "type" not in first
    ):
        return Match(88, "lines with role and message.content, without type")
    if head.first == "u" and is_text_transcript(head.text):
        return Match(70, "text with user: and assistant: lines and a user_query")
    return None


def _tables(head: Head) -> Match | None:
    if "cursorDiskKV" in head.tables:
        return Match(92, "table cursorDiskKV")
    if _is_chat(head):
        if any(mark in head.data for mark in store.MARKS):
            return Match(90, "tables blobs and meta, and the agent's names in meta")
        if head.tables == _CHAT:
            return Match(72, "tables blobs and meta only")
    if "ItemTable" in head.tables:
        if any(key.encode() in head.data for key in editor.OLD_KEYS):
            return Match(80, "table ItemTable with keys of Cursor")
        if "/Cursor/User/" in head.name.replace("\\", "/"):
            return Match(45, "table ItemTable in a folder of Cursor")
    return None


def _is_chat(head: Head) -> bool:
    return head.tables >= _CHAT and "cursorDiskKV" not in head.tables


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a database or the one of a transcript."""
    if not source.head.is_sqlite:
        yield from transcript.read_transcript(source, ctx)
    elif _is_chat(source.head):
        yield from store.read_store(source, ctx)
    else:
        yield from editor.read_editor(source, ctx)


def listing(source: Input) -> Iterable[Listed]:
    """List the sessions of an input."""
    if not source.head.is_sqlite:
        return transcript.listing(source)
    return store.listing(source) if _is_chat(source.head) else editor.listing(source)


def _places(user: str) -> tuple[str, ...]:
    agent = ".cursor/projects/*/agent-transcripts"
    return (
        f"{user}/globalStorage/state.vscdb",
        f"{user}/workspaceStorage/*/state.vscdb",
        ".cursor/chats/*/*/store.db",
        f"{agent}/*/*.jsonl",
        f"{agent}/*.jsonl",
        f"{agent}/*.txt",
        f"{agent}/*/*.txt",
    )


FORMAT = Format(
    id="cursor",
    title="Cursor (editor, agent and transcripts)",
    kinds=frozenset({"sqlite", "jsonl", "text"}),
    probe=probe,
    read=read,
    listing=listing,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        attachments=True,
        timestamps=True,
        usage=True,
        compacted=True,
        notes={
            "tool_results": "cursor: the databases; transcripts have none",
            "reasoning": "cursor: the databases; transcripts have none",
            "images": "cursor: image parts in the agent's database; bubbles name images only",
            "cwd": "cursor: the databases; transcripts have none",
            "attachments": "cursor: code put beside a prompt; files in the agent's database",
            "timestamps": "cursor: the editor's database; of prompts where the agent states them",
            "usage": "cursor: the editor's database, on the last answer of a turn",
            "compacted": "cursor: the editor's latest summary; the agent's earlier turns, shadowed",
        },
    ),
    places={
        "linux": _places(".config/Cursor/User"),
        "darwin": _places("Library/Application Support/Cursor/User"),
        "win32": _places("AppData/Roaming/Cursor/User"),
    },
    companions=(store.BESIDE, editor.WORKSPACE),
)
