"""TLV documents into sessions."""

from __future__ import annotations

import codecs
import uuid
from typing import TYPE_CHECKING, Any, Final

from blake3 import blake3

from converters.errors import BadInput, UnsupportedVersion
from converters.formats.persisting_tlv.body import Call, Result, Said, join, paragraphs
from converters.formats.persisting_tlv.document import is_newer, parse
from converters.formats.persisting_tlv.frontmatter import FORMAT_NAME, read_frontmatter
from converters.formats.persisting_tlv.items import Item, items, session_text
from converters.formats.persisting_tlv.meaning import (
    Requests,
    kind_of,
    storyline_of,
    text_of,
    time_of,
    usage_of,
)
from converters.ir import Block, Extra, Meta, Session, Text, ToolCallBlock, ToolResult
from converters.text import parse_time
from converters.turns import TurnBuilder, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.formats.persisting_tlv.frame import Document
    from converters.ledger import Ledger
    from converters.types import Context, Input

__all__ = ["PROVIDER", "read"]

PROVIDER: Final = "persisting"
_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a document; a document without a conversation gives none.

    Raises :class:`BadInput` for bytes without frontmatter and block,
    :class:`UnsupportedVersion` for ``persisting:N`` other than 1.0.
    """
    data = _utf8(source.read(), ctx.ledger)
    document = parse(data, ctx.ledger)
    front = read_frontmatter(document.preamble, ctx.ledger)
    if not document.blocks and (front is None or "format" not in front):
        raise BadInput("no block of a TLV document in it", path=source.name)
    front = front or {}
    name = front.get("format")
    if isinstance(name, str) and name.startswith("persisting:") and name != FORMAT_NAME:
        raise UnsupportedVersion(
            f"the document says {name[:40]!r}; dcb reads {FORMAT_NAME} and persisting",
            path=source.name,
            position=1,
        )
    if ctx.options.subagents == "skip" and _is_subagent(document):
        first = document.blocks[0]
        ctx.ledger.skipped("subagent-skipped", first.line, len(document.blocks))
        return
    session = _Reading(ctx, front, newer=is_newer(document.preamble)).session(document)
    if session is not None:
        yield session


def _utf8(data: bytes, ledger: Ledger) -> bytes:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            ledger.note("encoding-repaired", 1)
            return data.decode(encoding, "replace").encode("utf-8", "replace")
    return data


def _is_subagent(document: Document) -> bool:
    return bool(document.blocks) and text_of(document.blocks[0].fields, "subagent_id") is not None


class _Reading:
    """The state of one document while its messages become turns."""

    def __init__(self, ctx: Context, front: dict[str, Any], *, newer: bool) -> None:
        self.ctx = ctx
        self.ledger = ctx.ledger
        self.front = front
        self.newer = newer
        self.builder = TurnBuilder(ctx.ledger)
        self.requests = Requests()
        self.records: list[dict[str, Any]] = []
        self.system: list[str] = []
        self.asides: list[tuple[str, int, str]] = []
        self.times: list[int] = []
        self.model: str | None = None
        self.empty: tuple[Item, int | None] | None = None
        self.drafts = False

    def session(self, document: Document) -> Session | None:
        found = items(document, self.ledger, newer=self.newer)
        handlers = {"user": self.user, "assistant": self.assistant, "tool": self.tool}
        for item in found:
            if item.superseded:
                self.ledger.skipped("duplicate-record", item.block.line, kind="draft")
            else:
                handlers.get(item.role, self.other)(item)
        self._drop_empty()
        turns = self.builder.finish()
        for rule, line, kind in self.asides:
            if turns:
                self.ledger.aside(rule, line, kind=kind)
            else:
                self.ledger.skipped("record-skipped", line, kind=kind)
        if not turns:
            return None
        first = found[0].fields
        meta = Meta(self._id(document), self._started())
        provider = text_of(self.front, "provider") or PROVIDER
        model = text_of(self.front, "model") or text_of(self.front, "model_name") or self.model
        return Session(
            meta=meta,
            title=title_of(turns),
            provider=provider,
            model=model,
            turns=turns,
            extra=self._extra(first),
        )

    def user(self, item: Item) -> None:
        """Attach results to their calls; any text opens a turn of its own."""
        self.requests.saw(item.fields, newer=self.newer)
        time = self._time(item)
        native: Extra | None = {"native": {"tlv": item.native()}}
        said = [part for part in item.parts if isinstance(part, Said)]
        results = [part for part in item.parts if isinstance(part, Result)]
        attached = 0
        for part, call_id in zip(results, item.ids, strict=True):
            if call_id is None:
                continue
            content = self._blocks(paragraphs(part.text), item.block.line)
            extra = native if not said and not attached else self._beside(item)
            self.builder.result(ToolResult(call_id, content, time=time, extra=extra))
            attached += 1
        if said or attached:
            self._keep_orphans(item, results)
        if said:
            self._drop_empty()
            self.builder.prompt(self._blocks(said, item.block.line), time=time, extra=native)
        elif not results:
            self._drop_empty()
            self.empty = item, time
            return
        elif not attached:
            self._aside("record-aside", item, "tool_result")
            return
        self.ledger.mapped()

    def _keep_orphans(self, item: Item, results: list[Result]) -> None:
        """Keep results without a call whose block is mapped otherwise."""
        left = [part for part, name in zip(results, item.ids, strict=True) if name is None]
        if left:
            kept = item.native() | {"role": item.role, "body": join(left)}
            self.records.append({"tlv": kept})

    def _beside(self, item: Item) -> Extra:
        """Mark a result as one of several messages of a block."""
        return {"native": {"tlv": {"n": item.n}}}

    def _drop_empty(self) -> None:
        if self.empty is not None:
            self.ledger.skipped("empty-message", self.empty[0].block.line)
            self.empty = None

    def assistant(self, item: Item) -> None:
        """Make a step; an open draft marks its turn as aborted."""
        line = item.block.line
        usage = usage_of(item.fields, self.ledger, line)
        time = self._time(item)
        if not item.parts and usage is None:
            self.ledger.skipped("empty-message", line)
            return
        if self.empty is not None:
            (empty, asked), self.empty = self.empty, None
            self.builder.prompt([], time=asked, extra={"native": {"tlv": empty.native()}})
            self.ledger.mapped()
        model = self.requests.model_of(item.fields, newer=self.newer)
        self.model = model or self.model
        self.builder.step(
            time=time, model=model, usage=usage, extra={"native": {"tlv": item.native()}}
        )
        ids = iter(item.ids)
        for part in item.parts:
            if isinstance(part, Call):
                self.builder.block(ToolCallBlock(next(ids) or "", part.name, part.arguments))
            elif isinstance(part, Said):
                for block in self._blocks([part], line):
                    self.builder.block(block)
        draft = item.fields.get("draft") is True
        if draft:
            self.ledger.note("draft-open", line)
        if self.builder.turn is not None:
            self.builder.turn.aborted = draft
        self.ledger.mapped()

    def tool(self, item: Item) -> None:
        """Attach an imported tool message to the oldest call that still waits."""
        call_id = item.ids[0] if item.ids else None
        if call_id is None:
            self._aside("record-aside", item, "tool")
            return
        content = self._blocks(paragraphs(item.text), item.block.line)
        self.builder.result(
            ToolResult(
                call_id,
                content,
                time=self._time(item),
                extra={"native": {"tlv": item.native()}},
            )
        )
        self.ledger.mapped()

    def other(self, item: Item) -> None:
        """Keep notes and records of other kinds aside; system prompts by themselves."""
        if item.role == "system":
            self._aside("system-prompt-aside", item, "", system=len(self.system))
            self.system.append(item.text)
        else:
            self._aside("record-aside", item, kind_of(item.fields, newer=self.newer))

    def _aside(self, rule: str, item: Item, kind: str, **more: Any) -> None:
        self.asides.append((rule, item.block.line, kind))
        native = item.native() | {"role": item.role}
        if more:
            native.pop("body", None)
        elif "body" not in native:
            native["body"] = item.text
        self.records.append({"tlv": native | more})

    def _blocks(self, said: list[Said], line: int) -> list[Block]:
        blocks: list[Block] = []
        for part in said:
            if part.image is not None:
                self.ledger.note("attachment-skipped", line, kind="image")
            blocks.append(Text(part.text, {"image": part.image} if part.image else None))
        return blocks

    def _time(self, item: Item) -> int | None:
        tz = self.ctx.options.tz
        time = time_of(item.fields, self.ledger, item.block.line, newer=self.newer, tz=tz)
        if time is not None:
            self.times.append(time)
        return time

    def _id(self, document: Document) -> str:
        """Give the id of the frontmatter, else of the first header, else one of the content."""
        told = storyline_of(self.front).get("session")
        found = text_of(self.front, "session") or text_of(self.front, "session_id")
        if found is None and isinstance(told, str) and told:
            found = told
        if found is None:
            found = session_text(document.blocks[0].fields, newer=self.newer)
        if found is not None:
            return found
        self.ledger.note("id-minted")
        digest = blake3()
        for block in document.blocks:
            digest.update(block.head)
            digest.update(block.body)
        return str(uuid.uuid5(uuid.NAMESPACE_OID, digest.hexdigest()))

    def _started(self) -> int | None:
        """Give the time that the frontmatter names, else the first of the blocks."""
        value = self.front.get("started", self.front.get("started_at"))
        if value is not None:
            found = parse_time(value, self.ctx.options.tz) if isinstance(value, str) else None
            if found is not None:
                return found.ms
            self.ledger.note("timestamp-invalid", 1)
        return min(self.times, default=None)

    def _extra(self, first: dict[str, Any]) -> Extra:
        front = {key: value for key, value in self.front.items() if key not in ("format", "block")}
        extra: Extra = {"native": {"tlv": {"frontmatter": front}}}
        if self.records:
            extra["records"] = self.records
        if self.system:
            extra["system"] = self.system
        subagent = text_of(first, "subagent_id")
        if subagent is not None:
            parent = text_of(first, "parent_agent_id")
            extra["parent"] = {"subagentId": subagent} | ({"agentId": parent} if parent else {})
        return extra
