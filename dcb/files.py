"""Writing files: whole or absent. The only module of dcb that writes files.

An output goes to a temporary file in the target's folder (random name, created
exclusively), is fsynced, and renamed over the target; then the folder is synced.
The order is that of restic's and borg's writers.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import posixpath
import re
import stat
import threading
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from converters.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "drop",
    "finish",
    "kept_path",
    "make_folder",
    "numbered",
    "output",
    "place",
    "remove",
    "safe_name",
    "same_file",
    "session_name",
    "slug",
    "staged",
    "sweep",
    "sync_all",
    "sync_folder",
    "write_beside",
    "write_whole",
]

_MAX_NAME: Final = 120
_MAX_PART: Final = 255
"""What file systems take for one part of a path: bytes, on Windows characters."""
_EARLY: Final = 8 << 20
_BUFFER: Final = 128 << 10
_AT_ONCE: Final = 8
_HELD: Final = 64 << 20
_DEV: Final = Path("/dev")
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul"}
    | {f"{port}{n}" for port in ("com", "lpt") for n in "123456789\u00b9\u00b2\u00b3"}
)
_BAD: Final = re.compile(r"[^\w.-]+")
_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udc7f\udd00-\udfff]+")
_UNFIT_WINDOWS: Final = re.compile('[\x00-\x1f\x7f-\x9f\ud800-\udfff<>:"|?*]+')
_SUFFIX: Final = re.compile(r"(?<=.)(?:\.[A-Za-z0-9_]{1,12}){1,2}\Z", re.DOTALL)
_UNNAMED: Final[set[Path]] = set()
"""Temporary files of this process that have no name yet, for :func:`sweep`."""


@contextlib.contextmanager
def output(target: Path, *, force: bool = False, private: bool = False) -> Iterator[BinaryIO]:
    """Give a stream whose content becomes ``target`` when the block ends without an exception.

    Without ``force`` an existing target is refused, and the check and the
    creation are one step. ``private`` gives mode 0600; replacing a file opens it to nobody
    who could not read it before. Raises :class:`OutputError`; nothing half-written stays.
    A pipe or device is never replaced: it gets the content, in one go at the end.
    """
    if _is_stream(target):
        with _poured(target) as stream:
            yield stream
        return
    if not force and (target.exists() or target.is_symlink()):
        raise _exists(target)
    with staged(target, private=private) as (stream, temporary):
        yield stream
        finish(stream)
        place(temporary, target, force=force)


def _is_stream(target: Path) -> bool:
    """Whether a path names what takes bytes as they come, such as ``/dev/stdout``."""
    try:
        mode = target.stat().st_mode
    except (OSError, ValueError):  # no name that this locale has
        return False
    if stat.S_ISDIR(mode):
        return False
    return not stat.S_ISREG(mode) or _DEV in target.absolute().parents


@contextlib.contextmanager
def _poured(target: Path) -> Iterator[BinaryIO]:
    import shutil
    import tempfile

    with tempfile.SpooledTemporaryFile(_HELD) as held:
        yield cast("BinaryIO", held)
        held.seek(0)
        try:
            with target.open("wb") as out:
                shutil.copyfileobj(held, out)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _failed(target, error) from error


class _Steady(io.FileIO):
    """A file whose bytes go to the disk while more are being made, so that the end waits less."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb")
        self._fresh = 0
        self._syncing: threading.Thread | None = None
        self._failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        count = super().write(data)
        self._fresh += count
        if self._fresh >= _EARLY and (self._syncing is None or not self._syncing.is_alive()):
            self.settle()
            self._fresh = 0
            self._syncing = threading.Thread(target=self._sync, daemon=True)
            self._syncing.start()
        return count

    def _sync(self) -> None:
        try:
            os.fsync(self.fileno())
        except OSError as error:
            self._failure = error

    def settle(self) -> None:
        """Wait for what is under way; raises what went wrong there."""
        if self._syncing is not None:
            self._syncing.join()
            self._syncing = None
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        try:
            self.settle()
        finally:
            super().close()


