"""Convert the transcripts of AI chat and coding tools to and from the turns IR.

The public API: :func:`detect`, :func:`read`, :func:`write`, :func:`convert` and
:func:`formats`. Bad input raises :class:`DcbError`; anything else is a bug.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# The package of format modules is loaded (empty) before the function of the same name is bound,
# so that a later import of one of them does not put the package in the function's place.
import converters.formats  # noqa: F401
from converters.errors import DcbError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

    from converters.detection import Candidate
    from converters.ir import Session
    from converters.ledger import Report
    from converters.reading import Reading
    from converters.types import Format, Options, Sink

__all__ = ["DcbError", "convert", "detect", "formats", "read", "write"]


def detect(source: str | Path | bytes) -> list[Candidate]:
    """Give the formats that claim a file, folder or bytes, best first, with scores and reasons.

    Empty when none does. Raises :class:`DcbError` when the source cannot be opened.
    """
    from converters import detection, opening

    return detection.rank(opening.head_of(source))


def read(
    source: str | Path, *, from_: str | None = None, options: Options | None = None
) -> Reading:
    """Give the sessions of a file, folder or archive, one by one.

    ``from_`` names a format or group; without it the content decides. Iterate over the
    result; afterwards ``.report`` accounts for every record and ``.problems`` holds the
    errors of single entries of a folder or archive. An error of a source that is one
    file is raised.
    """
    from converters.reading import Reading

    return Reading(source, from_=from_, options=options)


def write(sessions: Iterable[Session], sink: Sink | BinaryIO, *, to: str, **options: Any) -> Report:
    """Write sessions in a format to anything with ``write(bytes)``; give the account of items.

    ``options`` are those that the format declares (``dcb formats NAME``).
    Raises :class:`DcbError` for an unknown format or option.
    """
    from converters.writing import write as write_

    return write_(sessions, sink, to=to, options=options)


def convert(
    source: str | Path,
    sink: Sink | BinaryIO,
    *,
    to: str,
    from_: str | None = None,
    options: Options | None = None,
) -> Report:
    """Read a source and write its sessions in another format; give the account of both.

    Entries of a folder or archive that cannot be read are left out; use :func:`read`
    and :func:`write` to see them.
    """
    from converters.ledger import merge

    reading = read(source, from_=from_, options=options)
    written = write(reading, sink, to=to)
    written.sessions = 0
    return merge([*reading.reports, written], str(source))


def formats() -> tuple[Format, ...]:
    """Give the record of every format, sorted by id."""
    from converters.registry import all_formats

    return all_formats()
