"""Rows of the store, and lines of older files, into sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio, sqlitedb
from converters.formats.goose.blocks import blocks_of
from converters.ir import Block, Extra, Meta, Session, Text
from converters.text import parse_time
from converters.turns import TurnBuilder
from converters.types import Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Context, Input

__all__ = ["listing", "read"]

_INJECTED: Final = ("<info-msg>", "[system note]")
_UNNAMED: Final = ("New session", "CLI Session")
_TOTALS: Final = (
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "accumulated_total_tokens",
    "accumulated_input_tokens",
    "accumulated_output_tokens",
    "accumulated_cost",
)


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a store, or the one of an older file."""
    if source.head.is_sqlite:
        yield from _store(source, ctx)
        return
    session = _file(source, ctx)
    if session is not None:
        yield session


def listing(source: Input) -> list[Listed]:
    """List a store by its session table alone."""
    if not source.head.is_sqlite:
        from converters.ledger import Ledger
        from converters.types import Context as Plain

        return [
            Listed(s.meta.id, s.title or s.turns[0].prompt, s.meta.cwd, s.turns[-1].time)
            for s in read(source, Plain(Ledger()))
        ]
    connection = source.database()
    try:
        sqlitedb.require(connection, "sessions", "messages")
        found = sqlitedb.rows(connection, "SELECT * FROM sessions ORDER BY id")
        return [_listed(row) for row in found]
    finally:
        connection.close()


def _listed(row: dict[str, Any]) -> Listed:
    time = parse_time(row.get("updated_at"))
    cwd = row.get("working_dir")
    return Listed(
        str(row.get("id")),
        _title(row),
        cwd if isinstance(cwd, str) else None,
        time.ms if time is not None else None,
    )


def _store(source: Input, ctx: Context) -> Iterator[Session]:
    ledger = ctx.ledger
    connection = source.database()
    try:
        connection.execute("BEGIN")
        sqlitedb.require(connection, "sessions", "messages")
        # Some rows hold milliseconds; they sort by what they mean.
        ms = "created_timestamp > 100000000000"
        order = f"CASE WHEN {ms} THEN created_timestamp / 1000.0 ELSE created_timestamp END, id"
        known = set()
        sessions = list(sqlitedb.rows(connection, "SELECT * FROM sessions ORDER BY id"))
        for row in sessions:
            identity = row.get("id")
            known.add(identity)
            child = isinstance(row.get("parent_session_id"), str) and bool(row["parent_session_id"])
            found = sqlitedb.rows(
                connection,
                f"SELECT * FROM messages WHERE session_id IS ? ORDER BY {order}",  # noqa: S608
                (identity,),
                ledger,
                table="messages",
                record=True,
            )
            if child and ctx.options.subagents == "skip":
                n = sum(1 for _ in found)
                ledger.skipped("subagent-skipped", sqlitedb.place(row, "sessions"), n)
                continue
            walk = _Walk(ctx)
            for message in found:
                walk.row(message)
            session = walk.session(_meta(row, ctx), row)
            if session is None:
                ledger.note("empty-session", sqlitedb.place(row, "sessions"))
            else:
                yield session
        _orphans(connection, known, ctx)
    finally:
        connection.close()


def _orphans(connection: Any, known: set[Any], ctx: Context) -> None:
    """Count messages whose session is gone."""
    found = sqlitedb.rows(
        connection, "SELECT id, session_id FROM messages", (), ctx.ledger, table="messages"
    )
    for row in found:
        if row.get("session_id") not in known:
            ctx.ledger.seen()
            place = sqlitedb.place(row, "messages")
            ctx.ledger.skipped("malformed-record", place, kind="message of no session")


def _file(source: Input, ctx: Context) -> Session | None:
    walk = _Walk(ctx)
    head: dict[str, Any] = {}
    with source.open() as stream:
        for line, record in jsonio.records(stream, ctx.ledger):
            if "role" not in record and not head:
                head = record
                ctx.ledger.mapped()
            else:
                walk.message(record, line)
    head = {**head, "id": head.get("id") or source.stem}
    return walk.session(_meta(head, ctx), head)


def _title(row: dict[str, Any]) -> str | None:
    for member in ("name", "description"):
        value = row.get(member)
        if isinstance(value, str) and value.strip() and not value.startswith(_UNNAMED):
            return value
    return None


def _meta(row: dict[str, Any], ctx: Context) -> Meta:
    identity = str(row.get("id"))
    cwd = row.get("working_dir")
    created = row.get("created_at")
    # SQLite's own times have no zone and are UTC by definition: nothing is assumed.
    time = parse_time(created)
    if created is not None and time is None:
        ctx.ledger.note("timestamp-invalid", f"sessions.id={identity[:60]}")
    return Meta(
        identity,
        time.ms if time is not None else None,
        cwd if isinstance(cwd, str) and cwd else None,
        identity,
    )


