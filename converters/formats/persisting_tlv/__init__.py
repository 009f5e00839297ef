"""Persisting trajectory Markdown ("TLV"): readable message bodies, metadata in HTML comments.

The capture of the public project DeepLink-org/Persisting keeps one file per session:
``{storage}/{agent_id}/{run}/run-{id}.md``, ``agent-{id}.md`` for subagents,
``{session_id}.md``; the stand-alone capture writes ``trajectory.md``. A document is a YAML
frontmatter (``format: persisting:1.0``) and blocks::

    <!-- persisting:block:user {"type":"markdown","length":6,"role":"user",...} -->

    (exactly ``length`` bytes of UTF-8)

The record of the account is the block. Read are all generations from May to August 2026 (G0
to G5 and the stand-alone writer): ``persisting:1.0`` with ``role``, then with
``source``/``step_id``, and ``persisting`` with ``storyline``. Written is ``persisting:1.0`` as
of 2026-08-01 (G2): keys sorted, ``turns`` is the number of user blocks. What came from a TLV
document gets its headers, notes and frontmatter back byte for byte.

``length`` is authoritative; text in a body that looks like a block is text. Where a length does
not end at a boundary, the block is cut at the next header (``malformed-record``, kind
``length_mismatch``); a block whose header cannot be read keeps its speaker and text. A draft
that nothing finished makes its turn aborted (``draft-open``); one that a later block of the same
``call_id`` and role finished is left out. A subagent file is a session of its own with
``x-dcb.parent``.

Tool calls are fences without an id. A call takes the id of the result that answers it, by place
in the last step; documents that dcb writes name the ids in the header field ``tool_call_ids``
where the place would not tell. Results without a call, notes, spawn links and system prompts
are kept in ``x-dcb.records`` and ``x-dcb.system``. An image is a placeholder with the first 12
hex digits of BLAKE3 over its base64 text (``attachment-skipped``, ``x-dcb.image``): the bytes are
only in the event log.

Lost when written: reasoning, image bytes (a placeholder stays), compactions (a note stays), the
working directory, token buckets for the cache, error marks of results; the order of a text and a
call stays, the border between two texts of one message does not. Every one is reported.

Beside the format: :func:`upsert` replaces the block of one call in a live document,
:func:`compact` gives the capture records of a document, :func:`parse` and :func:`serialize`
the lossless document.

Source: published format "轨迹 Markdown 格式" of the project and the behaviour of its code up to
2026-08-22.
"""

from __future__ import annotations

import re
from typing import Final

from converters.formats.persisting_tlv.capture import compact
from converters.formats.persisting_tlv.document import parse
from converters.formats.persisting_tlv.frame import (
    Block,
    Document,
    FrameError,
    new_block,
    parse_strict,
    serialize,
)
from converters.formats.persisting_tlv.reader import read
from converters.formats.persisting_tlv.upsert import upsert
from converters.formats.persisting_tlv.writer import write
from converters.types import Capabilities, Format, Head, Match

__all__ = [
    "FORMAT",
    "Block",
    "Document",
    "FrameError",
    "compact",
    "new_block",
    "parse",
    "parse_strict",
    "serialize",
    "upsert",
]

_FORMAT: Final = re.compile(
    r"^format:[ \t]*+(?:\"persisting(?::[^\"\n]*+)?\"|'persisting(?::[^'\n]*+)?'"
    r"|persisting(?::[^\s#]*+)?)[ \t\r]*+$",
    re.MULTILINE,
)
_CLOSE: Final = re.compile(r"^[ \t]*+---[ \t\r]*+$", re.MULTILINE)
_BLOCK: Final = re.compile(
    r"^[ \t]*+<!-- persisting:block(?:[ \t]*+:[ \t]*+[A-Za-z0-9_-]++)?[ \t]*+(?:\{\"|-->)",
    re.MULTILINE,
)
_PREAMBLE: Final = re.compile(r"(?:#[^\n]*+\n|[ \t\r]*+\n)*+")


def probe(head: Head) -> Match | None:
    """Recognise the frontmatter's ``format``, or a block header where a document begins."""
    text = head.text.removeprefix("\ufeff")
    skipped = _PREAMBLE.match(text)
    start = skipped.end() if skipped else 0
    opening = _CLOSE.match(text, start)
    if opening:
        closing = _CLOSE.search(text, opening.end())
        limit = closing.start() if closing else len(text)
        if _FORMAT.search(text, opening.end(), limit):
            return Match(100, "frontmatter with format: persisting")
        start = closing.end() if closing else start
        skipped = _PREAMBLE.match(text, start + 1)
        start = skipped.end() if skipped else start
    if _BLOCK.match(text, start):
        return Match(95, "a persisting:block header at the start")
    if _BLOCK.search(text):
        return Match(40, "a persisting:block header somewhere in it")
    return None


FORMAT = Format(
    id="persisting-tlv",
    title="Persisting trajectory Markdown (TLV)",
    kinds=frozenset({"markdown"}),
    probe=probe,
    read=read,
    write=write,
    suffix=".md",
    aliases=("tlv", "persisting"),
    capabilities=Capabilities(
        tool_results=True,
        timestamps=True,
        usage=True,
        notes={
            "tool_results": "fences; the ids of calls come from their results",
            "images": "placeholders with a fingerprint, the bytes are not in the file",
            "usage": "input and output tokens without cache buckets",
        },
    ),
)
