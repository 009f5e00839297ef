"""Versions of saved snapshots: a git repository with one file per snapshot.

The repository lies in ``<home>/snapshots`` and holds ``<snapshot id>.md``: the
document of the snapshot, or its envelope when it is sealed. One save is one
commit, a batch is one commit. Only the ``git`` program is used, so a person can
look with any git tool.
Source: DialogueContextBridge 0.2.0, snapshot format, section 15 (versioning).

What differs from the reference: commits carry an identity of dcb where git has
none (the reference loses them without a word), and sealed text stays sealed.

Callers serialise :func:`record` between processes; the store does it inside its
write transaction.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from converters.errors import BadInput, DcbError
from dcb import files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "History",
    "HistoryError",
    "Version",
    "content",
    "file_name",
    "git_environment",
    "open_history",
    "pack",
    "record",
    "removed",
    "versions",
]

_TIMEOUT: Final = 300
_PATIENCE: Final = 2.0
"""Seconds after which a lock file that nobody touches belonged to a killed process."""

# What the user's own configuration may not change in this repository. Garbage is
# collected by `pack`, not in the middle of a save.
_CONFIG: Final = (
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.quotepath=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "init.defaultBranch=main",
    "advice.detachedHead=false",
)
_IDENTITY: Final = ("user.name=dcb", "user.email=dcb@localhost")
_KEPT: Final = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_", "GIT_EXEC_PATH")


class HistoryError(DcbError):
    """Git is there but did not do its work."""

    code = "history-failed"


@dataclass(frozen=True, slots=True)
class History:
    """The repository in ``folder``. ``env`` is the environment of the git processes."""

    folder: Path
    program: str
    env: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a snapshot: the commit, its time (ms), what was done."""

    ref: str
    time: int
    subject: str
    removed: bool = False


def open_history(folder: Path, *, environ: Mapping[str, str] | None = None) -> History | None:
    """Give the history in ``folder`` (made on the first :func:`record`), ``None`` without git.

    ``environ`` is the environment that the edge read; without it the git processes
    inherit that of this process, with variables that point git elsewhere.
    """
    program = shutil.which("git", path=environ.get("PATH") if environ is not None else None)
    if program is None:
        return None
    kept = None if environ is None else tuple(sorted(git_environment(environ).items()))
    # Git runs inside the folder, where a relative path would lead to another one.
    return History(folder.absolute(), program, kept)


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Give an environment without the variables that point git at another repository.

    A hook of git sets them for all that it runs, dcb too.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT)
    }
    return kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def file_name(snapshot_id: str) -> str:
    """Give the name of a snapshot's file; an id that is no safe name gets a digest."""
    return files.safe_name(snapshot_id) + ".md"


def record(history: History, texts: Mapping[str, str | None], message: str) -> bool:
    """Commit the texts of snapshots, by snapshot id; ``None`` removes one.

    Gives whether there was anything to commit. Raises :class:`HistoryError`.
    """
    try:
        history.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HistoryError(
            f"cannot make the folder: {error.strerror}", path=str(history.folder)
        ) from error
    if not (history.folder / ".git" / "HEAD").is_file():
        _run(history, "init", "-q", "--template=", str(history.folder))
    names = []
    for snapshot_id, text in texts.items():
        names.append(file_name(snapshot_id))
        target = history.folder / names[-1]
        if text is None:
            target.unlink(missing_ok=True)
        else:
            files.write_whole(target, text.encode(), force=True, private=True)
    listed = "".join(f"{name}\0" for name in names).encode()
    _locked(history, "update-index", "--add", "--remove", "-z", "--stdin", stdin=listed)
    if not _staged(history):
        return False
    _locked(
        history,
        *_identity(history),
        "commit",
        "-q",
        "--no-verify",
        "--cleanup=verbatim",
        "-F",
        "-",
        stdin=_printable(message).encode(),
    )
    return True


def versions(history: History, snapshot_id: str) -> list[Version]:
    """Give the versions of a snapshot, newest first; none when it was never recorded."""
    if not (history.folder / ".git" / "HEAD").is_file():
        return []
    if _call(history, "rev-parse", "-q", "--verify", "HEAD").returncode:
        return []
    out = _run(
        history,
        "log",
        "--no-color",
        "--no-renames",
        "--name-status",
        "--format=%x1e%H%x1f%ct%x1f%s%x1f",
        "--",
        file_name(snapshot_id),
    ).decode("utf-8", "replace")
    found = []
    for entry in out.split("\x1e")[1:]:
        ref, at, subject, status = entry.split("\x1f", 3)
        found.append(Version(ref, int(at) * 1000, subject, status.strip().startswith("D")))
    return found


