"""``dcb scan``: the sessions of every tool on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from converters.errors import DcbError, UsageError
from converters.ledger import Ledger
from converters.reading import Unit, read_unit, units
from converters.text import iso_ms, parse_time
from converters.types import Context
from dcb import scan as scanning
from dcb.cli import _run
from dcb.cli._inputs import JsonOption
from dcb.cli._scanned import chosen, machine, stored
from dcb.scan import Found, Unreadable
from dcb.scan.folders import is_inside, spellings

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_UNITS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@app.command(epilog="Example: dcb scan --since 7d --cwd .")
def scan(
    *,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", help="Only this tool; may be repeated.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Active since: 30m, 12h, 7d, 2w or a date.")
    ] = None,
    cwd: Annotated[
        Path | None, typer.Option("--cwd", help="Only sessions of this folder and below.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", help="Only where this text is; --deep for all text.")
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read whole files; count turns.")] = False,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Use the scan cache.")] = True,
    json: JsonOption = False,
) -> None:
    """Find the sessions of every known tool: tool, id, title, folder, last activity, size.

    A session is an input of other commands as scan:ID, scan:TOOL or scan:last. Exit code 1
    when a store cannot be read.
    """
    formats = chosen(tool)
    floor = _since(since) if since else None
    wanted = _Filter(floor, cwd, grep, deep=deep)
    found: list[Found] = []
    failed = False
    for one in scanning.scan(formats, machine(), cache=stored(use=cache), deep=deep):
        if isinstance(one, Unreadable):
            failed |= not one.skipped
            _name(one, json=json)
        elif wanted.fits(one):
            found.append(one)
    found.sort(key=lambda one: (-(one.time or 0), one.path, one.id))
    for one in found:
        if json:
            _run.emit(one)
    if not json:
        _table(found)
    _run.finish(failed=failed)


def _name(one: Unreadable, *, json: bool) -> None:
    """Say what cannot be listed, and why."""
    if json:
        _run.emit({"tool": one.tool, "path": one.path,
                   "skipped" if one.skipped else "error": one.reason})  # fmt: skip
    what = "skipped" if one.skipped else "cannot list"
    _run.say(f"{what}: {_run.printable(one.path)} ({one.tool}): {one.reason}")


class _Filter:
    """The filters of a run, put together."""

    def __init__(
        self, floor: int | None, cwd: Path | None, grep: str | None, *, deep: bool
    ) -> None:
        self._floor, self._deep = floor, deep
        self._cwd = None if cwd is None else spellings(str(cwd)) or spellings(str(cwd.absolute()))
        self._grep = None if grep is None else grep.casefold()
        self._texts: dict[tuple[str, str], set[str]] = {}

    def fits(self, one: Found) -> bool:
        """Whether a session passes every filter."""
        if self._floor is not None and (one.time or 0) < self._floor:
            return False
        if self._cwd is not None and not (one.cwd and is_inside(one.cwd, self._cwd)):
            return False
        return self._grep is None or self._matches(one, self._grep)

    def _matches(self, one: Found, text: str) -> bool:
        if any(text in (value or "").casefold() for value in (one.title, one.cwd, one.id)):
            return True
        if not self._deep:
            return False
        store = (one.tool, one.path)
        if store not in self._texts:
            self._texts[store] = set(_holding(one, text))
        return one.id in self._texts[store]


def _holding(one: Found, text: str) -> Iterator[str]:
    """Give the ids of the sessions of a store whose readable text holds a text."""
    from dcb.cli.show import render

    for unit in units(one.path, from_=one.tool, found=True):
        if isinstance(unit, Unit):
            try:
                for session in read_unit(unit, Context(Ledger(one.path))):
                    if any(text in words.casefold() for words in render(session)):
                        yield session.meta.id
            except DcbError:
                continue


def _since(text: str) -> int:
    now = int(time.time() * 1000)
    number, unit = text[:-1], text[-1:]
    if number.isdecimal() and unit in _UNITS:
        return now - int(number) * _UNITS[unit]
    at = parse_time(text)
    if at is None:
        raise UsageError(f"--since {text!r} is neither a span like 7d nor a date")
    return at.ms


def _table(found: list[Found]) -> None:
    for one in found:
        row: list[Any] = [
            iso_ms(one.time)[:16].replace("T", " ") if one.time else "-" * 16,
            one.tool.ljust(12),
            one.id[:8].ljust(8),
            f"{(one.size or 0) / 1024:8.0f}K",
            *([f"{one.turns:4}t"] if one.turns is not None else []),
            _run.printable(one.title or "")[:60],
        ]
        _run.put("  ".join(row) + (f"  ({_run.printable(one.cwd)})" if one.cwd else ""))