@contextlib.contextmanager
def staged(
    target: Path, *, private: bool = False, keep: bool = False
) -> Iterator[tuple[BinaryIO, Path]]:
    """Give a stream into a temporary file beside ``target``, and its path.

    The file is gone when the block ends, unless :func:`place` renamed it. With ``keep`` it
    stays when the block ends without an exception, and is the caller's.
    """
    temporary = target.parent / f".{_cut(target.name, 80)}.{os.urandom(6).hex()}.tmp"
    whole = False
    _UNNAMED.add(temporary)
    try:
        with io.BufferedWriter(_created(temporary, target, private=private), _BUFFER) as stream:
            yield stream, temporary
        whole = True
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _failed(target, error) from error
    finally:
        if not (keep and whole):
            drop(temporary)


def _created(temporary: Path, target: Path, *, private: bool) -> _Steady:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        return _Steady(os.open(temporary, flags, 0o600 if private else 0o666))
    except UnicodeEncodeError as error:
        raise OutputError(
            "cannot write: the locale has no such characters for a file name",
            path=str(target),
            hint="use a UTF-8 locale, such as LC_ALL=C.UTF-8",
        ) from error


def drop(temporary: Path) -> None:
    """Remove a temporary file that is not wanted, or not wanted any more."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: no name of this locale
        temporary.unlink()
    _UNNAMED.discard(temporary)


def sweep() -> None:
    """Remove the temporary files of this process that nothing else will name or remove.

    An interrupt can come between the end of a file and the moment when somebody owns it.
    """
    for temporary in tuple(_UNNAMED):
        drop(temporary)


def finish(stream: BinaryIO) -> None:
    """Flush and fsync a staged stream."""
    stream.flush()
    raw = getattr(stream, "raw", None)
    if isinstance(raw, _Steady):
        raw.settle()
    os.fsync(stream.fileno())


def sync_all(paths: Iterable[Path]) -> None:
    """Fsync written files, several at once: a disk takes many requests for the price of one."""
    waiting = list(paths)
    if len(waiting) <= 1:
        for path in waiting:
            _sync_file(path)
        return
    # Most inputs give one file; the pool takes a while to load.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(_sync_file, waiting):
            pass


def _sync_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _failed(path.parent, error) from error


def place(temporary: Path, target: Path, *, force: bool = False, sync: bool = True) -> None:
    """Give a finished temporary file its name and make that durable.

    Without ``sync`` the caller calls :func:`sync_folder` when all files of it have their names.
    """
    try:
        _place(temporary, target, force=force)
    except OSError as error:
        raise _failed(target, error) from error
    if sync:
        sync_folder(target.parent)


def _place(temporary: Path, target: Path, *, force: bool) -> None:
    if force:
        with contextlib.suppress(OSError):
            # What only some could read is not opened to more by writing it anew.
            temporary.chmod(temporary.stat().st_mode & target.stat().st_mode & 0o777)
        temporary.replace(target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError:
        # A file system without hard links: a short window remains.
        if target.exists():
            raise _exists(target) from None
        temporary.replace(target)


def _exists(target: Path) -> OutputError:
    return OutputError(
        "the file exists", path=str(target), hint="choose another name, or overwrite with --force"
    )


def _failed(target: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write: {error.strerror or error}", path=str(target), hint=_hint(error)
    )


def _hint(error: OSError) -> str | None:
    return {
        errno.ENOENT: "the folder does not exist",
        errno.ENOSPC: "the disk is full",
        errno.EACCES: "the folder is not writable",
        errno.EISDIR: "the target is a folder",
    }.get(error.errno or 0)


def sync_folder(folder: Path) -> None:
    """Make renames durable; file systems that cannot sync a folder are left alone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise _failed(folder, error) from error
    finally:
        os.close(descriptor)


