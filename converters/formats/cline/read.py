"""Histories, panel messages and SDK documents into sessions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.errors import DcbError
from converters.formats.cline.panel import as_messages
from converters.formats.cline.walk import Walk
from converters.ir import Extra, Meta, Session
from converters.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def _companion(source: Input, pattern: str) -> Any:
    """Give the JSON of a companion; ``None`` when there is none that can be read."""
    for file in source.files(pattern):
        if file.name != source.name:
            try:
                return jsonio.load(file.read(), Ledger(), path=file.name)[0]
            except DcbError:
                return None
    return None


def _sdk(root: dict[str, Any], source: Input, ctx: Context) -> Session | None:
    walk = Walk(ctx)
    for place, message in jsonio.objects(root.get("messages"), ctx.ledger, "/messages"):
        walk.take(message, place)
    manifest = _companion(source, "{stem}.json")
    manifest = manifest if isinstance(manifest, dict) else {}
    _sidecar(_companion(source, "{stem}.compaction.json"), walk)
    metadata = manifest.get("metadata")
    title = _text((metadata if isinstance(metadata, dict) else {}).get("title"))
    identity = _text(root.get("sessionId")) or source.stem
    agent = _text(root.get("agent"))
    extra: Extra = {}
    if agent is not None and agent != "lead":
        extra["parent"] = {"sessionId": identity, "callId": None}
        if ctx.options.subagents == "skip":
            ctx.ledger.note("subagent-skipped", source.name)
            return None
        identity = f"{identity}~s{source.stem[:40]}"
    cwd = _text(manifest.get("cwd")) or _text(manifest.get("workspaceRoot")) or walk.cwd
    meta = Meta(identity, walk.first_time, cwd, _text(root.get("sessionId")))
    return _session(walk, meta, title, extra)


def _sidecar(value: Any, walk: Walk) -> None:
    """Mark what the SDK's compaction took out of the context."""
    if isinstance(value, dict) and isinstance(count := value.get("source_message_count"), int):
        messages = value.get("messages")
        first = messages[0] if isinstance(messages, list) and messages else None
        walk.compacted(count, first if isinstance(first, dict) else {})


def _classic(root: Any, source: Input, ctx: Context) -> Session | None:
    walk = Walk(ctx)
    found = list(jsonio.objects(root, ctx.ledger, ""))
    if found and found[0][1].get("type") in ("say", "ask"):
        found = as_messages(found, ctx)
    else:
        walk.has_tool_blocks = any(_uses_blocks(message) for _, message in found)
    for place, message in found:
        walk.take(message, place)
    folder = source.name.replace("!", "/").split("/")
    identity = folder[-2] if len(folder) > 1 and folder[-2] else source.stem
    item = _history_item(source, identity)
    if isinstance(item.get("conversationHistoryDeletedRange"), list):
        walk.deleted(item["conversationHistoryDeletedRange"])
    created = int(identity) if _MS.fullmatch(identity) else walk.first_time
    cwd = _text(item.get("cwdOnTaskInitialization")) or _text(item.get("workspace")) or walk.cwd
    extra: Extra = {}
    totals = {n: item[n] for n in _TOTALS if isinstance(item.get(n), int | float) and item[n]}
    if totals:
        extra["usage"] = totals
    parent = _text(item.get("parentTaskId"))
    if parent is not None:
        extra["parent"] = {"sessionId": parent, "callId": None}
    session = _session(walk, Meta(identity, created, cwd, identity), _text(item.get("task")), extra)
    if session is not None and session.model is None:
        session.model = _text(item.get("modelId"))
    return session


def _uses_blocks(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in ("tool_use", "tool_result")
        for part in content
    )


def _history_item(source: Input, identity: str) -> dict[str, Any]:
    """Give the entry of the task in the history list, or Roo's own file of it."""
    own = _companion(source, "history_item.json")
    if isinstance(own, dict):
        return own
    for pattern in ("../../state/taskHistory.json", "../state/taskHistory.json"):
        items = _companion(source, pattern)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and str(item.get("id")) == identity:
                return item
    metadata = _companion(source, "task_metadata.json")
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
