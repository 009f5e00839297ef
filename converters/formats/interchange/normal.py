"""Is a decoded document already in normal form? Then it is the session as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from converters.images import is_clean
from converters.ir import Image, ToolCallBlock

if TYPE_CHECKING:
    from converters.ir import Block, Session, Step, Turn, Usage

__all__ = ["count_records", "is_normal"]

_SECONDS: Final = 100_000_000_000
_MAX_SAFE: Final = (1 << 53) - 1


def count_records(session: Session) -> int:
    """Count the elements of ``turns`` and of every ``steps``."""
    return len(session.turns) + sum(len(turn.steps) for turn in session.turns)


def is_normal(session: Session) -> bool:
    """Whether :func:`normalize` would change nothing, count nothing and drop nothing."""
    meta = session.meta
    if (
        not session.turns
        or not meta.id
        or "" in (session.title, session.model, session.provider, meta.cwd, meta.source_id)
        or not _is_ms(meta.created_at)
    ):
        return False
    calls: set[str] = set()
    for turn in session.turns:
        if not _turn(turn):
            return False
        for step in turn.steps:
            if not _step(step, calls):
                return False
    return all(
        result.tool_call_id in calls
        for turn in session.turns
        for step in turn.steps
        for result in step.tool_results
    )


def _is_ms(time: int | None) -> bool:
    return time is None or _SECONDS <= time <= _MAX_SAFE


def _turn(turn: Turn) -> bool:
    compaction = turn.compaction
    if compaction is not None and (
        not compaction.summary.strip()
        or not compaction.provider
        or compaction.model == ""
        or not _is_ms(compaction.time)
    ):
        return False
    if not turn.steps and compaction is None and not turn.prompt.strip():
        return False
    blocks = turn.prompt_blocks
    return _is_ms(turn.time) and (blocks is None or (bool(blocks) and _blocks(blocks)))


def _blocks(blocks: list[Block]) -> bool:
    return all(is_clean(block) if isinstance(block, Image) else _named(block) for block in blocks)


def _named(block: Block) -> bool:
    return not isinstance(block, ToolCallBlock) or bool(block.id and block.name)


def _step(step: Step, calls: set[str]) -> bool:
    own = set()
    for call in step.tool_calls:
        if not call.id or not call.name:
            return False
        own.add(call.id)
    if len(own) != len(step.tool_calls):
        return False
    for block in step.content:
        if isinstance(block, ToolCallBlock):
            if block.id not in own:
                return False
        elif isinstance(block, Image) and not is_clean(block):
            return False
    calls |= own
    for result in step.tool_results:
        if not result.tool_call_id or not _is_ms(result.time) or not _blocks(result.content):
            return False
    return _is_ms(step.time) and step.model != "" and _usage(step.usage)


def _usage(usage: Usage | None) -> bool:
    return usage is None or all(
        n is None or 0 <= n <= _MAX_SAFE
        for n in (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        )
    )
