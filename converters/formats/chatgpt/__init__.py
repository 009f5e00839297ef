"""ChatGPT data export: conversations as trees of messages.

The export (Settings, Data controls, Export) is a zip with ``conversations.json``, or with numbered
parts ``conversations-000.json`` and so on, beside images (``file-*``) and pages that hold no
conversation. A single conversation object (a web capture) and ``{"conversations": [...]}`` are read
too. A large export is read one conversation at a time.

A record is a node of ``mapping``. The active path runs from ``current_node`` to the root; where
that is broken, from the newest leaf, and parts with a lost parent are put in front by their time.
Nodes off the path are branches: kept in ``x-dcb.branches``, given as sessions by ``--branch``.

- ``thoughts`` become reasoning of the next answer; ``reasoning_recap`` ("Thought for 12 s") is
  skipped.
- An assistant message to a tool (``recipient`` is not ``all``) is a tool call; its arguments are
  the text as it stands. There are no call ids: a tool message answers the oldest open call of its
  author's name (``tool-result-text-fallback``), else a call is made for it (``id-minted``).
- Images have bytes only where the export holds the file; other files are text placeholders with an
  entry in ``x-dcb.attachments``.
- Citations are kept in ``x-dcb.citations`` of the text block; marks in the text stay.

The format has no usage and no working directory. Ratings, weights and sharing flags are kept in
``x-dcb.native`` where they are simple values.

Sources: the export itself; the community specification 3.0 of February 2026.
"""

from __future__ import annotations

from converters.formats.chatgpt.read import read
from converters.formats.chatgpt.tree import is_conversation
from converters.types import Capabilities, Format, Head, Match

__all__ = ["FORMAT"]


def probe(head: Head) -> Match | None:
    """Recognise a conversation by its ``mapping`` of nodes with messages and parents."""
    records = head.records
    root = head.root
    if isinstance(root, dict) and isinstance(root.get("conversations"), list):
        records = tuple(r for r in root["conversations"][:20] if isinstance(r, dict))
    for record in records:
        if is_conversation(record) and "inserted_at" not in record:
            return Match(90, "conversation with a mapping of message nodes")
    return None


FORMAT = Format(
    id="chatgpt",
    title="ChatGPT data export",
    kinds=frozenset({"json"}),
    probe=probe,
    read=read,
    capabilities=Capabilities(
        tool_results=True,
        branches=True,
        attachments=True,
        timestamps=True,
        reasoning=True,
        images=True,
        notes={
            "tool_results": "chatgpt: without structured arguments or ids, paired by name",
            "reasoning": "chatgpt: newer exports hold `thoughts`",
            "images": "chatgpt: where the export holds the file",
        },
    ),
    companions=(
        "conversations-*.json",
        "chat.html",
        "user.json",
        "user_settings.json",
        "message_feedback.json",
        "shared_conversations.json",
        "group_chats.json",
        "model_comparisons.json",
        "shopping.json",
        "sora.json",
        "export_manifest.json",
        "file-*",
        "file_*",
        "*/file-*",
        "*/file_*",
        "dalle-generations/*",
        "textdocs/*",
    ),
)
