"""Makes room in memory for a large input: a heap that grows in one go, in huge pages.

What a session keeps is as large as its file, and the first touch of every 4 KiB of it costs a
fault: in a virtual machine together up to a fifth of a conversion. glibc takes its tunable for that
(``glibc.malloc.hugetlb``) only when a process starts, so the same is asked for here. Only address
space is taken: memory is used as before, when it is touched. Rules: mallopt(3), sbrk(2),
madvise(2); the manual of glibc, "Memory Allocation Tunables".
"""

from __future__ import annotations

import sys
from typing import Any, Final

__all__ = ["LARGE", "make_room"]

LARGE: Final = 16 << 20
"""Bytes of an input from which on it is worth the few milliseconds."""

_MOST: Final = 1 << 30
_BLOCK: Final = 24 << 20
_PAGE: Final = 4096
_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3
_HUGEPAGE: Final = 14


def make_room(size: int) -> None:
    """Prepare the heap for an input of ``size`` bytes.

    Does nothing for a small one, on other systems than Linux with glibc, and where the system
    refuses.
    """
    if size < LARGE or sys.platform != "linux":
        return
    libc = _libc()
    if libc is None:
        return
    start = libc.sbrk(0)
    # Large blocks come from the heap as well, and stay there when they are freed.
    libc.mallopt(_MMAP_THRESHOLD, 32 << 20)
    libc.mallopt(_TRIM_THRESHOLD, 2 * _MOST - 1)
    libc.mallopt(_TOP_PAD, min(size + size // 4, _MOST))
    libc.free(libc.malloc(_BLOCK))
    libc.mallopt(_TOP_PAD, 1 << 20)
    end = libc.sbrk(0)
    first = -(-start // _PAGE) * _PAGE
    if end > first:
        libc.madvise(first, end - first, _HUGEPAGE)


def _libc() -> Any:
    """Give the C library with the types of what is called here; ``None`` for any but glibc."""
    import ctypes

    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - says whose it is
        libc.sbrk.restype = libc.malloc.restype = ctypes.c_void_p
        libc.sbrk.argtypes = [ctypes.c_ssize_t]
        libc.malloc.argtypes = [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        libc.free.restype = None
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    except (OSError, AttributeError):
        return None
    return libc
