"""Lists of snapshots and hits: rich tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Literal

from converters.text import iso_ms
from dcb.cli import _run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.text import Text

    from dcb.store import Hit, Row

__all__ = ["hits", "rows"]

_ROOMY: Final = 80


def rows(found: Sequence[Row]) -> None:
    """Print snapshots: id, day, tokens, state, title, tags."""
    lines = [
        (
            row.snapshot_id,
            _day(row.created_at),
            str(row.tokens),
            "sealed" if row.sealed else "clear",
            row.title or "—",
            ", ".join(row.tags),
        )
        for row in found
    ]
    heads = ("id", "created", "tokens", "state", "title", "tags")
    if sys.stdout.isatty():
        _table(heads, lines)
        return
    for line in lines:
        _run.put("\t".join(map(_run.printable, line)))


def hits(found: Iterable[Hit]) -> None:
    """Print hits: a line with id, day and title, below it the excerpt with the terms marked."""
    if sys.stdout.isatty():
        console = _console()
        for hit in found:
            head = _text(f"{hit.snapshot_id}  {_day(hit.created_at)}  ")
            head.append(_run.printable(hit.title or "—"), style="bold")
            if hit.sealed:
                head.append("  sealed", style="dim")
            console.print(head)
            console.print(_text("    ") + _marked(hit))
        return
    for hit in found:
        _run.put(
            "\t".join(
                map(_run.printable, (hit.snapshot_id, _day(hit.created_at), hit.title or "—"))
            )
        )
        _run.put("\t" + _run.printable(_bracketed(hit)))


def _day(ms: int) -> str:
    try:
        return iso_ms(ms)[:10] if ms else "-"
    except (ValueError, OverflowError):
        return "-"


def _bracketed(hit: Hit) -> str:
    """Give the excerpt with brackets around terms."""
    parts: list[str] = []
    last = 0
    for start, stop in hit.marks:
        parts += [hit.excerpt[last:start], "[", hit.excerpt[start:stop], "]"]
        last = stop
    return "".join([*parts, hit.excerpt[last:]])


def _marked(hit: Hit) -> Text:
    text = _text("")
    last = 0
    for start, stop in hit.marks:
        text.append(_run.printable(hit.excerpt[last:start]))
        text.append(_run.printable(hit.excerpt[start:stop]), style="bold yellow")
        last = stop
    return text.append(_run.printable(hit.excerpt[last:]))


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    console = _console()
    table = Table(box=None, pad_edge=False)
    for head in heads:
        # An id is copied from here, so it stays on one line where there is room.
        whole = head == "id" and console.width >= _ROOMY
        justify: Literal["left", "right"] = "right" if head == "tokens" else "left"
        table.add_column(head, justify=justify, overflow="fold", no_wrap=whole)
    for line in lines:
        table.add_row(*(_text(_run.printable(cell)) for cell in line))
    console.print(table)


def _text(text: str) -> Text:
    """Give text in which rich finds no markup."""
    from rich.text import Text

    return Text(text)


def _console() -> Console:
    from rich.console import Console

    return Console(no_color=not _run.color(), markup=False, highlight=False, emoji=False)
