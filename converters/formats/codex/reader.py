"""Rollouts of every generation as sessions."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio
from converters.errors import BadInput, DcbError
from converters.formats.codex.external import restore
from converters.formats.codex.mirrors import Again, Mirrors
from converters.formats.codex.pages import Base, Seen, base_of, chain, page_records
from converters.formats.codex.records import DECODE, KNOWN, Line, Payload, payload_of, time_ms
from converters.formats.codex.walk import PROVIDER, Walk
from converters.ir import Meta, Session
from converters.ledger import Ledger
from converters.text import parse_time
from converters.turns import title_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Turn
    from converters.types import Context, Input

__all__ = ["is_document", "read"]

_NAMESPACE: Final = uuid.UUID("b7c1d1f2-7d0a-5f0e-9c3b-51a8c2f3e6d4")
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_CALLS: Final = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "web_search_call"}
)
_RESULTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
)
_QUIET_ITEMS: Final = frozenset({"ghost_snapshot", "compaction", "compaction_summary"})
_ITEMS: Final = _CALLS | _RESULTS | {"message", "reasoning"}
_SAID: Final = {
    "user_message": "user",
    "agent_message": "assistant",
    "agent_reasoning": "reasoning",
    "agent_reasoning_raw_content": "reasoning",
}
_QUIET_EVENTS: Final = ("exec_command_", "patch_apply_", "mcp_", "task_", "turn_", "session_")
_QUIET_LINES: Final = frozenset({"world_state", "state"})


def is_document(root: Any) -> bool:
    """Whether a value is the single document of the first releases."""
    return (
        isinstance(root, dict)
        and isinstance(root.get("items"), list)
        and isinstance(root.get("session"), dict)
    )


class _Rollout:
    """The state of one reading."""

    def __init__(self, source: Input, ctx: Context, ledger: Ledger, mirrors: Mirrors) -> None:
        self.source = source
        self.ctx = ctx
        self.ledger = ledger
        self.walk = Walk(ledger, mirrors, whole=ctx.options.branch != "active")
        self.meta: dict[str, Any] | None = None
        self.created: int | None = None
        self.cwd: str | None = None
        self.title: tuple[int, str] | None = None
        self.base: Base | None = None
        self.pages: list[dict[str, Any]] = []

    def time(self, value: Any, place: int | str) -> int | None:
        """Give the time of an untyped record."""
        if value is None:
            return None
        found = parse_time(value, self.ctx.options.tz)
        if found is None:
            self.ledger.note("timestamp-invalid", place)
            return None
        if found.assumed:
            self.ledger.note("tz-assumed", place)
        return found.ms

    def line(self, line: Line, place: int) -> None:
        """Take a typed line; the time is read only where it is used."""
        item, walk = line.payload, self.walk
        kind = item.kind
        if line.type == "response_item":
            if kind == "reasoning":
                walk.reasoning(item, place)
            elif kind == "function_call" or kind == "custom_tool_call":  # noqa: PLR1714 - hashes
                walk.call(item, place, time_ms(line.timestamp))
            elif kind == "function_call_output" or kind == "custom_tool_call_output":  # noqa: PLR1714
                walk.result(item, place, time_ms(line.timestamp))
            else:
                self.item(item, place, time_ms(line.timestamp))
        elif line.type == "event_msg":
            if kind == "token_count":
                walk.tokens(item, place)
            else:
                self.event(item, place, time_ms(line.timestamp))
        else:
            self.context(item)

    def odd(self, value: dict[str, Any], place: Any) -> None:
        """Take an untyped record: session_meta, an older shape, or one of unknown type."""
        kind, raw = value.get("type"), value.get("payload")
        if isinstance(raw, dict):
            time = self.time(value.get("timestamp"), place)
            if kind == "session_meta":
                self.session_meta(raw, value, place)
            elif kind == "response_item":
                self.item(payload_of(raw), place, time)
            elif kind == "event_msg":
                self.event(payload_of(raw), place, time)
            elif kind == "turn_context":
                self.context(payload_of(raw))
            elif kind == "compacted":
                message = raw.get("message")
                self.walk.compacted(message if isinstance(message, str) else None, place, time)
            else:
                self.unknown(value, kind, place)
        elif (isinstance(kind, str) and kind in _ITEMS) or (kind is None and "role" in value):
            self.item(payload_of(value), place, self.time(value.get("timestamp"), place))
        elif kind is None and isinstance(value.get("id"), str) and "timestamp" in value:
            self.session_meta(value, value, place)
        elif "record_type" in value:
            self.ledger.skipped("record-skipped", place, kind="state")
        elif kind in ("response_item", "event_msg", "session_meta", "turn_context", "compacted"):
            self.ledger.skipped("malformed-record", place, kind=f"{kind} without payload")
        else:
            self.unknown(value, kind, place)

    def unknown(self, value: dict[str, Any], kind: Any, place: Any) -> None:
        """Keep a record of unknown type aside."""
        if isinstance(kind, str) and kind in _QUIET_LINES:
            self.ledger.skipped("record-skipped", place, kind=kind)
            return
        name = kind[:80] if isinstance(kind, str) else "no type" if kind is None else "bad type"
        self.ledger.aside("unknown-record", place, kind=name)
        self.walk.aside.append(value)

    def session_meta(self, raw: dict[str, Any], line: dict[str, Any], place: Any) -> None:
        """Take the head; the first one counts, a resume or fork repeats it."""
        if self.meta is not None:
            self.ledger.skipped("duplicate-record", place, kind="session_meta")
            return
        self.meta = raw
        self.created = self.time(raw.get("timestamp", line.get("timestamp")), place)
        cwd = raw.get("cwd")
        self.cwd = cwd if isinstance(cwd, str) and cwd else None
        for name in ("instructions", "base_instructions"):
            text = raw.get(name)
            text = text.get("text") if isinstance(text, dict) else text
            if isinstance(text, str) and text:
                self.walk.system.append(text)
                self.ledger.note("system-prompt-aside", place)
        if raw.get("history_base"):
            self.base = base_of(raw["history_base"])
            if self.base is None:
                name = raw["history_base"]
                name = name if isinstance(name, str) else "of unknown shape"
                self.ledger.note("history-truncated", place, kind=f"history_base {name}"[:80])
        self.walk.mapped()

    def context(self, payload: Payload) -> None:
        """Take the settings of the next turn."""
        self.walk.model = payload.model or self.walk.model
        self.cwd = self.cwd or payload.cwd
        self.walk.mapped()

    def item(self, item: Payload, place: Any, time: int | None) -> None:
        """Take a response item."""
        kind: str = item.kind
        walk = self.walk
        if kind == "message" or (not kind and item.role):
            restore(item, walk, place, time)
        elif kind == "reasoning":
            walk.reasoning(item, place)
        elif kind in _CALLS:
            walk.call(item, place, time)
        elif kind in _RESULTS:
            walk.result(item, place, time)
        elif kind in _QUIET_ITEMS:
            self.ledger.skipped("record-skipped", place, kind=f"response_item/{kind}")
        else:
            self.odd_payload("response_item", item, place)

    def odd_payload(self, envelope: str, item: Payload, place: Any) -> None:
        """Keep an item or event of unknown kind aside."""
        name = f"{envelope}/{item.kind or 'no type'}"[:80]
        if item.raw is None:
            self.ledger.skipped("record-skipped", place, kind=name)
            return
        self.ledger.aside("unknown-record", place, kind=name)
        self.walk.aside.append({"type": envelope, "payload": item.raw})

    def event(self, item: Payload, place: Any, time: int | None) -> None:
        """Take an event: nearly all of them mirror items."""
        kind: str = item.kind
        walk = self.walk
        if kind in _SAID:
            text = item.text if _SAID[kind] == "reasoning" else item.message
            walk.said(_SAID[kind], text, item, place, time)
        elif kind == "token_count":
            walk.tokens(item, place)
        elif kind == "turn_aborted":
            walk.builder.abort()
            walk.mapped()
        elif kind == "thread_rolled_back":
            walk.rolled_back(item.num_turns, place)
        elif kind == "thread_name_updated" and item.thread_name:
            if self.title is not None:
                self.ledger.skipped("record-skipped", self.title[0], kind=f"event_msg/{kind}")
            self.title = (place, item.thread_name)
        elif kind == "tool_call" and item.name:
            walk.call(item, place, time)
        elif kind in KNOWN or kind.startswith(_QUIET_EVENTS):
            walk.quiet("record-skipped", place, f"event_msg/{kind or 'no type'}"[:80])
        else:
            self.odd_payload("event_msg", item, place)


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a rollout, and the branches asked for."""
    document = is_document(source.head.root)
    mirrors = Mirrors()
    ledger = Ledger(ctx.ledger.source, itemize=False)
    try:
        rollout = _take(source, ctx, ledger, mirrors, document=document)
        mirrors.settle()
    except Again:
        ledger = Ledger(ctx.ledger.source, itemize=False)
        rollout = _take(source, ctx, ledger, mirrors, document=document)
    sessions = list(_sessions(rollout, ctx))
    ctx.ledger.absorb(ledger)
    # Only the sessions stay while they are written.
    del rollout, mirrors
    yield from sessions


