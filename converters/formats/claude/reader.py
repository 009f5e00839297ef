"""Entries of a transcript as sessions: the main one, its branches, its subagents."""

from __future__ import annotations

import uuid
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from converters.errors import BadInput
from converters.formats.claude.build import PROVIDER, Assembler
from converters.formats.claude.log import Again, Entry, Log, load
from converters.formats.claude.tree import paths
from converters.ir import Meta, Session
from converters.ledger import Ledger
from converters.turns import title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.formats.claude.tree import Branch, Paths
    from converters.ir import ToolCall, ToolResult, Turn
    from converters.types import Context, Input

__all__ = ["SUBAGENTS", "read"]

SUBAGENTS: Final = "{stem}/subagents/*.jsonl"
_AGENT_TOOLS: Final = frozenset({"Task", "Agent"})
_AGENT: Final = "agent-"
_LOSSES: Final = (
    "duplicate-record",
    "duplicate-tool-call",
    "duplicate-tool-result",
    "retry-dropped",
)
_NAMESPACE: Final = uuid.UUID("6f6b4f1e-2f0b-5d7c-9a7e-6c3b1d0f5a21")


class _Asked(msgspec.Struct):
    """What the arguments of a call that starts a subagent say to it; the rest goes unread."""

    prompt: str | None = None


