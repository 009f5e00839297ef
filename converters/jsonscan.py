"""Cuts a JSON array into its elements over mapped bytes, without a tree of the whole."""

from __future__ import annotations

import contextlib
import mmap
import re
from typing import TYPE_CHECKING, Final

import msgspec

from converters.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["elements"]

_HOPELESS: Final = 1 << 14
_RELEASE: Final = 8 << 20
_decode = msgspec.json.decode


def elements(data: bytes | mmap.mmap, start: int = 0) -> Iterator[tuple[int, memoryview | None]]:
    """Give ``(byte offset, slice)`` for each element of the JSON array at ``start``.

    One element at a time over mapped bytes, so that memory is bounded by the
    largest one: pages of a mapped file are given back once they are passed (they
    count as memory of the process, and come back from the file when looked at again).
    A cut array ends with ``(offset, None)`` after its whole elements. The caller
    decodes the slices.
    """
    view = memoryview(data)
    passed = 0
    size = len(view)
    position = _first_of(view, start)
    if position >= size or view[position] != 0x5B:
        raise BadInput("not a JSON array", position=f"byte {start}")
    position += 1
    while True:
        position = _first_of(view, position)
        if position >= size:
            yield position, None
            return
        if view[position] == 0x5D:
            return
        if view[position] == 0x2C:
            position += 1
            continue
        end = _end_of_value(view, position, size)
        if end < 0:
            yield position, None
            return
        end = max(end, position + 1)  # a stray bracket is an element that cannot be read
        yield position, view[position:end]
        position = end
        if position - passed > _RELEASE and isinstance(data, mmap.mmap):
            passed = _release(data, passed, position)


def _release(data: mmap.mmap, start: int, end: int) -> int:
    """Give back the pages of a mapped file between two places; the place up to which that went."""
    end -= end % mmap.PAGESIZE
    advice = getattr(mmap, "MADV_DONTNEED", None)
    if advice is not None and end > start:
        with contextlib.suppress(OSError, ValueError):
            data.madvise(advice, start, end - start)
    return end


def _first_of(view: memoryview, position: int) -> int:
    match = _SPACES.match(view, position)
    return match.end() if match else position


_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_SPACES: Final = re.compile(rb"[ \t\r\n]*+")
_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)


def _end_of_value(view: memoryview, start: int, size: int) -> int:
    """Find the end of the value at ``start``: msgspec skips it in C and names the next byte."""
    window = 1 << 16
    while True:
        end = min(start + window, size)
        try:
            _decode(view[start:end], type=msgspec.Raw)
        except RecursionError:
            return _end_by_brackets(view, start)
        except msgspec.DecodeError as error:
            found = _TRAILING.search(str(error))
            if found:
                # The byte named is the one after the first trailing character.
                return start + int(found[1]) - 1
            if end == size or "truncated" not in str(error):
                return _end_by_brackets(view, start)
        else:
            # A whole value that ends with the window may go on (a number), an object cannot.
            if end == size or view[end - 1] in b'}]"':
                return end
        window *= 4


def _end_by_brackets(view: memoryview, start: int) -> int:
    """Find the end of a value that needs repair: its brackets tell; -1 when it is cut."""
    level = 0
    for token in _STRUCTURE.finditer(view, start):
        mark = token[0]
        if mark in b"[{":
            level += 1
            if level > _HOPELESS:
                return -1
        elif mark in b"]},":
            if level == 0:
                return token.start()
            if mark != b",":
                level -= 1
                if level == 0:
                    return token.end()
    return -1
