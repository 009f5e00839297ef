"""What commands take from this machine: ``scan:NAME``, and everything there is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from converters import registry
from converters.errors import BadInput, DcbError, UsageError
from converters.opening import DiskTree, Skipped
from dcb import scan as scanning
from dcb.cli._inputs import Source
from dcb.scan import Cache, Found, Machine, Store, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Format

__all__ = ["chosen", "everywhere", "machine", "named", "stored"]


def chosen(tools: list[str] | None) -> list[Format]:
    """Give the formats to look for: those of the named tools, else all that have a place."""
    if not tools:
        return [record for record in registry.all_formats() if record.places]
    found = {record.id: record for name in tools for record in registry.lookup(name)}
    for name in tools:
        if not any(record.places for record in registry.lookup(name)):
            raise UsageError(f"dcb knows no place of {name!r} on a machine")
    return list(found.values())


def machine() -> Machine:
    """Give this machine."""
    return Machine(Path.home(), os.environ, sys.platform)


def stored(*, use: bool = True) -> Cache | None:
    """Give the scan cache in the user's cache folder."""
    if not use:
        return None
    import platformdirs

    return Cache(Path(platformdirs.user_cache_dir("dcb", appauthor=False), "scan.json"))


def everywhere(formats: list[Format]) -> Iterator[Source | Skipped | DcbError]:
    """Give the stores of these formats on this machine, and what of them cannot be read."""
    disk, cache = DiskTree(), stored()
    for store in scanning.stores(formats, machine(), disk):
        # What gives way to another store says so in its listing; any other file is read anyway.
        if isinstance(store, Store) and store.record.listing is not None:
            found = scanning.contents(store, cache, disk=disk)
            if not found:
                continue
        else:
            found = store if isinstance(store, Unreadable) else []
        if isinstance(found, Unreadable):
            yield _refusal(found)
        elif isinstance(store, Store):
            yield Source(store.path, store.record.id, found=True)
    if cache is not None:
        cache.save()


def _refusal(one: Unreadable) -> Skipped | DcbError:
    return Skipped(one.path, one.reason) if one.skipped else BadInput(one.reason, path=one.path)


def named(name: str) -> Iterator[Source | Skipped | DcbError]:
    """Give what ``scan:NAME`` stands for: every store of a tool, or where a session is.

    A name that fits none, or several, is an error in its place.
    """
    try:
        formats = [record for record in registry.lookup(name) if record.places]
    except UsageError:
        formats = []
    if formats:
        found = list(everywhere(formats))
        yield from found
        if all(isinstance(one, Skipped) for one in found):
            yield _no_session(name)
        return
    fits = _fitting(name)
    ids = {one.id for one in fits}
    if len(ids) > 1:
        shown = ", ".join(sorted(ids)[:5])
        yield BadInput(f"fits {len(ids)} sessions", path=f"scan:{name}", hint=f"such as {shown}")
        return
    for one in fits:
        only = None if one.guessed else frozenset({one.id})
        yield Source(one.path, one.tool, only, found=True)
    if not fits:
        yield _no_session(name)


def _no_session(name: str) -> BadInput:
    hint = "`dcb scan` lists them, with --deep all of them"
    return BadInput("no session of this machine fits", path=f"scan:{name}", hint=hint)


def _fitting(name: str) -> list[Found]:
    """Give the sessions that fit a name; only when none does, whole files are read for it."""
    found = _listed(deep=False)
    fits = scanning.resolve(name, found)
    if fits or name == "last":
        return fits
    # A branch or subagent without an id of its own is in the file of its session.
    root, mark, _ = name.partition("~")
    owners = [one for one in found if mark and one.id == root]
    if owners:
        return [msgspec.structs.replace(one, id=name) for one in owners]
    return scanning.resolve(name, _listed(deep=True))


def _listed(*, deep: bool) -> list[Found]:
    found = scanning.scan(chosen(None), machine(), cache=stored(), deep=deep)
    return [one for one in found if isinstance(one, Found)]
