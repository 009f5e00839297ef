"""Recordings and checkpoints into sessions."""

from __future__ import annotations

import glob
import re
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.gemini.projects import cwd_of
from converters.formats.gemini.replay import (
    Placed,
    Recording,
    Rewritten,
    document_of,
    recording_of,
)
from converters.formats.gemini.walk import Walk
from converters.ir import Extra, Meta, Session
from converters.ledger import Ledger
from converters.shapes.rows import mint_id, text_of
from converters.turns import title_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Context, Input

__all__ = ["TAGGED", "contents_of", "read"]

TAGGED: Final = re.compile(r"(?:.*[/!])?checkpoint-([^/!]+)\.json")
_SUBAGENT: Final = re.compile(r"(?:.*[/!])?chats/([^/!]+)/[^/!]+\.jsonl?")
_TAKEN: Final = frozenset({"sessionId", "startTime", "messages", "summary"})


def contents_of(root: Any) -> list[Any] | None:
    """Give the contents of a checkpoint: an array, or ``history`` of an object."""
    found = root.get("history") if isinstance(root, dict) else root
    if not isinstance(found, list):
        return None
    return found if any(_is_content(item) for item in found[:20]) else None


def _is_content(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in ("user", "model")
        and isinstance(value.get("parts"), list)
    )


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a file, the branches asked for, then the subagents beside it.

    In a folder or archive subagents are inputs of their own.
    """
    with source.open() as stream:
        first = jsonio.leading_values(stream.read(1 << 16))
    if len(first) == 1 and contents_of(first[0]) is not None:
        yield from _checkpoint(source, ctx)
        return
    found = recording_of(source, ctx)
    parent = _parent(found.document, source)
    if parent is not None and ctx.options.subagents == "skip":
        _leave_out(found, ctx)
        return
    agents: dict[str, str] = {}
    for session in _sessions(found, source, ctx, parent):
        agents |= _agents(session)
        yield session
    own = text_of(found.document.get("sessionId"))
    if source.nested or own is None or parent is not None:
        return
    name = ctx.ledger.source
    for file in source.files(f"{glob.escape(own)}/*.jsonl"):
        ctx.ledger.source = file.name
        beside = recording_of(file, ctx)
        if ctx.options.subagents == "skip":
            _leave_out(beside, ctx)
        else:
            call = agents.get(text_of(beside.document.get("sessionId")) or file.stem)
            link = {"sessionId": own} | ({"callId": call} if call else {})
            yield from _sessions(beside, file, ctx, link)
    ctx.ledger.source = name


def _parent(document: dict[str, Any], source: Input) -> Extra | None:
    match = _SUBAGENT.fullmatch(source.name)
    if match is not None:
        return {"sessionId": match[1]}
    return {"sessionId": None} if document.get("kind") == "subagent" else None


def _agents(session: Session) -> dict[str, str]:
    """Give ``subagent -> call id`` for the calls that name the subagent which ran them."""
    found = {}
    for turn in session.turns:
        for step in turn.steps:
            for call in step.tool_calls:
                native = (call.extra or {}).get("native")
                if isinstance(native, dict) and isinstance(native.get("agentId"), str):
                    found[native["agentId"]] = call.id
    return found


def _leave_out(found: Recording, ctx: Context) -> None:
    _account(found, ctx.ledger, set())
    left = [*found.messages, *(placed for branch in found.branches for placed in branch.own)]
    left += [placed for _, gone in found.rewritten for placed in gone]
    for place, _ in left:
        ctx.ledger.skipped("subagent-skipped", place)
    if not left:
        ctx.ledger.note("subagent-skipped")


def _sessions(
    found: Recording, source: Input, ctx: Context, parent: Extra | None
) -> Iterator[Session]:
    ledger = ctx.ledger
    wanted = ctx.options.branch
    identity = text_of(found.document.get("sessionId")) or source.stem
    told: set[str | int] = set()
    given = {
        placed.place
        for number, branch in enumerate(found.branches, 1)
        if wanted in ("all", number)
        for placed in (*branch.before, *branch.own)
    }
    kept = []
    for number, branch in enumerate(found.branches, 1):
        if wanted in ("all", number):
            continue
        # What a branch that is given goes through as well gets its fate there.
        own = [placed.place for placed in branch.own if placed.place not in given]
        if own:
            ledger.aside("branch-collapsed", own[0], len(own))
        messages = [message for _, message in branch.own]
        kept.append({"id": f"{identity}~b{number}", "parent": branch.anchor, "messages": messages})
    if wanted in ("active", "all", 0):
        extra: Extra = {"branches": kept} if kept else {}
        if parent is not None:
            extra["parent"] = parent
        path = found.path(found.messages, len(found.rewritten))
        session = _session(found, path, source, ctx, told)
        if session is not None:
            session.extra = {**(session.extra or {}), **extra} or None
            yield session
    for number, branch in enumerate(found.branches, 1):
        if wanted not in ("all", number):
            continue
        path = found.path([*branch.before, *branch.own], branch.rewritten)
        session = _session(found, path, source, ctx, told)
        if session is not None:
            session.meta.id = f"{session.meta.id}~b{number}"
            session.extra = {**(session.extra or {}), "branch": {"of": identity, "n": number}}
            yield session
    _account(found, ledger, told)
    left = [placed for placed in found.messages if placed.place not in told]
    left += [placed for _, gone in found.rewritten for placed in gone if placed.place not in told]
    if left:
        ledger.skipped("branch-collapsed", left[0].place, len(left))


def _account(found: Recording, ledger: Ledger, told: set[str | int]) -> None:
    """Give their fate to earlier versions of messages that no path had."""
    for place in found.repeated:
        if place not in told:
            told.add(place)
            ledger.skipped("duplicate-record", place, kind="message")


def _session(
    found: Recording,
    path: list[Rewritten],
    source: Input,
    ctx: Context,
    told: set[str | int],
) -> Session | None:
    """Make a session of messages; those in ``told`` have their fate from another path."""
    walk = Walk(ctx, ctx.ledger)
    for line, gone in path[:-1]:
        _take(walk, gone, told)
        if gone:
            walk.compacted(line)
    _take(walk, path[-1].gone, told)
    turns = walk.finish()
    if not turns:
        return None
    document = found.document
    own = text_of(document.get("sessionId"))
    cwd = cwd_of(document, source)
    if cwd is None:
        ctx.ledger.note("cwd-missing")
    title = text_of(document.get("summary"))
    if title is None and walk.typed is not None:
        title = title_of([], walk.typed)
    created = walk.ms(document.get("startTime"), "/startTime")
    return Session(
        meta=Meta(own or source.stem, turns[0].time if created is None else created, cwd, own),
        title=title,
        provider="gemini",
        model=next((step.model for turn in turns for step in turn.steps if step.model), None),
        turns=turns,
        extra=_extra(document, walk, cwd),
    )


def _take(walk: Walk, messages: list[Placed], told: set[str | int]) -> None:
    for placed in messages:
        walk.take(placed, Ledger() if placed.place in told else None)
        told.add(placed.place)


def _extra(document: dict[str, Any], walk: Walk, cwd: str | None) -> Extra | None:
    extra: Extra = {}
    native = {name: value for name, value in document.items() if name not in _TAKEN and value}
    if native.get("directories") == [cwd]:
        del native["directories"]
    if native:
        extra["native"] = native
    if walk.records:
        extra["records"] = walk.records
    return extra or None


def _checkpoint(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a checkpoint, which has no ids, times or models."""
    contents = contents_of(document_of(source, ctx)) or []
    walk = Walk(ctx, ctx.ledger)
    for place, message in jsonio.objects(contents, ctx.ledger, ""):
        walk.take(Placed(place, message))
    turns = walk.finish()
    if not turns:
        return
    identity = mint_id(jsonio.dumps(contents), 0)
    ctx.ledger.note("id-minted", kind="session")
    cwd = cwd_of({}, source)
    if cwd is None:
        ctx.ledger.note("cwd-missing")
    tag = TAGGED.fullmatch(source.name)
    extra = _extra({"tag": tag[1]} if tag else {}, walk, cwd)
    yield Session(meta=Meta(identity, None, cwd), provider="gemini", turns=turns, extra=extra)
