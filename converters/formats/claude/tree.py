"""Which records belong to the conversation that the person went on with.

``uuid`` and ``parentUuid`` make a tree. Parallel results fork it too, so that only a fork
whose children are human prompts (a rewind, an edited prompt) makes a branch. A log that does not
have exactly one root, or whose parents do not all resolve, is taken in file order, as
resumed and cut files are common. Source: fact sheet ``claude``, "Branches".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from converters.formats.claude.log import Entry, Log

__all__ = ["Paths", "paths"]


class Branch(NamedTuple):
    """A way off the active one: it leaves at the record ``anchor`` with the prompt ``prompt``.

    ``own`` are the entries that only this way holds; ``path`` is the whole way from the
    root, given when it was asked for.
    """

    anchor: str
    prompt: str
    own: list[Entry]
    path: list[Entry]


class Paths(NamedTuple):
    """The ways through a log, each in file order; branches in the order of their prompts."""

    active: list[Entry]
    branches: list[Branch]


def paths(log: Log, *, whole: bool = False) -> Paths:
    """Give the active path and the branches beside it; ``whole`` asks for their full paths."""
    entries, parents = log.entries, log.parents()
    forks = _forks(log, parents)
    if not forks or not _whole(parents, {record.uuid for _, record in entries}):
        return Paths(entries, [])
    owners = _owners(entries, parents, {prompt for group in forks.values() for prompt in group})
    return _collect(entries, forks, owners, parents, whole=whole)


def _forks(log: Log, parents: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Give the anchors that have several human prompts as next conversation records."""
    opening = {place for place, said in log.said.items() if said.blocks}
    if len(opening) < 2:
        return {}
    prompts: list[str] = []
    solid: set[str] = set()
    for place, record in log.entries:
        uuid = record.uuid
        if uuid is None:
            continue
        if place in opening:
            prompts.append(uuid)
            solid.add(uuid)
        elif record.type == "assistant" or (record.type == "user" and place not in log.said):
            solid.add(uuid)
    anchors: dict[str, str | None] = {}
    children: dict[str, list[str]] = {}
    for prompt in prompts:
        trail: list[str] = []
        at = parents.get(prompt)
        while at is not None and at not in solid and at not in anchors:
            trail.append(at)
            anchors[at] = None  # ends a cycle
            at = parents.get(at)
        anchor = anchors[at] if at is not None and at in anchors else at
        anchors.update(dict.fromkeys(trail, anchor))
        if anchor is not None and anchor != prompt:
            children.setdefault(anchor, []).append(prompt)
    return {anchor: group for anchor, group in children.items() if len(group) > 1}


def _whole(parents: Mapping[str, str | None], kept: Container[str | None]) -> bool:
    """Whether the links make one tree; a lone record that is no conversation is not part of it."""
    above = set(parents.values())
    roots = 0
    for uuid, parent in parents.items():
        if parent is None:
            roots += uuid in kept or uuid in above
        elif parent not in parents:
            return False
    return roots == 1


def _owners(
    entries: Sequence[Entry], parents: Mapping[str, str | None], openers: set[str]
) -> dict[str, str | None]:
    """Give for each uuid the nearest fork prompt above it (or itself)."""
    owners: dict[str, str | None] = {}
    for entry in entries:
        trail: list[str] = []
        at = entry[1].uuid
        seen: set[str] = set()
        while at is not None and at not in owners and at not in openers and at not in seen:
            seen.add(at)
            trail.append(at)
            at = parents.get(at)
        owner = None if at is None else (at if at in openers else owners.get(at))
        for uuid in trail:
            owners[uuid] = owner
        if entry[1].uuid in openers:
            owners[entry[1].uuid] = entry[1].uuid
    return owners


def _collect(
    entries: list[Entry],
    forks: dict[str, list[str]],
    owners: dict[str, str | None],
    parents: Mapping[str, str | None],
    *,
    whole: bool,
) -> Paths:
    above = {
        prompt: _owner_of(anchor, owners, parents)
        for anchor, group in forks.items()
        for prompt in group
    }
    last = next((record.uuid for _, record in reversed(entries) if record.uuid is not None), None)
    ways, opened = _ways(forks, above, _chain(owners.get(last or ""), above))
    members: list[list[Entry]] = [[] for _ in range(len(opened) + 1)]
    number = 0
    held: list[str | None] = []
    owner: str | None = None
    for entry in entries:
        owner = owners.get(entry[1].uuid) if entry[1].uuid is not None else owner
        held.append(owner)
        number = 0 if owner is None else ways[owner]
        members[number].append(entry)
    branches = []
    for index, (anchor, prompt) in enumerate(opened, 1):
        path: list[Entry] = []
        if whole:
            chain = {None, *_chain(prompt, above)}
            path = [
                entry
                for entry, owner in zip(entries, held, strict=True)
                if owner in chain or ways.get(owner or "") == index
            ]
        branches.append(Branch(anchor, prompt, members[index], path))
    return Paths(members[0], branches)


def _ways(
    forks: Mapping[str, list[str]], above: Mapping[str, str | None], chain: set[str]
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Give each fork prompt the number of its way (0 is the active one), and what opens the others.

    Forks come in file order, a fork above another one first. Where nothing else
    decides, the last prompt of a fork goes on.
    """
    ways: dict[str, int] = {}
    opened: list[tuple[str, str]] = []
    for anchor, group in forks.items():
        owner = above[group[0]]
        current = 0 if owner is None else ways.get(owner, 0)
        goes_on = next((prompt for prompt in group if prompt in chain), group[-1])
        for prompt in group:
            if prompt == goes_on:
                ways[prompt] = current
            else:
                opened.append((anchor, prompt))
                ways[prompt] = len(opened)
    return ways, opened


def _owner_of(
    anchor: str, owners: Mapping[str, str | None], parents: Mapping[str, str | None]
) -> str | None:
    at: str | None = anchor
    left = len(parents)
    while at is not None and at not in owners and left:
        at, left = parents.get(at), left - 1
    return owners.get(at) if at is not None else None


def _chain(prompt: str | None, above: Mapping[str, str | None]) -> set[str]:
    """Give the fork prompts from ``prompt`` up to the root."""
    chain: set[str] = set()
    while prompt is not None and prompt not in chain:
        chain.add(prompt)
        prompt = above.get(prompt)
    return chain
