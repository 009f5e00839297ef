"""The JSON tree: a file for each session, message and part.

The folders are ``session/<project>``, ``message/<session>`` and ``part/<message>``; before that
``session/info``, ``session/message/<session>`` and ``session/part/<session>/<message>``, whose
``session`` is then the folder that is read. What OpenCode has moved into its database stays in
the tree; a tree that was found beside the database gives only what the database lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import sqlitedb
from converters.errors import DcbError
from converters.formats.opencode import tables
from converters.formats.opencode.members import text_of
from converters.formats.opencode.walk import Message, Placed, lost_session, session_of
from converters.shapes.cells import object_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session
    from converters.ledger import Ledger
    from converters.types import Context, Input

__all__ = ["infos", "moved", "object_in", "read_tree"]

_SESSIONS: Final = ("session/*/*.json", "info/*.json")
_MESSAGES: Final = ("message/*/*.json", "session/message/*/*.json")
_PARTS: Final = ("part/*/*.json", "part/*/*/*.json", "session/part/*/*/*.json")
_DATABASES: Final = ("../opencode*.db", "../../opencode*.db")

_Folders = dict[str, list["Input"]]


class _Tree(NamedTuple):
    """The folder, and the files of messages and parts by the names of their folders."""

    source: Input
    messages: _Folders
    parts: _Folders


def infos(source: Input) -> Iterator[Input]:
    """Give the files of the sessions."""
    for pattern in _SESSIONS:
        yield from source.files(pattern)


def moved(source: Input) -> frozenset[Any]:
    """Give the ids of the sessions in the databases beside a tree."""
    found: set[Any] = set()
    for pattern in _DATABASES:
        for file in source.files(pattern):
            try:
                connection = file.database()
            except DcbError:
                continue
            try:
                known = sqlitedb.tables(connection)
                table = "session_v2" if "session_v2" in known else "session"
                found.update(tables.sessions(connection, table) if table in known else ())
            except DcbError:
                continue
            finally:
                connection.close()
    return frozenset(found)


def object_in(file: Input, ledger: Ledger, place: str) -> dict[str, Any] | None:
    """Give the object of a file, repaired where it must be; ``None`` when there is none."""
    try:
        data = file.read()
    except DcbError:
        return None
    return object_of(data, ledger, place)


def read_tree(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of a storage folder; then messages and parts that have lost theirs."""
    tree = _Tree(source, _folders(source, _MESSAGES, ctx), _folders(source, _PARTS, ctx))
    # A tree that a person names is read whole: the database is not part of that run.
    elsewhere = moved(source) if source.nested else frozenset()
    for file in infos(source):
        place = _inside(source, file)
        info = object_in(file, ctx.ledger, place)
        if info is None:
            ctx.ledger.seen()
            ctx.ledger.skipped("malformed-record", place, kind="session")
            continue
        identity = text_of(info.get("id")) or file.stem
        if identity in elsewhere:
            _skip(tree, identity, ctx, place)
            continue
        messages = _messages(tree, identity, ctx)
        session = session_of({**info, "id": identity}, messages, ctx, place)
        if session is not None:
            yield session
    yield from _lost(tree, ctx, elsewhere)


def _lost(tree: _Tree, ctx: Context, elsewhere: frozenset[Any]) -> Iterator[Session]:
    """Give the messages of no session, a session for each lost id; count parts of no message."""
    for identity in list(tree.messages):
        place = f"message/{identity}"
        if identity in elsewhere:
            _skip(tree, identity, ctx, place)
            continue
        session = lost_session(identity, _messages(tree, identity, ctx), ctx, place)
        if session is not None:
            yield session
    for files in tree.parts.values():
        for file in files:
            ctx.ledger.seen()
            place = _inside(tree.source, file)
            ctx.ledger.skipped("malformed-record", place, kind="part of no message")


def _skip(tree: _Tree, identity: str, ctx: Context, place: str) -> None:
    """Count what the database has too; it is not read."""
    files = tree.messages.pop(identity, [])
    n = len(files) + sum(len(tree.parts.pop(file.stem, ())) for file in files)
    ctx.ledger.seen(n)
    ctx.ledger.skipped("duplicate-record", place, n, "session in the database")


def _inside(source: Input, file: Input) -> str:
    """Give the place of a file of the tree: its name below the folder."""
    return file.name.removeprefix(source.name).lstrip("/!")


def _folders(source: Input, patterns: tuple[str, ...], ctx: Context) -> _Folders:
    """Give the files by the names of their folders; one that both layouts have counts once."""
    found: dict[str, dict[str, Input]] = {}
    for pattern in patterns:
        for file in source.files(pattern):
            place = _inside(source, file)
            folder, _, name = place.rpartition("/")
            files = found.setdefault(folder.rpartition("/")[2], {})
            if files.setdefault(name, file) is not file:
                ctx.ledger.seen()
                ctx.ledger.skipped("duplicate-record", place)
    return {name: list(files.values()) for name, files in found.items()}


def _objects(files: list[Input], source: Input, ctx: Context, kind: str) -> list[Placed]:
    """Read the files of a message or part folder, in the order of their ids, then times."""
    found: list[Placed] = []
    for file in files:
        ctx.ledger.seen()
        place = _inside(source, file)
        value = object_in(file, ctx.ledger, place)
        if not value:
            ctx.ledger.skipped("malformed-record", place, kind=kind)
            continue
        value.setdefault("id", file.stem)
        found.append((place, value))
    return sorted(found, key=lambda item: _order(item[1]))


def _order(value: dict[str, Any]) -> tuple[str, float]:
    """Ids grow with time; a file without a time has its place by its id."""
    times = value.get("time")
    created = times.get("created") if isinstance(times, dict) else None
    return str(value.get("id")), created if isinstance(created, int | float) else 0


def _messages(tree: _Tree, identity: str, ctx: Context) -> Iterator[Message]:
    files = tree.messages.pop(identity, [])
    for place, info in _objects(files, tree.source, ctx, "message"):
        parts = tree.parts.pop(str(info["id"]), [])
        yield place, info, _objects(parts, tree.source, ctx, "part")
