"""The inputs that readers get."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import posixpath
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from converters.errors import BadInput, DcbError, LimitReached
from converters.opening._codecs import Budget, codec_of
from converters.opening._content import Packed, start_of
from converters.opening._streams import Spool
from converters.opening._trees import DiskTree, IndexTree, find
from converters.types import HEAD_BYTES, SQLITE, Head, Input, Limits

if TYPE_CHECKING:
    import mmap
    import sqlite3
    from collections.abc import Callable, Mapping

    from converters import sqlitedb
    from converters.opening._content import Content
    from converters.opening._trees import Tree

__all__ = ["Folder", "Memory", "Place", "Stored", "companions", "stem_of"]

_MAGIC: Final = 16
_WILD: Final = frozenset("*?[")
_ROOT: Final = "1/2/3/4"
"""Where an input in memory lies in the tree of its companions, so that ``..`` leads somewhere."""


def stem_of(name: str) -> str:
    """Give the last part of a name without its suffixes.

    It can become the id of a session, so bytes that are no UTF-8 are spelled out.
    """
    last = PurePosixPath(name.replace("!", "/")).name
    return (last.partition(".")[0] or last).encode("utf-8", "backslashreplace").decode("utf-8")


def _filled(pattern: str, name: str) -> str:
    """Put the input's own name into a pattern, its glob characters escaped."""
    if "{" not in pattern:
        return pattern
    last = PurePosixPath(name.replace("!", "/")).name
    stem = glob.escape(last.partition(".")[0] or last)
    return pattern.replace("{name}", glob.escape(last)).replace("{stem}", stem)


def companions(path: str, pattern: str, disk: DiskTree, *, is_dir: bool = False) -> list[str]:
    """Give the paths of what ``Input.files`` finds beside a file on disk, opening none of it."""
    folder, name = os.path.split(path)
    folder = path if is_dir else folder
    first = pattern.partition("/")[0]
    if first != ".." and _WILD.isdisjoint(first):
        # Most files have none: one look is enough to know.
        stem = name.partition(".")[0] or name
        if disk.entry(folder, first.replace("{name}", name).replace("{stem}", stem)) is None:
            return []
    return [found for _, found in find(disk, folder, _filled(pattern, path))]


class Place(NamedTuple):
    """Where an input lies: its tree, its folder and its own name there."""

    tree: Tree | None = None
    folder: str = ""
    key: str = ""


class _Named:
    """What all inputs know of their name and place."""

    def __init__(self, name: str, place: Place, limits: Limits, *, nested: bool) -> None:
        self.name = name
        self.nested = nested
        self._place, self._limits = place, limits
        self._tree, self._folder = place.tree, place.folder

    @property
    def stem(self) -> str:
        """The last part of the name without its suffixes."""
        return stem_of(self.name)

    def files(self, pattern: str) -> tuple[Input, ...]:
        """Find companions by a glob relative to the folder of the input, sorted by name."""
        if self._tree is None:
            return ()
        found: list[Input] = []
        for folder, path in find(self._tree, self._folder, _filled(pattern, self.name)):
            name = self._tree.display(path)
            try:
                content = _unpacked(self._tree.content(path), name, self._limits)
            except DcbError:
                continue
            place = Place(self._tree, folder, path)
            found.append(Stored(name, content, place, self._limits, nested=self.nested))
        return tuple(found)

    def _siblings(self) -> frozenset[str]:
        return frozenset() if self._tree is None else _names(self._tree, self._folder)


def _unpacked(content: Content, name: str, limits: Limits) -> Content:
    """Give what comes out of a companion that is compressed, else the companion."""
    codec = codec_of(start_of(content, _MAGIC))
    return content if codec is None else Packed(content, codec, name, Budget(limits))


def _tables(connect: Callable[[], sqlite3.Connection]) -> frozenset[str]:
    """Give the names of the tables of a database; one that cannot be read has none."""
    from converters import sqlitedb

    try:
        with contextlib.closing(connect()) as connection:
            return sqlitedb.tables(connection)
    except DcbError:
        return frozenset()


def _names(tree: Tree, folder: str) -> frozenset[str]:
    """Give the names in a folder, folders with a trailing slash."""
    try:
        return tree.entries(folder).names
    except DcbError:
        return frozenset()


