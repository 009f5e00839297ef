"""Writes JSON that the fast encoders refuse: deep, cyclic, lone surrogates, huge integers."""

from __future__ import annotations

import decimal
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["write"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def write(value: Any, *, indent: bool = False) -> bytes:
    """Write any value as JSON; never raises. The layout is that of orjson."""
    try:
        data = msgspec.json.encode(value)
        return msgspec.json.format(data, indent=2) if indent else data
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return b"".join(_pieces(value, indent=indent))


def _pieces(root: Any, *, indent: bool) -> Iterator[bytes]:
    """Give the text piece by piece, with a stack of its own instead of recursion."""
    colon = b": " if indent else b":"
    stack: list[tuple[Iterator[Any], bytes, int]] = []
    above: set[int] = set()
    item, prefix = root, b""
    while True:
        opened = _container(item, above)
        if opened is None:
            yield prefix + _scalar(item)
        elif not opened[0]:
            yield prefix + (b"{}" if opened[1] else b"[]")
        else:
            yield prefix + (b"{" if opened[1] else b"[")
            above.add(id(item))
            stack.append((iter(opened[0]), b"}" if opened[1] else b"]", id(item)))
        fresh = opened is not None and bool(opened[0])
        while True:
            if not stack:
                return
            members, close, identity = stack[-1]
            following = next(members, stack)
            if following is not stack:
                break
            stack.pop()
            above.discard(identity)
            yield (b"\n" + b"  " * len(stack) if indent else b"") + close
            fresh = False
        prefix = b"" if fresh else b","
        if indent:
            prefix += b"\n" + b"  " * len(stack)
        if close == b"}":
            name, item = following
            prefix += _string(name if isinstance(name, str) else _name(name)) + colon
        else:
            item = following


def _container(item: Any, above: set[int]) -> tuple[list[Any], bool] | None:
    """Give the members of a container and whether it has names; ``None`` for anything else."""
    if id(item) in above:
        return None
    if isinstance(item, dict):
        return list(item.items()), True
    if isinstance(item, list | tuple):
        return list(item), False
    return None


def _scalar(item: Any) -> bytes:
    if isinstance(item, str):
        return _string(item)
    if isinstance(item, dict | list | tuple):  # inside itself
        return b"null"
    if isinstance(item, int) and not isinstance(item, bool):
        return _integer(item)
    try:
        return orjson.dumps(item)
    except TypeError:
        pass
    try:
        return msgspec.json.encode(item)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return _string(type(item).__name__)


def _integer(number: int) -> bytes:
    try:
        return str(int(number)).encode()
    except ValueError:  # more digits than Python's limit for int
        return format(decimal.Decimal(number), "f").encode()


def _name(key: Any) -> str:
    """Give a member name for a key that is no text, as the json module does."""
    text = _scalar(key).decode()
    return text[1:-1] if text.startswith('"') else text


def _string(text: str) -> bytes:
    try:
        return orjson.dumps(text)
    except TypeError:
        # Halves that belong together become their character, others U+FFFD.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return orjson.dumps(_SURROGATE.sub("\ufffd", text))
