"""Writes a session as a DSH log, and says what the log cannot hold.

Source: Interchange v1, sections 7.3 (the text of a log), 9.1 (header) and 9.3.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import orjson

from converters.canonical import js_dumps
from converters.errors import DcbError, UsageError
from converters.formats.dsh.attachments import object_path, store_images
from converters.formats.dsh.events import Built, Event, build
from converters.ledger import count_items
from converters.text import JS_SPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from converters.formats.dsh.shapes import Generation
    from converters.ir import Block, Session, ToolResult, Turn
    from converters.ledger import Ledger
    from converters.types import Context, Sink

__all__ = [
    "account",
    "full_header",
    "is_absolute",
    "pack_zstd",
    "session_log",
    "session_text",
    "write",
]

_FRAME: Final = 1 << 20
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[/\\]|\\\\[^/\\]+[/\\]+[^/\\]")


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write logs with a complete header; images go beside it as objects of the store."""
    generation = _generation(ctx.option("generation", 4))
    for session in sessions:
        built = build(
            session, generation=generation, created_at=max(ctx.now_ms, 0), title=session.title
        )
        objects, degraded = store_images(built.events, generation=generation)
        header = full_header(session, generation, max(ctx.now_ms, 0))
        account(session, built, ctx.ledger, degraded=degraded, header=header)
        text = session_text(header, built.events)
        sink.write(pack_zstd(text) if ctx.option("zstd", default=False) else text)
        for digest, data in objects.items():
            sink.beside(object_path(digest), data)


def _generation(value: Any) -> Generation:
    if value in (3, 4):
        return 3 if value == 3 else 4
    raise UsageError(f"generation {value!r}; dcb writes 3 and 4")


def is_absolute(path: str) -> bool:
    """Whether a path is absolute on any platform: POSIX, drive or UNC."""
    return _ABSOLUTE.match(path) is not None


def full_header(session: Session, generation: int, created_at: int) -> dict[str, Any]:
    """Give the header that a host takes: only its known members, an absolute cwd only."""
    created = session.meta.created_at
    parent = _parent(session)
    header: dict[str, Any] = {
        "type": "session",
        "version": generation,
        "id": session.meta.id,
        "createdAt": created if created is not None and created >= 0 else created_at,
        "isSeeded": False,
        "delegationDepth": 0 if parent is None else 1,
    }
    cwd = session.meta.cwd
    if cwd is not None and is_absolute(cwd):
        header["cwd"] = cwd
    if parent is not None:
        header |= {"parentSession": parent, "origin": "subagent"}
    return header


def _parent(session: Session) -> str | None:
    parent = (session.extra or {}).get("parent")
    identity = parent.get("sessionId") if isinstance(parent, dict) else None
    return identity if isinstance(identity, str) and identity else None


def session_text(header: Mapping[str, Any], events: Iterable[Event]) -> bytes:
    """Give the text of a log that :func:`build` made: a header line, one line per event."""
    return b"\n".join([_line(header), *map(_line, events), b""])


def _line(value: Mapping[str, Any]) -> bytes:
    """Write a line like ``JSON.stringify``, fast where no foreign object can be inside."""
    try:
        line = orjson.dumps(value)
    except TypeError:
        # Lone surrogates and integers past 64 bits.
        return js_dumps(value).encode()
    return js_dumps(value).encode() if b'"attachment":{' in line else line


def session_log(meta: Mapping[str, Any], events: Iterable[Event]) -> str:
    """Give the log of a bundle: header ``type, id?, cwd?, createdAt?``, then the events.

    Rule: Interchange v1, section 7.3. ``events`` may be any parsed events, written as they are.
    """
    header: dict[str, Any] = {"type": "session"}
    for name in ("id", "cwd"):
        value = meta.get(name)
        if isinstance(value, str) and value:
            header[name] = value
    created = meta.get("createdAt")
    if isinstance(created, int | float) and not isinstance(created, bool):
        header["createdAt"] = created
    return "\n".join([js_dumps(header), *map(js_dumps, events), ""])


def pack_zstd(text: bytes) -> bytes:
    """Pack a log as DSH does: a checksummed frame for the header, then frames of whole lines.

    Raises :class:`DcbError` where the package zstandard is not installed.
    """
    try:
        import zstandard
    except ImportError as error:
        raise DcbError(
            "writing .zstd needs the package zstandard", hint="pip install 'dcb[zstd]'"
        ) from error
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    head = text.find(b"\n") + 1
    frames = [compressor.compress(text[:head])]
    start = head
    while start < len(text):
        end = text.find(b"\n", min(start + _FRAME, len(text) - 1)) + 1
        frames.append(compressor.compress(text[start:end]))
        start = end
    return b"".join(frames)


