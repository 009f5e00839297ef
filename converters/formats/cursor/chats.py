"""Conversations of versions before 0.40: each stands whole inside one JSON value.

``tabs[].bubbles[]`` (the chat panel, and 0.3x), ``conversationMap {id: {bubbles[]}}`` (0.2x), a
map of messages by their ids, and ``allComposers[].conversation[]`` of a workspace's own database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.formats.cursor.bubbles import first_text
from converters.shapes.rows import pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ledger import Ledger

__all__ = ["MAP", "Chat", "chats", "is_chat"]

_LISTS: Final = ("tabs", "chatSessions", "allComposers")
_BUBBLES: Final = ("bubbles", "messages", "conversation")
_IDS: Final = ("tabId", "composerId", "chatId", "id")
MAP: Final = "conversationMap"
"""The member that holds conversations, or the messages of one, by their ids."""


class Chat(NamedTuple):
    """One conversation: its id if it has one, its other members, its messages, where they are."""

    identity: str | None
    info: dict[str, Any]
    bubbles: list[Any]
    place: str


def chats(value: Any, place: str, ledger: Ledger) -> Iterator[Chat]:
    """Give the conversations that a JSON value holds; what is no object in a list is counted.

    An entry without a list of messages is a mere name in a list and gives nothing.
    """
    if not isinstance(value, dict):
        return
    for name in _LISTS:
        entries = value.get(name)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            where = f"{place}/{name}/{index}"
            if isinstance(entry, dict):
                yield from _entry(entry, None, where)
            else:
                ledger.seen()
                ledger.skipped("malformed-record", where, kind=name)
    yield from _mapped(value, place)


def _entry(entry: dict[str, Any], key: str | None, place: str) -> Iterator[Chat]:
    for name in _BUBBLES:
        bubbles = entry.get(name)
        if isinstance(bubbles, list):
            own = (first_text(entry, _IDS), key)
            yield Chat(own[0] or own[1], entry, bubbles, f"{place}/{name}")
            return
    if key is None:
        yield from _mapped(entry, place)


def is_chat(entry: Any) -> bool:
    """Whether an entry is a conversation of its own: an object with a list of messages."""
    return isinstance(entry, dict) and any(isinstance(entry.get(n), list) for n in _BUBBLES)


def _mapped(value: dict[str, Any], place: str) -> Iterator[Chat]:
    """Give the conversations of a map by id, and the one whose messages are the map itself."""
    found = value.get(MAP)
    where = f"{place}/{MAP}"
    messages = []
    for key, entry in found.items() if isinstance(found, dict) else ():
        if is_chat(entry):
            yield from _entry(entry, key, pointer(where, key))
        else:
            messages.append(entry)
    if messages:
        yield Chat(first_text(value, _IDS), value, messages, where)
