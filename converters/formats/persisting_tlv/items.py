"""Blocks as messages: decoded text, parts, and the ids of calls and results.

A call fence has no id; it gets that of the result that answers it (by place, in the step
asked last), or the one that the header field ``tool_call_ids`` names, which dcb writes when
the place alone would not tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio
from converters.formats.persisting_tlv.body import (
    Call,
    Part,
    Result,
    Said,
    add_footers,
    cut_footers,
    footers_of,
    join,
    paragraphs,
    split,
)
from converters.formats.persisting_tlv.document import unix_length
from converters.formats.persisting_tlv.meaning import (
    ROLES,
    TYPES,
    own_role,
    role_of,
    storyline_of,
    text_of,
)
from converters.formats.persisting_tlv.upsert import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.formats.persisting_tlv.frame import Block, Document
    from converters.ledger import Ledger

__all__ = ["GENERIC_IDS", "Item", "items", "message_parts", "pair"]

FENCES: Final = {"user": "tool_result", "assistant": "tool"}
GENERIC_IDS: Final = frozenset({"", "tool", "call"})
"""What a result fence names when the source had no id."""


@dataclass(slots=True)
class Item:
    """One block as a message. ``ids`` are those of its calls, or of the calls it answers.

    ``raw`` is the body where writing the parts would not give it back.
    """

    n: int
    block: Block
    role: str
    text: str
    parts: list[Part]
    raw: str | None = None
    superseded: bool = False
    ids: list[str | None] = field(default_factory=list)

    @property
    def fields(self) -> dict[str, Any]:
        """The header fields."""
        return self.block.fields

    def native(self) -> dict[str, Any]:
        """Give what an export needs to write the block again: ``x-dcb.native`` member ``tlv``."""
        found: dict[str, Any] = {"n": self.n, "header": self.fields}
        if self.block.type != "markdown":
            found["type"] = self.block.type
        if self.raw is not None:
            found["body"] = self.raw
        return found


def items(document: Document, ledger: Ledger, *, newer: bool) -> list[Item]:
    """Give the messages of a document in order, with their ids paired."""
    found = list(_items(document, ledger, newer=newer))
    finals: set[Any] = set()
    for item in reversed(found):
        key = key_of(item.fields)
        if item.fields.get("draft") is True:
            item.superseded = key is not None and key in finals
        elif key is not None:
            finals.add(key)
    pair((item for item in found if not item.superseded), ledger)
    return found


def _items(document: Document, ledger: Ledger, *, newer: bool) -> Iterator[Item]:
    last = len(document.blocks) - 1
    for n, block in enumerate(document.blocks):
        role = role_of(block, newer=newer)
        _note_header(block, ledger, newer=newer)
        raw = _decoded(block, ledger, last=n == last)
        text, footers = cut_footers(raw)
        wanted = footers_of(block.fields)
        if footers != wanted:
            ledger.note("header-conflict", block.line, kind="footers")
        if role not in FENCES:
            yield Item(n, block, role if role in ROLES else "note", text, [], raw)
            continue
        parts = message_parts(text, role, block.fields, ledger, block.line, newer=newer)
        exact = add_footers(join(parts), wanted) == raw
        yield Item(n, block, role, text, parts, None if exact else raw)


def _note_header(block: Block, ledger: Ledger, *, newer: bool) -> None:
    """Note what is odd about a header and changes nothing."""
    if block.type not in TYPES:
        ledger.note("unknown-record", block.line, kind=f"type {block.type[:40]}")
    version = block.fields.get("v")
    if version is not None and (type(version) is not int or version != 1):
        ledger.note("unknown-record", block.line, kind=f"v {str(version)[:20]}")
    own = own_role(block.fields, newer=newer)
    speaker = block.speaker
    if own is None or speaker is None:
        return
    if speaker != own and {"agent": "assistant", "system": "note"}.get(speaker) != own:
        ledger.note("header-conflict", block.line, kind="speaker")


def _decoded(block: Block, ledger: Ledger, *, last: bool) -> str:
    """Give the body as text.

    Where the blank line behind the body is missing, its line breaks were counted into the
    body: the oldest files do that, and lengths that are too large by one or two.
    """
    body = block.body
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        ledger.note("encoding-repaired", block.line)
        text = body.decode("utf-8", "replace")
    stated = block.stated
    if stated is not None and stated != len(body) and unix_length(body) == stated:
        return text.replace("\r\n", "\n")
    missing = 2 - min(block.gap.count(b"\n"), 2)
    if missing and text.endswith("\n"):
        for _ in range(missing):
            text = text.removesuffix("\n").removesuffix("\r")
        if not last and not {"v", "step_id"}.isdisjoint(block.fields):
            ledger.note("malformed-record", block.line, kind="length_mismatch")
    return text


def message_parts(
    text: str,
    role: str,
    fields: dict[str, Any],
    ledger: Ledger | None = None,
    line: int | None = None,
    *,
    newer: bool,
) -> list[Part]:
    """Give the parts of a message body without its footers."""
    if newer and fields.get("message_encoding") == "json":
        return _json_parts(text, role, ledger, line)
    found = split(text, FENCES[role])
    if ledger is not None:
        if found.ambiguous:
            ledger.note("fence-ambiguous", line, found.ambiguous)
        if found.raw_arguments:
            ledger.note("tool-args-unparsed", line, found.raw_arguments)
    return found.parts


def _json_parts(text: str, role: str, ledger: Ledger | None, line: int | None) -> list[Part]:
    """Read a body that is JSON: a text or a list of content parts; others are shown as JSON."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        if ledger is not None:
            ledger.note("malformed-block", line, kind="json body")
        return split(text, FENCES[role]).parts
    parts: list[Part] = []
    for item in value if isinstance(value, list) else [value]:
        shown = item.get("text") if isinstance(item, dict) else item
        if isinstance(shown, str):
            parts += paragraphs(shown)
            continue
        if ledger is not None:
            ledger.note("unknown-block", line, kind="json body")
        parts.append(Said(jsonio.dumps(item).decode() if isinstance(value, list) else text))
    return parts