def _take(
    source: Input, ctx: Context, ledger: Ledger, mirrors: Mirrors, *, document: bool
) -> _Rollout:
    rollout = _Rollout(source, ctx, ledger, mirrors)
    if document:
        _document(source, rollout, ledger)
        return rollout
    with source.open() as stream:
        _lines(jsonio.records(stream, ledger, decode=DECODE, ahead=True), rollout)
    return rollout


def _lines(records: Iterator[tuple[Any, Any]], rollout: _Rollout) -> None:
    for place, value in records:
        if type(value) is Line:
            rollout.line(value, place)
        else:
            rollout.odd(value, place)
            if rollout.base is not None:
                _lines(_inherit(rollout, place).fresh(records, rollout.ledger), rollout)
                return


def _inherit(rollout: _Rollout, head: Any) -> Seen:
    """Take the records of the pages that the head names; give what they hold."""
    pages, problem = chain(rollout.source, rollout.base)
    rollout.base = None
    seen = Seen()
    if problem is not None:
        rollout.ledger.note("history-truncated", head, kind=problem)
    for page in pages:
        ledger, count = Ledger(_below(rollout.ledger.source, page.name), itemize=False), 0
        try:
            for place, value in seen.fresh(page_records(page, ledger), rollout.ledger):
                count += 1
                if type(value) is Line:
                    rollout.line(value, place)
                else:
                    rollout.odd(value, place)
        except DcbError as error:
            problem = f"page {page.base.id}: {error.message}"
            rollout.ledger.note("history-truncated", head, kind=problem)
        rollout.ledger.absorb(ledger)
        rollout.ledger.note("history-joined", page.name, kind=f"page {page.base.id}")
        rollout.pages.append({"id": page.base.id, "records": count})
    return seen