class Stored(_Named):
    """A file, an archive member or a stream as an input.

    ``nested``: it was found in a folder or an archive and not named by a person.
    ``torn`` says after reading that packed bytes ended early. ``path`` is the
    path of a plain file.
    """

    def __init__(
        self,
        name: str,
        content: Content,
        place: Place,
        limits: Limits,
        *,
        nested: bool,
    ) -> None:
        super().__init__(name, place, limits, nested=nested)
        self._content = content
        self._copy: sqlitedb.Copy | None = None
        self._tables: frozenset[str] | None = None

    @property
    def content(self) -> Content:
        """Where the bytes come from."""
        return self._content

    def unpacked(self, content: Content) -> Stored:
        """Give the same input with what comes out of its bytes."""
        return Stored(self.name, content, self._place, self._limits, nested=self.nested)

    @property
    def path(self) -> str | None:
        """The path of a plain file, else ``None``."""
        return self._content.path

    @property
    def torn(self) -> str | None:
        """How packed bytes ended early, known after reading; else ``None``."""
        return self._content.torn

    @property
    def size(self) -> int | None:
        """Length in bytes, ``None`` where it is not known before reading."""
        return self._content.size

    @property
    def head(self) -> Head:
        """The first bytes and the names around them. Read anew each time: keep it."""
        data = start_of(self._content, HEAD_BYTES)
        tables = self._table_names() if data.startswith(SQLITE) else frozenset()
        return Head(data, self.name, self.size, self._siblings(), tables)

    def open(self) -> BinaryIO:
        """Open the bytes (decompressed) as a new stream; the caller closes it."""
        return self._content.open()

    def read(self) -> bytes:
        """Give all bytes; :class:`LimitReached` past the limit."""
        limit = self._limits.document
        if (self.size or 0) <= limit:
            with self._content.open() as stream:
                data = stream.read(limit + 1)
            if len(data) <= limit:
                return data
        raise LimitReached(f"a document of more than {limit} bytes", path=self.name)

    def view(self) -> bytes | mmap.mmap:
        """Give all bytes, mapped where they lie in a file; packed ones are unpacked into one."""
        view = self._content.view()
        if view is None:
            with self._content.open() as stream:
                view = Spool(stream, self.name, self._limits.document).view()
        return view

    def database(self) -> sqlite3.Connection:
        """Open an SQLite input read-only without a trace beside it; the caller closes it."""
        if not self._magic():
            raise BadInput("not an SQLite file", path=self.name)
        return self._connect(keep=False)

    def _magic(self) -> bool:
        return start_of(self._content, len(SQLITE)) == SQLITE

    def _connect(self, *, keep: bool) -> sqlitedb.Connection:
        """Connect; a private copy that is kept is used, and removed, by the next connection."""
        from converters import sqlitedb

        copy, self._copy = self._copy, None
        if copy is None:
            path = self._content.path
            if path is None:
                copy = self._private()
            elif sqlitedb.is_live(path):
                copy = sqlitedb.Copy.of_file(path, self.name, limit=self._limits.database)
            else:
                return sqlitedb.connect(path, self.name, limit=self._limits.database)
        if keep:
            self._copy = copy
        return copy.connect(keep=keep)

    def _private(self) -> sqlitedb.Copy:
        """Copy the database, and what belongs to it, to a private folder."""
        from converters import sqlitedb

        sides: dict[str, BinaryIO] = {}
        try:
            for suffix in sqlitedb.SIDES if self._tree is not None else ():
                wanted = glob.escape(PurePosixPath(self._place.key).name) + suffix
                for side in self._beside(wanted):
                    sides[suffix] = side.open()
            with self._content.open() as main:
                return sqlitedb.Copy.of_streams(main, self.name, sides, limit=self._limits.database)
        finally:
            for stream in sides.values():
                stream.close()

    def _beside(self, pattern: str) -> list[Content]:
        if self._tree is None:
            return []
        return [self._tree.content(path) for _, path in find(self._tree, self._folder, pattern)]

    def _table_names(self) -> frozenset[str]:
        if self._tables is None:
            self._tables = _tables(partial(self._connect, keep=True))
        return self._tables


class Folder(_Named):
    """A folder that is one input, of a format of kind ``dir``."""

    torn: str | None = None

    @property
    def path(self) -> str | None:
        """The path of a folder on disk, else ``None``."""
        return self._folder if isinstance(self._tree, DiskTree) else None

    @property
    def size(self) -> int | None:
        """A folder has no size."""
        return None

    @property
    def head(self) -> Head:
        """The names of its entries; no bytes."""
        return Head(b"", self.name, None, self._siblings(), is_dir=True)

    def open(self) -> BinaryIO:
        """Refuse: a folder has no bytes."""
        raise BadInput("is a folder", path=self.name)

    def read(self) -> bytes:
        """Refuse: a folder has no bytes."""
        raise BadInput("is a folder", path=self.name)

    def view(self) -> bytes:
        """Refuse: a folder has no bytes."""
        raise BadInput("is a folder", path=self.name)

    def database(self) -> sqlite3.Connection:
        """Refuse: a folder is no database."""
        raise BadInput("is a folder", path=self.name)


def _no_content() -> Content:
    raise BadInput("not here")


class Memory:
    """An input in memory; ``around`` maps the paths of its companions to their bytes."""

    path: str | None = None
    torn: str | None = None

    def __init__(
        self,
        data: bytes,
        name: str = "-",
        around: Mapping[str, bytes] | None = None,
        *,
        nested: bool = False,
    ) -> None:
        self.name = name
        self.nested = nested
        self._data = data
        self._around = dict(around or {})
        self._index = IndexTree("", folders=1 << 20)
        self._keys: dict[str, str] = {}
        for key in self._around:
            path = posixpath.normpath(f"{_ROOT}/{key}")
            self._keys[path] = key
            self._index.add(path, "file", _no_content)

    @property
    def stem(self) -> str:
        """The last part of the name without its suffixes."""
        return stem_of(self.name)

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self._data)

    @property
    def head(self) -> Head:
        """The first bytes and the names around them."""
        siblings = _names(self._index, _ROOT) if self._around else frozenset()
        data = self._data[:HEAD_BYTES]
        return Head(data, self.name, len(self._data), siblings, self._table_names(data))

    def _table_names(self, data: bytes) -> frozenset[str]:
        return _tables(self.database) if data.startswith(SQLITE) else frozenset()

    def open(self) -> BinaryIO:
        """Open the bytes as a new stream."""
        return io.BytesIO(self._data)

    def read(self) -> bytes:
        """Give all bytes."""
        return self._data

    def view(self) -> bytes:
        """Give all bytes."""
        return self._data

    def files(self, pattern: str) -> tuple[Input, ...]:
        """Find companions by a glob relative to the folder of the input."""
        found = find(self._index, _ROOT, _filled(pattern, self.name))
        keys = [self._keys[path] for _, path in found]
        return tuple(Memory(self._around[key], key) for key in keys)

    def database(self) -> sqlite3.Connection:
        """Open the bytes as a database, by way of a private copy."""
        from converters import sqlitedb

        stream = self.open()
        return sqlitedb.Copy.of_streams(stream, self.name, {}, limit=Limits().database).connect()
