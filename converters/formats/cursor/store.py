"""The agent's own database of one chat (``store.db``) into a session.

``blobs`` holds rows by the hash of their content: messages as JSON, and the nodes of a tree in
the wire format of Protocol Buffers. Field 1 of a node, repeated, names its children by their 32
bytes; the root that ``meta`` names holds the messages that the model sees, in order.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import sqlitedb
from converters.errors import DcbError
from converters.formats.cursor.bubbles import first_text
from converters.formats.cursor.human import said, stamped
from converters.formats.cursor.parts import Found, models_of, parts_of
from converters.ir import Block, Extra, Meta, Session, Text, ToolCallBlock, ToolResult
from converters.ledger import Ledger
from converters.shapes.cells import object_of
from converters.shapes.rows import mint_id
from converters.text import parse_time
from converters.turns import TurnBuilder
from converters.types import Context, Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Input

__all__ = ["BESIDE", "MARKS", "holds_messages", "listing", "read_store"]

BESIDE: Final = "meta.json"
"""Beside the database: folder, title and times of the chat, as newer versions write it."""

MARKS: Final = (b"226167656e74496422", b"226c6174657374526f6f74426c6f62496422", b'"agentId"')
"""``"agentId"`` and ``"latestRootBlobId"`` as ``meta`` holds them, in hexadecimal digits."""

_ROWS: Final = "SELECT rowid AS number, id, data FROM blobs ORDER BY rowid"
_META: Final = "SELECT key, value FROM meta ORDER BY key = '0' DESC, key"
_HASH: Final = 32
_NO_ONE: Final = -1


class _Blobs(NamedTuple):
    """The rows: number and message by id, in order; children of each node; number of each id."""

    messages: dict[str, dict[str, Any]]
    nodes: dict[str, list[str]]
    numbers: dict[str, int]


def listing(source: Input) -> list[Listed]:
    """List the chat by its ``meta`` row and the file beside it."""
    connection = source.database()
    try:
        sqlitedb.require(connection, "blobs", "meta")
        if not _any_message(connection):
            return []
        info = _info(connection, Ledger())
    finally:
        connection.close()
    side = _beside(source, Ledger())
    identity = first_text(info, ("agentId",)) or _folder(source)
    if identity is None:
        identity = next((s.meta.id for s in read_store(source, Context(Ledger()))), None)
    if identity is None:
        return []
    stated = side.get("updatedAtMs") or _number(info.get("createdAt")) or side.get("createdAtMs")
    time = parse_time(stated)
    title = first_text(info, ("name",)) or first_text(side, ("title",))
    ms = time.ms if time is not None else None
    return [Listed(identity, title, first_text(side, ("cwd",)), ms)]


def holds_messages(source: Input) -> bool:
    """Whether a database of a chat can be read and holds messages."""
    try:
        connection = source.database()
        try:
            sqlitedb.require(connection, "blobs", "meta")
            return _any_message(connection)
        finally:
            connection.close()
    except DcbError:
        return False


def _any_message(connection: Any) -> bool:
    sql = "SELECT 1 FROM blobs WHERE substr(CAST(data AS BLOB), 1, 1) = x'7B' LIMIT 1"
    return connection.execute(sql).fetchone() is not None


def read_store(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a chat's database."""
    connection = source.database()
    try:
        connection.execute("BEGIN")
        sqlitedb.require(connection, "blobs", "meta")
        info = _info(connection, ctx.ledger)
        blobs = _blobs(connection, ctx.ledger)
    finally:
        connection.close()
    side = _beside(source, ctx.ledger)
    if side.get("isSubagent") is True and ctx.options.subagents == "skip":
        ctx.ledger.skipped("subagent-skipped", "blobs", len(blobs.messages))
        return
    walk = _Walk(ctx, blobs)
    _tell(walk, blobs, info.get("latestRootBlobId"), ctx.ledger)
    session = walk.session(info, side, source)
    if session is None:
        ctx.ledger.note("empty-session", "blobs")
    else:
        yield session


def _info(connection: Any, ledger: Ledger) -> dict[str, Any]:
    """Give what ``meta`` says of the chat: JSON in hexadecimal digits, in early versions plain."""
    for row in sqlitedb.rows(connection, _META, (), ledger, table="meta", key="key"):
        place = sqlitedb.place(row, "meta", "key")
        value = row["value"]
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        data = None
        if isinstance(text, str):
            with contextlib.suppress(ValueError):
                text = bytes.fromhex(text)
            data = object_of(text, ledger, place)
        if data is not None:
            return data
        ledger.seen()
        ledger.skipped("malformed-record", place, kind="meta")
    return {}


def _beside(source: Input, ledger: Ledger) -> dict[str, Any]:
    for file in source.files(BESIDE):
        try:
            data = object_of(file.read(), ledger, BESIDE)
        except DcbError:
            continue
        if data is not None:
            return data
    return {}


