"""The bundle document: serialising, sealing and verifying. Pure functions over parsed JSON.

Source: Interchange v1, sections 7.2 to 7.5. dcb adds the member ``x-dcb`` before ``sha256``;
the bundle fingerprint covers it, and the reference ignores it.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from converters import jsonio
from converters.canonical import js_dumps
from converters.errors import BadInput, UnsupportedVersion, VerifyError
from converters.formats.dsh.write import session_log
from converters.ir import MARKER
from converters.text import JS_SPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "FORMAT_NAME",
    "SUFFIX",
    "failure",
    "fingerprint",
    "landing_hint",
    "log_fingerprint",
    "make",
    "parse",
    "seal",
    "serialize",
    "text",
    "verify",
]

SUFFIX: Final = ".dshbundle.json"
FORMAT_NAME: Final = "interchange-v1"
_TEXT: Final = re.compile(f"[^{JS_SPACE}]")
_PIECE: Final = 1 << 18
_INDEX: Final = re.compile(r"[0-9]+\Z", re.ASCII)
_ENDS: Final = "/\\"


def landing_hint(cwd: str | None) -> str | None:
    """Give the last piece of a path of any platform, ``None`` when nothing is left."""
    if not isinstance(cwd, str):
        return None
    return re.split(r"[/\\]", cwd.rstrip(_ENDS))[-1] or None


def serialize(
    meta: Mapping[str, Any],
    events: Iterable[Mapping[str, Any]],
    *,
    exported_at: int,
    source_session_id: str,
    title: str | None = None,
    cwd: str | None = None,
) -> dict[str, Any]:
    """Give the sealed bundle of a header and events, as the reference makes it."""
    header_cwd = meta.get("cwd")
    return make(
        session_log(meta, (dict(event) for event in events)),
        exported_at=exported_at,
        source_session_id=source_session_id,
        title=title,
        cwd=cwd or (header_cwd if isinstance(header_cwd, str) else None),
    )


def make(
    log: str,
    *,
    exported_at: int,
    source_session_id: str,
    title: str | None = None,
    cwd: str | None = None,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Give the sealed bundle of a log; ``extra`` becomes ``x-dcb``. ``exported_at`` in ms."""
    cwd = cwd if isinstance(cwd, str) and cwd else None
    document: dict[str, Any] = {
        "bundle": MARKER,
        "format": FORMAT_NAME,
        "version": 1,
        "exportedAt": exported_at,
        "sourceSessionId": source_session_id,
    }
    if title:
        document["title"] = title
    document |= {"originalCwd": cwd, "landingHint": landing_hint(cwd), "log": log}
    if extra:
        document["x-dcb"] = extra
    return seal(document)


def seal(document: dict[str, Any]) -> dict[str, Any]:
    """Give the document with fresh fingerprints as its last member."""
    body = {name: value for name, value in document.items() if name != "sha256"}
    body["sha256"] = {"session": log_fingerprint(body.get("log"))}
    body["sha256"]["bundle"] = fingerprint(body)
    return body


def text(document: dict[str, Any]) -> bytes:
    """Give the bytes of the file: indented by 2, with a final LF."""
    try:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return js_dumps(document).encode() + b"\n"


def log_fingerprint(log: Any) -> str:
    """Give the SHA-256 of a log; what is no text is hashed as JavaScript converts it."""
    data = log if isinstance(log, str) else js_dumps(log)
    digest = hashlib.sha256()
    for piece in _pieces(data):
        digest.update(piece.encode("utf-8", "replace"))
    return digest.hexdigest()