def _below(source: str, name: str) -> str:
    return f"{source}:{name}" if source else name


def _document(source: Input, rollout: _Rollout, ledger: Ledger) -> None:
    """Read the single document of the first releases: a session object and its items."""
    for root in jsonio.load(source.read(), ledger, path=source.name):
        if not is_document(root):
            raise BadInput("not a rollout: no session and items in it", path=source.name)
        ledger.seen()
        rollout.session_meta(root["session"], root["session"], "/session")
        if rollout.base is not None:
            _inherit(rollout, "/session")
        for pointer, item in jsonio.objects(root["items"], ledger, "/items"):
            rollout.odd(item, pointer)


def _sessions(rollout: _Rollout, ctx: Context) -> Iterator[Session]:
    walk, ledger = rollout.walk, rollout.ledger
    turns = walk.finish()
    walk.close()
    parent = _parent(rollout.meta or {})
    if rollout.title is not None:
        walk.total += 1
    if parent is not None and ctx.options.subagents == "skip":
        count = walk.total + sum(branch.records for branch in walk.branches)
        ledger.skipped("subagent-skipped", rollout.source.name, count)
        return
    _account(walk, ledger, ctx.options.branch)
    if not turns and not walk.branches:
        return
    if rollout.cwd is None:
        ledger.note("cwd-missing")
    session = _session(rollout, turns, parent)
    wanted = ctx.options.branch
    if isinstance(wanted, int) and wanted > len(walk.branches):
        raise BadInput(
            f"no branch {wanted}: the session has {len(walk.branches)}", path=rollout.source.name
        )
    if wanted in ("active", "all", 0):
        yield session
    for number, found in enumerate(walk.branches, 1):
        identity = f"{session.meta.id}~b{number}"
        if wanted in ("all", number):
            branch = _session(rollout, found.shared + found.turns, parent)
            branch.meta.id = identity
            branch.extra = {**(branch.extra or {}), "branch": {"of": session.meta.id, "n": number}}
            yield branch
        else:
            kept = {
                "id": identity,
                "turn": found.start,
                "turns": msgspec.to_builtins(found.turns),
            }
            session.extra = session.extra or {}
            session.extra.setdefault("branches", []).append(kept)


