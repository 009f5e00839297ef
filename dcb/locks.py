"""Folders that one process at a time works in."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["held"]


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder: other processes that want to hold it wait until the block ends.

    Nothing of it stays, also when the process is killed. Where the file system has no locks,
    nobody waits.
    """
    descriptor = _lock(folder)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


if sys.platform == "win32":

    def _lock(folder: Path) -> int | None:
        """Lock a file that goes with the last process that has it open."""
        import msvcrt

        flags = os.O_RDWR | os.O_CREAT | os.O_TEMPORARY
        try:
            descriptor = os.open(folder / ".lock.tmp", flags)
        except OSError:
            return None
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError as error:
                # It tries for ten seconds only.
                if error.errno == errno.EDEADLK:
                    continue
            return descriptor

else:

    def _lock(folder: Path) -> int | None:
        """Lock the folder itself."""
        import fcntl

        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor
