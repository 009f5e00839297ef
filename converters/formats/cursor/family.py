"""Which sessions of the editor are subagents and of which session, and the folder of each session.

A parent names its children (``subComposerIds``, ``subagentComposerIds``); a child says so itself
(``isSubagent``, ``subagentInfo {parentComposerId}``), in its own row or in the index of sessions:
``allComposers[]`` of the key ``composer.composerHeaders``, since 3.14 the table
``composerHeaders``. Both hold ``workspaceIdentifier {uri}``, a URI or its parts. Source: public
readers of these databases, which agree (2026).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import sqlitedb
from converters.formats.cursor.bubbles import first_text, folder_of
from converters.ledger import Ledger
from converters.shapes.cells import object_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["INDEX", "Family", "family_of"]

INDEX: Final = "composer.composerHeaders"
"""The key of ``ItemTable`` that lists the sessions of all workspaces."""

_TABLE: Final = "composerHeaders"
_CHILDREN: Final = ("subComposerIds", "subagentComposerIds")


class Family(NamedTuple):
    """The subagents, the parents of those whose parent is known, and the folders of sessions."""

    subagents: set[str]
    parents: dict[str, str]
    folders: dict[str, str]


def family_of(rows: Iterator[dict[str, Any]], index: Any, connection: Any) -> Family:
    """Give what session rows (``key``, ``value``) and the index tell of sessions.

    What has to be repaired in a row is noted when the row itself is read.
    """
    family = Family(set(), {}, {})
    unread = Ledger()
    for row in rows:
        data = object_of(row["value"], unread, "")
        if data is not None:
            _take(family, str(row["key"]).partition(":")[2], data)
    entries = index.get("allComposers") if isinstance(index, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            _take(family, entry.get("composerId"), entry)
    if _TABLE in sqlitedb.tables(connection):
        for row in sqlitedb.rows(connection, f"SELECT * FROM {_TABLE}"):  # noqa: S608
            _take(family, row.get("composerId"), row)
            _take(family, row.get("composerId"), object_of(row.get("value"), unread, "") or {})
    return family


def _take(family: Family, identity: Any, told: dict[str, Any]) -> None:
    """Take what a row or an entry of the index tells of a session."""
    if not isinstance(identity, str):
        return
    for name in _CHILDREN:
        children = told.get(name)
        for child in children if isinstance(children, list) else ():
            if isinstance(child, str) and child != identity:
                _join(family, child, identity)
    info = told.get("subagentInfo")
    parent = info.get("parentComposerId") if isinstance(info, dict) else None
    if isinstance(parent, str) and parent and parent != identity:
        _join(family, identity, parent)
    if told.get("isSubagent") == 1:  # true in JSON, 1 in the table
        family.subagents.add(identity)
    folder = _folder(told.get("workspaceIdentifier"))
    if folder is not None:
        family.folders.setdefault(identity, folder)


def _folder(workspace: Any) -> str | None:
    """Give the folder of a workspace; some have none (``empty-window``)."""
    uri = workspace.get("uri") if isinstance(workspace, dict) else None
    return first_text(uri, ("fsPath", "path")) if isinstance(uri, dict) else folder_of(uri)


def _join(family: Family, child: str, parent: str) -> None:
    family.subagents.add(child)
    family.parents.setdefault(child, parent)
