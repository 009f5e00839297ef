"""Whether a session was held in a folder or below it, however either is spelled."""

from __future__ import annotations

import ntpath
import os
import re
from functools import lru_cache
from pathlib import PurePath, PureWindowsPath
from typing import Final

__all__ = ["is_inside", "spellings"]

_WINDOWS: Final = re.compile(r"/?[A-Za-z]:(?:[\\/]|$)|\\\\")
"""A drive (VS Code puts a slash before it), or a share."""


def is_inside(recorded: str, wanted: frozenset[PurePath]) -> bool:
    """Whether a recorded folder is one that was asked for (:func:`spellings`), or below it."""
    return any(not wanted.isdisjoint((path, *path.parents)) for path in spellings(recorded))


@lru_cache(maxsize=4096)
def spellings(folder: str) -> frozenset[PurePath]:
    """Give the ways to write an absolute folder: as it stands, and with its links resolved.

    A folder of Windows is compared as Windows does, also on another system. A relative one is
    none that could be told.
    """
    if _WINDOWS.match(folder):
        plain = folder.removeprefix("/")
        found: set[PurePath] = {PureWindowsPath(ntpath.normpath(plain))}
        local = os.name == "nt" and not plain.startswith("\\\\")
        return frozenset(found | ({PureWindowsPath(os.path.realpath(plain))} if local else set()))
    if not os.path.isabs(folder):  # noqa: PTH117
        return frozenset()
    try:
        return frozenset(map(PurePath, (os.path.normpath(folder), os.path.realpath(folder))))
    except (OSError, ValueError):
        return frozenset({PurePath(folder)})
