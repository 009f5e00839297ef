"""``dcb scan``: the sessions of every tool on this machine."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from converters import registry
from converters.errors import BadInput, UsageError
from converters.ledger import Ledger
from converters.reading import read_unit
from converters.text import iso_ms, parse_time
from converters.types import Context
from dcb import scan as scanning
from dcb.cli import _run
from dcb.cli._inputs import JsonOption
from dcb.scan import Cache, Found, Machine, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.types import Format

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

    A session is an input of other commands as scan:ID, scan:TOOL or scan:last.
    """
    formats = chosen(tool)
    floor = _since(since) if since else None
    wanted = _Filter(floor, cwd.resolve() if cwd else None, grep, deep=deep)
    found: list[Found] = []
    for one in scanning.scan(formats, machine(), cache=stored(use=cache), deep=deep):
        if isinstance(one, Unreadable):
            if json:
                _run.emit({"tool": one.tool, "path": one.path, "error": one.reason})
            _run.say(f"cannot list: {_run.printable(one.path)} ({one.tool}): {one.reason}")
        elif wanted.fits(one):
            found.append(one)
    found.sort(key=lambda one: (-(one.time or 0), one.path, one.id))
    for one in found:
        if json:
            _run.emit(one)
    if not json:
        _table(found)


class _Filter:
    """The filters of a run, put together."""

    def __init__(
        self, floor: int | None, cwd: Path | None, grep: str | None, *, deep: bool
    ) -> None:
        self._floor, self._cwd, self._deep = floor, cwd, deep
        self._grep = None if grep is None else grep.casefold()

    def fits(self, one: Found) -> bool:
        """Whether a session passes every filter."""
        if self._floor is not None and (one.time or 0) < self._floor:
            return False
        if self._cwd is not None and not (one.cwd and self._inside(one.cwd)):
            return False
        return self._grep is None or self._matches(one, self._grep)

    def _inside(self, cwd: str) -> bool:
        assert self._cwd is not None  # noqa: S101 - asked by fits() only
        return Path(cwd) == self._cwd or self._cwd in Path(cwd).parents

    def _matches(self, one: Found, text: str) -> bool:
        if any(text in (value or "").casefold() for value in (one.title, one.cwd, one.id)):
            return True
        return self._deep and any(text in words.casefold() for words in _texts(one))


def _texts(one: Found) -> Iterable[str]:
    """Give the readable text of a session."""
    from dcb.cli._inputs import collect
    from dcb.cli.show import render

    for unit in collect([one.path], from_=one.tool, on_error=lambda _: None):
        for session in read_unit(unit._replace(only=one.id), Context(Ledger(one.path))):
            yield from render(session)


def chosen(tools: list[str] | None) -> list[Format]:
    """Give the formats to look for: those of the named tools, else all that have a place."""
    if tools:
        return [record for name in tools for record in registry.lookup(name)]
    return [record for record in registry.all_formats() if record.places]


def machine() -> Machine:
    """Give this machine."""
    return Machine(Path.home(), os.environ, sys.platform)


def stored(*, use: bool = True) -> Cache | None:
    """Give the scan cache in the user's cache folder."""
    if not use:
        return None
    import platformdirs

    return Cache(Path(platformdirs.user_cache_dir("dcb", appauthor=False), "scan.json"))


def resolve(name: str) -> list[Found]:
    """Give the sessions that ``scan:NAME`` stands for; raises when there is none or no one."""
    found = [
        one
        for one in scanning.scan(chosen(None), machine(), cache=stored())
        if isinstance(one, Found)
    ]
    fits = scanning.resolve(name, found)
    if not fits:
        raise BadInput("no session of this machine fits", path=f"scan:{name}",
                       hint="`dcb scan` lists them")  # fmt: skip
    ids = {one.id for one in fits}
    if len(ids) > 1 and not any(one.tool == name for one in fits):
        shown = ", ".join(sorted(ids)[:5])
        raise UsageError(f"scan:{name} fits {len(ids)} sessions", hint=f"such as {shown}")
    return fits


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