def pair(found: Iterable[Item], ledger: Ledger) -> None:
    """Give every call an id and every result the id of its call; ``None`` for an orphan."""
    pairing = _Pairing(ledger)
    for item in found:
        if item.role == "assistant":
            pairing.calls(item)
        elif item.role == "user":
            pairing.results(item)
        elif item.role == "tool":
            item.ids = [pairing.by_place(item.block.line)]
    pairing.mint()


class _Pairing:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._steps: list[Item] = []
        self._pending: list[tuple[Item, int]] = []
        self._open: set[str] = set()
        self._done: set[str] = set()
        self._crowded = False

    def calls(self, item: Item) -> None:
        count = sum(isinstance(part, Call) for part in item.parts)
        if not count:
            return
        named = item.fields.get("tool_call_ids")
        taken = self._open | self._done
        item.ids = [None] * count
        if isinstance(named, list) and len(named) == count:
            for index, name in enumerate(named):
                if isinstance(name, str) and name not in GENERIC_IDS and name not in taken:
                    item.ids[index] = name
                    self._open.add(name)
                    taken.add(name)
        self._steps.append(item)
        self._pending = [(item, index) for index, name in enumerate(item.ids) if name is None]
        self._crowded = len(self._pending) > 1

    def results(self, item: Item) -> None:
        item.ids = [
            self._answer(part.id, item.block.line)
            for part in item.parts
            if isinstance(part, Result)
        ]

    def _answer(self, native: str, line: int) -> str | None:
        if native in self._open:
            self._open.discard(native)
            self._done.add(native)
            return native
        if native in self._done:
            self._ledger.note("duplicate-tool-result", line)
            return None
        if not self._pending:
            self._ledger.note("orphan-tool-result", line)
            return None
        step, index = self._pending.pop(0)
        if self._crowded:
            self._ledger.note("tool-result-text-fallback", line)
        step.ids[index] = call_id = self._fresh() if native in GENERIC_IDS else native
        self._done.add(call_id)
        return call_id

    def by_place(self, line: int) -> str | None:
        """Give the oldest call of the last step that still waits, for a plain tool message."""
        if self._pending:
            step, index = self._pending.pop(0)
            step.ids[index] = call_id = self._fresh()
        else:
            waiting = [
                name for name in (self._steps[-1].ids if self._steps else []) if name in self._open
            ]
            if not waiting or waiting[0] is None:
                return None
            call_id = waiting[0]
            self._open.discard(call_id)
        self._done.add(call_id)
        self._ledger.note("tool-result-text-fallback", line)
        return call_id

    def _fresh(self) -> str:
        number = len(self._done) + len(self._open) + 1
        while (name := f"call-{number}") in self._done or name in self._open:
            number += 1
        self._ledger.note("id-minted")
        return name

    def mint(self) -> None:
        for step in self._steps:
            for index, name in enumerate(step.ids):
                if name is None:
                    step.ids[index] = fresh = self._fresh()
                    self._done.add(fresh)


def session_text(fields: dict[str, Any], *, newer: bool) -> str | None:
    """Give the session id that a header names."""
    told = storyline_of(fields).get("session") if newer else None
    return told if isinstance(told, str) and told else text_of(fields, "session_id")
