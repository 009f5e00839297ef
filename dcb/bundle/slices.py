"""The part of a source that holds one session, when the source holds many.

Each part is read alone and must give the very session that the whole source gave;
where it does not, the source's files travel whole with the first session.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from blake3 import blake3

from converters import jsonio
from converters.errors import DcbError
from converters.ledger import Ledger
from converters.types import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.types import Format, Input, Options

__all__ = ["Known", "Part", "digest_of", "known_of", "parts", "read_alone", "root_id", "wrapped"]

_BRANCH: Final = re.compile(r"~[bs]\d+\Z", re.ASCII)


class Known(NamedTuple):
    """What is remembered of a session: its id, its parent's, and a digest of all of it."""

    id: str
    parent: str | None
    digest: bytes


class Part(NamedTuple):
    """A JSON object or line out of a source. ``wrap`` is the member whose list held it."""

    kind: str
    pointer: str
    wrap: str | None
    data: bytes


def digest_of(session: Session) -> bytes:
    """Give a digest of everything in a session but its id, which may depend on its place."""
    meta = msgspec.structs.replace(session.meta, id="")
    return blake3(msgspec.json.encode(msgspec.structs.replace(session, meta=meta))).digest()


def known_of(session: Session) -> Known:
    """Give what is remembered of a session."""
    parent = (session.extra or {}).get("parent")
    name = parent.get("sessionId") if isinstance(parent, dict) else None
    return Known(session.meta.id, name if isinstance(name, str) else None, digest_of(session))


def root_id(known: list[Known]) -> str | None:
    """Give the id of the one session that the others branch off or were started by."""
    ids = {item.id for item in known}
    roots = [
        item.id
        for item in known
        if item.parent not in ids and _BRANCH.sub("", item.id) not in ids - {item.id}
    ]
    return roots[0] if len(roots) == 1 else None


def parts(source: Input) -> Iterator[Part]:
    """Give the objects of a JSON list (or of the largest list in a document), or the lines."""
    view = source.view()
    head = bytes(view[:64]).lstrip(b" \t\r\n")
    if head.startswith(b"["):
        yield from _elements(bytes(view), None, "")
        return
    members: dict[str, msgspec.Raw] | None = None
    if head.startswith(b"{"):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            members = msgspec.json.decode(view, type=dict[str, msgspec.Raw])
    if members is None:
        with source.open() as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield Part("line", str(number), None, line.rstrip(b"\r\n"))
        return
    lists = {name: bytes(raw) for name, raw in members.items() if bytes(raw)[:1] == b"["}
    if lists:
        name = max(lists, key=lambda key: len(lists[key]))
        yield from _elements(lists[name], name, f"/{name}")


def _elements(data: bytes, wrap: str | None, pointer: str) -> Iterator[Part]:
    for index, (_, piece) in enumerate(jsonio.elements(data)):
        if piece is not None:
            yield Part("object", f"{pointer}/{index}", wrap or "", bytes(piece))


def wrapped(part: Part) -> bytes:
    """Give a part as the document that its reader expects."""
    if part.kind == "line":
        return part.data + b"\n"
    listed = b"[" + part.data + b"]"
    return b"{%s:%s}" % (jsonio.dumps(part.wrap), listed) if part.wrap else listed


def read_alone(source: Input, record: Format, options: Options, now_ms: int) -> list[Session]:
    """Give the sessions of a part; none when the reader does not take it."""
    assert record.read is not None  # noqa: S101 - it read the whole source
    try:
        return list(record.read(source, Context(Ledger(itemize=False), options, now_ms)))
    except DcbError:
        return []
