"""The store as commands open it: its place, its history, how it seals."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from converters.errors import UsageError
from dcb.cli import _run
from dcb.cli._passphrase import passphrase
from dcb.cli._settings import current, store_home
from dcb.history import open_history
from dcb.store import Sealing, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dcb.store import Store

__all__ = [
    "IndexOption",
    "MetadataOption",
    "SealOption",
    "chosen_sealing",
    "now_ms",
    "opened_store",
]

SealOption = Annotated[
    bool | None, typer.Option("--seal/--no-seal", help="Keep the text encrypted.")
]
MetadataOption = Annotated[
    bool | None,
    typer.Option("--seal-metadata/--no-seal-metadata", help="Hide title and tags too."),
]
IndexOption = Annotated[
    bool | None,
    typer.Option("--index-plaintext/--no-index-plaintext", help="Index sealed text in clear."),
]


def now_ms() -> int:
    """Give the time in milliseconds."""
    return time.time_ns() // 1_000_000


@contextlib.contextmanager
def opened_store(*, create: bool = True) -> Iterator[Store]:
    """Open the store with its history; what went wrong beside the work is said at the end."""
    home = store_home()
    history = None
    if current().history:
        history = open_history(home / "snapshots", environ=os.environ)
        if history is None and create:
            _run.say("note: history is off, git is not installed")
    with open_store(home, history=history, now_ms=now_ms(), create=create) as store:
        yield store
        for warning in store.warnings:
            _run.say(f"warning: {_run.printable(str(warning))}")
            if warning.hint:
                _run.say(f"hint: {warning.hint}")


def chosen_sealing(
    passphrase_file: Path | None,
    *,
    seal: bool | None = None,
    metadata: bool | None = None,
    index: bool | None = None,
) -> Sealing | None:
    """Give how to seal by options and settings, ``None`` for clear text.

    ``--seal-metadata`` seals, whatever the settings say; :class:`UsageError` beside ``--no-seal``.
    """
    if metadata and seal is False:
        raise UsageError("--seal-metadata hides nothing with --no-seal: give one of them")
    chosen = current()
    hide = chosen.seal_metadata if metadata is None else metadata
    wanted = seal if seal is not None else bool(metadata) or chosen.seal
    if not wanted:
        return None
    secret = passphrase(passphrase_file, sealing=True)
    return Sealing(
        secret,
        metadata=hide,
        index=chosen.index_plaintext if index is None else index,
    )
