"""Histories, panel messages and SDK documents into sessions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.formats.cline import compaction
from converters.formats.cline.carrier import heads_result
from converters.formats.cline.panel import as_messages
from converters.formats.cline.walk import Walk
from converters.ir import Extra, Meta, Session
from converters.shapes.cells import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.formats.cline.panel import Placed
    from converters.ledger import Ledger
    from converters.types import Context, Input

__all__ = ["read"]

_TOTALS: Final = ("tokensIn", "tokensOut", "cacheWrites", "cacheReads", "totalCost")
_MS: Final = re.compile(r"1\d{12}")


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a file."""
    documents = jsonio.load(source.read(), ctx.ledger, path=source.name)
    root = documents[0]
    session = (_sdk if isinstance(root, dict) else _classic)(root, source, ctx)
    if session is not None:
        yield session


def _companion(source: Input, pattern: str, ledger: Ledger) -> Any:
    """Give the JSON of a companion; ``None`` when there is none that can be read."""
    for file in source.files(pattern):
        if file.name != source.name:
            found = value_of(file.read(), ledger, file.name)
            if found is None:
                ledger.note("malformed-record", file.name)
            return found
    return None


def _sdk(root: dict[str, Any], source: Input, ctx: Context) -> Session | None:
    found = list(jsonio.objects(root.get("messages"), ctx.ledger, "/messages"))
    identity = _text(root.get("sessionId")) or source.stem
    agent = _text(root.get("agent"))
    extra: Extra = {}
    if agent is not None and agent != "lead":
        if _left_out(found, ctx):
            return None
        extra["parent"] = {"sessionId": identity, "callId": None}
        identity = f"{identity}~s{source.stem[:40]}"
    walk = Walk(ctx)
    for place, message in found:
        walk.take(message, place)
    manifest = _companion(source, "{stem}.json", ctx.ledger)
    manifest = manifest if isinstance(manifest, dict) else {}
    sidecar = _companion(source, "{stem}.compaction.json", ctx.ledger)
    compaction.replaced(walk, sidecar, ctx.ledger)
    metadata = manifest.get("metadata")
    title = _text((metadata if isinstance(metadata, dict) else {}).get("title"))
    cwd = _text(manifest.get("cwd")) or _text(manifest.get("workspaceRoot")) or walk.cwd
    meta = Meta(identity, walk.first_time, cwd, _text(root.get("sessionId")))
    return _session(walk, meta, title, extra)


def _left_out(found: list[Placed], ctx: Context) -> bool:
    """Count the messages of a subagent when a person asked to leave subagents out."""
    if ctx.options.subagents != "skip":
        return False
    ctx.ledger.skipped("subagent-skipped", found[0][0] if found else None, len(found))
    return True


def _classic(root: Any, source: Input, ctx: Context) -> Session | None:
    found = list(jsonio.objects(root, ctx.ledger, ""))
    folder = source.name.replace("!", "/").split("/")
    identity = folder[-2] if len(folder) > 1 and folder[-2] else source.stem
    item = _history_item(source, identity, ctx.ledger)
    extra: Extra = {}
    parent = _text(item.get("parentTaskId"))
    if parent is not None:
        if _left_out(found, ctx):
            return None
        extra["parent"] = {"sessionId": parent, "callId": None}
    span = item.get("conversationHistoryDeletedRange")
    walk = _panel(found, span, ctx) if _is_panel(found) else _history(found, span, ctx)
    created = int(identity) if _MS.fullmatch(identity) else walk.first_time
    cwd = _text(item.get("cwdOnTaskInitialization")) or _text(item.get("workspace")) or walk.cwd
    totals = {n: item[n] for n in _TOTALS if isinstance(item.get(n), int | float) and item[n]}
    if totals:
        extra["usage"] = totals
    session = _session(walk, Meta(identity, created, cwd, identity), _text(item.get("task")), extra)
    if session is not None and session.model is None:
        session.model = _text(item.get("modelId"))
    return session


def _is_panel(found: list[Placed]) -> bool:
    return bool(found) and found[0][1].get("type") in ("say", "ask")


def _panel(found: list[Placed], span: Any, ctx: Context) -> Walk:
    """Take the panel's messages; a deleted range counts in the history that is gone."""
    walk = Walk(ctx)
    for place, message in as_messages(found, ctx):
        walk.take(message, place)
    if isinstance(span, list):
        ctx.ledger.note("compacted-unavailable")
    return walk


def _history(found: list[Placed], span: Any, ctx: Context) -> Walk:
    """Take a history; a task may begin with calls as XML and go on with tool blocks."""
    walk = Walk(ctx, classic=True)
    blocks = any(_uses_blocks(message) for _, message in found)
    for index, (place, message) in enumerate(found):
        following = found[index + 1][1].get("content") if index + 1 < len(found) else None
        walk.take(message, place, xml=not blocks or heads_result(following))
    compaction.classic(walk, span, ctx.ledger)
    return walk


def _uses_blocks(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in ("tool_use", "tool_result")
        for part in content
    )


def _history_item(source: Input, identity: str, ledger: Ledger) -> dict[str, Any]:
    """Give the entry of the task in the history list, or Roo's own file of it."""
    own = _companion(source, "history_item.json", ledger)
    if isinstance(own, dict):
        return own
    for pattern in ("../../state/taskHistory.json", "../state/taskHistory.json"):
        items = _companion(source, pattern, ledger)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and str(item.get("id")) == identity:
                return item
    metadata = _companion(source, "task_metadata.json", ledger)
    if isinstance(metadata, dict) and isinstance(metadata.get("title"), str):
        return {"task": metadata["title"]}
    return {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _session(walk: Walk, meta: Meta, title: str | None, extra: Extra) -> Session | None:
    turns = walk.turns.finish()
    if not turns:
        return None
    model = next((step.model for turn in turns for step in turn.steps if step.model), None)
    if walk.system:
        extra["system"] = walk.system
    if walk.records:
        extra["records"] = walk.records
    return Session(
        meta=meta, title=title, provider="cline", model=model, turns=turns, extra=extra or None
    )
