"""DSH (DeepSeek Harness) session log, generations 3 and 4.

Where: ``$DSH_HOME/sessions/<project key>/<session>/session.jsonl`` or ``session.jsonl.zstd``,
``~/.dsh`` by default; images in ``$DSH_HOME/attachments/v1/objects``. Versions seen: header
version 0 to 4. Generation 3 wraps a result in a ``tool-result`` block of a user message and names
producers ``plugin``; generation 4 has a message of role ``tool`` and producers of their own.

Line 1 is the header (``type: session``, id, cwd, createdAt), then one event per line:
``{type, seq, time, data, surfaceOp?, sourceEventSeqs?}``. A record of the account is a line.
``user/message`` opens a turn when a human wrote it; the rest are injections, counted. A
compaction is ``compaction/summary`` with the seqs that it covers, followed by the message that
stands for them; the turns that it covers whole are ``shadowed``. A second human message within
one DSH turn opens its own turn (``x-dcb.native.turn`` keeps the number).

Lost when read: streamed chunks and the host's own events (permissions, hooks, plans, ...), named in
the report; images are references unless the attachment store lies at its place beside the log.
When written: message ids are made anew; times only move forward, an item without a time gets that
of what came before; ``x-dcb`` but the parent session is left out; a system head and a notice about
the changed environment are added, as the reference does. ``-O generation=3`` writes the older
shape (images become ``[image]``), ``-O zstd=true`` packs the log in checksummed frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from converters.formats.dsh.attachments import Find, object_hash, object_path
from converters.formats.dsh.events import Built, build, events
from converters.formats.dsh.read import read_log
from converters.formats.dsh.write import session_log, write
from converters.types import Capabilities, Context, Format, Head, Input, Match, Option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session

__all__ = ["FORMAT", "Built", "build", "events", "read_log", "session_log"]


def probe(head: Head) -> Match | None:
    """Recognise the header of a session followed by numbered events, or events alone."""
    records = head.records
    numbered = [
        record
        for record in records
        if isinstance(record.get("seq"), int)
        and isinstance(record.get("data"), dict)
        and isinstance(record.get("type"), str)
        and "/" in record["type"]
    ]
    first = records[0] if records else {}
    header = first.get("type") == "session" and "createdAt" in first and "seq" not in first
    if header and numbered:
        return Match(95, "session header and numbered events")
    if header and len(records) == 1:
        return Match(60, "session header without events")
    if len(numbered) >= 2 or any("surfaceOp" in record for record in numbered):
        return Match(85, "numbered events without a header")
    return None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a log, or nothing when no conversation is in it."""
    with source.open() as stream:
        session = read_log(stream, ctx, stem=source.stem, find=_store(source))
    if session is not None:
        yield session


def _store(source: Input) -> Find:
    """Give a look-up in the attachment store: of the home above the log, or files beside it."""

    def find(attachment_id: str) -> bytes | None:
        digest = object_hash(attachment_id)
        if digest is None:
            return None
        path = object_path(digest)
        for pattern in (f"../../../{path}", path, f"{{stem}}.*{digest}*"):
            for found in source.files(pattern):
                return found.read()
        return None

    return find


FORMAT = Format(
    id="dsh",
    title="DSH (DeepSeek Harness) session log",
    kinds=frozenset({"jsonl"}),
    probe=probe,
    read=read,
    write=write,
    evidence="A",
    suffix=".jsonl",
    places=dict.fromkeys(
        ("linux", "darwin", "win32"),
        ("$DSH_HOME/sessions/**/session.jsonl*", ".dsh/sessions/**/session.jsonl*"),
    ),
    companions=("attachments/v1/objects/*/*", "{stem}.attachments-*"),
    options=(
        Option("generation", 4, "log generation to write: 3 or 4"),
        Option("zstd", default=False, help="write the log zstd-compressed, as DSH stores it"),
    ),
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        compacted=True,
        timestamps=True,
        usage=True,
        notes={
            "images": "bytes from the attachment store; written in generation 4 only",
            "timestamps": "written times never go back",
        },
    ),
)
