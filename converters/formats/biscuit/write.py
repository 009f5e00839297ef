"""Writes a session as a dump or a ``ctx.json``: the mechanical sieve over the turns IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.errors import BadInput, UsageError
from converters.formats.biscuit.account import account
from converters.formats.biscuit.condense import Entry, estimate_tokens
from converters.formats.biscuit.ctx import build_ctx
from converters.formats.biscuit.plan import native_of, only_edits, plan, without_boxes
from converters.formats.biscuit.read import session_of
from converters.ledger import Ledger, count_items
from converters.types import Context, Option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.formats.biscuit.plan import FloorPlan
    from converters.ir import Session
    from converters.types import Sink

__all__ = ["OPTIONS", "write"]

OPTIONS: Final = (
    Option("form", "dump", "dump, or ctx for a ctx.json"),
    Option("threshold", -1, "remove the boxes of a dump above so many tokens; 0 always, -1 never"),
    Option("edit_only", False, "keep questions, answers and the lines of the write tools only"),
    Option("root", "", "project folder that paths lose; default: the session's working directory"),
)


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write one session. Raises :class:`UsageError` for a second one or a bad option."""
    form = ctx.option("form", "dump")
    threshold = ctx.option("threshold", -1)
    root = ctx.option("root", "")
    if form not in ("dump", "ctx"):
        raise UsageError(f"form is dump or ctx, not {form!r}")
    if not isinstance(threshold, int) or not isinstance(root, str):
        raise UsageError("threshold is a number of tokens, root a folder")
    done = False
    for session in sessions:
        if done:
            raise UsageError("a dump holds one session", hint="write each session to its own file")
        done = True
        given = root or (session.meta.cwd or "").rstrip("/")
        floors = plan(session, given if len(given) > 1 else "")
        edits = ctx.option("edit_only", False) is True
        if edits or 0 <= threshold < _tokens(floors, threshold):
            without_boxes(floors)
        if edits:
            only_edits(floors)
        data = _bytes(session, floors, form)
        sink.write(data)
        if ctx.ledger.itemize:
            ctx.ledger.total(count_items(session))
            account(session, floors, _reread(data), ctx.ledger)


def _tokens(floors: list[FloorPlan], threshold: int) -> int:
    """Estimate the tokens of the dump; anything is above the threshold 0."""
    return estimate_tokens("\n\n".join(floor.text for floor in floors)) + (threshold == 0)


def _bytes(session: Session, floors: list[FloorPlan], form: str) -> bytes:
    texts = [(floor.n, _clean(floor.text)) for floor in floors]
    if form == "dump":
        return "\n\n".join(text for _, text in texts).encode("utf-8")
    old: Any = native_of(session.extra).get("ctx")
    return build_ctx((Entry(n, text) for n, text in texts), old if isinstance(old, dict) else None)


def _clean(text: str) -> str:
    """Make halves of surrogate pairs U+FFFD, which UTF-8 cannot hold."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _reread(data: bytes) -> Session | None:
    """Read what was written, to see what of it a reader finds again."""
    try:
        return session_of(data, Context(Ledger(itemize=False)))
    except BadInput:
        return None