def _folder(source: Input) -> str | None:
    """Give the name of the folder of a ``store.db``, which is the id of the chat."""
    parts = source.name.replace("\\", "/").replace("!", "/").split("/")
    return (parts[-2] or None) if len(parts) > 1 and parts[-1] == "store.db" else None


def _number(value: Any) -> Any:
    """Give a time that some versions write as digits in a text."""
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    return int(value) if digits else value


def _blobs(connection: Any, ledger: Ledger) -> _Blobs:
    """Read all rows; what is no message has its fate here."""
    blobs = _Blobs({}, {}, {})
    for row in sqlitedb.rows(connection, _ROWS, (), ledger, table="blobs", record=True):
        identity, data = row["id"], row["data"]
        name = identity.hex() if isinstance(identity, bytes) else str(identity)
        place = f"blobs.id={name[:64]}"
        number = row["number"]
        blobs.numbers[name] = number if isinstance(number, int) else _NO_ONE
        if isinstance(data, str):
            data = data.encode("utf-8", "replace")
        if not isinstance(data, bytes) or not data:
            ledger.skipped("malformed-record", place, kind="blob")
        elif data[:1] == b"{":
            message = object_of(data, ledger, place)
            if not message:
                ledger.skipped("malformed-record", place, kind="message")
            elif "role" not in message or name in blobs.messages:
                ledger.skipped("unknown-record", place, kind="JSON")
            else:
                blobs.messages[name] = message
        else:
            children, whole = _children(data)
            if children:
                blobs.nodes[name] = children
            if whole or children:
                ledger.skipped("record-skipped", place, kind="tree node")
            else:
                ledger.skipped("unknown-record", place, kind="binary")
    return blobs


def _children(data: bytes) -> tuple[list[str], bool]:
    """Give the hashes in field 1 of a node, and whether all of it is in the wire format."""
    found: list[str] = []
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        if tag < 8:
            return found, False
        wire = tag & 7
        if wire == 2:
            size, position = _varint(data, position)
            if size < 0 or position + size > len(data):
                return found, False
            if tag == 10 and size == _HASH:
                found.append(data[position : position + size].hex())
            position += size
        elif wire == 0:
            value, position = _varint(data, position)
            if value < 0:
                return found, False
        elif wire in (1, 5):
            position += 8 if wire == 1 else 4
        else:
            return found, False
    return found, position == len(data)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Give a number and where it ends; -1 where there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    return -1, position


def _tell(walk: _Walk, blobs: _Blobs, root: Any, ledger: Ledger) -> None:
    """Take the messages in the order of the conversation.

    Messages outside of the current tree: those before its first are what a compaction took out
    (shadowed turns), those after the root are newer than it; any other was withdrawn by an edit.
    """
    order = _order(blobs, root, ledger)
    if not order:
        for name in blobs.messages:
            walk.take(name)
        return
    numbers = blobs.numbers
    live = set(order)
    first = min((numbers[name] for name in live if walk.speaks(name)), default=0)
    last = numbers.get(root, 0)
    others = [name for name in blobs.messages if name not in live]
    for name in others:
        if numbers[name] < first:
            walk.take(name)
    walk.compact()
    for name in order:
        walk.take(name)
    for name in others:
        if numbers[name] > max(first, last):
            walk.take(name)
        elif numbers[name] >= first:
            walk.discard(name)


def _order(blobs: _Blobs, root: Any, ledger: Ledger) -> list[str]:
    """Give the messages below the root in order, one as often as it is named."""
    if not isinstance(root, str) or not root:
        return []
    if root not in blobs.numbers:
        ledger.note("history-truncated", f"blobs.id={root[:64]}")
        return []
    for name in blobs.nodes.get(root, ()):
        if name not in blobs.numbers:
            ledger.note("history-truncated", f"blobs.id={name}")
    found: list[str] = []
    opened: set[str] = set()
    stack = [root]
    while stack:
        name = stack.pop()
        if name in blobs.messages:
            found.append(name)
        elif name not in opened:
            opened.add(name)
            stack += reversed(blobs.nodes.get(name, ()))
    return found


