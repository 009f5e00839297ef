"""From an input to the bundles of its sessions: the log, the native bytes, the attachments."""

from __future__ import annotations

import contextlib
import posixpath
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from converters.errors import DcbError
from converters.formats.dsh.attachments import object_hash, object_path, references, store_images
from converters.formats.dsh.events import build
from converters.formats.dsh.write import account, session_text
from converters.formats.dsh_bundle import document as bundle
from converters.ir import Image
from converters.ledger import Ledger
from converters.opening import Memory
from converters.reading import Unit, read_unit
from converters.turns import title_of
from converters.types import Context, Options
from dcb.bundle import rows
from dcb.bundle.native import Recorder, file_entry, plain_name, plain_path, relative_names, tail
from dcb.bundle.slices import (
    Known,
    Part,
    digest_of,
    known_of,
    parts,
    read_alone,
    root_id,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Block, Session
    from converters.types import Input

__all__ = ["Draft", "Job", "drafts", "log_of"]


class Draft(NamedTuple):
    """A bundle that waits for its name: the sealed document of one session."""

    session_id: str
    title: str | None
    document: dict[str, Any]


class Job(NamedTuple):
    """What is the same for every bundle of a run. ``now_ms`` becomes ``exportedAt``."""

    now_ms: int
    version: str
    options: Options


def drafts(unit: Unit, job: Job, ledger: Ledger) -> Iterator[tuple[Draft, str]]:
    """Give ``(draft, blake3 of the source)`` for each session of an input.

    A bundle goes through unchanged. Raises :class:`DcbError` like the reader.
    """
    recorder = Recorder(unit.input)
    unit = unit._replace(input=recorder)
    if unit.format.id == "dsh-bundle":
        yield _unchanged(recorder, job), recorder.opened.digest()
        return
    maker = _Maker(unit, recorder, job, ledger)
    sessions = maker.read(ledger)
    first, second = next(sessions, None), None
    if first is not None:
        second = next(sessions, None)
    if first is None:
        return
    found = (
        maker.single(first) if second is None else maker.several(chain([first, second], sessions))
    )
    for draft in found:
        yield draft, maker.digest
    for item in maker.unopened():
        ledger.note("companion-dropped", item.name)


def _unchanged(recorder: Recorder, job: Job) -> Draft:
    """Give a bundle as it is; raises the failure of one that is not whole."""
    document = bundle.parse(recorder.read(), strict=job.options.strict, path=recorder.name)
    problems = bundle.verify(document)
    if problems:
        raise bundle.failure(problems, document, recorder.name)
    name, title = document.get("sourceSessionId"), document.get("title")
    return Draft(
        name if isinstance(name, str) and name else recorder.stem,
        title if isinstance(title, str) else None,
        document,
    )


class _Maker:
    """Makes the bundles of one input."""

    def __init__(self, unit: Unit, recorder: Recorder, job: Job, ledger: Ledger) -> None:
        self._unit = unit
        self._recorder = recorder
        self._job = job
        self._ledger = ledger
        self._digest: str | None = None

    @property
    def digest(self) -> str:
        """The blake3 of the source; known when reading is done."""
        if self._digest is None:
            self._digest = self._recorder.opened.digest()
        return self._digest

    def read(self, ledger: Ledger | None = None) -> Iterator[Session]:
        """Read the input; only the first reading goes into the account."""
        ledger = ledger or Ledger(itemize=False)
        return read_unit(self._unit, Context(ledger, self._job.options, self._job.now_ms))

    def unopened(self) -> Iterator[Input]:
        """Give the companions that nobody opened so far, but subagents that are not wanted.

        What lies beside an export in parts counts for its parts, not for other files there.
        """
        record, opened = self._unit.format, self._recorder.opened
        seen = set(map(plain_path, (self._recorder.name, *opened.files, *opened.databases)))
        if record.series and not self._is_part():
            return
        for pattern in record.companions:
            for item in () if pattern in record.series else self._recorder.files(pattern):
                path = plain_path(item.name)
                if path in seen:
                    continue
                seen.add(path)
                skipped = self._job.options.subagents == "skip"
                if not (skipped and record.probe(item.head)):
                    yield item

    def _is_part(self) -> bool:
        name = self._recorder.name
        found = map(self._recorder.files, self._unit.format.series)
        return any(item.name == name for items in found for item in items)

    def _take_companions(self) -> None:
        """Read the companions that the reader did not need: they belong to the session too.

        Those of an export in parts belong to the export, which holds other sessions.
        """
        if self._unit.format.series:
            return
        self._digest = None
        for item in self.unopened():
            # One that cannot be read is named in the end, with all that stayed out.
            with contextlib.suppress(DcbError):
                item.read()

    # -- one session -----------------------------------------------------------

    def single(self, session: Session) -> Iterator[Draft]:
        """Give the bundle of the only session of an input."""
        if self._recorder.opened.databases:
            yield from self._of_database([known_of(session)], iter([session]))
        elif (text := self._own_log()) is not None:
            entries = self._attachments_of_log(text)
            name = self._log_name(session)
            native = {"format": "dsh", "kind": "log", "name": name}
            yield self._draft(session, text, native, entries)
        else:
            self._take_companions()
            yield self._from_ir(session, self._whole())

    def _own_log(self) -> str | None:
        """Give the text of a DSH log, which goes in unchanged; ``None`` for anything else."""
        if self._unit.format.id != "dsh":
            return None
        try:
            return self._recorder.read().decode("utf-8")
        except UnicodeDecodeError:
            return None

    def _log_name(self, session: Session) -> str:
        path = next(iter(relative_names([self._recorder.name], "/").values()))
        folder, _, name = path.rpartition("/")
        name = plain_name(name, b"")
        above = posixpath.basename(folder) if name.startswith("session.") else ""
        return posixpath.join(above or session.meta.id, name) if above else name

    def _attachments_of_log(self, text: str) -> list[dict[str, Any]]:
        """Give what the log refers to and the store had when it was read."""
        if '"attachmentId"' not in text:
            return []
        wanted = {
            digest: None
            for line in text.split("\n")
            if '"attachmentId"' in line
            for reference in references(_events_of(line))
            if (digest := object_hash(reference.get("attachmentId"))) is not None
        }
        found = []
        for name, item in self._recorder.opened.files.items():
            for digest in wanted:
                if digest in name:
                    found.append(_attachment(digest, item.read()))
                    break
        return found

    # -- several sessions ------------------------------------------------------

    def several(self, sessions: Iterator[Session]) -> Iterator[Draft]:
        """Give the bundles of an input with many sessions: read twice, one session at a time."""
        known = [known_of(session) for session in sessions]
        if self._recorder.opened.databases:
            yield from self._of_database(known, self.read())
            return
        root = root_id(known)
        if root is not None:
            yield from self._family(root, self.read())
            return
        done = 0
        for session, part, index in self._sliced(known):
            yield self._from_ir(session, self._slice(part, index))
            done += 1
        if done < len(known):
            rest = (session for n, session in enumerate(self.read()) if n >= done)
            yield from self._family(known[done].id, rest)

    def _family(self, root: str, sessions: Iterator[Session]) -> Iterator[Draft]:
        """Give the files to the bundle of the root; the others say where they are."""
        self._take_companions()
        given = False
        for session in sessions:
            if session.meta.id == root and not given:
                given = True
                yield self._from_ir(session, self._whole())
            else:
                # Its own reader cannot read it without the files of the root.
                whole = file_entry("session.json", msgspec.json.encode(session))
                native = {**self._native("part"), "of": root}
                yield self._from_ir(session, {**native, "files": [whole]})

    def _sliced(self, known: list[Known]) -> Iterator[tuple[Session, Part, int]]:
        """Give sessions with the part that holds them, as long as the parts give the same."""
        done = 0
        try:
            for part in parts(self._recorder):
                source = Memory(wrapped(part), self._recorder.name)
                found = read_alone(source, self._unit.format, self._job.options, self._job.now_ms)
                for index, session in enumerate(found):
                    if done >= len(known) or digest_of(session) != known[done].digest:
                        return
                    session.meta.id = known[done].id
                    done += 1
                    yield session, part, index
        except DcbError:
            return

    def _slice(self, part: Part, index: int) -> dict[str, Any]:
        suffix = "jsonl" if part.kind == "line" else "json"
        native = {**self._native(part.kind), "pointer": part.pointer}
        if part.wrap is not None:
            native["wrap"] = part.wrap
        if index:
            native["index"] = index
        return {**native, "files": [file_entry(f"session.{suffix}", part.data)]}

    def _of_database(self, known: list[Known], sessions: Iterator[Session]) -> Iterator[Draft]:
        """Give each session the rows that it takes to read it, as JSON."""
        slicers = [
            (name, rows.Slices(_dump(item), [k.id for k in known]))
            for name, item in self._recorder.opened.databases.items()
        ]
        names = relative_names([self._recorder.name, *self._recorder.opened.databases])
        for number, session in enumerate(sessions):
            found = {name: slicer.of(session.meta.id) for name, slicer in slicers}
            if not self._rows_suffice(found, known[number]):
                found = {name: _dump(self._recorder.opened.databases[name]) for name, _ in slicers}
            entries = [
                file_entry(f"{names[name]}.rows.json", msgspec.json.encode(tables))
                for name, tables in found.items()
            ]
            yield self._from_ir(session, {**self._native("rows"), "files": entries})

    def _rows_suffice(self, found: dict[str, list[rows.Table]], known: Known) -> bool:
        """Whether a database of the rows alone gives the same session."""
        if len(found) != 1 or len(self._recorder.opened.files) > 0:
            return True
        try:
            data = rows.rebuild(next(iter(found.values())))
        except DcbError:
            return False
        source = Memory(data, self._recorder.name)
        again = read_alone(source, self._unit.format, self._job.options, self._job.now_ms)
        return any(s.meta.id == known.id and digest_of(s) == known.digest for s in again)

    def _native(self, kind: str) -> dict[str, Any]:
        """Give the members that every kind has; readers take ids and more out of a path."""
        path = tail(self._recorder.name)
        return {"format": self._unit.format.id, "kind": kind, "path": path}

    def _whole(self) -> dict[str, Any]:
        """Give every file that was opened, the input itself first.

        A companion can be the input once more, compressed (Codex): that one is left out.
        """
        opened = self._recorder.opened.files
        base = self._recorder.name if self._recorder.head.is_dir else None
        names = relative_names(opened, base)
        order = sorted(opened, key=lambda name: name != self._recorder.name)
        entries: dict[str, dict[str, Any]] = {}
        for name in order:
            data = opened[name].read()
            called = plain_name(names[name], data)
            entry = file_entry(called, data)
            if called not in entries:
                entries[called] = entry
            elif entries[called]["sha256"] != entry["sha256"]:
                entries[names[name]] = {**entry, "name": names[name]}
        native = self._native("files")
        if self._recorder.name not in opened:
            native["folder"] = posixpath.basename(native["path"]) or "session"
        elif self._recorder.nested and len(entries) > 1:
            native["nested"] = True
        return {**native, "files": list(entries.values())}

    # -- the document ----------------------------------------------------------

    def _from_ir(self, session: Session, native: dict[str, Any]) -> Draft:
        text, objects = log_of(session, self._job.now_ms, self._ledger)
        entries = [_attachment(digest, data) for digest, data in objects.items()]
        return self._draft(session, text, native, entries)

    def _draft(
        self,
        session: Session,
        log: str,
        native: dict[str, Any],
        attachments: list[dict[str, Any]],
    ) -> Draft:
        title = title_of(session.turns, session.title)
        extra: dict[str, Any] = {"dcb": self._job.version, "blake3": self.digest}
        zone = getattr(self._job.options.tz, "key", None)
        if zone:
            native = {**native, "tz": zone}
        extra["native"] = native
        if attachments:
            extra["attachments"] = attachments
        document = bundle.make(
            log,
            exported_at=self._job.now_ms,
            source_session_id=session.meta.id,
            title=title,
            cwd=session.meta.cwd,
            extra=extra,
        )
        return Draft(session.meta.id, title, document)


def log_of(session: Session, now_ms: int, ledger: Ledger) -> tuple[str, dict[str, bytes]]:
    """Give ``(log, images by sha256)`` of a session: generation 4 where it has images, else 3."""
    generation = 4 if _has_image(session) else 3
    start = session.meta.created_at
    built = build(
        session,
        generation=4 if generation == 4 else 3,
        created_at=start if start is not None else now_ms,
        title=session.title,
    )
    objects, degraded = store_images(built.events, generation=generation)
    header: dict[str, Any] = {"type": "session", "id": session.meta.id}
    if session.meta.cwd:
        header["cwd"] = session.meta.cwd
    if start is not None:
        header["createdAt"] = start
    account(session, built, ledger, degraded=degraded, header=header)
    return session_text(header, built.events).decode("utf-8", "replace"), objects


def _has_image(session: Session) -> bool:
    def holds(blocks: list[Block] | None) -> bool:
        return any(isinstance(block, Image) for block in blocks or ())

    return any(
        holds(turn.prompt_blocks)
        or any(
            holds(step.content) or any(holds(r.content) for r in step.tool_results)
            for step in turn.steps
        )
        for turn in session.turns
    )


def _events_of(line: str) -> list[dict[str, Any]]:
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [event] if isinstance(event, dict) else []


def _attachment(digest: str, data: bytes) -> dict[str, Any]:
    # Images are packed already: trying harder only costs time.
    return file_entry(object_path(digest), data, level=1)


def _dump(item: Any) -> list[rows.Table]:
    connection = item.database()
    try:
        return rows.dump(connection)
    finally:
        connection.close()