def _account(walk: Walk, ledger: Ledger, wanted: Any) -> None:
    """Say what became of the mapped records: those of turns rolled back are kept aside."""
    for number, found in enumerate(walk.branches, 1):
        if wanted in ("all", number):
            ledger.mapped(found.records)
        elif found.records:
            ledger.aside("branch-collapsed", None, found.records)
    ledger.mapped(walk.total)


def _session(rollout: _Rollout, turns: list[Turn], parent: dict[str, str] | None) -> Session:
    walk, meta = rollout.walk, rollout.meta or {}
    extra: dict[str, Any] = {}
    git = meta.get("git")
    if isinstance(git, dict):
        names = (("branch", "branch"), ("commit", "commit_hash"), ("url", "repository_url"))
        extra["git"] = {
            name: git[member] for name, member in names if isinstance(git.get(member), str)
        }
    native = {
        name: meta[name]
        for name in (
            "originator",
            "cli_version",
            "source",
            "thread_source",
            "model_provider",
            "forked_from_id",
        )
        if name in meta
    }
    if native:
        extra["native"] = native
    if parent is not None:
        extra["parent"] = parent
    if walk.system:
        extra["system"] = list(walk.system)
    if walk.aside:
        extra["records"] = list(walk.aside)
    if rollout.pages:
        extra["pages"] = rollout.pages
    times = (turn.time for turn in turns if turn.time is not None)
    created = rollout.created if rollout.created is not None else next(times, None)
    title = rollout.title[1] if rollout.title is not None else None
    return Session(
        meta=Meta(_identity(rollout, turns), created, rollout.cwd),
        title=title_of(turns, title),
        provider=PROVIDER,
        model=walk.first_model or walk.model,
        turns=turns,
        extra=extra or None,
    )


def _identity(rollout: _Rollout, turns: list[Turn]) -> str:
    identity = (rollout.meta or {}).get("id")
    if isinstance(identity, str) and identity:
        return identity
    named = _UUID.search(rollout.source.stem)
    if named:
        return named[0]
    rollout.ledger.note("id-minted")
    return str(uuid.uuid5(_NAMESPACE, "\n".join(turn.prompt for turn in turns[:20])))


def _parent(meta: dict[str, Any]) -> dict[str, str] | None:
    """Give the parent of a subagent's rollout; ``None`` for a person's own."""
    source = meta.get("source")
    spawned = source.get("subagent") if isinstance(source, dict) else None
    if spawned is None and meta.get("thread_source") != "subagent":
        return None
    parent: Any = None
    if isinstance(spawned, dict):
        spawn = spawned.get("thread_spawn")
        parent = spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
    if not isinstance(parent, str) and meta.get("session_id") != meta.get("id"):
        parent = meta.get("session_id")
    return {"sessionId": parent} if isinstance(parent, str) and parent else {}