def _json(value: Any) -> Any:
    """Parse a JSON cell; ``None`` when it is none."""
    if not isinstance(value, str):
        return None
    try:
        return msgspec.json.decode(value.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


class _Walk:
    """The messages of one session on their way into turns."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._turns = TurnBuilder(ctx.ledger)
        self._system: list[str] = []
        self._hidden = False

    def row(self, row: dict[str, Any]) -> None:
        """Take one row of the message table."""
        place = sqlitedb.place(row, "messages")
        content = _json(row.get("content_json"))
        if content is None:
            self._ctx.ledger.skipped("malformed-record", place, kind="content_json")
            return
        metadata = row.get("metadata_json")
        parsed = _json(metadata)
        if metadata is not None and parsed is None:
            self._ctx.ledger.note("malformed-member", place)
        record = {
            "role": row.get("role"),
            "content": content,
            "created": row.get("created_timestamp"),
            "metadata": parsed,
            "id": row.get("message_id"),
        }
        self.message(record, place)

    def message(self, record: dict[str, Any], place: str | int) -> None:
        """Take one message, in the shape of the older files, and say what became of it."""
        ledger = self._ctx.ledger
        fate = self._message(record, place)
        if fate is None:
            ledger.mapped()
        elif fate == "system-prompt-aside":
            ledger.aside(fate, place)
        else:
            ledger.skipped(fate, place, kind=str(record.get("role"))[:40])

    def _message(self, record: dict[str, Any], place: str | int) -> str | None:
        role, identity = record.get("role"), record.get("id")
        found = blocks_of(record.get("content"), self._ctx.ledger, place)
        time = self._ctx.ms(record.get("created"), place)
        texts = [block.text for block in found.blocks if isinstance(block, Text)]
        extra: Extra | None = {"id": identity} if isinstance(identity, str) and identity else None
        if role == "system":
            self._system += texts
            return "system-prompt-aside" if texts else "empty-message"
        if role not in ("user", "assistant"):
            return "role-unknown"
        metadata = record.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if metadata.get("userVisible") is False:
            return self._for_the_model(texts, time, place)
        if metadata.get("agentVisible") is False:
            self._hidden = True
        for result in found.results:
            result.time = time
            self._turns.result(result, place)
        if role == "user":
            fate = self._user(found.blocks, time, extra, place)
        elif found.blocks:
            self._turns.step(found.blocks, time=time, extra=extra)
            fate = None
        else:
            fate = "empty-message"
        return None if found.results else fate

    def _for_the_model(self, texts: list[str], time: int | None, place: str | int) -> str | None:
        """Take text that only the model sees: the summary of a compaction, or an injection."""
        if not self._hidden or not texts:
            return "injection-skipped"
        self._hidden = False
        self._turns.compaction("\n".join(texts), provider="goose", time=time, place=place)
        return None

    def _user(
        self, blocks: list[Block], time: int | None, extra: Extra | None, place: str | int
    ) -> str | None:
        kept: list[Block] = [
            block
            for block in blocks
            if not (isinstance(block, Text) and block.text.lstrip().startswith(_INJECTED))
        ]
        if not kept:
            return "injection-skipped" if blocks else "empty-message"
        if len(kept) < len(blocks):
            self._ctx.ledger.note("injection-skipped", place, len(blocks) - len(kept))
        self._turns.prompt(kept, time=time, extra=extra)
        return None

    def session(self, meta: Meta, row: dict[str, Any]) -> Session | None:
        """Give the session of what was taken, or ``None`` without a turn."""
        turns = self._turns.finish()
        if not turns:
            return None
        config = row.get("model_config_json")
        model = _json(config) if isinstance(config, str) else config
        name = model.get("model_name") if isinstance(model, dict) else None
        return Session(
            meta=meta,
            title=_title(row),
            provider="goose",
            model=name if isinstance(name, str) and name else None,
            turns=turns,
            extra=self._extra(row),
        )

    def _extra(self, row: dict[str, Any]) -> Extra | None:
        extra: Extra = {}
        if self._system:
            extra["system"] = self._system
        totals = {
            name: value
            for name in _TOTALS
            if isinstance(value := row.get(name), int | float) and not isinstance(value, bool)
        }
        if totals:
            extra["usage"] = totals
        parent = row.get("parent_session_id")
        if isinstance(parent, str) and parent:
            extra["parent"] = {"sessionId": parent, "callId": None}
        native = {
            name: value
            for name in ("session_type", "provider_name", "schedule_id", "project_id")
            if isinstance(value := row.get(name), str) and value
        }
        if native and native != {"session_type": "user"}:
            extra["native"] = native
        return extra or None
