"""Interchange v1: the turns IR as a JSON document.

A file holds one document (``"interchange": "dsh-chat-import"``, ``"version": 1``); several
documents, one per line or in an array, are read too. The published format is Interchange v1,
sections 1 to 6; dcb adds the member ``x-dcb`` on the document, meta, turn, step, block, call,
result and usage, which v1 readers ignore.

Records of the account are the elements of ``turns`` and of every ``steps``. Everything that the
reference reader drops in silence (bad entries of ``toolCalls``, members of another type) is
counted here too. Unknown members are kept in ``x-dcb.members`` and written back in place.

Lost when read: nothing but what the report names. The version is compared like the reference
does (``1``, ``"1"``, ``true``, ``[1]``); ``--strict`` takes the number 1 only and refuses
documents with a repeated member.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio
from converters.errors import BadInput, DcbError, UnsupportedVersion
from converters.formats.interchange.normal import count_records, is_normal
from converters.formats.interchange.normalize import normalize
from converters.formats.interchange.write import write
from converters.ir import MARKER, Session
from converters.types import Capabilities, Context, Format, Head, Input, Match

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FORMAT", "marker_of", "rejection"]

_WINDOW: Final = 65536
_MARK: Final = re.compile(r'"(interchange|bundle)"[\s]*+:[\s]*+"dsh-chat-import"')
_DECODER: Final = msgspec.json.Decoder(Session)


def marker_of(text: str) -> str | None:
    """Give ``generic`` or ``bundle`` by the first content mark, which must lie inside the window.

    The window is 65,536 UTF-16 units of the decoded text. Rule: Interchange v1, section 3.1.
    """
    found = _MARK.search(text[:_WINDOW])
    if found is None:
        return None
    head = text[: found.end()]
    if len(head.encode("utf-16-le", "surrogatepass")) // 2 > _WINDOW:
        return None
    return "generic" if found[1] == "interchange" else "bundle"


def probe(head: Head) -> Match | None:
    """Recognise the content mark; a document without it only by the shape of its turns."""
    if head.mentions("dsh-chat-import") and marker_of(head.text) == "generic":
        return Match(100, 'content mark "interchange"')
    root = head.root
    if isinstance(root, dict) and isinstance(root.get("turns"), list) and "meta" in root:
        turns = root["turns"][:1]
        if turns and isinstance(turns[0], dict) and "steps" in turns[0]:
            return Match(70, "turns with steps, without the content mark")
    return None


def rejection(document: Any, *, strict: bool = False) -> str | None:
    """Give the code of section 3.2 for a document that is no Interchange v1 document at all.

    Codes: ``top-level-not-object``, ``is-bundle``, ``unknown-marker``, ``unsupported-version``.
    """
    if not isinstance(document, dict):
        return "top-level-not-object"
    if document.get("bundle") == MARKER:
        return "is-bundle"
    if "interchange" not in document:
        return None
    if document["interchange"] != MARKER:
        return "unknown-marker"
    version = document.get("version")
    fits = type(version) is int and version == 1 if strict else _is_one(version)
    return None if fits else "unsupported-version"


def _is_one(value: Any) -> bool:
    """Compare with 1 after JavaScript's numeric coercion: ``"1"``, ``true`` and ``[1]`` fit."""
    for _ in range(jsonio.DEPTH):
        if not isinstance(value, list) or len(value) != 1:
            break
        value = value[0] if not isinstance(value[0], bool) else None
    if isinstance(value, str):
        try:
            return float(value.strip()) == 1
        except ValueError:
            return False
    return isinstance(value, int | float) and value == 1


def _refuse(code: str, document: Any, name: str) -> DcbError:
    if code == "unsupported-version":
        found = document.get("version")
        return UnsupportedVersion(
            f"interchange version {str(found)[:40]!r}; dcb reads version 1",
            path=name,
            position="/version",
        )
    messages = {
        "top-level-not-object": "the document is no JSON object",
        "is-bundle": "this is a bundle, not an interchange document",
        "unknown-marker": "the member interchange names another format",
    }
    hint = "read it with --from dsh-bundle" if code == "is-bundle" else None
    return BadInput(messages[code], path=name, hint=hint)


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of each document; documents without a usable turn are an error."""
    branch = ctx.options.branch
    if isinstance(branch, int) and branch > 0:
        raise BadInput(
            f"no branch {branch}: a document is one conversation",
            path=source.name,
            hint="ask for the branch when its source is read",
        )
    data = source.read()
    session = None if ctx.options.strict else _read_normal(data, ctx)
    if session is not None:
        yield session
        return
    if ctx.options.strict:
        _refuse_duplicates(data, source.name)
    documents = jsonio.load(data, ctx.ledger, path=source.name)
    if len(documents) == 1 and isinstance(documents[0], list) and documents[0]:
        documents = documents[0]
    for index, document in enumerate(documents):
        code = rejection(document, strict=ctx.options.strict)
        if code is not None:
            raise _refuse(code, document, source.name)
        pointer = f"/{index}" if len(documents) > 1 else ""
        found = normalize(document, ctx, pointer=pointer, stem=source.stem)
        if found.turns:
            yield found
        elif len(documents) == 1:
            raise BadInput("no usable turn in it", path=source.name, position="/turns")
        else:
            ctx.ledger.note("empty-session", pointer)


def _read_normal(data: bytes, ctx: Context) -> Session | None:
    """Decode straight into the IR; ``None`` when the document needs any normalisation."""
    try:
        session = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if not is_normal(session):
        return None
    n = count_records(session)
    ctx.ledger.seen(n)
    ctx.ledger.mapped(n)
    return session


def _refuse_duplicates(data: bytes, name: str) -> None:
    repeated = jsonio.duplicate_keys(data)
    if repeated:
        raise BadInput("a member occurs twice in one object", path=name, position=repeated[0])


FORMAT = Format(
    id="interchange",
    title="Interchange v1 document (turns IR)",
    kinds=frozenset({"json"}),
    probe=probe,
    read=read,
    write=write,
    suffix=".json",
    aliases=("generic", "turns"),
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        branches=True,
        attachments=True,
        compacted=True,
        timestamps=True,
        usage=True,
        notes={
            "branches": "in x-dcb",
            "attachments": "in x-dcb",
        },
    ),
)
