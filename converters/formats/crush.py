"""Crush: the Go OpenCode's schema, gone on.

``<project>/.crush/crush.db`` (or ``options.data_directory``); ``projects.json`` of the user
lists the projects. New are the columns ``provider`` and ``is_summary_message`` and the table
``read_files``. Times are seconds. Everything else as in ``dcb formats opencode-go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from converters.formats.opencode_go import FORMAT as PARENT
from converters.formats.opencode_go.read import listing, read_as
from converters.types import Format, Head, Match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.types import Context, Input

__all__ = ["FORMAT"]


def probe(head: Head) -> Match | None:
    """Recognise the parent's tables with a summary column or the table of read files."""
    if not head.is_sqlite or not {"sessions", "messages"} <= head.tables:
        return None
    own = "read_files" in head.tables or b"is_summary_message" in head.data
    if own and b"parts TEXT" in head.data:
        return Match(90, "tables sessions and messages with is_summary_message")
    return None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a database."""
    return read_as(source, ctx, "crush")


FORMAT = Format(
    id="crush",
    title="Crush",
    kinds=frozenset({"sqlite"}),
    probe=probe,
    read=read,
    listing=listing,
    evidence="B",
    capabilities=PARENT.capabilities,
    parent="opencode-go",
)
