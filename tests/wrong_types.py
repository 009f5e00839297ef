"""Any JSON value in any place of a document: what a reader must survive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st

from converters.errors import DcbError
from converters.opening import Memory
from tests.reading import read

if TYPE_CHECKING:
    from converters.types import Format

WRONG: tuple[Any, ...] = (None, 0, "", [], {}, True, -1.5, "x" * 2000, [[]], {"a": {}}, 10**30)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Give the path of every value, the root's first."""
    found = [path]
    if isinstance(value, dict):
        for key, child in value.items():
            found += places(child, (*path, key))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            found += places(child, (*path, number))
    return found


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Give a copy with another value at a path; only the spine is copied."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(copy[path[0]], path[1:], new)
    return copy


def check_survived(record: Format, data: bytes, name: str) -> None:
    """Check that bytes give sessions that encode and a balanced account, or an error of ours."""
    record.probe(Memory(data, name).head)
    try:
        sessions, _ = read(record, data, name)
    except DcbError:
        return
    msgspec.json.encode(sessions)
