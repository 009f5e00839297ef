"""Reads every file of a quest: dumps, ``ctx.json``, conversation arrays, ``all.json``, ``all.txt``.

The files of the floors that lie beside a dump or a ``ctx.json`` (``f<n>.<title>/``) hold the raw
messages of the same floors; where they are there, they take the place of the dump's floor.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters import jsonio
from converters.errors import BadInput, DcbError
from converters.formats.biscuit.alltxt import AllTxt, is_alltxt, parse_alltxt
from converters.formats.biscuit.ctx import COMPRESSED, Ctx, ctx_of, parse_ctx
from converters.formats.biscuit.dump import parse
from converters.formats.biscuit.floors import add_floor, duplicates, note_losses
from converters.formats.biscuit.houses import add_all_json, add_all_txt
from converters.formats.biscuit.messages import Walk, floors_of
from converters.ir import Meta, Session
from converters.ledger import Ledger
from converters.turns import TurnBuilder, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.formats.biscuit.model import Floor
    from converters.ir import Extra
    from converters.types import Context, Input

__all__ = ["COMPANIONS", "PROVIDER", "read", "session_of"]

PROVIDER: Final = "biscuit"
COMPANIONS: Final = ("f*/all.json", "f*/all.txt", "f*/reasoning.txt")
_FOLDER: Final = re.compile(r"(?:^|[/!])f(\d{1,15})[^/]*+/[^/]*+$", re.ASCII)
_SPACE: Final = b" \t\r\n"


class _Raw(NamedTuple):
    """What a file beside the dump holds of one floor."""

    name: str
    value: dict[str, Any] | AllTxt


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the one session of a file. Raises :class:`BadInput` when it holds none."""
    yield session_of(source.read(), ctx, source)


def session_of(data: bytes, ctx: Context, source: Input | None = None) -> Session:
    """Give the session of a file's bytes; ``source`` finds the files beside it."""
    session = Session(
        meta=Meta(str(uuid.uuid5(uuid.NAMESPACE_OID, hashlib.sha256(data).hexdigest()))),
        provider=PROVIDER,
    )
    ctx.ledger.note("id-minted")
    builder = TurnBuilder(ctx.ledger)
    extra: Extra = {}
    walk = Walk(builder, ctx.ledger, extra, ctx.options.tz)
    _add(data, source, walk, ctx)
    session.turns = builder.finish()
    session.extra = extra or None
    _settle(session, extra)
    if not session.turns:
        raise BadInput("no floor in it", path=source.name if source else None)
    return session


def _settle(session: Session, extra: Extra) -> None:
    """Fill what the session has from its turns and floors."""
    session.title = title_of(session.turns)
    for entry in extra.get("native", {}).get("floors", []):
        at = entry.get("createdAt")
        if isinstance(at, int) and not isinstance(at, bool) and 0 < at < 1 << 53:
            known = session.meta.created_at
            session.meta.created_at = at if known is None else min(known, at)
    session.model = next(
        (step.model for turn in session.turns for step in turn.steps if step.model), None
    )


def _add(data: bytes, source: Input | None, walk: Walk, ctx: Context) -> None:
    """Add all of a file to the walk."""
    name = source.name if source else None
    if not data.lstrip(b"\xef\xbb\xbf" + _SPACE).startswith((b"{", b"[")) and not _is_utf16(data):
        _add_text(data, source, walk, ctx)
        return
    try:
        values = jsonio.load(data, ctx.ledger, path=name)
    except BadInput:
        if parse(_text(data, Ledger())).floors:  # a dump that begins in the middle of a floor
            _add_text(data, source, walk, ctx)
            return
        ctx.ledger.note("malformed-record", "byte 0", kind="document")
        values = [None]
    root = values[0]
    if len(values) > 1:
        if all(isinstance(value, dict) and "role" in value for value in values):
            root = values
        else:
            ctx.ledger.seen(len(values) - 1)
            ctx.ledger.skipped("unknown-record", "document 2", len(values) - 1)
    if isinstance(root, dict) and isinstance(root.get("conversation", root.get("houses")), list):
        add_all_json(root, walk, "")
        return
    if isinstance(root, list):
        walk.raw = floors_of(root)
        walk.messages(jsonio.objects(root, ctx.ledger, ""))
        return
    if isinstance(root, dict) and isinstance(root.get("messages"), list):
        walk.raw = floors_of(root["messages"])
        walk.messages(jsonio.objects(root["messages"], ctx.ledger, "/messages"))
        return
    _add_ctx(data, root, source, walk, ctx)