_asked: Final = msgspec.json.Decoder(_Asked).decode


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a transcript, then the branches asked for, then its subagents.

    A file that holds nothing but one subagent gives that one.
    """
    skip = ctx.options.subagents == "skip"
    log, sessions = _main(source, ctx)
    parent: str | None = None
    calls: dict[str, str] = {}
    for session in sessions:
        if parent is None:
            parent = session.meta.id
            if not skip and (log.sides or source.files(SUBAGENTS)):
                calls = _prompts_of_calls(session)
        yield session
    for number, (group, entries) in enumerate(log.sides.items(), 1):
        if skip:
            _leave_out(entries, ctx)
        else:
            owner = parent or log.side_session
            identity = f"{owner or source.stem}~s{number}" if group.startswith("~s") else group
            yield _subagent(log, entries, identity, owner, calls)
    _unsaid(log, [])
    yield from _companions(source, ctx, log, parent, calls)


def _main(source: Input, ctx: Context) -> tuple[Log, list[Session]]:
    """Read the file; give its log and the sessions of its main conversation.

    Straight into turns when nothing forks; else the file is read again into a list. The first
    account is thrown away then.
    """
    if source.stem.startswith(_AGENT) or ctx.options.branch != "active":
        return _collected(source, ctx)
    scratch = Ledger(ctx.ledger.source, itemize=False)
    log = Log(source, ctx, scratch)
    assembler = Assembler(log, scratch, once=True)
    try:
        load(log, assembler.feed, once=True)
        assembler.settle()
    except Again:
        return _collected(source, ctx)
    sessions = []
    if assembler.taken == len(assembler.summaries):
        _unsaid(log, assembler.summaries)
    else:
        sessions.append(_session(log, assembler, scratch))
    ctx.ledger.absorb(scratch)
    log.ledger = ctx.ledger
    return log, sessions


def _collected(source: Input, ctx: Context) -> tuple[Log, list[Session]]:
    log = Log(source, ctx, ctx.ledger)
    load(log, log.keep, once=False)
    if source.stem.startswith(_AGENT):
        _own_file(log)
        return log, []
    return log, list(_sessions(log, ctx))


def _own_file(log: Log) -> None:
    """Take the lines of a subagent's own file as its conversation, in file order.

    Some lines, in older files all, lack the mark or the agent's id: they belong to the agent
    of the other lines where that is one only, else to the one that the file is named after.
    """
    named = [group for group in log.sides if not group.startswith("~s")]
    name = log.source.stem.removeprefix(_AGENT)
    home = named[0] if len(named) == 1 else name
    own = [
        entry for group in list(log.sides) if group not in named for entry in log.sides.pop(group)
    ]
    own += log.entries
    log.entries = []
    if own:
        own += log.sides.get(home, [])
        log.sides[home] = sorted(own, key=itemgetter(0))
        if all(record.type == "summary" for _, record in own):
            _unsaid(log, log.sides.pop(home))


def _companions(
    source: Input, ctx: Context, log: Log, parent: str | None, calls: dict[str, str]
) -> Iterator[Session]:
    """Read the subagents that have files of their own."""
    for companion in source.files(SUBAGENTS):
        if ctx.options.subagents == "skip":
            ctx.ledger.note("subagent-skipped", companion.name)
            continue
        side = Log(companion, ctx, ctx.ledger)
        load(side, side.keep, once=False)
        side.agents = log.agents
        _own_file(side)
        for name, entries in side.sides.items():
            yield _subagent(side, entries, name, parent or side.side_session, calls)
        _unsaid(side, [])


def _leave_out(entries: list[Entry], ctx: Context) -> None:
    if entries:
        ctx.ledger.skipped("subagent-skipped", entries[0][0], len(entries))


def _sessions(log: Log, ctx: Context) -> Iterator[Session]:
    """Give the main session, or the branches that the options name."""
    wanted = ctx.options.branch
    ways: Paths = paths(log, whole=wanted != "active")
    ledger = log.ledger
    if all(record.type == "summary" for _, record in ways.active):
        _unsaid(log, ways.active)
        return
    if isinstance(wanted, int) and wanted > len(ways.branches):
        raise BadInput(
            f"no branch {wanted}: the session has {len(ways.branches)}", path=log.source.name
        )
    main = _fed(log, ways.active, ledger)
    sides = [_aside(log, n, branch, ledger) for n, branch in enumerate(ways.branches, 1)]
    session = _session(log, main, ledger, titles=[entry for side in sides for entry in side.titles])
    for side in sides:
        asked = wanted in ("all", side.number)
        count, place = len(side.branch.own) - len(side.titles), side.branch.own[0][0]
        if asked:
            ledger.mapped(count)
        else:
            ledger.aside("branch-collapsed", place, count)
            session.extra = session.extra or {}
            session.extra.setdefault("branches", []).append(_kept(side, session))
    if wanted in ("active", "all", 0):
        yield session
    for side in sides:
        if wanted in ("all", side.number):
            found = _session(log, _fed(log, side.branch.path, Ledger()), Ledger(), session)
            found.meta.id = f"{session.meta.id}~b{side.number}"
            branch = {"of": session.meta.id, "n": side.number}
            found.extra = {**(found.extra or {}), "branch": branch}
            yield found


def _fed(log: Log, entries: list[Entry], ledger: Ledger) -> Assembler:
    assembler = Assembler(log, ledger)
    for place, record in entries:
        assembler.feed(place, record)
    return assembler


class _Side(NamedTuple):
    """A branch: its own turns, results whose calls stand before it, and summaries.

    The summaries are titles of the file unless they are compactions of the branch.
    """

    number: int
    branch: Branch
    turns: list[Turn]
    results: list[ToolResult]
    titles: list[Entry]


def _aside(log: Log, number: int, branch: Branch, ledger: Ledger) -> _Side:
    """Make turns of what only a branch holds; what is lost of it goes to ``ledger``."""
    scratch = Ledger(itemize=False)
    own = _fed(log, branch.own, scratch)
    turns = own.finish()
    for rule in _LOSSES:
        if n := scratch.count(rule):
            ledger.note(rule, branch.own[0][0], n, "in a branch")
    titles = [entry for entry in own.summaries if entry[0] not in own.compactions]
    return _Side(number, branch, turns, own.apart(branch.own), titles)


def _kept(side: _Side, session: Session) -> dict[str, Any]:
    """Give a branch that is not asked for as it is kept."""
    kept: dict[str, Any] = {
        "id": f"{session.meta.id}~b{side.number}",
        "parent": side.branch.anchor,
        "turns": msgspec.to_builtins(side.turns),
    }
    if side.results:
        kept["results"] = msgspec.to_builtins(side.results)
    return kept


def _session(
    log: Log,
    assembler: Assembler,
    ledger: Ledger,
    first: Session | None = None,
    titles: Iterable[Entry] = (),
) -> Session:
    """Make a session of a path; ``first`` is the active one when the path is a branch.

    ``titles`` are summaries that stand elsewhere in the file.
    """
    turns = assembler.finish()
    if first is None:
        given = _title(log, assembler, ledger, titles)
        identity = _identity(log, turns, ledger)
        if log.cwd is None:
            ledger.note("cwd-missing")
    else:
        given, identity = first.title, first.meta.id
    return Session(
        meta=Meta(identity, assembler.first_time, log.cwd),
        title=title_of(turns, given),
        provider=PROVIDER,
        model=assembler.model,
        turns=turns,
        extra=_extra(log),
    )


def _title(
    log: Log, assembler: Assembler, ledger: Ledger, titles: Iterable[Entry] = ()
) -> str | None:
    """Choose the title, and say of every record what became of it.

    The last custom title, else the last summary, else the first generated title.
    """
    summaries = sorted((*assembler.summaries, *titles), key=itemgetter(0))
    custom = [title for title in log.titles if title[0] == "custom-title"]
    generated = [title for title in log.titles if title[0] == "ai-title"]
    chosen: int | None = None
    text: str | None = None
    if custom:
        _, chosen, text = custom[-1]
    elif summaries:
        chosen, record = summaries[-1]
        text = record.summary or record.title
    elif generated:
        _, chosen, text = generated[0]
    mapped = assembler.compactions | {chosen}
    places = [("summary", place) for place, _ in summaries]
    for kind, place in places + [(kind, place) for kind, place, _ in log.titles]:
        if place in mapped:
            ledger.mapped()
        else:
            ledger.skipped("record-skipped", place, kind=kind)
    log.titles.clear()
    ledger.mapped(assembler.taken - len(assembler.summaries))
    return text


def _unsaid(log: Log, entries: list[Entry]) -> None:
    """Account for the records of a log that holds no conversation."""
    for kind, place, _ in log.titles:
        log.ledger.skipped("record-skipped", place, kind=kind)
    log.titles.clear()
    for place, record in entries:
        log.ledger.skipped("record-skipped", place, kind=record.type)


def _extra(log: Log) -> dict[str, Any] | None:
    extra: dict[str, Any] = {}
    if log.branch:
        extra["git"] = {"branch": log.branch}
    if log.version:
        extra["native"] = {"version": log.version}
    if log.system:
        extra["system"] = list(log.system)
    if log.aside:
        extra["records"] = list(log.aside)
    return extra or None


def _identity(log: Log, turns: list[Turn], ledger: Ledger) -> str:
    """Give the id: that of the records, where the file bears one of them its name."""
    stem = log.source.stem
    if log.session_ids:
        return stem if stem in log.session_ids else next(iter(log.session_ids))
    if stem.strip("-"):
        return stem
    ledger.note("id-minted")
    return str(uuid.uuid5(_NAMESPACE, "\n".join(turn.prompt for turn in turns[:20])))


def _prompts_of_calls(session: Session) -> dict[str, str]:
    """Give ``prompt -> call id`` for the calls that start subagents."""
    found: dict[str, str] = {}
    for turn in session.turns:
        for step in turn.steps:
            for call in step.tool_calls:
                prompt = _prompt_in(call) if call.name in _AGENT_TOOLS else None
                if prompt is not None:
                    found.setdefault(prompt.strip(), call.id)
    return found


def _prompt_in(call: ToolCall) -> str | None:
    """Give the prompt in a call's arguments; those that cannot be read start nothing known."""
    try:
        return _asked(call.arguments).prompt
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _subagent(
    log: Log, entries: list[Entry], identity: str, owner: str | None, calls: dict[str, str]
) -> Session:
    assembler = _fed(log, entries, log.ledger)
    turns = assembler.finish()
    given = _title(log, assembler, log.ledger)
    parent: dict[str, str] = {}
    owner = owner or next(iter(log.session_ids), None)
    if owner:
        parent["sessionId"] = owner
    prompt = turns[0].prompt.strip() if turns else ""
    call = log.agents.get(identity) or calls.get(prompt)
    if call:
        parent["callId"] = call
    return Session(
        meta=Meta(identity, assembler.first_time, log.cwd),
        title=title_of(turns, given),
        provider=PROVIDER,
        model=assembler.model,
        turns=turns,
        extra={"parent": parent, **(_extra(log) or {})},
    )
