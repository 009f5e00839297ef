"""Writes the bundles of inputs into a folder, again only what changed."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from converters.errors import DcbError, OutputError
from converters.formats.dsh_bundle import document as bundle
from converters.ledger import Ledger, Report
from dcb import envelope, files
from dcb.bundle.drafts import Draft, Job, drafts
from dcb.bundle.manifest import Entry, Manifest, sha256_of, source_of
from dcb.bundle.native import blake3_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.reading import Unit
    from converters.types import Options

__all__ = ["SEALED_SUFFIX", "Exported", "export"]

SEALED_SUFFIX = bundle.SUFFIX + ".sealed"

Status: TypeAlias = Literal["written", "replaced", "unchanged", "failed"]


class Exported(NamedTuple):
    """What became of one session, or of an input that failed (``error``)."""

    source: str
    session_id: str | None
    title: str | None
    path: Path | None
    status: Status
    error: DcbError | None = None


class Origin(NamedTuple):
    """What a session was made from: its source, the blake3 of that, and which one of its id."""

    source: str
    blake3: str
    number: int


def export(
    units: Iterable[Unit],
    folder: Path,
    job: Job,
    *,
    passphrase: str | None = None,
    reports: list[Report] | None = None,
) -> Iterator[Exported]:
    """Write one bundle per session into ``folder`` and keep its index.

    An unchanged source is not written again where its bundle is as it was written; a changed
    one replaces its bundle when the new one is whole. An input or a session that fails is given
    as such and stops nothing; the index says which sources are complete, so that the next run
    tries the others again. With a ``passphrase`` every bundle is sealed. The account of each
    input goes to ``reports``.
    """
    writer = _Writer(folder, job, passphrase)
    try:
        for unit in units:
            ledger = Ledger(unit.input.name)
            yield from writer.unit(unit, ledger)
            if reports is not None:
                reports.append(ledger.report())
    finally:
        writer.manifest.save()


class _Writer:
    """The state of one export into one folder."""

    def __init__(self, folder: Path, job: Job, passphrase: str | None) -> None:
        self._folder = folder
        self._job = job
        self._passphrase = passphrase
        self._suffix = bundle.SUFFIX if passphrase is None else SEALED_SUFFIX
        self._made: set[str] = set()
        self._options = _spelled(job.options)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"cannot use the folder: {error.strerror or error}", path=str(folder)
            ) from error
        self.manifest = Manifest.of(folder)

    def unit(self, unit: Unit, ledger: Ledger) -> Iterator[Exported]:
        """Export the sessions of one input."""
        source = unit.input.name
        try:
            origin = source_of(unit.input)
            known = self._known(unit, origin)
            if known is not None:
                for entry in known:
                    yield self._exported(source, entry.session_id, None, entry.name, "unchanged")
                return
            counts: Counter[str] = Counter()
            names: list[str] | None = []
            for draft, digest in drafts(unit, self._job, ledger):
                number = counts[draft.session_id]
                counts[draft.session_id] += 1
                try:
                    done = self._place(source, draft, Origin(origin, digest, number))
                except DcbError as error:
                    names = None
                    done = Exported(source, draft.session_id, draft.title, None, "failed", error)
                if names is not None and done.path is not None:
                    names.append(done.path.name)
                yield done
        except DcbError as error:
            yield Exported(source, None, None, None, "failed", error)
        else:
            if names is not None and unit.only is None:
                self.manifest.complete(names)

    def _exported(
        self, source: str, session_id: str, title: str | None, name: str, status: Status
    ) -> Exported:
        return Exported(source, session_id, title, self._folder / name, status)

    def _known(self, unit: Unit, source: str) -> list[Entry] | None:
        """Give the entries of a source that is one unchanged file; it need not be read again.

        All of its sessions must be there: what an interrupted run wrote are not all.
        """
        entries = [
            entry
            for entry in self.manifest.of_source(source)
            if entry.sessions and entry.options == self._options
        ]
        if not entries or unit.only is not None or "sqlite" in unit.format.kinds:
            return None
        if any(unit.input.files(pattern) for pattern in unit.format.companions):
            return None
        if unit.input.head.is_dir:
            return None
        digest = blake3_of(unit.input)
        entries = [entry for entry in entries if entry.blake3 == digest]
        if any(entry.sessions != len(entries) for entry in entries):
            return None
        return entries if entries and all(map(self._current, entries)) else None

    def _current(self, entry: Entry) -> bool:
        return (
            entry.dcb == self._job.version
            and entry.options == self._options
            and entry.name.endswith(self._suffix)
            and sha256_of(self._folder / entry.name) == entry.sha256
        )

    def _place(self, source: str, draft: Draft, origin: Origin) -> Exported:
        """Write one bundle where it belongs, if it is not there already."""
        entry = self._entry(source, draft, origin)
        if entry is not None and entry.name.endswith(self._suffix):
            if self._current(entry) and entry.blake3 == origin.blake3:
                return self._exported(
                    source, draft.session_id, draft.title, entry.name, "unchanged"
                )
            data = self._bytes(draft.document)
            files.write_whole(self._folder / entry.name, data, force=True)
            self._note(entry.name, data, draft, origin)
            return self._exported(source, draft.session_id, draft.title, entry.name, "replaced")
        placed = self._new(source, draft, origin)
        if entry is not None:
            # Sealed where it was clear, or the other way: one of the two is enough.
            self._drop(entry)
        return placed

    def _entry(self, source: str, draft: Draft, origin: Origin) -> Entry | None:
        """Find the entry of a session, also one of an earlier version, under the name as given.

        A relative name may have meant another file: only the same content tells that it did not.
        """
        found = self.manifest.find(origin.source, draft.session_id, origin.number)
        if found is None:
            found = self.manifest.find(source, draft.session_id, origin.number)
            if found is None:
                return None
            if not Path(source).is_absolute() and found.blake3 != origin.blake3:
                return None
            self.manifest.adopt(found, origin.source, origin.number)
        return found

    def _drop(self, entry: Entry) -> None:
        """Remove a bundle that has a successor, unless somebody changed it."""
        old = self._folder / entry.name
        if not old.is_symlink() and sha256_of(old) == entry.sha256:
            files.remove(old)

    def _new(self, source: str, draft: Draft, origin: Origin) -> Exported:
        """Write a bundle under a free name."""
        data = self._bytes(draft.document)
        for name in self._names(draft):
            target = self._folder / name
            if not _is_taken(target):
                try:
                    files.write_whole(target, data)
                except OutputError:
                    if not _is_taken(target):
                        raise
                    continue
                self._note(name, data, draft, origin)
                return self._exported(source, draft.session_id, draft.title, name, "written")
            if name not in self.manifest.by_name:
                found = _bytes_of(target)
                if found is not None and self._same(found, draft.document):
                    self._note(name, found, draft, origin)
                    return self._exported(source, draft.session_id, draft.title, name, "unchanged")
        raise AssertionError("names do not end")

    def _names(self, draft: Draft) -> Iterator[str]:
        stem = files.session_name(draft.title, draft.session_id)
        number = 1
        while True:
            name = (stem if number == 1 else f"{stem}-{number}") + self._suffix
            if name.casefold() not in self._made:
                yield name
            number += 1

    def _bytes(self, document: dict[str, Any]) -> bytes:
        data = bundle.text(document)
        if self._passphrase is None:
            return data
        return envelope.seal_fresh(data, self._passphrase).encode("ascii")

    def _same(self, found: bytes, document: dict[str, Any]) -> bool:
        """Whether a file that no index knows is this very bundle, but for the time of export."""
        try:
            if self._passphrase is not None:
                found = envelope.open_envelope(found, self._passphrase)
            other = bundle.parse(found)
        except DcbError:
            return False
        if bundle.verify(other):
            return False
        return bool(_identity(other) == _identity(document))

    def _note(self, name: str, data: bytes, draft: Draft, origin: Origin) -> None:
        """Enter a bundle in the index."""
        self._made.add(name.casefold())
        self.manifest.put(
            Entry(
                name,
                hashlib.sha256(data).hexdigest(),
                draft.session_id,
                origin.source,
                origin.blake3,
                self._job.version,
                self._options,
            ),
            origin.number,
        )


def _spelled(options: Options) -> str:
    """Give what decides which sessions a source gives and what is in them, "" for the defaults."""
    default = type(options)()
    zone = None if options.tz is None else getattr(options.tz, "key", str(options.tz))
    found = {"branch": options.branch, "subagents": options.subagents, "tz": zone}
    return " ".join(f"{k}={v}" for k, v in found.items() if v != getattr(default, k))


def _identity(document: dict[str, Any]) -> Any:
    """Give what makes a bundle the same: its session, and the source that it was made from."""
    extra = document.get("x-dcb")
    if not isinstance(extra, dict):
        return {
            name: value for name, value in document.items() if name not in ("exportedAt", "sha256")
        }
    native = extra.get("native")
    kept = native if isinstance(native, dict) else {}
    return (
        document.get("sourceSessionId"),
        extra.get("dcb"),
        extra.get("blake3"),
        kept.get("pointer"),
        kept.get("kind"),
    )


def _is_taken(path: Path) -> bool:
    """Whether something has a name, be it a link that leads nowhere."""
    return path.exists() or path.is_symlink()


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