def write_whole(target: Path, data: bytes, *, force: bool = False, private: bool = False) -> None:
    """Write one file, whole or not at all; see :func:`output`."""
    with output(target, force=force, private=private) as stream:
        stream.write(data)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a folder and those above it where they are missing; ``private``: for the owner only.

    Raises :class:`OutputError`.
    """
    try:
        folder.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder: {error.strerror}", path=str(folder)) from error


def write_beside(target: Path, name: str, data: bytes, *, force: bool = False) -> Path:
    """Write a companion of an output where its tool looks for it: ``name`` from there.

    Several outputs of one folder may have the same companion; one that is there already
    with the same content stays.
    """
    path = target.parent / kept_path(name)
    with contextlib.suppress(OSError):
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return path
    make_folder(path.parent)
    write_whole(path, data, force=force)
    return path


def remove(target: Path) -> None:
    """Remove a file and make that durable; one that is gone already is no error."""
    try:
        target.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot remove: {error.strerror or error}", path=str(target), hint=_hint(error)
        ) from error
    sync_folder(target.parent)


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file (spelling, hard link, symlink)."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def safe_name(text: str, *, fallback: str = "untitled") -> str:
    """Give one path component of at most 120 bytes: letters of any script, digits, ``._-``.

    No leading dot or dash, no trailing dot, no Windows device name. Any change adds
    12 hex digits of the sha256 of the original, so that two names never meet in one file.
    """
    name = _BAD.sub("-", unicodedata.normalize("NFC", text)).strip("-.")
    if name.partition(".")[0].lower() in _DEVICES:
        name = f"_{name}"
    name = _cut(name, _MAX_NAME)
    if name == text and name:
        return name
    return f"{_cut(name or fallback, _MAX_NAME - 13)}-{_digest(text)}"


def kept_path(name: str, *, windows: bool = os.name == "nt") -> str:
    """Give a relative path with ``/`` for a name from elsewhere, as it stands where that is safe.

    It never leads out of the folder that it is put in. A part that some file system does
    not take (control characters, device names and final dots and spaces of Windows, too
    long) is changed and gets 12 hex digits of a sha256 before its suffix, so that two names
    never meet in one file; so is the last part of a path that was absolute or led upwards.
    """
    parts = [part for part in re.split(r"[/\\]", name) if part not in ("", ".")]
    strayed = name[:1] in ("/", "\\") or not parts
    if parts and re.fullmatch(r"[A-Za-z]:", parts[0]):
        strayed = bool(parts.pop(0))
    inside: list[str] = []
    for part in parts:
        if part != "..":
            inside.append(part)
        elif inside:
            inside.pop()
        else:
            strayed = True
    kept = [_kept(part, windows=windows) for part in inside] or ["untitled"]
    if strayed or not inside:
        kept[-1] = _marked(kept[-1], name)
    return posixpath.join(*kept)


def _kept(part: str, *, windows: bool) -> str:
    name = (_UNFIT_WINDOWS if windows else _UNFIT).sub("-", part).rstrip(". ")
    if name.partition(".")[0].rstrip(" ").lower() in _DEVICES:
        name = f"_{name}"
    if name == part and _length(name) <= _MAX_PART:
        return name
    return _marked(name or "untitled", part)


def _marked(name: str, original: str) -> str:
    stem, suffix = _split(name)
    return f"{_cut(stem, _MAX_NAME)}-{_digest(original)}{suffix}"


def numbered(name: str, number: int) -> str:
    """Give the ``number``-th name of a file or folder: ``notes-2.jsonl``."""
    stem, suffix = _split(name)
    made = f"{stem}-{number}{suffix}"
    return made if _length(made) <= _MAX_PART else f"{_marked(stem, stem)}-{number}{suffix}"


def _split(name: str) -> tuple[str, str]:
    found = _SUFFIX.search(name)
    return (name, "") if found is None else (name[: found.start()], found[0])


def _length(name: str) -> int:
    return len(name.encode("utf-8", "surrogatepass"))


def _digest(text: str) -> str:
    import hashlib  # loads OpenSSL, for names that few files have

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def slug(text: str, limit: int = 60) -> str:
    """Give a readable part of a file name; may be empty, promises no uniqueness."""
    name = _BAD.sub("-", unicodedata.normalize("NFC", text)).strip("-._")
    return _cut(name, limit).strip("-._")


def _cut(text: str, limit: int) -> str:
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore").rstrip(".-")


def session_name(title: str | None, session_id: str) -> str:
    """Give ``<title or id slug>-<first 8 of the id>`` for a session's file, without a suffix.

    An id that is not a safe name as it stands adds 12 hex digits of its sha256, so that
    two ids never meet in one file.
    """
    readable = slug(title or "") or slug(session_id) or "session"
    short = slug(session_id)[:8].rstrip("-._")
    if safe_name(session_id) == session_id:
        own = short
    else:
        own = "-".join(filter(None, (short, _digest(session_id))))
    return safe_name(f"{readable}-{own}")
