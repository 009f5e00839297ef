"""The tree of a conversation: its active path, and what lies off it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["Tree", "is_conversation", "tree_of"]

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


class Tree(NamedTuple):
    """``path``: ids of the active path, root first; ``branches``: whole paths of other leaves."""

    path: list[str]
    branches: list[list[str]]


def tree_of(nodes: dict[str, Node], current: Any) -> Tree:
    """Give the active path and the branches of a mapping whose values are objects.

    Links may be broken or cyclic: every node appears once on some path, in linear time.
    """
    parents = {
        name: parent if isinstance(parent := node.get("parent"), str) and parent in nodes else None
        for name, node in nodes.items()
    }
    has_child = {parent for name, parent in parents.items() if parent != name}
    leaves = [name for name in nodes if name not in has_child]
    start = current if isinstance(current, str) and current in nodes else None
    roots = _roots(parents)
    if start is None:
        start = _newest(leaves or list(nodes), nodes)
    if start is None:
        return Tree([], [])
    path = _up(start, parents)
    path = _with_lost_parts(path, nodes, parents, leaves, roots)
    on_path = set(path)
    branches = [_up(leaf, parents) for leaf in leaves if leaf not in on_path]
    return Tree(path, branches)


def _up(name: str | None, parents: dict[str, str | None]) -> list[str]:
    """Walk to the root; a cycle ends the walk."""
    path: list[str] = []
    seen: set[str] = set()
    while name is not None and name not in seen:
        seen.add(name)
        path.append(name)
        name = parents[name]
    return path[::-1]


def _roots(parents: dict[str, str | None]) -> dict[str, str]:
    """Give the root of every node; the nodes of a cycle share the first one met."""
    roots: dict[str, str] = {}
    for name in parents:
        trail: list[str] = []
        here: str | None = name
        on_trail: set[str] = set()
        while here is not None and here not in roots and here not in on_trail:
            trail.append(here)
            on_trail.add(here)
            here = parents[here]
        top = trail[-1] if here is None else roots.get(here, here)
        roots.update(dict.fromkeys(trail, top))
    return roots


def _time(node: Node) -> float | None:
    message = node.get("message")
    value = message.get("create_time") if isinstance(message, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e18:
        return None
    return float(value)


def _newest(names: list[str], nodes: dict[str, Node]) -> str | None:
    """Give the leaf with the greatest time; the later one in the document on ties."""
    best, best_time = None, float("-inf")
    for name in names:
        time = _time(nodes[name])
        value = float("-inf") if time is None else time
        if best is None or value >= best_time:
            best, best_time = name, value
    return best


def _with_lost_parts(
    path: list[str],
    nodes: dict[str, Node],
    parents: dict[str, str | None],
    leaves: list[str],
    roots: dict[str, str],
) -> list[str]:
    """Join parts of the conversation whose parent is lost, in the order of their times."""
    own = roots[path[-1]]
    tops = dict.fromkeys(root for root in roots.values() if root != own)
    if not tops:
        return path
    ends: dict[str, list[str]] = {top: [] for top in tops}
    for leaf in leaves:
        if roots[leaf] in ends:
            ends[roots[leaf]].append(leaf)
    parts = [path]
    for top, part_leaves in ends.items():
        end = _newest(part_leaves, nodes) or top
        parts.append(_up(end, parents))
    parts.sort(key=lambda part: _first_time(part, nodes))
    return [name for part in parts for name in part]


def _first_time(part: list[str], nodes: dict[str, Node]) -> float:
    times = [time for name in part if (time := _time(nodes[name])) is not None]
    return min(times, default=float("-inf"))
