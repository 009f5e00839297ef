"""The index of a folder of bundles, ``manifest.json``.

``{"manifest": "dcb-bundles", "version": 1, "bundles": [...]}``; an entry holds ``name``,
``sha256`` (of the file), ``sessionId``, ``source`` (see :func:`source_of`; an earlier version
wrote it as it was named), ``blake3`` (of the source) and ``dcb`` (the version that wrote it);
where the source was not read with the defaults also ``options`` (such as ``branch=all``), and
``sessions``: how many the source gave. That is not there while not all of them are written
(and in an index of an earlier version): such a source is read again. Entries are sorted by name.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os.path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from converters.errors import BadInput
from dcb import files
from dcb.bundle.native import blake3_of
from dcb.locks import held

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from converters.types import Input

__all__ = ["NAME", "Entry", "Manifest", "sha256_of", "source_of"]

NAME: Final = "manifest.json"


class Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    """One bundle."""

    name: str
    sha256: str
    session_id: str
    source: str
    blake3: str
    dcb: str
    options: str = ""
    sessions: int = 0


class _Document(msgspec.Struct):
    manifest: Literal["dcb-bundles"] = "dcb-bundles"
    version: Literal[1] = 1
    bundles: list[Entry] = []


class _Written(msgspec.Struct):
    manifest: str
    version: int
    bundles: list[Entry]


def source_of(item: Input) -> str:
    """Give the name of an input that no other input has, from whatever folder it is named.

    A file or folder of this machine has its absolute path, a member of an archive that of the
    archive before its own. Standard input has no place: its content names it.
    """
    name = item.name
    if item.path is not None:
        return os.path.realpath(item.path)
    if name == "-" or name.startswith("-!"):
        return f"{name}#{blake3_of(item)}"
    end = len(name)
    while end > 0 and "://" not in name:
        if os.path.exists(name[:end]):  # noqa: PTH110 - Path raises for names that are too long
            return os.path.realpath(name[:end]) + name[end:]
        end = name.rfind("!", 0, end)
    return name


class Manifest:
    """The entries of a folder, by name and by what they were made from."""

    def __init__(self, folder: Path, entries: list[Entry] | None = None) -> None:
        self._folder = folder
        self.by_name: dict[str, Entry] = {}
        self._by_origin: dict[tuple[str, str, int], Entry] = {}
        self._changed = False
        self._counts: dict[tuple[str, str], int] = {}
        for entry in entries or ():
            self._add(entry)
        self._before = {name: copy.copy(entry) for name, entry in self.by_name.items()}

    @classmethod
    def of(cls, folder: Path) -> Manifest:
        """Read the index of a folder from the disk. Raises :class:`BadInput`."""
        index = folder / NAME
        try:
            data = index.read_bytes() if index.is_file() else None
        except OSError as error:
            raise BadInput(error.strerror or "cannot be read", path=str(index)) from error
        return cls.load(folder, data)

    @classmethod
    def load(cls, folder: Path, data: bytes | None) -> Manifest:
        """Read the index of a folder; ``None``: there is none. Raises :class:`BadInput`."""
        if data is None:
            return cls(folder)
        try:
            # The names of files can hold bytes that are no UTF-8, which msgspec does not take.
            document = msgspec.convert(json.loads(data), _Document)
        except (ValueError, RecursionError) as error:
            raise BadInput(
                f"the index of the bundles is damaged: {error}"[:200],
                path=str(folder / NAME),
                hint="remove it; the next export makes it anew from the bundles",
            ) from error
        for entry in document.bundles:
            # A name that leads elsewhere would let an index replace files outside its folder.
            if not entry.name.strip(".") or any(c in entry.name for c in "/\\:\0"):
                raise BadInput(
                    f"the index of the bundles names no file of its folder: {entry.name[:60]!r}",
                    path=str(folder / NAME),
                    hint="remove it; the next export makes it anew from the bundles",
                )
        return cls(folder, document.bundles)

    def _add(self, entry: Entry) -> None:
        origin = entry.source, entry.session_id
        number = self._counts.get(origin, 0)
        self._counts[origin] = number + 1
        self.by_name[entry.name] = entry
        self._by_origin[(*origin, number)] = entry

    def find(self, source: str, session_id: str, number: int) -> Entry | None:
        """Give the entry of the ``number``-th session of an id in a source."""
        return self._by_origin.get((source, session_id, number))

    def adopt(self, entry: Entry, source: str, number: int) -> None:
        """Give an entry the name that its source has now."""
        self._by_origin.pop((entry.source, entry.session_id, number), None)
        entry.source = source
        self._by_origin[(source, entry.session_id, number)] = entry
        self._changed = True

    def of_source(self, source: str) -> list[Entry]:
        """Give all entries of a source."""
        return [entry for entry in self.by_name.values() if entry.source == source]

    def put(self, entry: Entry, number: int) -> None:
        """Add an entry, or replace the one of the same origin."""
        origin = entry.source, entry.session_id, number
        old = self._by_origin.get(origin)
        if old is not None and old.name != entry.name:
            self.by_name.pop(old.name, None)
        self._by_origin[origin] = entry
        self.by_name[entry.name] = entry
        self._changed = True

    def complete(self, names: Collection[str]) -> None:
        """Note that these are the bundles of all the sessions of a source."""
        for name in names:
            entry = self.by_name.get(name)
            if entry is not None and entry.sessions != len(names):
                entry.sessions = len(names)
                self._changed = True

    def save(self) -> None:
        """Write the index if anything changed, whole or not at all.

        What another export wrote into it meanwhile stays.
        """
        if not self._changed:
            return
        with held(self._folder):
            found = self._merged(Manifest.of(self._folder).by_name)
            entries = [found[name] for name in sorted(found)]
            files.write_whole(self._folder / NAME, _text(entries) + b"\n", force=True)
        self._changed = False

    def _merged(self, theirs: dict[str, Entry]) -> dict[str, Entry]:
        """Put the changes made here into the entries that are on the disk now."""
        if not theirs:
            return self.by_name
        found = dict(theirs)
        for name in self._before.keys() | self.by_name.keys():
            before, mine = self._before.get(name), self.by_name.get(name)
            if mine == before:
                continue
            same = theirs.get(name) == before
            if mine is None:
                if same:
                    found.pop(name, None)
            elif same or sha256_of(self._folder / name) == mine.sha256:
                # Of two that wrote one bundle, the entry of the later one is right.
                found[name] = mine
        return found


def sha256_of(path: Path) -> str | None:
    """Give the hash of a bundle as it stands; ``None`` for one that is gone or cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def _text(entries: list[Entry]) -> bytes:
    """Give an index as JSON; a byte of a name that is no UTF-8 becomes an escape, ff U+DCFF."""
    document = _Written("dcb-bundles", 1, entries)
    try:
        return msgspec.json.format(msgspec.json.encode(document), indent=2)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(document), indent=2).encode("ascii")
