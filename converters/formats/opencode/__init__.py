"""OpenCode (the TypeScript one): two generations of its database, its JSON tree, its exports.

- Database, ``$XDG_DATA_HOME/opencode/opencode.db``, by default ``~/.local/share/opencode/`` on
  every system. Version 1: ``session``, ``message``, ``part``. Version 2: ``session_v2``,
  ``session_message``; where it exists the tables of version 1 are what it was migrated from, and
  are not read.
- JSON tree (before the database), ``~/.local/share/opencode/storage/``:
  ``session/<project>/*.json``, ``message/<session>/*.json``, ``part/<message>/*.json``, by id. The
  folder is one input. Before that ``session/`` held ``info/``, ``message/`` and ``part/``; then
  ``session`` is the input. The tree stays after the move into the database: found in a folder or
  by ``dcb scan``, it gives only the sessions that no database beside it has
  (``duplicate-record``); named itself, it gives all.
- ``opencode export``: ``{info, messages: [{info, parts}]}``; also with the parts inline.

A record is a row (or file, or object) of a message or a part. A message of version 2 has no part
rows; its content belongs to it.

- A prompt usually has several assistant messages; each is a step. A tool part is call and result.
- Synthetic text is an injection. Attached images keep their bytes where the store holds them.
- A typed command that runs as a subagent leaves only a ``subtask`` part: its ``prompt`` is the
  prompt of the turn, ``x-dcb.subtasks`` says which command it was.
- A compaction shadows what came before it, up to ``tail_start_id``; its summary message is the
  summary, not dialogue; what it cost is in the ``x-dcb`` of the compaction. Reverted messages are
  skipped (``message-discarded``), and of a message that a revert cuts the parts from there on.
- An answer with an ``error`` aborts its turn and has ``x-dcb.error {name, message}``; one that is
  nothing else is aside in ``x-dcb.errors`` of the turn.
- Subagents (``parent_id``) are sessions with ``x-dcb.parent``.
- Messages whose session is gone are sessions of their own (``history-truncated``); a part belongs
  to its message, one without is counted.
- Tokens: ``input`` excludes cached ones already; version 2 stores none.

Source: OpenCode 1.x (``message-v2``, storage migration), 2.x tables as seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.formats.opencode.listing import listing
from converters.formats.opencode.stores import read_document, read_v1
from converters.formats.opencode.tree import read_tree
from converters.formats.opencode.v2 import read_v2
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from converters.ir import Session
    from converters.types import Context, Input

__all__ = ["FORMAT"]

_TREE: Final = frozenset({"session/", "message/", "part/"})
_OLD_TREE: Final = frozenset({"info/", "message/", "part/"})


def probe(head: Head) -> Match | None:
    """Recognise the tables, the three folders of a tree, or a document by its ids."""
    if head.is_dir:
        if head.siblings >= _TREE:
            return Match(92, "folders session, message and part")
        if head.siblings >= _OLD_TREE:
            return Match(85, "folders info, message and part")
        return None
    if head.is_sqlite:
        if {"session_v2", "session_message"} <= head.tables:
            return Match(92, "tables session_v2 and session_message")
        if {"session", "message", "part"} <= head.tables:
            return Match(85, "tables session, message and part")
        return None
    root = head.root
    if isinstance(root, dict) and isinstance(root.get("messages"), list):
        info = root.get("info")
        holder: Mapping[str, Any] = info if isinstance(info, dict) else root
        identity = holder.get("id")
        if isinstance(identity, str) and identity.startswith("ses_"):
            return Match(90, "a session whose id starts with ses_, with messages")
    return None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of any of the stores."""
    head = source.head
    if head.is_dir:
        return read_tree(source, ctx)
    if not head.is_sqlite:
        return read_document(source, ctx)
    return read_v2(source, ctx) if "session_v2" in head.tables else read_v1(source, ctx)


_PLACES: Final = (
    ".local/share/opencode/opencode*.db",
    ".local/share/opencode/storage",
    "$XDG_DATA_HOME/opencode/opencode*.db",
    "$XDG_DATA_HOME/opencode/storage",
)

FORMAT = Format(
    id="opencode",
    title="OpenCode store and export",
    kinds=frozenset({"sqlite", "dir", "json"}),
    probe=probe,
    read=read,
    listing=listing,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        attachments=True,
        compacted=True,
        timestamps=True,
        usage=True,
        notes={
            "images": "opencode: file parts with inline bytes",
            "timestamps": "opencode: of each message",
            "usage": "opencode: version 1; version 2 stores none",
        },
    ),
    places={"linux": _PLACES, "darwin": _PLACES, "win32": _PLACES},
    resume="opencode -s {id}",
)
