"""What earlier scans found in stores that have not changed since."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from converters.errors import DcbError
from dcb.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dcb.scan.places import Store

__all__ = ["Cache", "Extent", "Found", "extent_of"]

_VERSION: Final = 2
_DATABASES: Final = (".db", ".sqlite", ".vscdb")


class Found(msgspec.Struct, rename="camel", omit_defaults=True):
    """One session on this machine. ``time``: last activity in ms; ``size`` in bytes.

    ``guessed``: the start of its file does not tell its id, which is the file's name here.
    ``parent``: the session that a subagent works for.
    """

    tool: str
    id: str
    path: str
    title: str | None = None
    cwd: str | None = None
    time: int | None = None
    size: int | None = None
    turns: int | None = None
    guessed: bool = False
    parent: str | None = None


class Extent(NamedTuple):
    """How large a store is (``size``), and what tells whether it has changed since.

    ``mtime_ns``, ``total`` and ``files``: of all that belongs to it, the newest time, the sum of
    the sizes and the number.
    """

    size: int
    mtime_ns: int
    total: int
    files: int


def extent_of(store: Store) -> Extent:
    """Measure a store without reading it: companions, what is in a folder, a database's log.

    Raises :class:`OSError`.
    """
    stats = [store.stat]
    if store.is_dir:
        stats += _below(store.path)
    elif store.path.endswith(_DATABASES):
        stats += _there(f"{store.path}-wal")
    size = sum(found.st_size for found in stats[store.is_dir :])
    stats += [found for path in store.beside for found in _there(path)]
    newest = max(found.st_mtime_ns for found in stats)
    return Extent(size, newest, sum(found.st_size for found in stats), len(stats))


def _below(folder: str) -> Iterator[os.stat_result]:
    """Give what lies below a folder; links are not followed."""
    stack = [folder]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    yield entry.stat(follow_symlinks=False)


def _there(path: str) -> list[os.stat_result]:
    try:
        return [os.stat(path)]  # noqa: PTH116
    except OSError:
        return []


class _Kept(msgspec.Struct, array_like=True):
    mtime_ns: int
    total: int
    files: int
    found: list[Found]


class _File(msgspec.Struct):
    version: int
    entries: dict[str, _Kept]


class Cache:
    """What earlier scans found; a damaged or older file counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = False
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_File)
            self._entries = kept.entries if kept.version == _VERSION else {}
        except (OSError, msgspec.DecodeError):
            self._entries = {}

    def get(self, key: str, extent: Extent) -> list[Found] | None:
        """Give what is known of a store that has not changed."""
        kept = self._entries.get(key)
        if kept is None or (kept.mtime_ns, kept.total, kept.files) != extent[1:]:
            return None
        return kept.found

    def put(self, key: str, extent: Extent, found: list[Found]) -> None:
        """Remember what a store holds."""
        self._entries[key] = _Kept(*extent[1:], found)
        self._changed = True

    def save(self) -> None:
        """Write the cache if anything is new; a folder that cannot be written is no error."""
        if not self._changed:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, msgspec.json.encode(_File(_VERSION, self._entries)), force=True)
        except (OSError, DcbError, UnicodeError):
            return
