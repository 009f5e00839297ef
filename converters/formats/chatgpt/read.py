"""Conversations of an export into sessions, one at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio
from converters.errors import BadInput
from converters.formats.chatgpt.content import Files, blocks_of, system_text, text_of
from converters.formats.chatgpt.tree import Node, is_conversation, tree_of
from converters.ir import Block, Extra, Meta, Reasoning, Session, Text, ToolCallBlock, ToolResult
from converters.text import parse_time
from converters.turns import TurnBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Context, Input

__all__ = ["read"]

_PART: Final = re.compile(r"(?:.*[/!])?conversations-\d+\.json")
_NATIVE: Final = ("gizmo_id", "is_archived", "is_starred", "memory_scope", "conversation_origin",
                  "update_time")  # fmt: skip


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of an export; numbered parts of one folder or archive belong together."""
    sources = [source]
    if source.nested and _PART.fullmatch(source.name):
        sources += [f for f in source.files("conversations-*.json") if f.name > source.name]
    seen: set[str] = set()
    for part in sources:
        ctx.ledger.source = part.name
        for place, conversation in _conversations(part, ctx):
            identity = _identity(conversation)
            if identity is not None and identity in seen:
                n = len(conversation["mapping"])
                ctx.ledger.seen(n)
                ctx.ledger.skipped("duplicate-record", place, n, kind="conversation")
                continue
            if identity is not None:
                seen.add(identity)
            fallback = f"{source.stem}{place.replace('/', '-')}"
            yield from _sessions(conversation, identity or fallback, place, source, ctx)


def _identity(conversation: dict[str, Any]) -> str | None:
    for member in ("conversation_id", "id"):
        value = conversation.get(member)
        if isinstance(value, str) and value:
            return value
    return None


