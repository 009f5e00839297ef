"""Streams over files and over stretches of files, and streams that are kept."""

from __future__ import annotations

import io
import mmap
import os
import stat
import threading
import weakref
from typing import Any, BinaryIO, Final, cast

from converters.errors import BadInput, LimitReached

__all__ = ["CHUNK", "Spool", "Window", "buffered", "open_regular", "plain_error", "unbuffered"]

CHUNK: Final = 1 << 18
_IN_MEMORY: Final = 32 << 20


def buffered(raw: io.RawIOBase) -> io.BufferedReader:
    """Put a large buffer over a raw stream, so that lines are cut in C."""
    return io.BufferedReader(raw, CHUNK)


def unbuffered(stream: BinaryIO) -> BinaryIO:
    """Take the buffer off a stream that is read in places; otherwise each place fills it."""
    return cast("BinaryIO", stream.detach()) if isinstance(stream, io.BufferedReader) else stream


def plain_error(error: OSError, name: str) -> BadInput:
    """Turn a failure of the file system into an error that names the input."""
    reasons: dict[type[OSError], str] = {
        FileNotFoundError: "no such file or folder",
        PermissionError: "permission denied",
        IsADirectoryError: "is a folder",
        NotADirectoryError: "no such file or folder",
    }
    return BadInput(reasons.get(type(error), error.strerror or "cannot be read"), path=name)


def open_regular(path: str, name: str, *, follow: bool) -> io.FileIO:
    """Open a regular file; what it is, is asked of the opened descriptor.

    A pipe is opened without waiting for its other end, and refused like a
    socket or a device. ``follow``: whether the path may be a symbolic link.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    flags |= getattr(os, "O_NONBLOCK", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0))
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise plain_error(error, name) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return io.FileIO(descriptor, "rb")
    os.close(descriptor)
    raise BadInput("is a folder" if stat.S_ISDIR(mode) else "is no regular file", path=name)


class Window(io.RawIOBase):
    """A stretch of a seekable stream as a stream with a position of its own.

    It ends at ``size`` even if the file grows. With ``lock`` the stream below is
    shared by several windows, without it is closed together with its window.
    """

    def __init__(
        self,
        below: Any,
        start: int,
        size: int,
        name: str,
        lock: threading.Lock | None = None,
    ) -> None:
        self._below, self._start, self._size, self._name = below, start, size, name
        self._owns, self._lock = lock is None, lock or threading.Lock()
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = (0, self._position, self._size)[whence]
        if base + offset < 0:
            raise OSError("negative position")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        left = max(self._size - self._position, 0)
        with memoryview(buffer) as whole, whole[:left] as part, self._lock:
            try:
                self._below.seek(self._start + self._position)
                count: int = self._below.readinto(part)
            except OSError as error:
                raise plain_error(error, self._name) from error
        self._position += count
        return count

    def close(self) -> None:
        if self._owns and not self.closed:
            self._below.close()
        super().close()


class Spool:
    """The bytes of a stream held for reading again: in memory, past 32 MiB in a nameless file."""

    def __init__(self, stream: BinaryIO, name: str, limit: int) -> None:
        parts: list[bytes] = []
        self.size = 0
        self.data: bytes | None = None
        self.file: io.FileIO | None = None
        self._lock, self._name = threading.Lock(), name
        while piece := stream.read(CHUNK):
            self.size += len(piece)
            if self.size > limit:
                raise LimitReached(
                    f"more than {limit} bytes", path=name, hint="--max-expanded raises the limit"
                )
            if self.file is None:
                parts.append(piece)
                if self.size <= _IN_MEMORY:
                    continue
                self.file = _nameless()
                weakref.finalize(self, self.file.close)
                piece = b"".join(parts)
                parts.clear()
            self.file.write(piece)
        if self.file is None:
            self.data = b"".join(parts)

    def open(self, start: int = 0, size: int | None = None) -> BinaryIO:
        """Open a stretch of it as a new stream."""
        end = self.size if size is None else min(start + size, self.size)
        if self.data is not None:
            whole = start == 0 and end == self.size
            return io.BytesIO(self.data if whole else self.data[start:end])
        if self.file is None:  # pragma: no cover - one of the two is there
            raise RuntimeError
        size = max(end - start, 0)
        return buffered(Window(self.file, start, size, self._name, self._lock))

    def view(self) -> bytes | mmap.mmap:
        """Give all bytes, mapped where they are in a file."""
        if self.file is None:
            return self.data or b""
        return mmap.mmap(self.file.fileno(), self.size, access=mmap.ACCESS_READ)


def _nameless() -> io.FileIO:
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="dcb-")
    if os.name == "nt":  # pragma: no cover - an open file has to keep its name there
        os.close(descriptor)
        return io.FileIO(os.open(path, os.O_RDWR | getattr(os, "O_TEMPORARY", 0)), "r+b")
    os.unlink(path)  # noqa: PTH108 - mkstemp gives a string
    return io.FileIO(descriptor, "r+b")
