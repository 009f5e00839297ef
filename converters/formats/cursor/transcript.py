"""Agent transcripts, as JSON Lines or as text, into a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.cursor.human import said, stamped
from converters.formats.cursor.store import holds_messages
from converters.ir import Block, Meta, Session, Text, ToolCallBlock, ToolResult
from converters.ledger import Ledger
from converters.shapes import anthropic
from converters.turns import TurnBuilder
from converters.types import Context, Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Input

__all__ = ["is_text_transcript", "listing", "read_transcript"]

_REDACTED: Final = "[REDACTED]"
_MARKS: Final = ("[Thinking]", "[Tool call] ", "[Tool result] ")


def is_text_transcript(text: str) -> bool:
    """Whether a text starts like the text variant: a ``user:`` line, then a query."""
    start = text[:4096].lstrip("\ufeff\n\r ")
    return start.startswith(("user:\n", "user:\r\n")) and (
        "<user_query>" in text or "\nassistant:" in text
    )


def listing(source: Input) -> list[Listed]:
    """List a transcript by reading it; none where the agent's own database holds the chat.

    Two of the places below ``projects`` are one folder deeper than the others.
    """
    for up in ("../../..", "../../../.."):
        stores = source.files(f"{up}/chats/*/{{stem}}/store.db")
        if any(holds_messages(store) for store in stores):
            return []
    return [
        Listed(s.meta.id, s.turns[0].prompt or None)
        for s in read_transcript(source, Context(Ledger()))
    ]


def read_transcript(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a transcript, whose id is the name of the file."""
    walk = _Walk(ctx)
    if is_text_transcript(source.head.text):
        for line, role, parts in _text_messages(source, ctx.ledger):
            walk.take(role, parts, line)
    else:
        with source.open() as stream:
            for line, record in jsonio.records(stream, ctx.ledger):
                message = record.get("message")
                content = message.get("content") if isinstance(message, dict) else None
                walk.take(record.get("role"), content, line)
    turns = walk.turns.finish()
    if turns:
        yield Session(meta=Meta(source.stem, source_id=source.stem), provider="cursor", turns=turns)


class _Walk:
    def __init__(self, ctx: Context) -> None:
        self.turns = TurnBuilder(ctx.ledger)
        self._ctx = ctx
        self._ledger = ctx.ledger
        self._calls = 0

    def take(self, role: Any, content: Any, line: int) -> None:
        """Take one message and say what became of it."""
        found = anthropic.parts(content, self._ledger, line)
        if role == "user":
            fate = self._user(found.blocks, line)
        elif role == "assistant":
            fate = self._assistant(found.blocks, line)
        else:
            fate = "role-unknown"
        for given in found.results:
            known = given.call_id if isinstance(given.call_id, str) else None
            call = known or self.turns.unanswered(given.name) or self.turns.unanswered()
            if call is None:
                self._ledger.note("orphan-tool-result", line)
            else:
                self.turns.result(ToolResult(call, given.content, given.is_error), line)
        if fate is None or found.results:
            self._ledger.mapped()
        else:
            self._ledger.skipped(fate, line, kind=str(role)[:40])

    def _user(self, blocks: list[Block], line: int) -> str | None:
        kept: list[Block] = []
        dropped = 0
        time: int | None = None
        for block in blocks:
            if isinstance(block, Text):
                words, stamp = stamped(block.text)
                time = self._ctx.ms(stamp, line) if time is None else time
                text, n = said(words)
                dropped += n
                if text:
                    kept.append(Text(text, block.extra))
            else:
                kept.append(block)
        if not kept:
            return "injection-skipped" if dropped else "empty-message"
        if dropped:
            self._ledger.note("injection-skipped", line, dropped)
        self.turns.prompt(kept, time=time)
        return None

    def _assistant(self, blocks: list[Block], line: int) -> str | None:
        kept: list[Block] = []
        for block in blocks:
            if isinstance(block, Text) and _REDACTED in block.text:
                n = block.text.count(_REDACTED)
                self._ledger.note("text-changed", line, n, kind="redacted")
                text = block.text.replace(_REDACTED, "").rstrip(" ")
                if text.strip():
                    kept.append(Text(text, block.extra))
                continue
            if isinstance(block, ToolCallBlock) and not block.id:
                self._calls += 1
                block.id = f"call-{self._calls}"
                self._ledger.note("id-minted", line)
            kept.append(block)
        if not kept:
            return "empty-message"
        self.turns.step(kept)
        return None


def _text_messages(
    source: Input, ledger: Ledger
) -> Iterator[tuple[int, str, list[dict[str, Any]]]]:
    """Cut the text variant into messages: line, role, content in the shape of the JSON one."""
    text = jsonio.sniff_text(source.read()).replace("\r\n", "\n")
    role, start = "", 0
    lines: list[str] = []
    for number, line in enumerate([*text.split("\n"), "user:"], 1):
        if line in ("user:", "assistant:"):
            if role:
                ledger.seen()
                yield start, role, list(_content(role, lines))
            elif any(lines):
                ledger.note("text-outside-records", 1)
            role, start, lines = line[:-1], number, []
        else:
            lines.append(line)


def _content(role: str, lines: list[str]) -> Iterator[dict[str, Any]]:
    """Give the parts of a message: text, and in answers thinking, calls and results."""
    if role == "user":
        yield {"type": "text", "text": "\n".join(lines).strip("\n")}
        return
    mark, body = "", list[str]()
    for line in [*lines, "[Thinking]"]:
        opens = line.startswith(_MARKS)
        ends = bool(mark) and bool(line) and not line.startswith((" ", "\t"))
        if opens or ends:
            yield from _part(mark, body)
            mark, body = (line, []) if opens else ("", [line])
        else:
            body.append(line)


def _part(mark: str, body: list[str]) -> Iterator[dict[str, Any]]:
    text = "\n".join(line.removeprefix("  ") if mark else line for line in body).strip("\n")
    if mark.startswith("[Thinking]"):
        first = mark.removeprefix("[Thinking]").strip()
        whole = "\n".join(filter(None, [first, text]))
        if whole:
            yield {"type": "thinking", "thinking": whole}
    elif mark.startswith("[Tool call] "):
        yield {"type": "tool_use", "name": mark[12:].strip() or "tool", "input": text}
    elif mark.startswith("[Tool result] "):
        yield {"type": "tool_result", "tool_use_id": None, "content": text}
    elif text:
        yield {"type": "text", "text": text}
