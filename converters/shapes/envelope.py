"""What stands around the messages: request bodies, responses, pairs of both, batch lines.

A document holds a request, a response or both, at its root or one or two levels down
(``request``, ``request.body``, ``body``; ``response``, ``response.body``). Everything but
the messages is kept as ``x-dcb.native.envelope`` and filled again when the same format
is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.shapes.rows import text_of
from converters.text import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from converters.ir import Session
    from converters.ledger import Ledger, Place
    from converters.shapes.rows import Row

__all__ = [
    "Exchange",
    "at",
    "created_ms",
    "fill",
    "find",
    "identity_of",
    "native_of",
    "paths_of",
    "stripped",
    "title_of",
]

Path = tuple[str, ...]

_REQUESTS: Final[tuple[Path, ...]] = ((), ("request",), ("request", "body"), ("body",))
_RESPONSES: Final[tuple[Path, ...]] = ((), ("response",), ("response", "body"))
_IDS: Final = ("id", "conversation_id", "session_id", "custom_id", "thread_id", "uuid")


class Exchange(NamedTuple):
    """Where the request and the response stand in a document; ``None`` where there is none."""

    request: Path | None
    response: Path | None


def find(
    document: dict[str, Any],
    is_request: Callable[[dict[str, Any]], bool],
    is_response: Callable[[dict[str, Any]], bool],
) -> Exchange:
    """Find the request and the response of a document."""
    return Exchange(
        next((path for path in _REQUESTS if _fits(document, path, is_request)), None),
        next((path for path in _RESPONSES if _fits(document, path, is_response)), None),
    )


def _fits(value: Any, path: Path, test: Callable[[dict[str, Any]], bool]) -> bool:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return isinstance(value, dict) and test(value)


def at(document: dict[str, Any], path: Path | None) -> dict[str, Any]:
    """Give the object at a path that :func:`find` gave; an empty one for ``None``."""
    if path is None:
        return {}
    value: Any = document
    for name in path:
        value = value[name]
    return value if isinstance(value, dict) else {}


def stripped(
    document: dict[str, Any], *parts: tuple[Path | None, frozenset[str]]
) -> dict[str, Any]:
    """Give a copy without the named members of the parts; only the spine is copied."""
    copy = dict(document)
    for path, names in parts:
        if path is None:
            continue
        holder = copy
        for name in path:
            holder[name] = dict(holder[name])
            holder = holder[name]
        for name in names:
            holder.pop(name, None)
    return copy


def paths_of(native: dict[str, Any]) -> Exchange:
    """Give the paths that ``x-dcb.native`` remembers."""

    def path(name: str) -> Path | None:
        value = native.get(name)
        known = _REQUESTS if name == "request" else _RESPONSES
        found = tuple(value) if isinstance(value, list) and len(value) < 3 else None
        return found if found in known else None

    return Exchange(path("request"), path("response"))


def fill(envelope: dict[str, Any], path: Path, members: dict[str, Any]) -> dict[str, Any]:
    """Give a copy of an envelope with members set at a path, in front of what is there."""
    if not path:
        return {**members, **{k: v for k, v in envelope.items() if k not in members}}
    inner = envelope.get(path[0])
    filled = fill(inner if isinstance(inner, dict) else {}, path[1:], members)
    return {**envelope, path[0]: filled}


def identity_of(document: dict[str, Any], row: Row) -> str:
    """Give the document's own id, else a uuid5 of content and position."""
    for name in _IDS:
        value = document.get(name)
        if isinstance(value, str) and value:
            return value
        if type(value) is int:
            return str(value)
    return row.identity


def created_ms(value: Any, ledger: Ledger, place: Place) -> int | None:
    """Give a response's time in ms; counts one that is no time."""
    if value is None:
        return None
    time = parse_time(value)
    if time is None:
        ledger.note("timestamp-invalid", place)
        return None
    if time.assumed:
        ledger.note("tz-assumed", place)
    return time.ms


def native_of(session: Session) -> dict[str, Any]:
    """Give ``x-dcb.native`` of a session, or an empty object."""
    found = session.extra.get("native") if session.extra else None
    return found if isinstance(found, dict) else {}


def title_of(document: dict[str, Any]) -> str | None:
    """Give the document's own title."""
    return text_of(document.get("title"))
