"""The files of an export cut into conversations, one at a time."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from converters import jsonio
from converters.errors import DcbError
from converters.formats.chatgpt.files import last_of
from converters.formats.chatgpt.tree import is_conversation
from converters.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Context, Input

__all__ = ["NUMBERED", "PARTS", "Found", "conversations"]

PARTS: Final = "conversations[-.]*json"
"""The whole export or its numbered parts; together in one folder they are one export."""

NUMBERED: Final = "conversations-*json"

_TAIL: Final = 64 << 20
_SPACE: Final = b" \t\r\n"
_OPENED: Final = re.compile(
    rb'[ \t\r\n]*+(\{[ \t\r\n]*+"conversations"[ \t\r\n]*+:[ \t\r\n]*+)?+\['
)
_decode = msgspec.json.decode
_REFUSED: Final = (msgspec.DecodeError, RecursionError, ValueError)


class Found(NamedTuple):
    """A conversation: its own id, if it has one, and its place: a JSON pointer in its file."""

    identity: str | None
    place: str
    number: int
    value: dict[str, Any]


def conversations(source: Input, ctx: Context) -> Iterator[Found]:
    """Give the conversations of an export, each id once.

    What is no conversation is skipped. Nodes of repeated conversations are counted as
    ``duplicate-record``. A part that cannot be read is skipped and the others are read; the
    input itself raises where nothing else was found.
    """
    ledger = ctx.ledger
    known: set[str] = set()
    number = 0
    name = ledger.source
    parts = _parts(source)
    failure: DcbError | None = None
    for part in parts:
        if len(parts) > 1:
            ledger.source = name.removesuffix(last_of(source.name)) + last_of(part.name)
        try:
            for identity, place, value in _sound(part, ctx, known, own=part is source):
                yield Found(identity, place, number, value)
                number += 1
        except DcbError as error:
            if len(parts) == 1:
                raise
            if part is source:
                failure = error
            _skip_part("malformed-record", ledger, error.position)
    ledger.source = name
    if failure is not None and not number:
        raise failure


def _sound(
    part: Input, ctx: Context, known: set[str], *, own: bool
) -> Iterator[tuple[str | None, str, dict[str, Any]]]:
    """Give ``(id, place, value)`` of the conversations of one part whose ids are not ``known``.

    A part without any that only its name made one is counted as one record.
    """
    ledger = ctx.ledger
    others: list[str] = []
    found = False
    for place, value in _values(part, ctx):
        if not is_conversation(value):
            others.append(place)
            continue
        found = True
        identity = _identity(value)
        if identity is not None and identity in known:
            n = max(len(value["mapping"]), 1)
            ledger.seen(n)
            ledger.skipped("duplicate-record", place, n, kind="conversation")
            continue
        if identity is not None:
            known.add(identity)
        yield identity, place, value
    if others and not found and not own:
        _skip_part("unknown-record", ledger)
        return
    for place in others:
        ledger.seen()
        ledger.skipped("malformed-record", place, kind="conversation")


def _skip_part(rule: str, ledger: Ledger, position: int | str | None = None) -> None:
    """Count a part as one record that is in no output; the place is its name."""
    name = ledger.source
    ledger.source = ""
    ledger.seen()
    ledger.skipped(rule, name if position is None else f"{name}:{position}", kind="part")
    ledger.source = name


def _parts(source: Input) -> list[Input]:
    """Give the input; in a folder or archive with the other parts of the export, by name.

    Parts before it are those whose beginning was not recognised.
    """
    own = last_of(source.name)
    if not source.nested or not fnmatchcase(own, PARTS):
        return [source]
    parts = {last_of(part.name): part for part in source.files(PARTS)} | {own: source}
    return [parts[name] for name in sorted(parts)]


def _identity(conversation: dict[str, Any]) -> str | None:
    for member in ("conversation_id", "id"):
        value = conversation.get(member)
        if isinstance(value, str) and value:
            return value
    return None


def _values(source: Input, ctx: Context) -> Iterator[tuple[str, Any]]:
    """Give ``(place, value)`` for what stands where conversations should."""
    data = source.view()
    opened = _OPENED.match(data)
    if opened:
        yield from _array(data, opened, source, ctx)
    else:
        yield from _documents(bytes(data), source, ctx)


def _array(
    data: Any, opened: re.Match[bytes], source: Input, ctx: Context
) -> Iterator[tuple[str, Any]]:
    """Cut an array of mapped bytes into its elements; a torn end keeps what is whole."""
    start = opened.end() - 1
    base = "/conversations" if opened[1] else ""
    end = start + 1
    for index, (offset, piece) in enumerate(jsonio.elements(data, start)):
        if piece is None:
            yield from _tail(data, offset, f"{base}/{index}", source, ctx)
            return
        end = offset + len(piece)
        place = f"{base}/{index}"
        yield place, _value(piece, place, source, ctx)
    rest = data[end : end + 4096].lstrip(_SPACE + b",")
    if not opened[1] and rest[:1] == b"]" and rest[1:].strip(_SPACE + b"\x00"):
        ctx.ledger.note("text-outside-records", f"byte {end}")


def _value(piece: memoryview, place: str, source: Input, ctx: Context) -> Any:
    try:
        return _decode(piece)
    except _REFUSED:
        return _mended(bytes(piece), place, source, ctx)


def _mended(data: bytes, place: str, source: Input, ctx: Context) -> Any:
    """Read a conversation that needs repair; what was repaired is noted at its place."""
    repairs = Ledger()
    try:
        value = jsonio.load(data, repairs, path=source.name)[0]
    except DcbError:
        return None
    for entry in repairs.report().entries:
        if entry.rule != "truncated-input":
            ctx.ledger.note(entry.rule, place, entry.count)
    return value


def _tail(
    data: Any, offset: int, place: str, source: Input, ctx: Context
) -> Iterator[tuple[str, Any]]:
    """Take the torn last conversation: what it still holds, when that is one."""
    ledger = ctx.ledger
    rest = bytes(data[offset : offset + _TAIL]).strip(_SPACE + b"\x00")
    if not rest:
        ledger.note("truncated-input", f"byte {offset}")
        return
    value = _mended(rest, place, source, ctx)
    if is_conversation(value) and value["mapping"]:
        ledger.note("truncated-input", f"byte {offset}")
        yield place, value
    else:
        ledger.seen()
        ledger.skipped("truncated-input", f"byte {offset}", kind="conversation")


def _documents(data: bytes, source: Input, ctx: Context) -> Iterator[tuple[str, Any]]:
    """Give what a document holds that is no array: one conversation, or a list in an object."""
    documents = jsonio.load(data, ctx.ledger, path=source.name)
    for number, document in enumerate(documents):
        base = f"/{number}" if len(documents) > 1 else ""
        if isinstance(document, dict) and not is_conversation(document):
            inner = document.get("conversations")
            if isinstance(inner, list):
                base = f"{base}/conversations"
                document = inner
        if isinstance(document, list):
            for index, value in enumerate(document):
                yield f"{base}/{index}", value
        else:
            yield base, document
