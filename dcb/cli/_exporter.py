"""The files of ``dcb store export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcb import files, store
from dcb.cli._passphrase import passphrase
from dcb.envelope import is_envelope
from dcb.snapshot.document import parse
from dcb.store.exporting import export_name

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Exporter"]


class Exporter:
    """Writes the files of one export; asks for the passphrase at most once."""

    def __init__(
        self, folder: Path, passphrase_file: Path | None, *, keep_sealed: bool, force: bool
    ) -> None:
        self._folder = folder
        self._file = passphrase_file
        self._keep_sealed = keep_sealed
        self._force = force
        self._secret: str | None = None
        files.make_folder(folder, private=True)

    def put(self, row: store.Row, text: str) -> tuple[Path, str]:
        """Write one snapshot; gives the file and ``wrote`` or ``same``."""
        name = export_name(row.snapshot_id, row.title)
        if is_envelope(text):
            if self._keep_sealed:
                name += ".sealed"
            else:
                if self._secret is None:
                    self._secret = passphrase(self._file)
                text = store.opened(text, row.snapshot_id, self._secret)
                name = export_name(row.snapshot_id, parse(text).meta.title)
        target = self._folder / name
        data = text.encode()
        if not target.is_symlink() and target.is_file() and target.read_bytes() == data:
            return target, "same"
        files.write_whole(target, data, force=self._force, private=row.sealed)
        return target, "wrote"
