"""Conversations of an export into sessions, one at a time."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from converters import jsonio
from converters.formats.chatgpt.export import PARTS, Found, conversations
from converters.formats.chatgpt.files import DOCUMENTS, Files, last_of
from converters.formats.chatgpt.tree import Branch, Node, Tree, newest, tree_of, way_to
from converters.formats.chatgpt.walk import Walk, speaks
from converters.ledger import Ledger
from converters.shapes.rows import mint_id
from converters.types import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Extra, Session
    from converters.types import Input

__all__ = ["read"]


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the sessions of an export; the parts of one folder or archive belong together."""
    files = Files(source)
    for found in conversations(source, ctx):
        yield from _Conversation(found, files, ctx).sessions()
    if source.nested and fnmatchcase(last_of(source.name), PARTS):
        for document in source.files(DOCUMENTS):
            name = f"textdocs/{last_of(document.name)}"
            ctx.ledger.note("record-skipped", name, kind="textdoc")


class _Conversation:
    """One conversation: its tree, and what is asked of it."""

    def __init__(self, found: Found, files: Files, ctx: Context) -> None:
        self._found, self._files, self._ctx = found, files, ctx
        self._wanted = ctx.options.branch
        self._done: set[str] = set()
        identity = found.identity
        if identity is None:
            identity = mint_id(jsonio.dumps(found.value), found.number)
            ctx.ledger.note("id-minted", found.place, kind="conversation")
        self._identity = identity
        self._nodes = self._cut()

    def _cut(self) -> dict[str, Node]:
        """Cut the nodes out of the mapping and count them; what is no object is skipped."""
        mapping = self._found.value["mapping"]
        ledger = self._ctx.ledger
        ledger.seen(len(mapping))
        nodes = {name: node for name, node in mapping.items() if type(node) is dict}
        if len(nodes) < len(mapping):
            for name in mapping:
                if name not in nodes:
                    place = f"{self._found.place}/mapping/{name}"
                    ledger.skipped("malformed-record", place, kind="node")
        return nodes

    def sessions(self) -> Iterator[Session]:
        """Give the active path and the branches, as far as they are asked for."""
        tree = self._tree()
        given = [
            (number, branch)
            for number, branch in enumerate(tree.branches, 1)
            if self._wanted in ("all", number)
        ]
        any_given = False
        if self._wanted in ("active", "all", 0):
            main = self._session(self._identity, tree.path, self._off_path(tree))
            self._collapse(tree, kept=main is not None)
            if main is not None:
                any_given = True
                yield main
        for number, branch in given:
            leaf = branch.own[-1]
            session = self._session(
                f"{self._identity}~b{number}",
                way_to(leaf, self._nodes),
                {"branch": {"of": self._identity, "n": number}},
            )
            if session is not None:
                any_given = True
                yield session
        self._rest(tree)
        if not any_given:
            self._ctx.ledger.note("empty-session", self._found.place)

    def _tree(self) -> Tree:
        """Give the tree by the current node; where nothing was said on its way, by another.

        That is the newest leaf, as without a current node, else the newest message.
        """
        tree = tree_of(self._nodes, self._found.value.get("current_node"))
        if not tree.branches or self._says(tree.path):
            return tree
        for start in (None, newest(filter(self._spoken, self._nodes), self._nodes)):
            other = tree_of(self._nodes, start)
            if self._says(other.path):
                place = f"{self._found.place}/current_node"
                self._ctx.ledger.note("malformed-member", place, kind="current_node")
                return other
        return tree

    def _says(self, path: list[str]) -> bool:
        """Whether a path makes a session; that of most is seen at its first messages."""
        if any(map(self._spoken, path)):
            return True
        walk = Walk(self._found, self._files, Context(Ledger(), self._ctx.options))
        walk.take(self._nodes, path, set())
        return walk.session(self._identity, {}) is not None

    def _spoken(self, name: str) -> bool:
        return speaks(self._nodes[name].get("message"))

    def _session(self, identity: str, path: list[str], extra: Extra) -> Session | None:
        walk = Walk(self._found, self._files, self._ctx)
        walk.take(self._nodes, path, self._done)
        return walk.session(identity, extra)

    def _off_path(self, tree: Tree) -> Extra:
        """Give the nodes of branches that are not given as sessions."""
        branches = [
            {
                "id": f"{self._identity}~b{number}",
                "parent": branch.anchor,
                "nodes": {name: self._nodes[name] for name in branch.own},
            }
            for number, branch in self._collapsed(tree)
        ]
        return {"branches": branches} if branches else {}

    def _collapse(self, tree: Tree, *, kept: bool) -> None:
        """Count the nodes of branches that are not given: kept in a session, or in none."""
        ledger = self._ctx.ledger
        for _, branch in self._collapsed(tree):
            place = f"{self._found.place}/mapping/{branch.own[0]}"
            count = ledger.aside if kept else ledger.skipped
            count("branch-collapsed", place, len(branch.own))
            self._done.update(branch.own)

    def _collapsed(self, tree: Tree) -> list[tuple[int, Branch]]:
        return [
            (number, branch)
            for number, branch in enumerate(tree.branches, 1)
            if self._wanted not in ("all", number)
        ]

    def _rest(self, tree: Tree) -> None:
        """Count the nodes that no session given holds."""
        if self._wanted == "active":
            return
        left = [name for name in tree.path if name not in self._done]
        for branch in tree.branches:
            left += [name for name in branch.own if name not in self._done]
        if left:
            place = f"{self._found.place}/mapping/{left[0]}"
            self._ctx.ledger.skipped("branch-collapsed", place, len(left))
