"""The tree of a conversation: its active path, and what lies off it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Branch", "Node", "Tree", "is_conversation", "newest", "tree_of", "way_to"]

Node = dict[str, Any]

_LINKS: Final = ("message", "parent", "children")


def is_conversation(value: Any) -> bool:
    """Whether an object holds a ``mapping`` of nodes."""
    mapping = value.get("mapping") if isinstance(value, dict) else None
    if not isinstance(mapping, dict):
        return False
    return not mapping or any(
        isinstance(node, dict) and any(link in node for link in _LINKS)
        for node in list(mapping.values())[:20]
    )


class Branch(NamedTuple):
    """A way off the active path. ``anchor``: the node it leaves from; ``own``: its nodes."""

    anchor: str | None
    own: list[str]


class Tree(NamedTuple):
    """``path``: ids of the active path, root first; ``branches`` in the order of their leaves.

    Every node is on the path or the own node of exactly one branch.
    """

    path: list[str]
    branches: list[Branch]


def tree_of(nodes: dict[str, Node], current: Any) -> Tree:
    """Give the active path and the branches of a mapping whose values are objects.

    Links may be broken or cyclic. Linear in the number of nodes.
    """
    start = current if isinstance(current, str) and current in nodes else None
    if start is None:
        start = _last(nodes)
    if start is None:
        return Tree([], [])
    path = way_to(start, nodes)
    if len(path) == len(nodes):
        return Tree(path, [])
    has_child = {parent for name in nodes if (parent := _parent(name, nodes)) != name}
    path = _with_lost_parts(path, nodes, has_child)
    known = set(path)
    branches = []
    for leaf in nodes:
        if leaf in known or leaf in has_child:
            continue
        own: list[str] = []
        here: str | None = leaf
        while here is not None and here not in known:
            known.add(here)
            own.append(here)
            here = _parent(here, nodes)
        branches.append(Branch(here, own[::-1]))
    return Tree(path, branches)


def _parent(name: str, nodes: dict[str, Node]) -> str | None:
    parent = nodes[name].get("parent")
    return parent if isinstance(parent, str) and parent in nodes else None


def way_to(name: str | None, nodes: dict[str, Node]) -> list[str]:
    """Give the ids from the root to a node; a cycle ends the walk."""
    path: dict[str, None] = {}
    while name is not None and name not in path:
        path[name] = None
        parent = nodes[name].get("parent")
        name = parent if isinstance(parent, str) and parent in nodes else None
    return list(path)[::-1]


def _time(node: Node) -> float | None:
    message = node.get("message")
    value = message.get("create_time") if isinstance(message, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e18:
        return None
    return float(value)


def _last(nodes: dict[str, Node]) -> str | None:
    """Give the leaf with the greatest time; the deepest one on ties, then the later one."""
    has_child = {parent for name in nodes if (parent := _parent(name, nodes)) != name}
    leaves = [name for name in nodes if name not in has_child] or list(nodes)
    return newest(leaves, nodes)


def newest(
    names: Iterable[str], nodes: dict[str, Node], depths: dict[str, int] | None = None
) -> str | None:
    """Give the node with the greatest time; the deepest one on ties, then the later one."""
    if depths is None:
        depths = _depths(nodes)
    best: tuple[float, int] | None = None
    found = None
    for name in names:
        time = _time(nodes[name])
        rank = (float("-inf") if time is None else time, depths.get(name, 0))
        if best is None or rank >= best:
            best, found = rank, name
    return found


def _depths(nodes: dict[str, Node]) -> dict[str, int]:
    """Give the distance from the root; the nodes of a cycle count from where it was met."""
    depths: dict[str, int] = {}
    for name in nodes:
        trail: dict[str, None] = {}
        here: str | None = name
        while here is not None and here not in depths and here not in trail:
            trail[here] = None
            here = _parent(here, nodes)
        depth = depths.get(here, -1) if here is not None else -1
        for passed in reversed(trail):
            depth += 1
            depths[passed] = depth
    return depths


def _with_lost_parts(path: list[str], nodes: dict[str, Node], has_child: set[Any]) -> list[str]:
    """Join parts of the conversation whose parent is lost, in the order of their times."""
    ends = _lost_parts(path, nodes, has_child)
    if not ends:
        return path
    depths = _depths(nodes)
    parts = [path]
    for top, leaves in ends.items():
        parts.append(way_to(newest(leaves, nodes, depths) or top, nodes))
    parts.sort(key=lambda part: _first_time(part, nodes))
    return [name for part in parts for name in part]


def _lost_parts(
    path: list[str], nodes: dict[str, Node], has_child: set[Any]
) -> dict[str, list[str]]:
    """Give the roots that the path does not start from, each with the leaves above it.

    The nodes of a cycle share the one that was met first.
    """
    roots: dict[str, str] = dict.fromkeys(path, "")
    ends: dict[str, list[str]] = {}
    for name in nodes:
        trail: dict[str, None] = {}
        here: str | None = name
        while here is not None and here not in roots and here not in trail:
            trail[here] = None
            here = _parent(here, nodes)
        if not trail:
            continue
        root = next(reversed(trail)) if here is None else roots.get(here, here)
        roots.update(dict.fromkeys(trail, root))
        if root:
            ends.setdefault(root, [])
    for name, root in roots.items():
        if root and name not in has_child:
            ends[root].append(name)
    return ends


def _first_time(part: list[str], nodes: dict[str, Node]) -> float:
    times = [time for name in part if (time := _time(nodes[name])) is not None]
    return min(times, default=float("-inf"))
