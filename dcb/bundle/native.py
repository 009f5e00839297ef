"""The source's own bytes of a session, packed into ``x-dcb.native``.

``kind`` says what they are:

``log``
    The bundle's ``log`` is the source's text itself; ``name`` is its file name.
``files``
    All files that the reader opened for the session, and the companions that its format
    declares, whole. ``nested``: the first one was
    found in a folder or archive, where some readers join it with what lies beside it.
``part``
    A session that shares its files with others: they travel with the bundle of ``of``; here
    is what the reader made of them, as an interchange document.
``object``, ``line``
    The JSON object, or the line, that holds the session among others in one file;
    ``pointer`` is its place, ``wrap`` the member that held it (``""``: a bare list),
    ``index`` which of several sessions in it (0 when it is not there).
``rows``
    The rows of a database that belong to the session, as JSON.

``path`` is the end of the source's own path, from which some readers take an id. A file is
``{name, sha256, size, data}``, its data gzip (modification time 0) and base64.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from blake3 import blake3

from converters.sqlitedb import SIDES

if TYPE_CHECKING:
    import mmap
    import sqlite3
    from collections.abc import Iterable

    from converters.types import Head, Input

__all__ = [
    "Opened",
    "Recorder",
    "blake3_of",
    "file_entry",
    "plain_name",
    "plain_path",
    "relative_names",
    "tail",
]

# Twice as fast as the usual 6, and a twentieth larger.
_LEVEL: Final = 4
_TAIL: Final = 4
_PACKED: Final = re.compile(r"\.(?:gz|zst|zstd|bz2|xz)\Z", re.IGNORECASE)
_MAGIC: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")


@dataclass(slots=True)
class Opened:
    """What a reader opened, by name, in the order of opening."""

    files: dict[str, Input] = field(default_factory=dict)
    databases: dict[str, Input] = field(default_factory=dict)

    def digest(self) -> str:
        """Give the blake3 (hex) of what was opened; of several files over names and hashes."""
        found = {**self.files, **self.databases}
        for item in self.databases.values():
            for side in SIDES:
                found |= {beside.name: beside for beside in item.files("{name}" + side)}
        hashes = {name: blake3_of(item) for name, item in sorted(found.items())}
        if len(hashes) == 1:
            return next(iter(hashes.values()))
        total = blake3()
        for name, value in hashes.items():
            total.update(f"{name}\0{value}\n".encode("utf-8", "surrogatepass"))
        return total.hexdigest()


class Recorder:
    """An input that remembers what was opened: itself, and each companion."""

    def __init__(self, source: Input, opened: Opened | None = None) -> None:
        self._source = source
        self.opened = opened or Opened()
        self.name = source.name
        self.stem = source.stem
        self.nested = source.nested

    @property
    def head(self) -> Head:
        """The first bytes and the names around them."""
        return self._source.head

    @property
    def size(self) -> int | None:
        """Length in bytes."""
        return self._source.size

    @property
    def path(self) -> str | None:
        """The path of a plain file."""
        return self._source.path

    @property
    def torn(self) -> str | None:
        """How packed bytes ended early, known after reading."""
        return self._source.torn

    def _record(self) -> None:
        self.opened.files.setdefault(self.name, self._source)

    def open(self) -> BinaryIO:
        """Open the bytes."""
        found = self._source.open()
        self._record()
        return found

    def read(self) -> bytes:
        """Give all bytes."""
        found = self._source.read()
        self._record()
        return found

    def view(self) -> bytes | mmap.mmap:
        """Give all bytes, mapped where possible."""
        found = self._source.view()
        self._record()
        return found

    def files(self, pattern: str) -> tuple[Input, ...]:
        """Find companions; each remembers when it is opened."""
        return tuple(Recorder(found, self.opened) for found in self._source.files(pattern))

    def database(self) -> sqlite3.Connection:
        """Open as a database."""
        found = self._source.database()
        self.opened.databases.setdefault(self.name, self._source)
        return found


def blake3_of(item: Input) -> str:
    """Give the blake3 (hex) of the bytes of an input."""
    digest = blake3()
    with item.open() as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def file_entry(name: str, data: bytes, *, level: int = _LEVEL) -> dict[str, Any]:
    """Give the entry of a file: the same bytes give the same entry."""
    packed = gzip.compress(data, level, mtime=0)
    return {
        "name": name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "data": base64.b64encode(packed).decode("ascii"),
    }


def relative_names(names: Iterable[str], base: str | None = None) -> dict[str, str]:
    """Give names relative to ``base``, else to the folder that all files share.

    Separators are ``/``; of an archive member the path inside the archive counts.
    """
    paths = {name: plain_path(name) for name in names}
    if base is None:
        folders = [posixpath.dirname(path) for path in paths.values()]
        same = len({path.startswith("/") for path in folders}) == 1
        base = posixpath.commonpath(folders) if folders and same else ""
    else:
        base = plain_path(base)
    return {name: posixpath.relpath(path, base) if base else path for name, path in paths.items()}


def tail(name: str) -> str:
    """Give the last four parts of a name: readers look no further up for what a path tells."""
    return "/".join(plain_path(name).split("/")[-_TAIL:])


def plain_path(name: str) -> str:
    """Give a name with ``/``, without ``..``; of an archive member the path inside the archive."""
    path = name.replace("\\", "/").rpartition("!")[2]
    return posixpath.normpath(path) if path else "-"


def plain_name(name: str, data: bytes) -> str:
    """Give the name of a file that came out of a compressed stream without that suffix."""
    if _PACKED.search(name) and not data.startswith(_MAGIC):
        return _PACKED.sub("", name) or name
    return name
