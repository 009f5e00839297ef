"""The parts of a dump as data: what :func:`.dump.parse` finds, in file order."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

__all__ = [
    "Action",
    "Box",
    "Count",
    "Diff",
    "Dump",
    "Failure",
    "Floor",
    "Lines",
    "Note",
    "Sha",
    "Warn",
]


class Lines(msgspec.Struct, frozen=True):
    """The page of a file that was read: ``L:a-b/total``."""

    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")
    total: int


class Count(msgspec.Struct, frozen=True):
    """A counted summary: ``3chg``, ``2 hits``, ``4 items`` ..."""

    unit: str
    value: int


class Diff(msgspec.Struct, frozen=True):
    """The lines of ``diff_versions``: ``+added/-removed``."""

    added: int
    removed: int


class Sha(NamedTuple):
    """The first 12 hex digits of a sha256: of what was made, or of what was asked for."""

    kind: Literal["produced", "read"]
    value: str


class Box(msgspec.Struct):
    """The kept output of a tool, unescaped.

    ``length_matches`` compares the UTF-16 length with the one on the action line
    (``None`` where that gives none); ``truncated_chars`` is what the cap left out.
    """

    body: str
    closed: bool
    style: Literal["box", "gutter"]
    escaped: bool = False
    length_matches: bool | None = None
    truncated_chars: int | None = None


class Action(msgspec.Struct):
    """One tool call. ``line`` is the number of its action line within the floor, from 0.

    ``args_text`` is the display without marks, ``None`` where the source had none
    (``literal_null``: it wrote the word ``null``); ``raw``: the parts of the line could
    not be told apart, this is all of it;
    ``chars`` is the full output length in UTF-16 units.
    """

    tool: str
    line: int
    args_text: str | None = None
    args_truncated: bool = False
    literal_null: bool = False
    raw: bool = False
    summary: str | None = None
    ok: bool | None = None
    exit_code: int | None = None
    lines: Lines | None = None
    chars: int | None = None
    count: Count | None = None
    diff: Diff | None = None
    shas: list[Sha] = []
    box: Box | None = None

    @property
    def sha(self) -> Sha | None:
        """The produced mark if there is one, else the read mark."""
        return self.shas[0] if self.shas else None


class Failure(msgspec.Struct):
    """An ``[ERR]`` line; ``time`` is local ``HH:MM`` without a date."""

    time: str | None
    text: str


class Note(msgspec.Struct):
    """A line that is neither question, answer, action nor error."""

    kind: Literal["system", "unmatched_tool_result", "orphan_box", "stray"]
    text: str


class Floor(msgspec.Struct):
    """One user send and its answer; ``sequence`` orders the five lists.

    ``timestamp`` is ISO 8601 with the offset of the header, ``ms`` the same
    instant since the epoch; ``line`` counts from 1.
    """

    n: int
    line: int
    timestamp: str | None = None
    timestamp_raw: str | None = None
    questions: list[str] = []
    answers: list[str] = []
    errors: list[Failure] = []
    notes: list[Note] = []
    actions: list[Action] = []
    sequence: list[tuple[Literal["question", "answer", "action", "error", "note"], int]] = []
    duplicate: bool = False


class Warn(msgspec.Struct, omit_defaults=True):
    """Something odd in a dump; ``line`` counts from 1."""

    code: str
    floor: int | None = None
    line: int | None = None
    tool: str | None = None


class Dump(msgspec.Struct):
    """A whole dump. ``missing_floors`` stops at 10,000 numbers; ``missing`` is their count."""

    newline: Literal["lf", "crlf", "mixed"]
    preamble: list[str]
    floors: list[Floor]
    missing_floors: list[int]
    missing: int
    warnings: list[Warn]
