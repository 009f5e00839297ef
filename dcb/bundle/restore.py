"""Brings the session of a bundle back: as a DSH log, in another format, or as its own files.

Nothing that exists is overwritten: the same content is already there, anything else makes
the new file take the next free name. What is written depends on the bundle alone, so that
a second restore finds everything in place. Source: Interchange v1, sections 7.4 and 7.5.
"""

from __future__ import annotations

import json
import posixpath
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from converters import registry
from converters.canonical import js_dumps
from converters.errors import BadInput, DcbError, OutputError, UsageError
from converters.formats.dsh.attachments import object_hash, object_path, references
from converters.formats.dsh.clean import clean, is_next
from converters.formats.dsh.shapes import generation_of
from converters.formats.dsh.write import is_absolute
from converters.formats.dsh_bundle import attached, attachments, unpack
from converters.formats.dsh_bundle import document as bundle
from converters.turns import title_of
from converters.types import Context, Options
from converters.writing import put
from dcb import files
from dcb.batch import stem_of
from dcb.bundle.landing import Landing, Rule, land
from dcb.bundle.reopen import native_of, reopen
from dcb.bundle.verify import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from converters.formats.dsh.attachments import Find
    from converters.ledger import Report
    from converters.types import Format, Input

__all__ = ["Plan", "Renamed", "Restored", "restore"]

Status: TypeAlias = Literal["restored", "already-there", "would-restore", "elsewhere"]

_HEAD: Final = 200
_NAMES: Final = 10_000
_STDIN: Final = "-"
_HEADER: Final = ("version", "id", "createdAt", "isSeeded", "delegationDepth", "cwd",
                  "parentSession", "origin", "agentPreset")  # fmt: skip


class Plan(NamedTuple):
    """What a person asked for, the same for every bundle.

    ``to`` is the target format, ``None`` for the native files; ``into`` the folder that
    gets the files; ``is_folder`` says whether a folder exists here; ``here`` gives the
    absolute path of a folder; ``session_id`` replaces the id.
    """

    to: Format | None
    into: Path
    is_folder: Callable[[str], bool]
    here: Callable[[str], str]
    rules: tuple[Rule, ...] = ()
    to_options: Mapping[str, Any] = {}
    session_id: str | None = None
    passphrase: str | None = None
    strict: bool = False
    dry_run: bool = False
    windows: bool = False


class Renamed(NamedTuple):
    """A native file that got another name than its own, below the folder of the restore."""

    name: str
    given: str


class Restored(NamedTuple):
    """What became of one bundle. ``paths``: the main file first.

    ``elsewhere``: the native files travel with the bundle of the session ``of``.
    ``report`` accounts for a conversion; there is none where the log or the files came
    back as they were. ``renamed``: files whose own names are none on every system.
    """

    bundle: str
    session_id: str
    status: Status
    landing: Landing
    paths: list[Path]
    of: str | None = None
    report: Report | None = None
    renamed: Sequence[Renamed] = ()


class Out(NamedTuple):
    """Files to write: relative names; the first is the main one."""

    stem: str
    suffix: str
    main: bytes
    beside: list[tuple[str, bytes]]


def restore(source: Input, plan: Plan) -> Restored:
    """Restore one bundle; raises :class:`DcbError`, and then no file of it was written."""
    document, _ = load(source, plan.passphrase, strict=plan.strict)
    problems = bundle.verify(document)
    if problems:
        raise bundle.failure(problems, document, source.name)
    landing = land(
        document.get("originalCwd"),
        source.name,
        is_folder=plan.is_folder,
        rules=plan.rules,
        windows=plan.windows,
    )
    name = document.get("sourceSessionId")
    session_id = name if isinstance(name, str) and name else source.stem
    done = Restored(source.name, plan.session_id or session_id, "restored", landing, [])
    if plan.to is None:
        return _native(document, done, plan)
    cwd = _cwd(landing, plan)
    if plan.to.id == "dsh" and not plan.to_options:
        out, report = _log(document, done, plan, cwd), None
    else:
        out, report = _converted(document, done, plan, cwd)
    named = _placed(out)
    _check_distinct([name for name, _ in named(1)], done)
    status, paths = _settle(named, plan)
    return done._replace(status=status, paths=paths, report=report)


