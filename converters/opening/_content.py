"""Where the bytes of one input come from: a plain file, a held stream, a packed one."""

from __future__ import annotations

import io
import mmap
from typing import BinaryIO, Protocol

from converters.opening._codecs import Budget, Codec, Counter, Mark, Pieces, expand
from converters.opening._streams import (
    Spool,
    Window,
    buffered,
    open_regular,
    plain_error,
    unbuffered,
)

__all__ = ["Content", "Held", "Packed", "Plain", "Stretch", "start_of"]


class Content(Protocol):
    """Bytes that can be opened again and again.

    ``path`` is that of a plain file. ``torn`` says after reading that the bytes
    ended early, and how. ``seekable``: streams of it can be read at any place.
    """

    seekable: bool

    @property
    def size(self) -> int | None: ...
    @property
    def path(self) -> str | None: ...
    @property
    def torn(self) -> str | None: ...
    def open(self) -> BinaryIO: ...
    def view(self) -> bytes | mmap.mmap | None: ...


def start_of(content: Content, count: int) -> bytes:
    """Give the first bytes; of a plain file without the large buffer of a stream."""
    if isinstance(content, Plain):
        return content.start(count)
    with content.open() as stream:
        return stream.read(count)


class Plain:
    """A regular file; what is appended after the first look is not read."""

    seekable = True
    torn: str | None = None

    def __init__(self, path: str, name: str, *, follow: bool) -> None:
        self.path: str | None = path
        self._path, self._name, self._follow = path, name, follow
        self._size: int | None = None

    def _file(self) -> io.FileIO:
        file = open_regular(self._path, self._name, follow=self._follow)
        if self._size is None:
            try:
                self._size = _length(file)
            except OSError as error:
                file.close()
                raise plain_error(error, self._name) from error
        return file

    @property
    def size(self) -> int | None:
        if self._size is None:
            self._file().close()
        return self._size

    def open(self) -> BinaryIO:
        file = self._file()
        return buffered(Window(file, 0, self._size or 0, self._name))

    def start(self, count: int) -> bytes:
        with self._file() as file:
            try:
                return file.read(min(count, self._size or 0))
            except OSError as error:
                raise plain_error(error, self._name) from error

    def view(self) -> bytes | mmap.mmap | None:
        with self._file() as file:
            size = min(self._size or 0, _length(file))
            if not size:
                return b""
            try:
                return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            except (OSError, ValueError):  # a file system that cannot map
                return None


def _length(file: io.FileIO) -> int:
    position = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(position)
    return size


class Held:
    """A stream that was read once and is kept."""

    seekable = True
    path: str | None = None

    def __init__(self, spool: Spool, torn: str | None = None) -> None:
        self._spool = spool
        self.torn = torn
        self.size: int | None = spool.size

    def open(self) -> BinaryIO:
        return self._spool.open()

    def view(self) -> bytes | mmap.mmap | None:
        return self._spool.view()


class Stretch:
    """A stretch of another content, such as a stored member of an archive."""

    seekable = True
    path: str | None = None

    def __init__(self, whole: Content, start: int, size: int, name: str) -> None:
        self._whole, self._start, self._name = whole, start, name
        self.size: int | None = size
        self.torn: str | None = None

    def open(self) -> BinaryIO:
        stream = unbuffered(self._whole.open())
        end = stream.seek(0, io.SEEK_END)
        if self._start + (self.size or 0) > end:
            self.torn = "archive cut"
        return buffered(Window(stream, self._start, self.size or 0, self._name))

    def view(self) -> bytes | mmap.mmap | None:
        return None


class Packed:
    """Compressed bytes as what comes out of them."""

    seekable = False
    path: str | None = None
    size: int | None = None

    def __init__(self, inner: Content, codec: Codec, name: str, budget: Budget) -> None:
        self._inner, self._codec, self._name, self._budget = inner, codec, name, budget
        self._mark = Mark()
        self.torn: str | None = None

    def open(self) -> BinaryIO:
        counter = Counter(self._name, self._budget, self._mark)
        source = self._inner.open()
        return buffered(Pieces(expand(source, self._codec, counter, self._tear)))

    def _tear(self, how: str) -> None:
        self.torn = how

    def view(self) -> bytes | mmap.mmap | None:
        return None