class _Walk:
    """The messages of a chat on their way into turns."""

    def __init__(self, ctx: Context, blobs: _Blobs) -> None:
        self._ctx = ctx
        self._ledger = ctx.ledger
        self._blobs = blobs
        self._turns = TurnBuilder(ctx.ledger)
        self._system: list[str] = []
        self._told: set[str] = set()
        self._cwd: str | None = None
        self._calls = 0

    def speaks(self, name: str) -> bool:
        """Whether a message is dialogue: no system prompt, and not only the program's own words."""
        message = self._blobs.messages[name]
        role = message.get("role")
        if role != "user":
            return role in ("assistant", "tool")
        blocks = parts_of(message.get("content"), Ledger(), 0).blocks
        return any(not isinstance(b, Text) or said(stamped(b.text)[0])[0] for b in blocks)

    def compact(self) -> None:
        """Mark what was taken so far as out of the model's sight."""
        if self._turns.turns:
            self._turns.compaction("", provider="cursor", place="blobs")

    def discard(self, name: str) -> None:
        """Leave out a message that the conversation no longer holds; system prompts are kept."""
        role = str(self._blobs.messages[name].get("role"))[:40]
        if role == "system":
            self.take(name)
        else:
            self._ledger.skipped("message-discarded", f"blobs.id={name[:64]}", kind=role)

    def take(self, name: str) -> None:
        """Take a message; its record has one fate, however often the tree names it."""
        ledger = self._ledger
        message = self._blobs.messages[name]
        place = f"blobs.id={name[:64]}"
        fate = self._message(message, name, place)
        if name in self._told:
            return
        self._told.add(name)
        if fate is None:
            ledger.mapped()
        elif fate == "system-prompt-aside":
            ledger.aside(fate, place)
        else:
            ledger.skipped(fate, place, kind=str(message.get("role"))[:40])

    def _message(self, message: dict[str, Any], name: str, place: str) -> str | None:
        role = message["role"]
        if role not in ("system", "user", "assistant", "tool"):
            return "role-unknown"
        found = parts_of(message.get("content"), self._ledger, place)
        if role == "system":
            texts = [block.text for block in found.blocks if isinstance(block, Text)]
            self._system += [text for text in texts if text not in self._system]
            return "system-prompt-aside" if texts else "empty-message"
        fate: str | None = "empty-message"
        if role == "user":
            fate = self._user(found.blocks, name, place)
        elif role == "assistant":
            fate = self._assistant(found, message, name, place)
        elif found.blocks:
            self._ledger.note("malformed-block", place, len(found.blocks), kind="tool")
        for result, tool in found.results:
            self._result(result, tool, place)
        return None if found.results else fate

    def _user(self, blocks: list[Block], name: str, place: str) -> str | None:
        kept: list[Block] = []
        dropped = 0
        time: int | None = None
        for block in blocks:
            if not isinstance(block, Text) or block.extra:
                kept.append(block)
                continue
            self._cwd = self._cwd or _workspace(block.text)
            words, stamp = stamped(block.text)
            time = self._ctx.ms(stamp, place) if time is None else time
            text, n = said(words)
            dropped += n
            if text:
                kept.append(Text(text))
        if not kept:
            return "injection-skipped" if dropped else "empty-message"
        if dropped:
            self._ledger.note("injection-skipped", place, dropped)
        self._turns.prompt(kept, time=time, extra={"id": name})
        return None

    def _assistant(
        self, found: Found, message: dict[str, Any], name: str, place: str
    ) -> str | None:
        for block in found.blocks:
            if isinstance(block, ToolCallBlock) and not block.id:
                self._calls += 1
                block.id = f"call-{self._calls}"
                self._ledger.note("id-minted", place)
        if not found.blocks:
            return "empty-message"
        model = next(iter([*models_of(message), *found.models]), None)
        step = self._turns.step(None, model=model, extra={"id": name})
        for block in found.blocks:
            self._turns.block(block, step, place)
        return None

    def _result(self, result: ToolResult, tool: str | None, place: str) -> None:
        if not result.tool_call_id:
            call = self._turns.unanswered(tool) or self._turns.unanswered()
            if call is None:
                self._ledger.note("orphan-tool-result", place)
                return
            self._ledger.note("tool-result-text-fallback", place)
            result.tool_call_id = call
        self._turns.result(result, place)

    def session(self, info: dict[str, Any], side: dict[str, Any], source: Input) -> Session | None:
        """Give the session, or ``None`` without a turn."""
        turns = self._turns.finish()
        if not turns:
            return None
        identity = first_text(info, ("agentId",)) or _folder(source)
        if identity is None:
            identity = mint_id("\n".join(self._blobs.messages).encode(), 0)
            self._ledger.note("id-minted", "meta")
        made = _number(info.get("createdAt"))
        created = self._ctx.ms(side.get("createdAtMs") if made is None else made, "meta")
        extra: Extra = {"system": self._system} if self._system else {}
        native: Extra = {}
        mode = first_text(info, ("mode",))
        if mode is not None:
            native["mode"] = mode
        if side.get("isSubagent") is True:
            native["isSubagent"] = True
        if native:
            extra["native"] = native
        return Session(
            meta=Meta(identity, created, first_text(side, ("cwd",)) or self._cwd, identity),
            title=first_text(info, ("name",)) or first_text(side, ("title",)),
            provider="cursor",
            model=first_text(info, ("lastUsedModel",)),
            turns=turns,
            extra=extra or None,
        )


def _workspace(text: str) -> str | None:
    """Give the folder that the program names in its description of the user's machine."""
    start = text.find("<user_info>")
    end = text.find("</user_info>", start)
    mark = text.find("Workspace Path:", start, end) if 0 <= start < end else -1
    if mark < 0:
        return None
    line = text[mark + len("Workspace Path:") : end].partition("\n")[0]
    return line.strip() or None