def _cwd(landing: Landing, plan: Plan) -> str | None:
    """Give the working directory that the session gets; none where it had none."""
    if landing.original_cwd is None or landing.cwd_available:
        return landing.original_cwd
    grouped, applied = landing.grouped_to, landing.remapped
    # A rule that was refused says so with a reason; then it is the folder of the bundle.
    mapped = applied is not None and "reason" not in applied
    return grouped if mapped or is_absolute(grouped) else plan.here(grouped)


# -- a DSH log -------------------------------------------------------------------------


def _log(document: dict[str, Any], done: Restored, plan: Plan, cwd: str | None) -> Out:
    """Give the log with a header that a host takes, and the images that it refers to."""
    log = document["log"]
    first, _, rest = log.partition("\n")
    header = _record(first)
    if header is None or header.get("type") != "session" or "seq" in header:
        header, rest = None, log
    scan = _Scan(rest, attached(document))
    if not scan.count:
        raise BadInput("the log of the bundle holds no event", path=done.bundle, position="log")
    fit = scan.gapless or (header is not None and "version" in header)
    if not fit:
        events, _ = clean(filter(None, map(_record, rest.split("\n"))), None)
        rest = "".join(js_dumps(event) + "\n" for event in events)
    full = _full_header(header or {}, scan, plan.session_id or done.session_id, cwd, document)
    if plan.session_id is None and header is not None:
        full["id"] = header.get("id", full["id"])
    text = log if full == header and fit else js_dumps(full) + "\n" + rest
    stem = _own_stem(document, done)
    beside = [(object_path(digest), data) for digest, data in scan.images.items()]
    return Out(stem, ".jsonl", text.encode("utf-8", "replace"), beside)


class _Scan:
    """One pass over the events of a log: what is needed to land it."""

    def __init__(self, text: str, find: Find) -> None:
        self.count = 0
        self.gapless = True
        self.head: list[dict[str, Any]] = []
        self.images: dict[str, bytes] = {}
        lines = text.split("\n")
        for number, line in enumerate(lines):
            event = _record(line)
            if event is None:
                # What a torn tail leaves is not an event, and nothing follows it.
                self.gapless = self.gapless and not line and number == len(lines) - 1
                continue
            self.gapless = self.gapless and is_next(event, self.count)
            self.count += "/" in str(event.get("type"))
            if len(self.head) < _HEAD:
                self.head.append(event)
            if '"attachmentId"' in line:
                self._find(event, find)

    def _find(self, event: dict[str, Any], find: Find) -> None:
        for reference in references([event]):
            digest = object_hash(reference.get("attachmentId"))
            data = None if digest is None else find(f"sha256:{digest}")
            if digest is not None and data is not None:
                self.images[digest] = data


def _record(line: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line) if line else None
    except ValueError:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _full_header(
    header: dict[str, Any],
    scan: _Scan,
    session_id: str,
    cwd: str | None,
    document: dict[str, Any],
) -> dict[str, Any]:
    """Complete a header for a host; one that a host wrote only gets what changes."""
    full: dict[str, Any] = {**header, "type": "session", "id": session_id}
    if cwd is not None and is_absolute(cwd):
        full["cwd"] = cwd
    elif "version" not in header:
        full.pop("cwd", None)
    if "version" in header:
        return full
    exported = document.get("exportedAt")
    times = [header.get("createdAt"), *(e.get("time") for e in scan.head), exported]
    full |= {
        "version": generation_of(scan.head),
        "createdAt": next(filter(_is_time, times), 0),
        "isSeeded": False,
        "delegationDepth": full.get("delegationDepth", 0),
    }
    order = [name for name in ("type", *_HEADER) if name in full]
    return {name: full[name] for name in dict.fromkeys((*order, *full))}


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# -- another format ------------------------------------------------------------------------