def _pieces(text: str) -> Iterator[str]:
    """Give a text in pieces: the memory of small ones is used again and again."""
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def fingerprint(document: Mapping[str, Any]) -> str:
    """Give ``sha256.bundle``: SHA-256 over the canonical JSON of the document.

    Members in document order without ``sha256``, then ``sha256`` without its
    ``bundle``; written like ``JSON.stringify``.
    """
    body = {name: value for name, value in document.items() if name != "sha256"}
    seals = document.get("sha256")
    if isinstance(seals, dict):
        seals = {name: value for name, value in seals.items() if name != "bundle"}
    body["sha256"] = seals
    digest = hashlib.sha256()
    if any(_INDEX.match(name) for name in body):
        # Names that are array indexes come first: leave the order to the serialiser.
        digest.update(js_dumps(body).encode())
        return digest.hexdigest()
    lead = b"{"
    for name, value in body.items():
        digest.update(lead + js_dumps(name).encode() + b":")
        if isinstance(value, str) and len(value) > _PIECE:
            digest.update(b'"')
            for piece in _pieces(value):
                digest.update(memoryview(_quoted(piece))[1:-1])
            digest.update(b'"')
        else:
            digest.update(js_dumps(value).encode())
        lead = b","
    digest.update(b"}")
    return digest.hexdigest()


def _quoted(text: str) -> bytes:
    try:
        return orjson.dumps(text)
    except TypeError:
        return js_dumps(text).encode()


def parse(data: bytes | str, *, strict: bool = False, path: str | None = None) -> Any:
    """Parse a bundle file exactly, repairing nothing.

    ``strict`` refuses repeated members. Raises :class:`BadInput`.
    """
    try:
        value = orjson.loads(data)
    except ValueError:
        try:
            value = jsonio.loads_exact(data)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"the bundle is not JSON: {error}"[:200], path=path) from error
    if strict:
        repeated = jsonio.duplicate_keys(data.encode() if isinstance(data, str) else data)
        if repeated:
            raise BadInput("a member occurs twice in one object", path=path, position=repeated[0])
    return value


def verify(document: Any) -> list[str]:
    """Give the codes of everything that is wrong, in the order of the reference; empty: whole.

    ``not-object`` alone; else ``namespace``, ``format``, ``version``, ``log-missing``, and
    ``sha256-missing`` or ``session-fingerprint-mismatch`` and ``bundle-fingerprint-mismatch``.
    """
    if not isinstance(document, dict | list):
        return ["not-object"]
    found = document if isinstance(document, dict) else {}
    problems = []
    if found.get("bundle") != MARKER:
        problems.append("namespace")
    if found.get("format") != FORMAT_NAME:
        problems.append("format")
    version = found.get("version")
    if isinstance(version, bool) or not isinstance(version, int | float) or version != 1:
        problems.append("version")
    log = found.get("log")
    if not isinstance(log, str) or not _TEXT.search(log):
        problems.append("log-missing")
    seals = found.get("sha256")
    if not isinstance(seals, dict):
        return [*problems, "sha256-missing"]
    if seals.get("session") != log_fingerprint(log):
        problems.append("session-fingerprint-mismatch")
    if seals.get("bundle") != fingerprint(found):
        problems.append("bundle-fingerprint-mismatch")
    return problems


_PLACES: Final = {
    "namespace": "bundle",
    "format": "format",
    "version": "version",
    "log-missing": "log",
    "sha256-missing": "sha256",
    "session-fingerprint-mismatch": "sha256.session",
    "bundle-fingerprint-mismatch": "sha256.bundle",
}


def failure(
    problems: list[str], document: Any, path: str | None
) -> VerifyError | UnsupportedVersion:
    """Give the error for a bundle that :func:`verify` refuses; it names every code."""
    place = _PLACES.get(problems[0])
    if "version" in problems and "namespace" not in problems:
        found = document.get("version")
        return UnsupportedVersion(
            f"bundle version {str(found)[:40]!r}; dcb reads version 1",
            path=path,
            position="version",
        )
    return VerifyError(
        f"the bundle is not whole: {', '.join(problems)}",
        path=path,
        position=place,
        hint="take another copy; nothing in it can be trusted",
    )
