"""Token counts of Codex as usage: input excludes cached tokens, several responses add up."""

from __future__ import annotations

from converters.formats.codex.records import Tokens
from converters.ir import Usage

__all__ = ["added", "difference"]


def difference(total: Tokens, before: Tokens | None) -> Tokens:
    """Give what came on top of the totals before."""
    if before is None:
        return total
    return Tokens(
        *(max(0, getattr(total, name) - getattr(before, name)) for name in Tokens.__struct_fields__)
    )


def added(usage: Usage | None, last: Tokens) -> Usage:
    """Give the usage of a step with one more response."""
    cached = min(last.cached_input_tokens, last.input_tokens)
    found = Usage(
        last.input_tokens - cached,
        last.output_tokens,
        cached,
        None,
        last.reasoning_output_tokens,
    )
    if usage is not None:
        found.input_tokens += usage.input_tokens
        found.output_tokens += usage.output_tokens
        found.cache_read_tokens = cached + (usage.cache_read_tokens or 0)
        found.reasoning_tokens = last.reasoning_output_tokens + (usage.reasoning_tokens or 0)
    return found
