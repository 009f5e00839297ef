"""What stands around the messages: request bodies, responses, pairs of both, batch lines.

A document holds a request, a response or both, at its root or one or two levels down
(``request``, ``request.body``, ``body``; ``response``, ``response.body``). Everything but
the messages is kept as ``x-dcb.native.envelope`` and filled again when the same format
is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from converters.shapes.rows import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from converters.ir import Session, Step, Usage
    from converters.ledger import Ledger, Place
    from converters.shapes.rows import Row

__all__ = [
    "Exchange",
    "answer_of",
    "around",
    "around_of",
    "at",
    "fill",
    "find",
    "identity_of",
    "paths_of",
    "pointer_to",
    "put_usage",
    "stripped",
    "title_of",
    "without_answer",
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


def around(
    document: dict[str, Any], paths: Exchange, request: frozenset[str], response: frozenset[str]
) -> dict[str, Any]:
    """Give the members of ``x-dcb.native`` for a document: what is around, and where it stood.

    ``request`` and ``response`` are the members that are turns now. A request at the root
    is the usual place and needs no word.
    """
    native: dict[str, Any] = {}
    left = stripped(document, (paths.request, request), (paths.response, response))
    if left:
        native["envelope"] = left
    for name, path in zip(("request", "response"), paths, strict=True):
        if path is not None and (path or name == "response"):
            native[name] = list(path)
    return native


def around_of(native: dict[str, Any]) -> dict[str, Any]:
    """Give the envelope that ``x-dcb.native`` remembers, or an empty object."""
    found = native.get("envelope")
    return found if isinstance(found, dict) else {}


def pointer_to(place: Place, path: Path | None, name: str) -> str:
    """Give the JSON pointer of a member of the object at a path; ``place`` is the document's."""
    return f"{place}{''.join(f'/{part}' for part in (*(path or ()), name))}"


def paths_of(native: dict[str, Any]) -> Exchange:
    """Give the paths that ``x-dcb.native`` remembers."""

    def path(name: str) -> Path | None:
        value = native.get(name)
        known = _REQUESTS if name == "request" else _RESPONSES
        found = tuple(value) if isinstance(value, list) and len(value) < 3 else None
        return found if found in known else None

    return Exchange(path("request"), path("response"))


def without_answer(native: dict[str, Any]) -> dict[str, Any]:
    """Give the members of ``x-dcb.native`` for a session whose response is gone: a request.

    What stood around the answer was said of it alone.
    """
    paths = paths_of(native)
    if paths.response is None:
        return native
    gone = ("response", "choice", "candidate", "outputAt")
    left = {name: value for name, value in native.items() if name not in gone}
    if paths.response:
        around = {k: v for k, v in around_of(native).items() if k != paths.response[0]}
    else:
        around = around_of(native) if paths.request is not None else {}
    return left | {"envelope": around} if "envelope" in left else left


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


def answer_of(session: Session) -> Step | None:
    """Give the step that a response is about: the last one of the last turn."""
    steps = session.turns[-1].steps if session.turns else None
    return steps[-1] if steps else None


class _Counts(Protocol):
    """The module of an API's shapes, as far as it knows usage."""

    def usage(self, value: Any, /) -> Usage | None:
        """Give usage, ``None`` for what are no counts."""

    def usage_object(self, found: Usage, /) -> dict[str, Any]:
        """Give usage with the API's names."""


def put_usage(step: Step, raw: Any, api: _Counts, ledger: Ledger, place: Place) -> None:
    """Put the usage of a response on its step; what the fields do not say is kept as it stood."""
    if raw is None:
        return
    step.usage = api.usage(raw)
    if step.usage is None:
        ledger.note("usage-invalid", place)
    elif raw != api.usage_object(step.usage):
        step.extra = {**(step.extra or {}), "usage": raw}


def title_of(document: dict[str, Any]) -> str | None:
    """Give the document's own title."""
    return text_of(document.get("title"))
