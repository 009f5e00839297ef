"""Finds the sessions of every tool on a machine, without reading more than it must.

Each format says where its tool keeps sessions (``places``); files found there are listed by
their first and last 64 KiB and small files around them, or by the format's own ``listing``
(databases, folders). A cache keyed by path, size and modification time makes the next scan cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from converters import opening, registry
from converters.errors import BadInput, DcbError
from converters.ledger import Ledger
from converters.opening import DiskTree
from dcb.scan.cache import Cache, Found, extent_of
from dcb.scan.ends import EDGE, Seen, by_ends, described, sessions
from dcb.scan.places import Machine, Store, Unreadable, stores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.types import Format, Input, Listed

__all__ = [
    "EDGE",
    "Cache",
    "Found",
    "Machine",
    "Store",
    "Unreadable",
    "contents",
    "resolve",
    "scan",
    "stores",
]


def scan(
    formats: Iterable[Format],
    machine: Machine,
    *,
    cache: Cache | None = None,
    deep: bool = False,
) -> Iterator[Found | Unreadable]:
    """Give every session of these formats on the machine, tool by tool, sorted by path.

    ``deep`` reads whole files and counts turns.
    """
    disk = DiskTree()
    for store in stores(formats, machine, disk):
        if isinstance(store, Unreadable):
            yield store
            continue
        found = contents(store, cache, deep=deep, disk=disk)
        yield from [found] if isinstance(found, Unreadable) else found
    if cache is not None:
        cache.save()


def contents(
    store: Store, cache: Cache | None, *, deep: bool = False, disk: DiskTree | None = None
) -> list[Found] | Unreadable:
    """List the sessions of one store."""
    tool, path = store.record.id, store.path
    try:
        extent = extent_of(store)
    except OSError as error:
        return Unreadable(tool, error.filename or path, error.strerror or "cannot be read")
    key = f"{'deep:' if deep else ''}{tool}:{path}"
    known = None if cache is None else cache.get(key, extent)
    if known is not None:
        return known
    changed = extent.mtime_ns // 1_000_000
    try:
        seen = _seen(store, changed, deep=deep, disk=disk)
    except DcbError as error:
        return Unreadable(tool, path, error.message)
    except Exception as error:
        fault = registry.fault_of(store.record, error, path=path)
        if fault is None:
            raise
        return Unreadable(tool, path, fault.message)
    found = [
        Found(
            tool,
            one.id,
            path,
            one.title,
            one.cwd,
            changed if one.time is None else one.time,
            extent.size if one.size is None else one.size,
            one.turns,
            seen.guessed,
            one.parent,
        )
        for one in seen.listed
    ]
    if cache is not None:
        cache.put(key, extent, found)
    return found


def _seen(store: Store, changed: int, *, deep: bool, disk: DiskTree | None) -> Seen:
    record = store.record
    for found in opening.open_inputs(store.path, is_unit=lambda _: True, disk=disk, found=True):
        if isinstance(found, DcbError):
            raise found
        if isinstance(found, opening.Skipped):
            continue
        listed = None if record.listing is None else list(_by_format(record, found))
        if listed is None:
            return Seen(_whole(record, found)) if deep else by_ends(record, found, changed)
        # A store that gives way to another one lists nothing.
        return Seen(_whole(record, found) if deep and listed else listed)
    return Seen([])


def _by_format(record: Format, found: Input) -> Iterable[Listed]:
    if record.probe(found.head) is None:
        raise BadInput(f"no store of {record.id}", path=found.name)
    assert record.listing is not None  # noqa: S101 - asked before
    return record.listing(found)


def _whole(record: Format, found: Input) -> list[Listed]:
    return [described(session) for session in sessions(record, found, Ledger(found.name))]


def resolve(name: str, found: Iterable[Found]) -> list[Found]:
    """Give what ``scan:NAME`` stands for: ``last``, a session id, or how one begins.

    Empty when nothing fits; several for an ambiguous beginning. An id itself goes before longer
    ones, and a session before what is named after it (``ID~s1``); a subagent is not the last.
    """
    all_ = list(found)
    if name == "last":
        own = [one for one in all_ if one.parent is None] or all_
        return sorted(own, key=lambda one: (one.time or 0, one.id))[-1:]
    exact = [one for one in all_ if one.id == name]
    if exact:
        return exact
    fits = [one for one in all_ if one.id.startswith(name)]
    ids = {one.id for one in fits}
    return [one for one in fits if not any(one.id.startswith(f"{other}~") for other in ids)]