def removed(history: History, start: str) -> list[str]:
    """Give the ids of snapshots that were ever removed and begin so.

    An id that is no safe file name is not among them: its file does not tell it.
    """
    if not (history.folder / ".git" / "HEAD").is_file():
        return []
    if _call(history, "rev-parse", "-q", "--verify", "HEAD").returncode:
        return []
    listed = ("--diff-filter=D", "--name-only", "--format=", "-z")
    out = _run(history, "log", "--no-color", "--no-renames", *listed).decode("utf-8", "replace")
    found = {name.strip("\n").removesuffix(".md") for name in out.split("\0")}
    return sorted(name for name in found if name and name.startswith(start))


def content(history: History, snapshot_id: str, ref: str) -> str:
    """Give the text of a snapshot as it was at ``ref`` (a commit, a tag, ``HEAD~2`` ...)."""
    commit = _commit(history, ref) if ref.isprintable() else None
    if commit is None:
        raise BadInput(f"the history has no version {ref[:60]!r}", hint="see: dcb store history ID")
    blob = _call(history, "cat-file", "blob", f"{commit}:{file_name(snapshot_id)}")
    if blob.returncode:
        raise BadInput(
            f"version {ref[:60]!r} does not hold snapshot {snapshot_id}",
            hint="see: dcb store history ID",
        )
    try:
        return blob.stdout.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"version {ref[:60]!r} is not UTF-8 text") from error


def _commit(history: History, ref: str) -> str | None:
    found = _call(history, "rev-parse", "-q", "--verify", "--end-of-options", ref + "^{commit}")
    return None if found.returncode else found.stdout.decode("ascii").strip()


def pack(history: History) -> None:
    """Pack the repository; a store that only saves collects loose files."""
    if (history.folder / ".git" / "HEAD").is_file():
        _run(history, "gc", "-q")


def _staged(history: History) -> bool:
    """Whether the index differs from the last commit."""
    code = _call(history, "diff-index", "--cached", "--quiet", "HEAD").returncode
    return bool(_run(history, "ls-files")) if code > 1 else code == 1


@cache
def _identity(history: History) -> tuple[str, ...]:
    """Give the options for an identity of dcb, none when the person has set one."""
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if _call(history, "-c", "user.useConfigOnly=true", "var", who).returncode:
            return tuple(part for value in _IDENTITY for part in ("-c", value))
    return ()


def _locked(history: History, *args: str, stdin: bytes) -> None:
    """Run a command that takes a lock; a lock left by a killed process is removed once."""
    done = _call(history, *args, stdin=stdin)
    if done.returncode and _unlock(history.folder / ".git"):
        done = _call(history, *args, stdin=stdin)
    if done.returncode:
        raise _failed(history, args, done)


def _unlock(git: Path) -> bool:
    """Remove lock files that stay as they are; whether there were any.

    The store is locked while this runs, so only a person's own git command could
    hold one, and that is given time to end.
    """
    locks = [git / "index.lock", git / "HEAD.lock", *(git / "refs" / "heads").glob("*.lock")]
    before = {lock: stamp for lock in locks if (stamp := _stamp(lock))}
    until = time.monotonic() + _PATIENCE
    while before and time.monotonic() < until:
        time.sleep(0.1)
        if any(_stamp(lock) != stamp for lock, stamp in before.items()):
            return True
    for lock in before:
        lock.unlink(missing_ok=True)
    return bool(before)


def _stamp(lock: Path) -> tuple[int, int] | None:
    try:
        stat = lock.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def _run(history: History, *args: str) -> bytes:
    done = _call(history, *args)
    if done.returncode:
        raise _failed(history, args, done)
    return done.stdout


def _call(
    history: History, *args: str, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    place = (
        [] if args[:1] == ("init",) else [f"--git-dir={history.folder / '.git'}", "--work-tree=."]
    )
    options = [part for value in _CONFIG for part in ("-c", value)]
    try:
        return subprocess.run(  # noqa: S603 - the program is git, the arguments are our own
            [history.program, "--no-pager", *place, *options, *args],
            cwd=history.folder,
            env=None if history.env is None else dict(history.env),
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HistoryError(f"git cannot run: {error}", path=str(history.folder)) from error


def _failed(
    history: History, args: tuple[str, ...], done: subprocess.CompletedProcess[bytes]
) -> HistoryError:
    command = next((arg for arg in args if not arg.startswith("-") and "=" not in arg), "")
    said = done.stderr.decode("utf-8", "replace").strip().split("\n", 1)[0]
    return HistoryError(f"git {command} failed: {said[:200]}", path=str(history.folder))


def _printable(message: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in message)