def account(
    session: Session,
    built: Built,
    ledger: Ledger,
    *,
    degraded: int,
    header: Mapping[str, Any],
) -> None:
    """Say of every item of the session whether the log holds it."""
    lost = _lost(session, built, header)
    _note_filled(session, ledger)
    if not ledger.itemize:
        for (rule, kind), n in lost.items():
            ledger.note(rule, None, n, kind)
        if degraded:
            ledger.note("image-text", None, degraded)
        return
    totals = count_items(session)
    gone: Counter[str] = Counter()
    for (_, kind), n in lost.items():
        gone[kind] += n
    images = min(degraded, totals["block.image"] - gone["block.image"])
    if images > 0:
        lost["image-text", "block.image"] += images
        gone["block.image"] += images
    ledger.total(totals)
    for (rule, kind), n in lost.items():
        ledger.lost(rule, kind, None, n)
    for kind, n in totals.items():
        ledger.kept(kind, n - gone[kind])


def _note_filled(session: Session, ledger: Ledger) -> None:
    """Report what the log says beyond the session: times, and empty results of open calls."""
    steps = [step for turn in session.turns for step in turn.steps]
    untimed = sum(turn.time is None for turn in session.turns)
    untimed += sum(step.time is None for step in steps)
    if untimed:
        ledger.note("time-filled", None, untimed)
    answered = {result.tool_call_id for step in steps for result in step.tool_results}
    unanswered = sum(call.id not in answered for step in steps for call in step.tool_calls)
    if unanswered:
        ledger.note("tool-result-missing", None, unanswered, "filled")


def _lost(session: Session, built: Built, header: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    lost: Counter[tuple[str, str]] = Counter()
    lost["extra-dropped", "extra"] = count_items(session)["extra"] - ("parentSession" in header)
    lost["cwd-dropped", "cwd"] = session.meta.cwd is not None and "cwd" not in header
    lost["title-dropped", "title"] = session.title is not None and not session.title.strip(JS_SPACE)
    lost["time-dropped", "time"] = built.late
    created = session.meta.created_at
    lost["time-dropped", "time"] += created is not None and header.get("createdAt") != created
    models = [step.model for turn in session.turns for step in turn.steps]
    lost["model-dropped", "model"] = session.model is not None and None not in models
    known = {call.id for turn in session.turns for step in turn.steps for call in step.tool_calls}
    answered: set[str] = set()
    covered = built.counts["shadowed"]
    for index, turn in enumerate(session.turns):
        lost["state-dropped", "state"] += turn.shadowed and index >= covered
        compaction = turn.compaction
        if compaction is not None and not turn.prompt.strip(JS_SPACE):
            _lose_prompt(turn, lost)
        for step in turn.steps:
            for result in step.tool_results:
                if result.tool_call_id not in known:
                    _lose_result(result, lost, "orphan-tool-result")
                elif result.tool_call_id in answered:
                    _lose_result(result, lost, "duplicate-tool-result")
                answered.add(result.tool_call_id)
    for turn in built.folded:
        lost["compaction-text", "compaction"] += 1
        lost["model-dropped", "model"] += (
            turn.compaction is not None and turn.compaction.model is not None
        )
    return +lost


def _lose_prompt(turn: Turn, lost: Counter[tuple[str, str]]) -> None:
    """Lose the prompt of a turn: without text, beside a compaction, it is not written."""
    if not turn.prompt and not turn.prompt_blocks:
        return
    lost["prompt-missing", "prompt"] += 1
    if turn.prompt_blocks:
        _lose_blocks(turn.prompt_blocks, lost, "prompt-missing")
    else:
        lost["prompt-missing", "block.text"] += 1


def _lose_result(result: ToolResult, lost: Counter[tuple[str, str]], rule: str) -> None:
    lost[rule, "result"] += 1
    lost[rule, "error"] += result.is_error
    lost[rule, "time"] += result.time is not None
    _lose_blocks(result.content, lost, rule)


def _lose_blocks(blocks: list[Block], lost: Counter[tuple[str, str]], rule: str) -> None:
    for block in blocks:
        tag = block.__struct_config__.tag
        if tag != "tool-call":
            lost[rule, f"block.{tag}"] += 1