class _Sink:
    """Collects what a writer writes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.files: list[tuple[str, bytes]] = []

    def write(self, data: bytes | bytearray, /) -> object:
        self.data += data
        return len(data)

    def beside(self, name: str, data: bytes) -> None:
        self.files.append((name, data))


def _converted(
    document: dict[str, Any], done: Restored, plan: Plan, cwd: str | None
) -> tuple[Out, Report]:
    target = plan.to
    assert target is not None  # noqa: S101 - the caller looked
    session, ledger = reopen(document, done.bundle)
    if session is None:
        raise BadInput("no conversation in the bundle", path=done.bundle, position="log")
    session.meta.id = plan.session_id or session.meta.id
    session.meta.cwd = cwd
    exported: Any = document.get("exportedAt")
    now_ms = int(exported) if _is_time(exported) else 0
    sink = _Sink()
    ctx = Context(ledger, Options(format=plan.to_options), now_ms)
    put(iter((session,)), sink, target, ctx)
    title = document.get("title")
    title = title if isinstance(title, str) else title_of(session.turns, session.title)
    stem = stem_of(session, title, target)
    return Out(stem, target.suffix, bytes(sink.data), sink.files), ledger.report()


def _placed(out: Out) -> Callable[[int], list[tuple[str, bytes]]]:
    """Give the files of an output under its ``n``-th name.

    Companions lie where the tool looks for them; where that place is taken, under the name
    of the main file.
    """

    def named(number: int) -> list[tuple[str, bytes]]:
        if number == 1:
            beside = [(files.kept_path(name), data) for name, data in out.beside]
            return [(out.stem + out.suffix, out.main), *beside]
        stem = f"{out.stem}-{number}"
        beside = [(f"{stem}.{files.safe_name(name)}", data) for name, data in out.beside]
        return [(stem + out.suffix, out.main), *beside]

    return named


# -- the native files --------------------------------------------------------------------------


def _native(document: dict[str, Any], done: Restored, plan: Plan) -> Restored:
    """Give whole files back byte for byte, a part of a file as a file of its own."""
    if plan.session_id is not None:
        raise UsageError("--session-id cannot change native files")
    native = native_of(document)
    kind, of = native.get("kind"), native.get("of")
    if kind == "part":
        where = of if isinstance(of, str) else None
        return done._replace(status="elsewhere", of=where)
    if kind == "rows":
        raise BadInput(
            "the bundle holds rows of a database, and dcb writes into no tool's database",
            path=done.bundle,
            hint="restore with --to FORMAT",
        )
    found = _native_files(document, native, done)
    if not found:
        raise BadInput(
            "the bundle holds no native files", path=done.bundle, hint="restore with --to FORMAT"
        )
    kept, changed = _kept_names(found, done, plan)
    status, paths = _settle(_renamed(kept), plan)
    return done._replace(status=status, paths=paths, renamed=changed)


def _native_files(
    document: dict[str, Any], native: dict[str, Any], done: Restored
) -> list[tuple[str, bytes]]:
    kind = native.get("kind")
    unnamed = _own_stem(document, done)
    if kind == "log":
        name = str(native.get("name") or "session.jsonl")
        name = f"{unnamed}.jsonl" if name == _STDIN else name
        folder = name.rpartition("/")[0]
        images = [
            (f"{folder}/{entry.get('name')}".lstrip("/"), unpack(entry, path=done.bundle))
            for entry in attachments(document)
        ]
        return [(name, document["log"].encode("utf-8", "replace")), *images]
    held = native.get("files")
    found = [
        (str(entry.get("name")), unpack(entry, path=done.bundle))
        for entry in (held if isinstance(held, list) else ())
        if isinstance(entry, dict)
    ]
    if kind in ("object", "line"):
        return [(unnamed + Path(name).suffix, data) for name, data in found]
    if kind != "files":
        return []
    if "folder" in native:
        return [(f"{native['folder']}/{name}", data) for name, data in found]
    given = unnamed + _suffix_of(native)
    return [(given if name == _STDIN else name, data) for name, data in found]


def _own_stem(document: dict[str, Any], done: Restored) -> str:
    """Give the name of a file that had none of its own."""
    title = document.get("title")
    return files.session_name(title if isinstance(title, str) else None, done.session_id)


def _suffix_of(native: dict[str, Any]) -> str:
    """Give the suffix that the files of a format have."""
    try:
        (record,) = registry.lookup(str(native.get("format")))
    except (DcbError, ValueError):
        return ""
    return record.suffix


def _kept_names(
    found: list[tuple[str, bytes]], done: Restored, plan: Plan
) -> tuple[list[tuple[str, bytes]], list[Renamed]]:
    """Give files with names that stay below the folder, and the names that had to change."""
    kept = [(files.kept_path(name, windows=plan.windows), data) for name, data in found]
    changed = [
        Renamed(name, path)
        for (name, _), (path, _) in zip(found, kept, strict=True)
        if path != posixpath.normpath(name.replace("\\", "/"))
    ]
    _check_distinct([path for path, _ in kept], done)
    return kept, changed


def _check_distinct(paths: list[str], done: Restored) -> None:
    """Refuse files of which one would take the place of another, on any file system."""
    seen: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        if folded in seen:
            raise BadInput(
                "the bundle holds two files of one name", path=done.bundle, position=path
            )
        seen.add(folded)
        while folded := folded.rpartition("/")[0]:
            folders.add(folded)
    for path in seen & folders:
        raise BadInput(
            "the bundle holds a file and a folder of one name", path=done.bundle, position=path
        )


def _renamed(found: list[tuple[str, bytes]]) -> Callable[[int], list[tuple[str, bytes]]]:
    """Give files under their ``n``-th names, which change their first parts."""

    def named(number: int) -> list[tuple[str, bytes]]:
        if number == 1:
            return found
        pairs = [(name.partition("/"), data) for name, data in found]
        return [
            (files.numbered(first, number) + slash + rest, data)
            for (first, slash, rest), data in pairs
        ]

    return named


# -- writing ---------------------------------------------------------------------------------


def _settle(
    named: Callable[[int], list[tuple[str, bytes]]], plan: Plan
) -> tuple[Status, list[Path]]:
    """Write files under the first name that is free or holds the same already."""
    if _is_file(plan.into):
        raise OutputError("not a folder", path=str(plan.into), hint="choose another --into")
    number = 1
    while number <= _NAMES:
        wanted = [(plan.into / name, data) for name, data in named(number)]
        states = [_state(path, data) for path, data in wanted]
        number += 1
        if "other" in states:
            continue
        paths = [path for path, _ in wanted]
        missing = [pair for pair, state in zip(wanted, states, strict=True) if state == "free"]
        if not missing:
            return "already-there", paths
        if plan.dry_run:
            return "would-restore", paths
        # The main file last: where it stands, all of its companions do.
        if _write(reversed(missing)):
            return "restored", paths
        number -= 1
    raise OutputError("no free name is left", path=str(plan.into / named(1)[0][0]))


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except OSError as error:
        raise OutputError(error.strerror or "cannot be read", path=str(path)) from error


def _state(path: Path, data: bytes) -> Literal["free", "same", "other"]:
    try:
        if path.is_symlink() or path.is_dir():
            return "other"
        if path.stat().st_size != len(data):
            return "other"
        return "same" if path.read_bytes() == data else "other"
    except FileNotFoundError:
        return "free"
    except (NotADirectoryError, PermissionError):
        return "other"
    except OSError as error:
        raise OutputError(error.strerror or "cannot be read", path=str(path)) from error


def _write(pairs: Any) -> bool:
    """Write files; ``False`` when another process took one of the names meanwhile."""
    for path, data in pairs:
        files.make_folder(path.parent)
        try:
            files.write_whole(path, data)
        except OutputError:
            if not path.exists():
                raise
            return False
    return True
