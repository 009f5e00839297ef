"""Turns what a person names (file, folder, archive, stream) into :class:`Input` objects.

The only module that opens files: inputs, their declared companions, and private
copies of databases.
"""

from __future__ import annotations

import fnmatch
import io
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from converters.errors import BadInput
from converters.types import HEAD_BYTES, Head, Input

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

__all__ = ["Memory"]


class Memory:
    """An input in memory; ``around`` maps the paths of its companions to their bytes."""

    def __init__(
        self, data: bytes, name: str = "-", around: Mapping[str, bytes] | None = None
    ) -> None:
        self.name = name
        self._data = data
        self._around = dict(around or {})

    @property
    def stem(self) -> str:
        """The last part of the name without its suffixes."""
        last = PurePosixPath(self.name.replace("!", "/")).name
        return last.partition(".")[0] or last

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self._data)

    @property
    def head(self) -> Head:
        """The first bytes and the names around them."""
        siblings = frozenset(PurePosixPath(name).parts[0] for name in self._around)
        return Head(self._data[:HEAD_BYTES], self.name, len(self._data), siblings)

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
        wanted = pattern.format(name=PurePosixPath(self.name).name, stem=self.stem)
        return tuple(
            Memory(data, name)
            for name, data in sorted(self._around.items())
            if fnmatch.fnmatchcase(name, wanted)
        )

    def database(self) -> sqlite3.Connection:
        """Refuse: a database in memory is not supported here."""
        raise BadInput("not an SQLite file", path=self.name)
