"""Rows of the store, and lines of older files, into sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio, sqlitedb
from converters.errors import DcbError
from converters.formats.goose.blocks import Found, blocks_of
from converters.ir import Block, Extra, Meta, Session, Text
from converters.ledger import Ledger
from converters.shapes.cells import object_of, value_of
from converters.text import parse_time
from converters.turns import TurnBuilder
from converters.types import Context, Listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from converters.ledger import Place
    from converters.types import Input

__all__ = ["listing", "read"]

_INJECTED: Final = ("<info-msg>", "[system note]")
_NESTED: Final = ("sub_agent", "hidden")
_STORE: Final = "sessions.db"
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
    if source.nested and _migrated(source):
        with source.open() as stream:
            for line, _ in jsonio.records(stream, ctx.ledger):
                ctx.ledger.skipped("duplicate-record", line)
        return
    session = _file(source, ctx)
    if session is not None:
        yield session


def _migrated(source: Input) -> bool:
    """Whether the store beside an older file holds its session: the file stays when it moves."""
    for store in source.files(_STORE):
        try:
            connection = store.database()
        except DcbError:
            continue
        try:
            sqlitedb.require(connection, "sessions", "messages")
            found = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (source.stem,))
            return found.fetchone() is not None
        except DcbError:
            continue
        finally:
            connection.close()
    return False


def listing(source: Input) -> list[Listed]:
    """List a store by its session table alone."""
    if not source.head.is_sqlite:
        if _migrated(source):
            return []
        return [
            Listed(s.meta.id, s.title or s.turns[0].prompt, s.meta.cwd, s.turns[-1].time)
            for s in read(source, Context(Ledger()))
        ]
    connection = source.database()
    try:
        sqlitedb.require(connection, "sessions", "messages")
        found = sqlitedb.rows(connection, "SELECT * FROM sessions ORDER BY id")
        return [_listed(_texts(row)) for row in found]
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
            row = _texts(row)
            found = sqlitedb.rows(
                connection,
                f"SELECT * FROM messages WHERE session_id IS ? ORDER BY {order}",  # noqa: S608
                (identity,),
                ledger,
                table="messages",
                record=True,
            )
            if _is_nested(row) and ctx.options.subagents == "skip":
                n = sum(1 for _ in found)
                if n:
                    ctx.ledger.skipped("subagent-skipped", sqlitedb.place(row, "sessions"), n)
                continue
            walk = _Walk(ctx)
            walk.take([(sqlitedb.place(one, "messages"), one) for one in found], _of_row)
            session = walk.session(_meta(row, ctx), row)
            if session is None:
                ledger.note("empty-session", sqlitedb.place(row, "sessions"))
            else:
                yield session
        _orphans(connection, known, ctx)
    finally:
        connection.close()


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    """Give a row with its blobs as text: a column may hold either."""
    if bytes not in map(type, row.values()):
        return row
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in row.items()
    }


def _is_nested(row: dict[str, Any]) -> bool:
    """Whether a session is the work of another one, or of the program itself."""
    parent = row.get("parent_session_id")
    return (isinstance(parent, str) and bool(parent)) or row.get("session_type") in _NESTED


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
    messages: list[tuple[Place, dict[str, Any]]] = []
    with source.open() as stream:
        for line, record in jsonio.records(stream, ctx.ledger):
            if "role" not in record and not head:
                head = record
                ctx.ledger.mapped()
            else:
                messages.append((line, record))
    walk.take(messages, _of_line)
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


def _of_row(row: dict[str, Any], ledger: Ledger, place: Place) -> dict[str, Any] | None:
    """Give a row of the message table in the shape of the older files; count one that is none."""
    content = value_of(row.get("content_json"), ledger, place)
    if not isinstance(content, list | str):
        ledger.skipped("malformed-record", place, kind="content_json")
        return None
    cell = row.get("metadata_json")
    metadata = object_of(cell, ledger, place)
    if cell is not None and metadata is None:
        ledger.note("malformed-member", place)
    given = _texts(row)
    return {
        "role": given.get("role"),
        "content": content,
        "created": given.get("created_timestamp"),
        "metadata": metadata,
        "id": given.get("message_id"),
    }


def _of_line(record: dict[str, Any], ledger: Ledger, place: Place) -> dict[str, Any]:
    del ledger, place
    return record


def _seen_by(record: dict[str, Any], who: str) -> bool:
    metadata = record.get("metadata")
    return not isinstance(metadata, dict) or metadata.get(who) is not False


def _prompts(records: Iterable[dict[str, Any] | None]) -> dict[str, int]:
    """Give the last index of each prompt of one text that a person sees."""
    found: dict[str, int] = {}
    for index, record in enumerate(records):
        if record is not None and record.get("role") == "user" and _seen_by(record, "userVisible"):
            blocks = blocks_of(record.get("content"), Ledger(), "").blocks
            texts = [block.text for block in blocks if isinstance(block, Text)]
            if len(texts) == 1:
                found[texts[0]] = index
    return found


class _Walk:
    """The messages of one session on their way into turns.

    ``_hidden`` and ``_live`` are the turns, by ``id()``, of what the agent no longer sees and
    still sees since the last compaction.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._turns = TurnBuilder(ctx.ledger)
        self._system: list[str] = []
        self._hidden: set[int] = set()
        self._live: set[int] = set()

    def take(
        self,
        given: list[tuple[Place, dict[str, Any]]],
        parse: Callable[[dict[str, Any], Ledger, Place], dict[str, Any] | None],
    ) -> None:
        """Take the messages of the session, and say of each what became of it."""
        ledger = self._ctx.ledger
        prompts: dict[str, int] | None = None
        for index, (place, raw) in enumerate(given):
            record = parse(raw, ledger, place)
            if record is None:
                continue
            found = blocks_of(record.get("content"), ledger, place)
            texts = [block.text for block in found.blocks if isinstance(block, Text)]
            again = False
            if texts and not _seen_by(record, "userVisible"):
                if prompts is None:
                    prompts = _prompts(parse(one, Ledger(), at) for at, one in given)
                # A compaction sends the last prompt anew.
                again = prompts.get("\n".join(texts), -1) > index
            fate = self._message(record, found, texts, place, again=again)
            if fate is None:
                ledger.mapped()
            elif fate == "system-prompt-aside":
                ledger.aside(fate, place)
            else:
                ledger.skipped(fate, place, kind=str(record.get("role"))[:40])

    def _message(
        self,
        record: dict[str, Any],
        found: Found,
        texts: list[str],
        place: Place,
        *,
        again: bool,
    ) -> str | None:
        role, identity = record.get("role"), record.get("id")
        time = self._ctx.ms(record.get("created"), place)
        extra: Extra | None = {"id": identity} if isinstance(identity, str) and identity else None
        if role == "system":
            self._system += texts
            return "system-prompt-aside" if texts else "empty-message"
        if role not in ("user", "assistant"):
            return "role-unknown"
        live = _seen_by(record, "agentVisible")
        if not _seen_by(record, "userVisible"):
            if again and not live and role == "user":
                return "duplicate-record"
            return self._for_the_model(texts, time, place)
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
        if (fate is None or found.results) and self._turns.turn is not None:
            (self._live if live else self._hidden).add(id(self._turns.turn))
        return None if found.results else fate

    def _for_the_model(self, texts: list[str], time: int | None, place: Place) -> str | None:
        """Take text that only the model sees: the summary of a compaction, or an injection.

        A compaction takes all that came before out of the context; a summary follows nothing that
        the agent still sees.
        """
        kept = [text for text in texts if not text.lstrip().startswith(_INJECTED)]
        if self._live or not self._hidden or not "".join(kept).strip():
            return "injection-skipped"
        if len(kept) < len(texts):
            self._ctx.ledger.note("injection-skipped", place, len(texts) - len(kept))
        self._hidden.clear()
        self._turns.compaction("\n".join(kept), provider="goose", time=time, place=place)
        return None

    def _user(
        self, blocks: list[Block], time: int | None, extra: Extra | None, place: Place
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
        for turn in turns:
            if id(turn) in self._hidden - self._live:
                turn.shadowed = True
        config = row.get("model_config_json")
        if isinstance(config, str):
            config = value_of(config, self._ctx.ledger, f"sessions.id={meta.id[:60]}")
        name = config.get("model_name") if isinstance(config, dict) else None
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
