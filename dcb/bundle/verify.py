"""Checks bundles and folders of bundles."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.errors import BadInput, DcbError
from converters.formats.dsh_bundle import document as bundle
from converters.formats.dsh_bundle import pieces
from dcb.bundle.manifest import NAME as INDEX
from dcb.bundle.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from converters.types import Input

__all__ = [
    "INDEX",
    "Checked",
    "SealedBundle",
    "check_folder",
    "check_input",
    "is_bundle_name",
    "load",
]

SUFFIXES: Final = (bundle.SUFFIX, bundle.SUFFIX + ".sealed")


class SealedBundle(BadInput):
    """A sealed bundle, and no passphrase was given."""

    code = "sealed"


class Checked(NamedTuple):
    """What a check found in one file: no problem codes, it is whole.

    Codes are those of :func:`converters.formats.dsh_bundle.document.verify`, and
    ``not-json``, ``sealed``, ``open-failed``, ``native-damaged``; for a folder with an
    index also ``missing``, ``extra`` and ``changed``.
    """

    name: str
    problems: list[str]
    session_id: str | None = None
    sha256: str | None = None


def is_bundle_name(name: str) -> bool:
    """Whether a file is a bundle by its name, in any case."""
    return name.lower().endswith(SUFFIXES)


def load(source: Input, passphrase: str | None, *, strict: bool = False) -> tuple[Any, bytes]:
    """Give ``(parsed document, bytes of the file)``; a sealed one is opened.

    The file is read once: what is verified is what is used. Raises :class:`DcbError`.
    """
    raw = source.read()
    data = raw
    if raw.startswith(b"dcb"):
        if passphrase is None:
            raise SealedBundle(
                "the bundle is sealed", path=source.name, hint="give --passphrase-file"
            )
        from dcb import envelope

        try:
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            data = envelope.open_envelope(line, passphrase)
        except DcbError as error:
            error.path = source.name
            raise
    return bundle.parse(data, strict=strict, path=source.name), raw


def check_input(source: Input, passphrase: str | None = None, *, strict: bool = False) -> Checked:
    """Check one bundle: its form, both fingerprints, and every file that it carries."""
    try:
        document, raw = load(source, passphrase, strict=strict)
    except DcbError as error:
        code = "not-json" if type(error) is BadInput else error.code
        return Checked(source.name, [code])
    problems = bundle.verify(document)
    name = document.get("sourceSessionId") if isinstance(document, dict) else None
    if not problems:
        problems = ["native-damaged"] if _is_damaged(document) else []
    return Checked(
        source.name,
        problems,
        name if isinstance(name, str) else None,
        hashlib.sha256(raw).hexdigest(),
    )


def entries(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give every file that a bundle carries: native ones, then attachments."""
    extra = document.get("x-dcb")
    extra = extra if isinstance(extra, dict) else {}
    native = extra.get("native")
    for held in (
        native.get("files") if isinstance(native, dict) else None,
        extra.get("attachments"),
    ):
        for entry in held if isinstance(held, list) else ():
            if isinstance(entry, dict):
                yield entry


def _is_damaged(document: dict[str, Any]) -> bool:
    try:
        for entry in entries(document):
            for _ in pieces(entry):
                pass
    except DcbError:
        return True
    return False


def check_folder(
    folder: Path, names: Iterable[str], checked: dict[str, Checked]
) -> Iterator[Checked]:
    """Compare a folder with its index.

    ``names`` are the bundle files in it, ``checked`` what :func:`check_input` found, by
    name. Gives one more :class:`Checked` for each file that is missing, extra or changed;
    nothing without an index. Raises :class:`BadInput` for a damaged index.
    """
    index = folder / INDEX
    try:
        data = index.read_bytes() if index.is_file() else None
    except OSError as error:
        raise BadInput(error.strerror or "cannot be read", path=str(index)) from error
    if data is None:
        return
    manifest = Manifest.load(folder, data)
    present = set(names)
    for name, entry in sorted(manifest.by_name.items()):
        if name not in present:
            yield Checked(str(folder / name), ["missing"], entry.session_id)
        elif name in checked and checked[name].sha256 not in (None, entry.sha256):
            yield Checked(str(folder / name), ["changed"], entry.session_id)
    for name in sorted(present - manifest.by_name.keys()):
        yield Checked(str(folder / name), ["extra"])
