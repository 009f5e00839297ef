"""Where a passphrase comes from: a file, the environment, or a person at the terminal.

Never from an argument, which every process of the machine can read.
"""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from converters.errors import BadInput, UsageError
from dcb.envelope import check_passphrase

__all__ = [
    "VARIABLE",
    "PassphraseAtHandOption",
    "PassphraseOption",
    "passphrase",
    "passphrase_at_hand",
]

VARIABLE: Final = "DCB_PASSPHRASE"
_LIMIT: Final = 64 * 1024

PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help=f"File with the passphrase; else {VARIABLE}, else a prompt.",
    ),
]

PassphraseAtHandOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help=f"File with the passphrase of what is sealed; else {VARIABLE}.",
    ),
]


def passphrase(file: Path | None, *, sealing: bool = False) -> str:
    """Give the passphrase: of the file, of the environment, or typed (twice for ``sealing``).

    :class:`UsageError` when there is nobody to ask; for ``sealing`` a short one is
    refused before anything is read or asked again.
    """
    found = passphrase_at_hand(file)
    if found is None:
        found = _ask(sealing=sealing)
    if not found:
        raise UsageError("the passphrase is empty")
    if sealing:
        check_passphrase(found)
    return found


def passphrase_at_hand(file: Path | None) -> str | None:
    """Give the passphrase of the file or the environment, ``None`` when a person must be asked."""
    if file is not None:
        return _read(file)
    found = os.environ.get(VARIABLE)
    if found and not _is_text(found):
        raise UsageError(f"{VARIABLE} is not valid text in this locale")
    return found or None


def _read(file: Path) -> str:
    """Read a file; one line break at its end does not count."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_LIMIT + 1)
    except OSError as error:
        raise BadInput(
            f"the passphrase cannot be read: {error.strerror}", path=str(file)
        ) from error
    if len(data) > _LIMIT:
        raise BadInput("too long for a passphrase", path=str(file))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput("the passphrase is not UTF-8", path=str(file)) from error
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _is_text(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _ask(*, sealing: bool) -> str:
    if not _somebody():
        raise UsageError(
            "a passphrase is needed, and there is no terminal to ask at",
            hint=f"give --passphrase-file FILE, or set {VARIABLE}",
        )
    try:
        found = getpass.getpass("Passphrase: ")
        if sealing:
            check_passphrase(found)
            if getpass.getpass("Once more: ") != found:
                raise UsageError("the two passphrases differ")
    except EOFError as error:
        raise UsageError("no passphrase was given") from error
    return found


def _somebody() -> bool:
    """Whether a person can be asked: getpass uses the terminal, not stdin."""
    if os.name != "posix":
        return sys.stdin.isatty()
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True
