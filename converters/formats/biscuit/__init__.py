"""Biscuit: the condensed conversations of qqqide ("context backpack"), V11 to V16 and later.

A quest is one conversation, a floor is one user send with everything done in answer. Finished
floors are condensed by fixed rules ("the sieve") into a text, the dump or biscuit:

    === F1  2026-07-16 01:10:44 UTC+8 ===
    Q: the question on one line
    [A → run_command] make test 8c
    ╔K
    2 passed
    ╚
    A: the answer on one line

Files of a quest, below ``qqq/quests/q<k>.<title>/`` (newer: ``_qqq/quests``) of a project:
``ctx.json`` (the floors of the dump, facts, counters) and, per floor, ``f<n>.<title>/all.json``
(the raw messages and model round trips), ``all.txt`` and ``reasoning.txt`` (logs to read).
All of them are read, and so are a dump on its own and an array of the tool's messages
(``_floor``, ``_biscuit`` ... beside the OpenAI members). Where the files of floors lie beside a
dump or a ``ctx.json``, they take the place of the condensed floors. A damaged ``ctx.json``
gives its whole floors, the rest comes from those files.

Members of a message that the IR has no field for are its ``x-dcb.native.message``; reasoning that a
provider put beside the content (``reasoning_content`` and others) is read.

A record is a floor of a dump, or a message and a house (model round trip) of the JSON files, or a
house of ``all.txt``. Versions: V10 (narrative, read as a compaction), V11 and V12 (no time in the
header, bodies behind ``│``, Chinese units), V13 to V16 and the later restore and trigger changes,
which kept the form of the lines. The version is nowhere in a dump; the form tells.

Lost in a dump: line breaks of questions and answers, all arguments but one, the output of the 15
tools that can be asked again, reasoning, usage, ids, all times but one per floor. The header time
is the end of the floor; its zone is a constant (``x-dcb.native.zone``:
``declared``), ``--tz`` gives another.

Written is the dump or ``ctx.json`` (``form=ctx``), by the same sieve: one floor per turn, header
time = time of the turn in UTC+8. ``threshold=N`` removes the boxes when the dump is estimated above
N tokens (0: always), ``edit_only=true`` keeps questions, answers and lines of the write tools.
Box marks inside a box are escaped with a backslash, as the published format says (its code does
not). The account of a written dump comes from reading it again.
"""

from __future__ import annotations

import re
from typing import Final

from converters import jsonio
from converters.formats.biscuit.alltxt import is_alltxt, parse_alltxt
from converters.formats.biscuit.condense import edit_only, join, split, split_as_source, strip
from converters.formats.biscuit.ctx import COMPRESSED, build_ctx, parse_ctx, rebuild
from converters.formats.biscuit.dump import parse
from converters.formats.biscuit.lines import HEADER, kind_of
from converters.formats.biscuit.read import COMPANIONS, read
from converters.formats.biscuit.sieve import sieve
from converters.formats.biscuit.write import OPTIONS, write
from converters.types import Capabilities, Format, Head, Match

__all__ = [
    "FORMAT",
    "build_ctx",
    "edit_only",
    "join",
    "parse",
    "parse_alltxt",
    "parse_ctx",
    "rebuild",
    "sieve",
    "split",
    "split_as_source",
    "strip",
]

_CTX: Final = re.compile(r'"(?:biscuitLines|lastCompressedFloor)"[ \t\r\n]*+:')


def probe(head: Head) -> Match | None:
    """Recognise the files by their content: header lines, members, first lines of logs."""
    if head.first in ("{", "["):
        return _probe_json(head)
    text = head.text.removeprefix("\ufeff")
    if is_alltxt(text):
        return Match(100, "first line of a floor's log")
    if text.lstrip().startswith(COMPRESSED):
        return Match(100, "first line of compressed floors")
    return _probe_dump(text)


def _probe_dump(text: str) -> Match | None:
    """Look for a floor header that a known line follows."""
    at = 0 if text.startswith("=== F") else text.find("\n=== F") + 1
    tries = 0
    while tries < 20 and (at or text.startswith("=== F")):
        tries += 1
        lines = [line.rstrip("\r") for line in text[at : at + 4096].split("\n")]
        header = HEADER.fullmatch(lines[0])
        following = next((line for line in lines[1:] if line.strip()), "")
        if header and (kind_of(following) != "text" or HEADER.fullmatch(following)):
            if text[:at].strip():
                return Match(60, "floor header inside a text")
            timed = header[2] is not None
            return Match(100 if timed else 90, "floor header with a question or answer")
        if header and not following and not text[:at].strip():
            return Match(70, "floor header")
        at = text.find("\n=== F", at) + 1
    return None


def _probe_json(head: Head) -> Match | None:
    root = head.root
    if isinstance(root, dict):
        if isinstance(root.get("biscuitLines"), list):
            return Match(100, "member biscuitLines")
        if isinstance(root.get("conversation"), list) and isinstance(root.get("houses"), list):
            return Match(100, "members conversation and houses")
    messages = root.get("messages") if isinstance(root, dict) else None
    records = messages[:20] if isinstance(messages, list) else head.records
    if any(isinstance(r, dict) and "_floor" in r and "role" in r for r in records):
        return Match(100, "messages with _floor")
    if any(isinstance(r, dict) and (r.get("_biscuit") or r.get("_biscuitPrefix")) for r in records):
        return Match(100, "a biscuit message")
    if head.first == "{" and _CTX.search(jsonio.sniff_text(head.data[:16384])[:4096]):
        return Match(90, "members of a ctx.json")
    return None


FORMAT = Format(
    id="biscuit",
    title="qqqide biscuit (context backpack)",
    kinds=frozenset({"text", "json"}),
    probe=probe,
    read=read,
    write=write,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        compacted=True,
        timestamps=True,
        usage=True,
        notes={
            "tool_results": "in a dump: the output of five tools, a summary of the others",
            "reasoning": "not in a dump",
            "images": "in all.json only",
            "compacted": "the narrative of V10",
            "timestamps": "in a dump: the end of each floor",
            "usage": "in all.json only",
        },
    ),
    evidence="A",
    suffix=".txt",
    companions=COMPANIONS,
    options=OPTIONS,
)
