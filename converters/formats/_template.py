"""TOOL transcripts: one JSON object per line.

Copy this file to ``converters/formats/NAME.py`` (or into a plugin package) and say here what a
person wants to know: where the tool keeps its files on each system, which versions were seen,
what a record looks like, and what is lost. ``dcb formats NAME`` prints this text.

A record is a line: ``{"session", "role": "user" | "assistant", "text", "at"}``, ``at`` in ISO
8601. Records of other roles are kept aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from converters import jsonio
from converters.ir import Extra, Meta, Session, Text
from converters.ledger import count_items
from converters.text import iso_ms
from converters.turns import TurnBuilder
from converters.types import Capabilities, Format, Head, Match

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from converters.types import Context, Input, Sink

__all__ = ["FORMAT"]


def probe(head: Head) -> Match | None:
    """Recognise the first line by members that no other format has together."""
    first = head.records[0] if head.records else {}
    if first.keys() >= {"session", "role", "text", "at"}:
        return Match(85, "lines with session, role, text and at")
    return None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the one session of a file; what cannot be read is counted with its line."""
    ledger = ctx.ledger
    turns = TurnBuilder(ledger)
    session_id: str | None = None
    aside: list[dict[str, Any]] = []
    with source.open() as stream:
        for line, record in jsonio.records(stream, ledger):
            text = record.get("text")
            if not isinstance(text, str):
                ledger.skipped("malformed-record", line)
                continue
            role = record.get("role")
            time = ctx.ms(record.get("at"), line)
            if role == "user":
                turns.prompt([Text(text)], time=time)
                ledger.mapped()
            elif role == "assistant":
                turns.step([Text(text)], time=time)
                ledger.mapped()
            else:
                aside.append(record)
                ledger.aside("unknown-record", line, kind=str(role))
            if session_id is None and isinstance(record.get("session"), str):
                session_id = record["session"]
    found = turns.finish()
    if found:
        extra: Extra | None = {"records": aside} if aside else None
        first = next((turn.time for turn in found if turn.time is not None), None)
        meta = Meta(session_id or source.stem, first, source_id=session_id)
        yield Session(meta=meta, provider=FORMAT.id, turns=found, extra=extra)


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write prompts and answers; everything else is reported, item by item."""
    for session in sessions:
        counts = count_items(session) if ctx.ledger.itemize else {}
        ctx.ledger.total(counts)
        kept = dict.fromkeys(counts, 0)
        for turn in session.turns:
            if turn.prompt:
                kept["prompt"] = kept.get("prompt", 0) + 1
                _line(sink, _record(session, "user", [turn.prompt], turn.time), kept)
            for step in turn.steps:
                texts = [block.text for block in step.content if isinstance(block, Text)]
                if texts:
                    _line(sink, _record(session, "assistant", texts, step.time), kept)
                    kept["block.text"] = kept.get("block.text", 0) + len(texts) - 1
        for kind, total in counts.items():
            done = min(kept[kind], total)
            ctx.ledger.kept(kind, done)
            ctx.ledger.lost("block-dropped", kind, session.meta.id, total - done)


def _record(session: Session, role: str, texts: list[str], time: int | None) -> dict[str, str]:
    at = "" if time is None else iso_ms(time)
    return {"session": session.meta.id, "role": role, "text": "\n".join(texts), "at": at}


def _line(sink: Sink, record: dict[str, str], kept: dict[str, int]) -> None:
    kept["block.text"] = kept.get("block.text", 0) + 1
    kept["time"] = kept.get("time", 0) + bool(record["at"])
    sink.write(jsonio.dumps(record) + b"\n")


FORMAT = Format(
    id="template",
    title="TOOL session",
    kinds=frozenset({"jsonl"}),
    probe=probe,
    read=read,
    write=write,
    suffix=".jsonl",
    evidence="C",
    capabilities=Capabilities(timestamps=True),
    places={
        "linux": (".tool/sessions/*.jsonl",),
        "darwin": (".tool/sessions/*.jsonl",),
        "win32": ("AppData/Roaming/tool/sessions/*.jsonl",),
    },
    resume="tool --resume {id}",
)
