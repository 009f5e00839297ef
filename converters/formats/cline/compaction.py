"""What a compaction took out of the context, as shadowed turns.

The tools name messages; the unit of shadowing is the turn. A turn is shadowed when all of its
messages are out. One of which a part is still in the context is not, and the messages of it that
are out are counted, ``state-dropped``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from converters import jsonio
from converters.ir import Compaction, Text
from converters.shapes import anthropic

if TYPE_CHECKING:
    from converters.formats.cline.walk import Taken, Walk
    from converters.ledger import Ledger

__all__ = ["classic", "display_only", "replaced"]


def _shadow(walk: Walk, out: set[int], ledger: Ledger) -> None:
    """Shadow the turns whose messages, by their place in ``walk.taken``, are all out."""
    hidden: dict[int, list[str]] = defaultdict(list)
    live: set[int] = set()
    for index, taken in enumerate(walk.taken):
        if index in out:
            hidden[taken.turn].append(taken.place)
        else:
            live.add(taken.turn)
    for number, turn in enumerate(walk.turns.turns, 1):
        if number in hidden and number in live:
            for place in hidden[number]:
                ledger.note("state-dropped", place, kind="inside a turn")
        elif number in hidden:
            turn.shadowed = True


def classic(walk: Walk, span: Any, ledger: Ledger) -> None:
    """Shadow what Cline deleted, and what Roo's summaries and truncations name as theirs.

    ``span`` is Cline's ``conversationHistoryDeletedRange``, both ends in it, counted in the list
    of the history; the first two messages always stay in the context. For Roo a message is out
    when the summary of its ``condenseParent``, or the marker of its ``truncationParent``, is
    there; a summary that no message names covers all before it.
    """
    messages = [taken.message for taken in walk.taken]
    out = _children(messages, "condenseParent", "isSummary", "condenseId")
    named = {messages[index]["condenseParent"] for index in out}
    for index, message in enumerate(messages):
        if message.get("isSummary") is True:
            identity = message.get("condenseId")
            if not (isinstance(identity, str) and identity in named):
                out.update(range(index))
    cut = _children(messages, "truncationParent", "isTruncationMarker", "truncationId")
    for unsaid in (cut, _span(walk.taken, span)):
        if unsaid:
            ledger.note("compacted-unavailable", walk.taken[min(unsaid)].place)
    for turn in walk.turns.turns:
        turn.shadowed = False  # a summary met on the way shadowed all before it
    _shadow(walk, out | cut | _span(walk.taken, span), ledger)


def _children(messages: list[dict[str, Any]], parent: str, mark: str, identity: str) -> set[int]:
    parents = {
        name
        for message in messages
        if message.get(mark) is True and isinstance(name := message.get(identity), str)
    }
    return {
        index
        for index, message in enumerate(messages)
        if isinstance(name := message.get(parent), str) and name in parents
    }


def _span(taken: list[Taken], span: Any) -> set[int]:
    if not (isinstance(span, list) and len(span) == 2 and all(isinstance(n, int) for n in span)):
        return set()
    first, last = max(span[0], 2), span[1]
    numbers = (int(message.place.rpartition("/")[2]) for message in taken)
    return {index for index, number in enumerate(numbers) if first <= number <= last}


def replaced(walk: Walk, sidecar: Any, ledger: Ledger) -> None:
    """Shadow what the SDK's sidecar stands for; the next turn carries its summary.

    It replaces the first ``source_message_count`` messages, those for display only not counted,
    by a summary and those of them that stay. When nothing follows, the end makes a turn.
    """
    if not isinstance(sidecar, dict):
        return
    count, messages = sidecar.get("source_message_count"), sidecar.get("messages")
    if not isinstance(count, int) or not isinstance(messages, list):
        return
    covered = [i for i, taken in enumerate(walk.taken) if not display_only(taken.message)]
    covered = covered[: max(count, 0)]
    summary, *stayed = messages or [None]
    out = set(covered) - _found(stayed, [(i, walk.taken[i].message) for i in covered])
    _shadow(walk, out, ledger)
    turns = walk.turns.turns
    last = max((walk.taken[i].turn for i in out), default=0)
    following = last if last and turns[last - 1].shadowed else max(last - 1, 0)
    text = _text(summary, ledger)
    if not text.strip():
        ledger.note("compacted-unavailable", walk.taken[max(out)].place if out else None)
    else:
        turn = turns[following] if following < len(turns) else walk.turns.prompt([])
        turn.compaction = Compaction(text, "cline")


def display_only(message: dict[str, Any]) -> bool:
    """Whether a message is shown but not part of the conversation."""
    metadata = message.get("metadata")
    return isinstance(metadata, dict) and metadata.get("displayOnly") is True


def _found(stayed: list[Any], source: list[tuple[int, dict[str, Any]]]) -> set[int]:
    """Give the places of the messages that stayed; the ids of copies may differ."""
    places: dict[bytes, list[int]] = defaultdict(list)
    for index, message in source:
        places[_key(message)].append(index)
    found: set[int] = set()
    limit = len(source) and source[-1][0] + 1
    for message in reversed(stayed):
        known = places.get(_key(message), []) if isinstance(message, dict) else []
        while known and known[-1] >= limit:
            known.pop()
        if known:
            limit = known.pop()
            found.add(limit)
    return found


def _key(message: dict[str, Any]) -> bytes:
    return jsonio.dumps([message.get("role"), message.get("content")])


def _text(summary: Any, ledger: Ledger) -> str:
    content = summary.get("content") if isinstance(summary, dict) else None
    blocks = anthropic.blocks(content, ledger, "summary")
    return "\n".join(block.text for block in blocks if isinstance(block, Text))
