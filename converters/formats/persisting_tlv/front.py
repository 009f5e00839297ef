"""The session's own data in the frontmatter of a written document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from converters.formats.persisting_tlv.meaning import text_of, time_of, usage_of
from converters.text import iso_ms, parse_time
from converters.turns import title_of

if TYPE_CHECKING:
    from converters.formats.persisting_tlv.frame import Block
    from converters.ir import Session
    from converters.shapes.account import Account

__all__ = ["duration", "front_values", "timestamp"]

PROVIDER: Final = "persisting"
_RENAMED: Final = {
    "session_id": "session",
    "agent_id": "agent",
    "turn_count": "turns",
    "model_name": "model",
    "started_at": "started",
}
_NOT_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


def timestamp(ms: int, zone: str) -> str | None:
    """Give RFC 3339 text in UTC, with a fraction only where there is one.

    ``None`` for a time that no reader takes back (years past 9999).
    """
    try:
        text = iso_ms(ms)
    except ValueError:
        return None
    found = parse_time(text)
    if found is None or found.ms != ms:
        return None
    return text[:-1].removesuffix(".000") + zone


def duration(ms: int) -> str:
    """Give a duration as the format shows it: ``42s``, ``3m12s``, ``1h``, ``1h5m``."""
    seconds = max(ms, 0) // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60}s"
    minutes = seconds % 3600 // 60
    return f"{seconds // 3600}h{minutes}m" if minutes else f"{seconds // 3600}h"


def front_values(session: Session, account: Account, blocks: list[Block]) -> dict[str, Any]:
    """Give the frontmatter of a session, and account for its title, times, model and ids."""
    native = account.native(session.extra).get("tlv")
    kept = native.get("frontmatter") if isinstance(native, dict) else None
    own = isinstance(kept, dict)
    values: dict[str, Any] = {}
    for key, value in (kept or {}).items() if own else ():
        values.setdefault(_RENAMED.get(key, key), value)
    times = [time for block in blocks if (time := time_of(block.fields, newer=False)) is not None]
    _account(session, account)
    values["session"] = session.meta.id
    if text_of(values, "agent") is None:
        values["agent"] = _agent(session, blocks)
    _models(values, session, blocks, own=own)
    if session.provider and session.provider != values.get("provider", PROVIDER if own else None):
        values["provider"] = session.provider
    _started(values, session, account, times, own=own)
    users = sum(block.fields.get("role") == "user" for block in blocks)
    values.pop("turns", None)
    if users:
        values["turns"] = users
    if not own:
        total = sum(map(_tokens, blocks))
        if total:
            values["total_tokens"] = total
    return values


def _account(session: Session, account: Account) -> None:
    if session.title is not None:
        if session.title == title_of(session.turns):
            account.kept("title")
        else:
            account.lost("title-dropped", "title")
    if session.meta.cwd is not None:
        account.lost("cwd-dropped", "cwd")
    if session.meta.source_id not in (None, session.meta.id):
        account.note("meta-dropped", "sourceId")


def _agent(session: Session, blocks: list[Block]) -> str:
    for block in blocks:
        found = text_of(block.fields, "agent_id")
        if found is not None:
            return found
    return _NOT_NAME.sub("_", session.provider)[:128] or "agent"


def _models(values: dict[str, Any], session: Session, blocks: list[Block], *, own: bool) -> None:
    """Set the model; a document of ours without one leaves it to its blocks."""
    if session.model is None:
        values.pop("model", None)
        return
    named = [block.fields.get("model") for block in blocks]
    last = next((name for name in reversed(named) if isinstance(name, str) and name), None)
    if values.get("model") != session.model and not (
        own and "model" not in values and last == session.model
    ):
        values["model"] = session.model


def _started(
    values: dict[str, Any], session: Session, account: Account, times: list[int], *, own: bool
) -> None:
    created = session.meta.created_at
    if session.model is not None:
        account.kept("model")
    if created is None:
        values.pop("started", None)
        return
    told = values.get("started")
    found = parse_time(told) if isinstance(told, str) else None
    text = timestamp(created, "+00:00")
    if (found is not None and found.ms == created) or (
        own and told is None and created == min(times, default=None)
    ):
        account.kept("time")
    elif text is None:
        account.time(created)
    else:
        account.kept("time")
        values["started"] = text
        if not own and times:
            values["duration"] = duration(max(times) - min(times))


def _tokens(block: Block) -> int:
    total = block.fields.get("total_tokens")
    if type(total) is int and total > 0:
        return total
    usage = usage_of(block.fields)
    return usage.input_tokens + usage.output_tokens if usage else 0
