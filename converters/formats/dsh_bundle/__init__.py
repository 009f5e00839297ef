"""Portable bundle of a session (``.dshbundle.json``), format ``interchange-v1``, version 1.

One JSON document: ``bundle``, ``format``, ``version``, ``exportedAt``, ``sourceSessionId``,
``title``, ``originalCwd``, ``landingHint``, ``log`` (the text of a DSH session log) and
``sha256 {session, bundle}``. Both fingerprints are checked before anything is read; a bundle
that is not whole is refused. Records of the account are the lines of the log.

``dcb bundle export`` adds ``x-dcb``: ``native`` (the bytes of the source, or of the session's
part of it, gzip and base64) and ``attachments`` (images that the log refers to). This reader
gives the session of the log with those images; ``dcb bundle restore --native`` gives the native
bytes back. Lost when read: what the log itself cannot hold, see ``dcb formats dsh``.

``--strict`` refuses documents with a repeated member.
"""

from __future__ import annotations

import binascii
import hashlib
import io
import re
import zlib
from typing import TYPE_CHECKING, Any, Final

from converters.errors import BadInput, LimitReached
from converters.formats.dsh import read_log
from converters.formats.dsh.attachments import object_hash
from converters.formats.dsh_bundle.document import SUFFIX, failure, parse, verify
from converters.text import units
from converters.turns import title_of
from converters.types import Capabilities, Context, Format, Head, Input, Match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.formats.dsh.attachments import Find
    from converters.ir import Session

__all__ = ["FORMAT", "attached", "attachments", "pieces", "session_of", "unpack"]

_WINDOW: Final = 65536
_MARK: Final = re.compile(r'"(interchange|bundle)"\s*+:\s*+"dsh-chat-import"')
_MAX_FILE: Final = 2 << 30
_PIECE: Final = 1 << 20


def probe(head: Head) -> Match | None:
    """Recognise the content mark of a bundle; the first mark decides (Interchange v1, 3.1)."""
    found = _MARK.search(head.text[:_WINDOW]) if head.mentions("dsh-chat-import") else None
    if found is None or found[1] != "bundle" or units(head.text[: found.end()]) > _WINDOW:
        return None
    return Match(100, 'content mark "bundle"')


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a verified bundle, or nothing when its log holds no conversation.

    Raises :class:`VerifyError` or :class:`UnsupportedVersion` with every code.
    """
    document = parse(source.read(), strict=ctx.options.strict, path=source.name)
    problems = verify(document)
    if problems:
        raise failure(problems, document, source.name)
    session = session_of(document, ctx)
    if session is not None:
        yield session


def session_of(document: dict[str, Any], ctx: Context) -> Session | None:
    """Give the session of a bundle that was verified, images included."""
    log = document["log"].encode("utf-8", "replace")
    name = document.get("sourceSessionId")
    stem = name if isinstance(name, str) and name else "session"
    session = read_log(io.BytesIO(log), ctx, stem=stem, find=attached(document))
    if session is None:
        return None
    title, cwd = document.get("title"), document.get("originalCwd")
    if session.title is None and isinstance(title, str) and title.strip():
        # A title that only repeats the first prompt is the exporter's, not the session's.
        session.title = title if title != title_of(session.turns) else None
    if session.meta.cwd is None and isinstance(cwd, str) and cwd:
        session.meta.cwd = cwd
    return session


def attachments(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the attachments that a bundle carries, as file entries."""
    extra = document.get("x-dcb")
    entries = extra.get("attachments") if isinstance(extra, dict) else None
    return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []


def attached(document: dict[str, Any]) -> Find:
    """Give a look-up of attachment ids among the attachments of a bundle."""
    known: dict[str, dict[str, Any]] = {}
    for entry in attachments(document):
        if isinstance(entry.get("sha256"), str):
            known.setdefault(entry["sha256"], entry)

    def find(attachment_id: str) -> bytes | None:
        digest = object_hash(attachment_id)
        return unpack(known[digest]) if digest is not None and digest in known else None

    return find


def unpack(entry: dict[str, Any], *, path: str | None = None) -> bytes:
    """Give the bytes of a file entry ``{name, sha256, size, data}``.

    Size and sha256 must fit; nothing beyond the stated size is expanded. Raises
    :class:`BadInput`, and :class:`LimitReached` for a file of more than 2 GiB.
    """
    return b"".join(pieces(entry, path=path))


def pieces(entry: dict[str, Any], *, path: str | None = None) -> Iterator[bytes]:
    """Give the bytes of a file entry piece by piece; refuses like :func:`unpack`, at the end."""
    place = str(entry.get("name"))[:60]
    size, data = entry.get("size"), entry.get("data")
    if not isinstance(data, str) or isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise BadInput("a file in the bundle has no data", path=path, position=place)
    if size > _MAX_FILE:
        raise LimitReached(f"a file of {size} bytes in the bundle", path=path, position=place)
    digest, length = hashlib.sha256(), 0
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        packed = binascii.a2b_base64(data, strict_mode=True)
        for found in _inflated(packed, inflater):
            length += len(found)
            if length > size:
                break
            digest.update(found)
            yield found
    except (binascii.Error, ValueError, zlib.error) as error:
        raise BadInput("a file in the bundle is damaged", path=path, position=place) from error
    whole = inflater.eof and not inflater.unused_data and length == size
    if not whole or digest.hexdigest() != entry.get("sha256"):
        raise BadInput("a file in the bundle does not fit its sha256", path=path, position=place)


def _inflated(packed: bytes, inflater: Any) -> Iterator[bytes]:
    for start in range(0, len(packed), _PIECE):
        left = packed[start : start + _PIECE]
        while left:
            yield inflater.decompress(left, _PIECE)
            left = inflater.unconsumed_tail


FORMAT = Format(
    id="dsh-bundle",
    title="Portable session bundle (.dshbundle.json)",
    kinds=frozenset({"json"}),
    probe=probe,
    read=read,
    parent="dsh",
    evidence="A",
    suffix=SUFFIX,
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        cwd=True,
        attachments=True,
        compacted=True,
        timestamps=True,
        usage=True,
        notes={
            "images": "bytes travel in x-dcb.attachments",
            "attachments": "native bytes in x-dcb.native, back with `dcb bundle restore --native`",
        },
    ),
)
