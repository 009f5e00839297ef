"""ChatGPT data export: conversations as trees of messages.

The export (Settings, Data controls, Export) is a zip with ``conversations.json``, or with numbered
parts ``conversations-000.json`` and so on, beside images, uploads and voice (``file-*``,
``dalle-generations``) and pages that hold no conversation. Parts in one folder or archive are one
export, each conversation id once; a part that cannot be read is counted as one record and the
others are read. A single conversation object (a web capture) and ``{"conversations": [...]}`` are
read too. A large export is read one conversation at a time; of one that is cut, the last
conversation keeps what is still there.

A record is a node of ``mapping``. The active path runs from ``current_node`` to the root; where
that is broken or nothing is said on the way, from the newest leaf. Parts with a lost parent are put
in by their time. Nodes off the path are branches: kept whole in ``x-dcb.branches``, or sessions
with ``--branch``.

- ``thoughts`` become reasoning of the next answer; ``reasoning_recap`` ("Thought for 12 s") is
  skipped.
- An assistant message to a tool (``recipient`` is not ``all``) is a tool call; its arguments are
  the text as it stands, its id that of the message. A tool message answers the nearest open call
  of its author's name, else the nearest of the turn (``tool-result-text-fallback``), else a call is
  made for it (``id-minted``); further messages of one tool belong to the same result.
- System messages, custom instructions and memories are in ``x-dcb.system``. User messages that
  the tool hid (``injection-skipped``), messages of weight 0 (superseded) and of unknown roles are
  kept in ``x-dcb.records``. A canvas is what its calls say; its final text in ``textdocs`` is
  counted (``record-skipped``).
- Texts of a content beside the one that is read (a page's summary, an error's name, the language of
  code) are in ``x-dcb.native`` of the block.
- Images have bytes where the export holds the file, else they are placeholders. Files and voice are
  placeholders whose ``x-dcb.attachments`` has the bytes where the export holds them.
- Citations are kept in ``x-dcb.citations`` of the text block. A mark in the text that one of the
  ``content_references`` names gives way to what this shows (``alt``); others stay.

The format has no usage and no working directory. What else the conversation says (update time,
archived, GPT, ratings ...) is kept in ``x-dcb.native``; of messages the id and an unusual channel.

Sources: the export itself; the community specification 3.0 of February 2026.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Final

from converters.formats.chatgpt.export import NUMBERED, PARTS
from converters.formats.chatgpt.files import DOCUMENTS, PATTERNS, last_of
from converters.formats.chatgpt.read import read
from converters.formats.chatgpt.tree import is_conversation
from converters.types import Capabilities, Format, Head, Match

__all__ = ["FORMAT"]

_OWN: Final = ("current_node", "conversation_id", "create_time", "title")
_PECULIAR: Final = frozenset(
    {"default_model_slug", "gizmo_id", "memory_scope", "moderation_results", "safe_urls"}
)
_MEMBERS: Final = _PECULIAR | {*_OWN, "is_archived", "is_starred", "mapping", "update_time"}
"""Members of a conversation, of which some stand before the first whole node."""
_ENOUGH: Final = 2


def probe(head: Head) -> Match | None:
    """Recognise a conversation by its ``mapping`` of nodes with messages and parents."""
    records = head.records
    root = head.root
    if isinstance(root, dict) and isinstance(root.get("conversations"), list):
        records = tuple(r for r in root["conversations"][:20] if isinstance(r, dict))
    for record in records:
        if is_conversation(record) and "inserted_at" not in record:
            if record["mapping"]:
                return Match(90, "conversation with a mapping of message nodes")
            if any(member in record for member in _OWN):
                return Match(60, "conversation with an empty mapping")
    return _begun(head, records[0] if records else {})


def _begun(head: Head, record: dict[str, Any]) -> Match | None:
    """Recognise a file whose head ends before the first ``mapping``, by its members and name."""
    name = last_of(head.name)
    if head.root == [] and fnmatchcase(name, NUMBERED):
        return Match(30, "part of an export without a conversation")
    if "inserted_at" in record or "messages" in record:
        return None
    if len(_MEMBERS & record.keys()) >= _ENOUGH:
        if fnmatchcase(name, PARTS):
            return Match(50, "named as an export, begins with members of a conversation")
        if not _PECULIAR.isdisjoint(record):
            return Match(40, "begins with members of a conversation")
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
        PARTS,
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
        DOCUMENTS,
        *PATTERNS,
    ),
    series=(PARTS,),
)
