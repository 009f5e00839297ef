"""From the native bytes of a bundle back to the session that its own reader gives."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from converters import registry
from converters.errors import BadInput, DcbError
from converters.formats.dsh_bundle import session_of, unpack
from converters.ir import Session
from converters.ledger import Ledger
from converters.opening import Memory
from converters.types import Context, Options
from dcb.bundle import rows
from dcb.bundle.slices import Part, wrapped

if TYPE_CHECKING:
    from converters.types import Head, Input

__all__ = ["Reopened", "native_of", "reopen"]


def native_of(document: dict[str, Any]) -> dict[str, Any]:
    """Give ``x-dcb.native`` of a bundle, or an empty object."""
    extra = document.get("x-dcb")
    native = extra.get("native") if isinstance(extra, dict) else None
    return native if isinstance(native, dict) else {}


class Reopened(NamedTuple):
    """The session of a bundle, and the account of reading it again."""

    session: Session | None
    ledger: Ledger


def reopen(document: dict[str, Any], name: str) -> Reopened:
    """Give the session of a verified bundle, as complete as it can be had.

    Its own reader on the native bytes knows more than the log holds; where that does
    not work, the log is read. ``name`` is the bundle's, for places. No session: there
    is no conversation in it.
    """
    identity = document.get("sourceSessionId")
    if isinstance(identity, str):
        found = _from_native(document, identity, name)
        if found is not None:
            return found
    ledger = Ledger(name)
    session = session_of(document, Context(ledger))
    ledger.sessions = int(session is not None)
    return Reopened(session, ledger)


def _from_native(document: dict[str, Any], session_id: str, name: str) -> Reopened | None:
    native = native_of(document)
    ledger = Ledger(name)
    kind = native.get("kind")
    try:
        if kind == "part":
            return _from_part(native, ledger)
        (record,) = registry.lookup(str(native.get("format")))
        source = _input(native)
        if source is None or record.read is None:
            return None
        ctx = Context(ledger, Options(tz=_zone(native.get("tz"))))
        sessions = list(record.read(source, ctx))
    except (DcbError, ValueError, RecursionError):
        return None
    if kind in ("object", "line"):
        # Their ids may depend on the place that they had.
        index = native.get("index", 0)
        sessions = sessions[index : index + 1] if isinstance(index, int) and index >= 0 else []
        for one in sessions:
            one.meta.id = session_id
    found = next((one for one in sessions if one.meta.id == session_id), None)
    ledger.sessions = 1
    return None if found is None else Reopened(found, ledger)


def _from_part(native: dict[str, Any], ledger: Ledger) -> Reopened | None:
    """Give the session that the exporter wrote down, exactly."""
    held = native.get("files")
    if not isinstance(held, list) or not held or not isinstance(held[0], dict):
        return None
    found = msgspec.json.decode(unpack(held[0]), type=Session)
    ledger.sessions = 1
    return Reopened(found, ledger)


def _zone(name: Any) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if isinstance(name, str) else None
    except (ZoneInfoNotFoundError, OSError):
        return None


class _Folder(Memory):
    """A folder in memory."""

    @property
    def head(self) -> Head:
        """No bytes, but the names in it."""
        return msgspec.structs.replace(super().head, is_dir=True)


def _input(native: dict[str, Any]) -> Input | None:
    """Give the native bytes as the input that they once were."""
    kind = native.get("kind")
    held = native.get("files")
    entries = [entry for entry in held if isinstance(entry, dict)] if isinstance(held, list) else []
    if not entries:
        return None
    found = [(str(entry.get("name")), unpack(entry)) for entry in entries]
    name, data = found[0]
    path = native.get("path")
    called = path if isinstance(path, str) and path else name
    if kind == "files":
        if "folder" in native:
            return _Folder(b"", called, dict(found))
        start = posixpath.dirname(name) or "."
        around = {posixpath.relpath(path, start): held for path, held in found[1:]}
        return Memory(data, called, around, nested=native.get("nested") is True)
    if kind in ("object", "line"):
        wrap = native.get("wrap")
        part = Part(kind, "", wrap if isinstance(wrap, str) else None, data)
        return Memory(wrapped(part), called)
    if kind == "rows" and len(found) == 1:
        try:
            tables = msgspec.json.decode(data, type=list[rows.Table])
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadInput("the rows are not what they should be") from error
        return Memory(rows.rebuild(tables), called)
    return None
