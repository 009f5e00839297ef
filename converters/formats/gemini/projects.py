"""The working directory of a session, which its file knows only as a hash."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.errors import DcbError
from converters.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Input

__all__ = ["LISTS", "cwd_of"]

_LISTS: Final = ("projects.json", "trustedFolders.json")
LISTS: Final = tuple(f"{up}{name}" for up in ("../../", "../../../") for name in _LISTS)
"""Files of ``~/.gemini`` that name project folders, seen from a checkpoint and from ``chats/``."""

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


def cwd_of(document: dict[str, Any], source: Input) -> str | None:
    """Give the folder whose sha256 is ``projectHash``, or whose short name is the project's.

    Else the first of ``directories``.
    """
    wanted = document.get("projectHash")
    listed = document.get("directories")
    own = [d for d in listed if isinstance(d, str) and d] if isinstance(listed, list) else []
    if isinstance(wanted, str):
        for folder in own:
            if _hash(folder) == wanted:
                return folder
    ups, project = _place(source.name)
    by_name = None
    for folder, name in _projects(source, ups):
        if _hash(folder) == wanted:
            return folder
        if by_name is None and name is not None and name == project:
            by_name = folder
    return by_name or next(iter(own), None)


def _hash(folder: str) -> str:
    return hashlib.sha256(folder.encode("utf-8", "replace")).hexdigest()


def _place(name: str) -> tuple[tuple[int, ...], str | None]:
    """Give how many folders up from a file ``~/.gemini`` may be, and the project's short name."""
    folders = name.replace("!", "/").split("/")[:-1]
    if "chats" not in folders:  # a checkpoint, or a file named from its own folder
        return (2, 3), folders[-1] if folders else None
    below = folders[::-1].index("chats")
    return (below + 3,), folders[-below - 2] if len(folders) > below + 1 else None


def _projects(source: Input, ups: tuple[int, ...]) -> Iterator[tuple[str, str | None]]:
    """Give ``(folder, short name)`` of every project that the program knows."""
    patterns = ["../" * up + name for up in ups for name in _LISTS]
    for pattern in patterns:
        for file in source.files(pattern):
            try:
                root = jsonio.load(file.read(), Ledger(), path=file.name)[0]
            except DcbError:
                continue
            inner = root.get("projects") if isinstance(root, dict) else None
            found = inner if isinstance(inner, dict) else root
            for folder, name in found.items() if isinstance(found, dict) else ():
                if isinstance(folder, str) and _ABSOLUTE.match(folder):
                    yield folder, name if isinstance(name, str) else None