def _is_utf16(data: bytes) -> bool:
    return data.startswith((b"\xff\xfe{", b"\xff\xfe[", b"\xfe\xff\0{", b"\xfe\xff\0["))


def _text(data: bytes, ledger: Ledger) -> str:
    """Decode a text; a BOM of UTF-16 and bytes that are no UTF-8 are repaired and counted."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        ledger.note("encoding-repaired", "byte 0")
        return data.decode("utf-16", "replace")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        ledger.note("encoding-repaired", f"byte {error.start}")
        return data.decode("utf-8", "replace")
    if text.startswith("\ufeff"):
        ledger.note("encoding-repaired", "byte 0")
    return text


def _add_text(data: bytes, source: Input | None, walk: Walk, ctx: Context) -> None:
    text = _text(data, ctx.ledger)
    if is_alltxt(text):
        add_all_txt(parse_alltxt(text), walk, "")
        return
    _add_dump(text, walk, ctx, _companions(source, ctx))


def _add_dump(text: str, walk: Walk, ctx: Context, beside: dict[int, _Raw]) -> None:
    """Add the floors of a dump, each from the fullest source that there is."""
    ledger = ctx.ledger
    dump = parse(text)
    preamble = "\n".join(dump.preamble)
    ledger.seen(len(dump.floors) + bool(preamble))
    if not dump.floors and not beside and not preamble.startswith(COMPRESSED):
        raise BadInput("no floor in it", position=1)
    damaged = sum(warn.code == "box_unclosed" for warn in dump.warnings)
    for warn in dump.warnings:
        if warn.code in ("box_unclosed", "parts_ambiguous"):
            ledger.note("malformed-block", warn.line, kind=warn.code)
    if preamble and not dump.floors and preamble.startswith(COMPRESSED):
        walk.builder.compaction(preamble, provider=PROVIDER)
        ledger.mapped()
    elif preamble:
        walk.keep("preamble", preamble)
        ledger.aside("record-aside", 1, kind="preamble")
    if beside:
        taken = _merge(dump.floors, beside, walk)
        note_losses(taken, ledger, damaged=damaged)
        walk.declare_zone(taken)
        return
    note_losses(dump.floors, ledger, missing=dump.missing, damaged=damaged)
    walk.declare_zone(dump.floors)
    for floor, copy in duplicates(dump.floors):
        add_floor(floor, walk.builder, ledger, copy=copy, tz=walk.tz)


def _merge(floors: list[Floor], beside: dict[int, _Raw], walk: Walk) -> list[Floor]:
    """Add floors in rising order; raw messages go before the dump's floor of their number.

    Gives the floors that were taken from the dump.
    """
    used: list[Floor] = []
    found: dict[int, list[tuple[Floor, int]]] = {}
    for floor, copy in duplicates(floors):
        found.setdefault(floor.n, []).append((floor, copy))
    walk.known |= found.keys()
    for n in sorted(found.keys() | beside.keys()):
        raw = beside.get(n)
        before = len(walk.builder.turns)
        if raw is not None and isinstance(raw.value, AllTxt):
            add_all_txt(raw.value, walk, raw.name)
        elif raw is not None and not isinstance(raw.value, AllTxt):
            add_all_json(raw.value, walk, raw.name)
        taken = len(walk.builder.turns) > before
        for floor, copy in found.get(n, []):
            if taken:
                walk.ledger.skipped("duplicate-record", floor.line)
            else:
                used.append(floor)
                add_floor(floor, walk.builder, walk.ledger, copy=copy, tz=walk.tz)
    return used


def _companions(source: Input | None, ctx: Context) -> dict[int, _Raw]:
    """Give the files of the floors beside an input by floor number; ``all.json`` goes first."""
    found: dict[int, _Raw] = {}
    if source is None:
        return found
    for pattern in COMPANIONS:
        for item in source.files(pattern):
            named = _FOLDER.search(item.name)
            if named and int(named[1]) in found:
                continue
            try:
                raw = _raw(item, ctx.ledger)
            except DcbError:
                ctx.ledger.note("malformed-record", _short(item.name), kind="companion")
                continue
            n = raw.value.floor if isinstance(raw.value, AllTxt) else _number(raw.value)
            n = n or (int(named[1]) if named else 0)
            found.setdefault(n, raw)
    return found


def _raw(item: Input, ledger: Ledger) -> _Raw:
    data = item.read()
    if item.name.endswith(".json"):
        root = jsonio.load(data, ledger, path=item.name)[0]
        if not isinstance(root, dict) or not isinstance(
            root.get("conversation", root.get("houses")), list
        ):
            raise BadInput("not an all.json", path=item.name)
        return _Raw(_short(item.name), root)
    return _Raw(_short(item.name), parse_alltxt(_text(data, ledger)))


def _short(name: str) -> str:
    """Give the last folder and the name of a file beside the input."""
    return "/".join(name.split("/")[-2:])


def _number(root: dict[str, Any]) -> int:
    return max(floors_of(root.get("conversation")), default=0)


def _add_ctx(data: bytes, root: Any, source: Input | None, walk: Walk, ctx: Context) -> None:
    """Add a ``ctx.json``; of a damaged one what is whole, and the raw floors beside it."""
    damaged = False
    name = source.name if source else None
    try:
        found = parse_ctx(data)
    except BadInput:
        damaged = True
        found = _salvaged(root)
    if not damaged and "biscuitLines" not in found.raw and not found.narrative:
        raise BadInput("not a file of this format", path=name)
    beside = _companions(source, ctx)
    if damaged and not found.lines and not beside:
        raise BadInput(
            "ctx.json is damaged and holds no whole floor",
            path=name,
            position=f"byte {len(data)}",
            hint="its floors are in the all.json files of the quest, or in the conversation",
        )
    _account_ctx(found, walk)
    if found.narrative_kind == "full_text":
        ctx.ledger.seen()
        walk.builder.compaction(found.narrative, provider=PROVIDER)
        ctx.ledger.mapped()
    if found.lines or beside or found.narrative_kind != "full_text":
        _add_dump(found.dump, walk, ctx, beside)


def _salvaged(root: Any) -> Ctx:
    """Read what is left of a damaged ``ctx.json``; nothing of it is trusted but whole floors."""
    try:
        found = ctx_of(root)
    except BadInput:
        return ctx_of({})
    found.lines = [entry for entry in found.lines if entry.n > 0 and entry.text]
    return found


def _account_ctx(found: Ctx, walk: Walk) -> None:
    """Keep what a ``ctx.json`` has beside its floors, and count it."""
    ledger = walk.ledger
    bad = found.bad_lines
    if bad:
        ledger.seen(bad)
        ledger.skipped("malformed-record", "/biscuitLines", bad)
    rest = {name: value for name, value in found.raw.items() if name != "biscuitLines"}
    if not rest:
        return
    walk.extra.setdefault("native", {})["ctx"] = rest
    facts = found.raw.get("facts")
    size = len(facts) if isinstance(facts, list) else 0
    ledger.seen(size)
    if size:
        ledger.aside("record-aside", "/facts", size, kind="facts")
    for name in found.unknown_fields:
        ledger.seen()
        ledger.aside("record-aside", f"/{name}", kind="member")