def _conversations(source: Input, ctx: Context) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give ``(place, conversation)`` for every one in the file; what is none is skipped."""
    data = source.view()
    found: Iterator[tuple[str, Any]]
    if data[:64].lstrip()[:1] == b"[":
        found = _cut(source, ctx)
    else:
        found = iter(_documents(bytes(data), source, ctx))
    for place, value in found:
        if is_conversation(value):
            yield place, value
        else:
            ctx.ledger.seen()
            ctx.ledger.skipped("malformed-record", place, kind="conversation")


def _cut(source: Input, ctx: Context) -> Iterator[tuple[str, Any]]:
    """Cut a mapped array into its elements; a torn end keeps the whole ones."""
    for index, (offset, piece) in enumerate(jsonio.elements(source.view())):
        if piece is None:
            ctx.ledger.seen()
            ctx.ledger.skipped("truncated-input", f"byte {offset}")
            return
        try:
            value = msgspec.json.decode(piece)
        except (msgspec.DecodeError, RecursionError, ValueError):
            try:
                value = jsonio.load(bytes(piece), ctx.ledger, path=source.name)[0]
            except BadInput:
                value = None
        yield f"/{index}", value


def _documents(data: bytes, source: Input, ctx: Context) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for document in jsonio.load(data, ctx.ledger, path=source.name):
        if isinstance(document, list):
            inner = document
        elif isinstance(document, dict) and isinstance(document.get("conversations"), list):
            inner = document["conversations"]
        else:
            inner = [document]
        found += ((f"/{len(found) + index}", value) for index, value in enumerate(inner))
    return found


def _sessions(
    conversation: dict[str, Any], identity: str, place: str, source: Input, ctx: Context
) -> Iterator[Session]:
    nodes = _nodes(conversation["mapping"], place, ctx)
    tree = tree_of(nodes, conversation.get("current_node"))
    wanted = ctx.options.branch
    used = set(tree.path)
    given = [branch for n, branch in enumerate(tree.branches, 1) if wanted in ("all", n)]
    for branch in given:
        used.update(branch)
    files = Files(source)
    aside = _off_path(nodes, used, tree.branches, place, ctx)
    done: set[str] = set()
    if not isinstance(wanted, int):
        main = _Walk(conversation, identity, place, files, ctx)
        session = main.session(nodes, tree.path, done, aside)
        if session is not None:
            yield session
        elif not given:
            ctx.ledger.note("empty-session", place)
    for number, branch in enumerate(tree.branches, 1):
        if branch in given:
            name = f"{identity}~b{number}"
            walk = _Walk(conversation, name, place, files, ctx)
            session = walk.session(nodes, branch, done, {"branch": number, "of": identity})
            if session is not None:
                yield session
    if isinstance(wanted, int):
        rest = [name for name in tree.path if name not in done]
        if rest:
            ctx.ledger.skipped("branch-collapsed", place, len(rest))


def _nodes(mapping: dict[str, Any], place: str, ctx: Context) -> dict[str, Node]:
    """Cut the nodes out of a mapping and count them; what is no object is skipped."""
    ctx.ledger.seen(len(mapping))
    nodes = {name: node for name, node in mapping.items() if isinstance(node, dict)}
    for name in mapping.keys() - nodes.keys():
        ctx.ledger.skipped("malformed-record", f"{place}/mapping/{name}", kind="node")
    return nodes


def _off_path(
    nodes: dict[str, Node], used: set[str], branches: list[list[str]], place: str, ctx: Context
) -> Extra:
    """Keep the nodes of branches that are not given as sessions."""
    off = [name for name in nodes if name not in used]
    if not off:
        return {}
    ctx.ledger.aside("branch-collapsed", place, len(off))
    ends = [branch[-1] for branch in branches if branch[-1] not in used]
    return {"branches": {"leaves": ends, "nodes": {name: nodes[name] for name in off}}}


class _Walk:
    """One path of a conversation on its way into a session."""

    def __init__(
        self, conversation: dict[str, Any], identity: str, place: str, files: Files, ctx: Context
    ) -> None:
        self._conversation = conversation
        self._identity = identity
        self._place = place
        self._files = files
        self._ctx = ctx
        self._turns = TurnBuilder(ctx.ledger)
        self._reasoning: list[Block] = []
        self._system: list[str] = []
        self._attachments: list[Any] = []
        self._records: list[Any] = []

    def session(
        self, nodes: dict[str, Node], path: list[str], done: set[str], aside: Extra
    ) -> Session | None:
        """Walk the nodes of a path; nodes in ``done`` have their fate from another path."""
        ledger = self._ctx.ledger
        for name in path:
            fate = self._node(nodes[name], f"{self._place}/mapping/{name}")
            if name in done:
                continue
            done.add(name)
            if fate is None:
                ledger.mapped()
            elif fate in ("system-prompt-aside", "unknown-record"):
                ledger.aside(fate, f"{self._place}/mapping/{name}")
            else:
                ledger.skipped(fate, f"{self._place}/mapping/{name}")
        if self._reasoning:
            self._turns.step(self._reasoning)
        turns = self._turns.finish()
        if not turns:
            return None
        conversation = self._conversation
        title = conversation.get("title")
        model = conversation.get("default_model_slug")
        return Session(
            meta=Meta(
                self._identity,
                self._ms(conversation.get("create_time"), self._place),
                source_id=_identity(conversation),
            ),
            title=title if isinstance(title, str) and title else None,
            provider="chatgpt",
            model=model if isinstance(model, str) and model else None,
            turns=turns,
            extra=self._extra(aside),
        )

    def _extra(self, aside: Extra) -> Extra | None:
        native = {
            name: value
            for name in _NATIVE
            if isinstance(value := self._conversation.get(name), str | int | float)
        }
        extra: Extra = dict(aside)
        if self._system:
            extra["system"] = self._system
        if self._attachments:
            extra["attachments"] = self._attachments
        if self._records:
            extra["records"] = self._records
        if native:
            extra["native"] = native
        return extra or None

    def _ms(self, value: Any, place: str) -> int | None:
        if value is None:
            return None
        time = parse_time(value, self._ctx.options.tz)
        if time is None:
            self._ctx.ledger.note("timestamp-invalid", place)
            return None
        if time.assumed:
            self._ctx.ledger.note("tz-assumed", place)
        return time.ms

    def _node(self, node: Node, place: str) -> str | None:
        """Take one node; give the rule under which it is not mapped, or ``None``."""
        message = node.get("message")
        if message is None:
            return None
        if not isinstance(message, dict):
            return "malformed-record"
        author = message.get("author")
        author = author if isinstance(author, dict) else {}
        role = author.get("role")
        content = message.get("content")
        content = content if isinstance(content, dict) else {}
        kind = content.get("content_type")
        if role == "system" or kind in ("user_editable_context", "model_editable_context"):
            return self._system_message(message, content)
        time = self._ms(message.get("create_time"), place)
        if role == "user":
            return self._user(message, place, time)
        if role in ("assistant", "critic"):
            return self._assistant(message, content, place, time)
        if role == "tool":
            return self._tool(message, author.get("name"), place, time)
        self._records.append(message)
        return "unknown-record"

    def _system_message(self, message: dict[str, Any], content: dict[str, Any]) -> str:
        text = system_text(message, content)
        if not text:
            return "empty-message"
        self._system.append(text)
        return "system-prompt-aside"

    def _user(self, message: dict[str, Any], place: str, time: int | None) -> str | None:
        metadata = message.get("metadata")
        if isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation"):
            return "injection-skipped"
        blocks = blocks_of(message, self._files, self._ctx, place, self._attachments)
        if not blocks:
            return "empty-message"
        self._flush()
        self._turns.prompt(blocks, time=time, extra=_native(message))
        return None

    def _flush(self) -> None:
        """Give reasoning that no answer followed a step of its own."""
        if self._reasoning:
            self._turns.step(self._reasoning)
            self._reasoning = []

    def _assistant(
        self, message: dict[str, Any], content: dict[str, Any], place: str, time: int | None
    ) -> str | None:
        if content.get("content_type") == "reasoning_recap":
            return "record-skipped"
        recipient = message.get("recipient")
        if isinstance(recipient, str) and recipient not in ("", "all"):
            blocks: list[Block] = [self._call(message, recipient, content, place)]
        else:
            blocks = blocks_of(message, self._files, self._ctx, place, self._attachments)
        if blocks and all(isinstance(block, Reasoning) for block in blocks):
            self._reasoning += blocks
            return None
        if not blocks:
            return "empty-message"
        metadata = message.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        model = metadata.get("model_slug")
        self._turns.step(
            self._reasoning + blocks,
            time=time,
            model=model if isinstance(model, str) and model else None,
            extra=_native(message),
        )
        self._reasoning = []
        details = metadata.get("finish_details")
        if isinstance(details, dict) and details.get("type") == "interrupted":
            self._turns.abort()
        return None

    def _call(
        self, message: dict[str, Any], recipient: str, content: dict[str, Any], place: str
    ) -> ToolCallBlock:
        identity = message.get("id")
        if not isinstance(identity, str) or not identity or self._turns.declared(identity):
            identity = f"call{place.replace('/', '-')}"
            self._ctx.ledger.note("id-minted", place)
        return ToolCallBlock(identity, recipient, text_of(content))

    def _tool(self, message: dict[str, Any], name: Any, place: str, time: int | None) -> str | None:
        blocks = blocks_of(message, self._files, self._ctx, place, self._attachments)
        tool = name if isinstance(name, str) and name else "tool"
        call = self._turns.unanswered(tool) or self._turns.unanswered()
        if call is None:
            if not blocks:
                return "empty-message"
            made = self._call(message, tool, {}, place)
            call = made.id
            self._ctx.ledger.note("id-minted", place)
            step = self._turns.current or self._turns.step(time=time)
            self._turns.block(made, step)
        self._ctx.ledger.note("tool-result-text-fallback", place)
        status = message.get("status")
        error = any(isinstance(b, Text) and b.text.startswith("Error") for b in blocks[:1])
        failed = status == "finished_with_error" or (error and _kind(message) == "system_error")
        self._turns.result(ToolResult(call, blocks, failed, time), place)
        return None


def _kind(message: dict[str, Any]) -> Any:
    content = message.get("content")
    return content.get("content_type") if isinstance(content, dict) else None


def _native(message: dict[str, Any]) -> Extra | None:
    identity = message.get("id")
    return {"id": identity} if isinstance(identity, str) and identity else None
