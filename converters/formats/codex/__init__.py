"""Codex CLI and Desktop: one rollout file per session.

Where: ``$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`` (default ``~/.codex``), and
``archived_sessions/``; newer builds compress old ones (``.jsonl.zst``; where the plain file
stands beside it, that one counts, as for the tool). The tool's own index is a table of
``state*.sqlite``, which dcb does not write.

Generations: a single JSON document ``{session, items}``; JSONL of bare items under a head line;
since then every line is ``{timestamp, type, payload}``. Source: fact sheet ``codex`` and the
exports of Interchange v1, section 10.

A record is a line (of the document: the session and each item). ``response_item`` is the
conversation. An event that repeats an item (same kind and text, each item takes one) is skipped as
a repetition; one without an item counts as the message itself. Usage comes from ``token_count``
events; input excludes cached tokens here. A step is an assistant message with the calls after it.

Turns that were rolled back are branches. Encrypted reasoning is kept in ``x-dcb.sealed`` for the
same tool, its summary is readable. Kept in ``x-dcb``: system prompts and instructions, git state,
the forms of calls, unknown records. Lost, and counted: events about the run (commands, limits).

Pages (experimental, evidence C): a file whose ``history_base`` names another one, as forks and
reverted threads have since 0.146, is read with that file's records, up to the place stated, before
its own (``history-joined``, ``x-dcb.pages``). Pages are looked for by the id in their name in the
same folder, in those of other days and in ``archived_sessions``. One that is missing is named
(``history-truncated``) and the session begins with what there is. A page is also a session of its
own, with what came after that place.

Writing gives a rollout that ``codex resume`` reads; the list of the tool may need its index row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.formats.codex.naming import file_name, native_id
from converters.formats.codex.reader import is_document, read
from converters.formats.codex.verify import verify
from converters.formats.codex.writer import write
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FORMAT", "native_id", "verify"]

_ENVELOPES: Final = frozenset({"response_item", "event_msg", "turn_context", "compacted"})
_ITEMS: Final = frozenset({"message", "reasoning", "function_call", "function_call_output"})


def probe(head: Head) -> Match | None:
    """Recognise the envelope of a rollout, or one of its older shapes."""
    root = head.root
    if is_document(root) and "turns" not in root:
        return Match(88, "one document with session and items")
    score, reason = 0, ""
    bare = False
    for record in head.records:
        kind, payload = str(record.get("type")), record.get("payload")
        if kind == "session_meta" and isinstance(payload, dict):
            return Match(95, "session_meta line")
        if kind in _ENVELOPES and isinstance(payload, dict):
            score, reason = 85, "lines of type, payload and timestamp"
        elif _bare_head(record):
            bare = True
        elif bare and (kind in _ITEMS or "record_type" in record) and score < 80:
            score, reason = 80, "a head line and bare items"
    if not score and b'"session_meta"' in head.data[:2048]:
        # The head can be longer than what a probe sees: it holds whole instructions.
        return Match(85, "a session_meta line, cut")
    return Match(score, reason) if score else None


def _bare_head(record: Mapping[str, Any]) -> bool:
    return (
        "type" not in record
        and isinstance(record.get("id"), str)
        and isinstance(record.get("timestamp"), str)
        and ("instructions" in record or "git" in record)
    )


_PLACES: Final = tuple(
    f"{root}/{pattern}"
    for root in ("$CODEX_HOME", ".codex")
    for pattern in (
        "sessions/*/*/*/rollout-*.jsonl",
        "sessions/*/*/*/rollout-*.jsonl.zst",
        "archived_sessions/rollout-*.jsonl",
        "archived_sessions/rollout-*.jsonl.zst",
        "sessions/rollout-*.json",
    )
)

FORMAT: Final = Format(
    id="codex",
    title="OpenAI Codex",
    kinds=frozenset({"jsonl", "json"}),
    probe=probe,
    read=read,
    write=write,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        branches=True,
        attachments=True,
        compacted=True,
        timestamps=True,
        usage=True,
        notes={
            "compacted": "codex: the message of a `compacted` line is the summary",
            "reasoning": "summaries; the encrypted part is kept for the tool itself",
            "branches": "turns that were rolled back",
            "usage": "from token_count events; the reference reader has none",
        },
    ),
    evidence="A",
    suffix=".jsonl",
    places=dict.fromkeys(("linux", "darwin", "win32"), _PLACES),
    # While the tool compresses a rollout, both stand there.
    companions=("{name}.zst",),
    resume="codex resume {id}",
    file_name=file_name,
)
