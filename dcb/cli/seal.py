"""``dcb seal`` and ``dcb open``: any file in an envelope, and back."""

from __future__ import annotations

import base64
import glob
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from converters import opening
from converters.errors import BadInput, DcbError, LimitReached, UsageError
from converters.opening import Skipped
from dcb import batch, envelope, files
from dcb.cli import _run
from dcb.cli._inputs import JsonOption, OverwriteOption, say_skipped
from dcb.cli._passphrase import PassphraseOption, passphrase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

app = typer.Typer(rich_markup_mode=None, add_completion=False)
open_app = typer.Typer(rich_markup_mode=None, add_completion=False)

SUFFIX = ".sealed"

FilesArgument = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Files, folders, globs, or - for stdin.")
]
OutputOption = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE|DIR|-", help="Where to write.")
]


@app.command(epilog="Example: dcb seal snapshot.md -o snapshot.md.sealed")
def seal(
    inputs: FilesArgument,
    *,
    output: OutputOption = "-",
    passphrase_file: PassphraseOption = None,
    force: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Encrypt files with a passphrase (scrypt, AES-256-GCM): snapshots, bundles, anything.

    The result is one line of text. Up to 256 MiB a file; an archive is sealed as the file that
    it is. Without the passphrase nothing can open it.
    """
    secret = passphrase(passphrase_file, sealing=True)

    def sealed(data: bytes) -> bytes:
        return envelope.seal_fresh(data, secret).encode("ascii")

    _each(inputs, output, sealed, _sealed_name, limit=envelope.MAX_BYTES, force=force, json=json)


@open_app.command("open", epilog="Example: dcb open snapshot.md.sealed -o snapshot.md")
def open_(
    inputs: FilesArgument,
    *,
    output: OutputOption = "-",
    passphrase_file: PassphraseOption = None,
    force: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Decrypt sealed files. A wrong passphrase or changed data gives no output.

    Opened files can be read by their owner only (mode 0600).
    """
    secret = passphrase(passphrase_file)

    def opened(data: bytes) -> bytes:
        # The line break that ends a text file is not part of the envelope.
        line = data.removesuffix(b"\n").removesuffix(b"\r")
        return envelope.open_envelope(line, secret)

    limit = envelope.MAX_ENVELOPE + 2
    _each(inputs, output, opened, _opened_name, limit=limit, force=force, json=json)


def _each(
    inputs: list[str],
    output: str,
    change: Callable[[bytes], bytes],
    rename: Callable[[str], str],
    *,
    limit: int,
    force: bool,
    json: bool,
) -> None:
    """Change each file; one that fails leaves no output and stops no other."""
    problems = _run.Problems(json=json)
    found = list(_files(inputs, problems))
    folder = Path(output) if output.endswith(("/", "\\")) or Path(output).is_dir() else None
    if not found and problems.count:
        _run.finish(failed=True)
    if folder is None and len(found) != 1 and not (found and json and output == "-"):
        raise UsageError(
            "no file found" if not found else "several files, and one output",
            hint=None if not found else "give a folder with -o DIR/",
        )
    names = _Names(rename)
    for name, relative in found:
        try:
            data = change(_read(name, limit))
            if folder is None and output == "-":
                if json:
                    _run.emit({"source": name, "bytes": len(data), **_content(data)})
                else:
                    _to_stdout(data)
                continue
            target = Path(output) if folder is None else folder / names.free(relative)
            _write(target, data, found, force=force)
            if json:
                _run.emit({"source": name, "output": str(target), "bytes": len(data)})
        except DcbError as error:
            error.path = error.path or name
            problems.take(error)
    _run.finish(failed=problems.count > 0)


class _Names:
    """Gives the outputs of a run their places below its folder; two never share one."""

    def __init__(self, rename: Callable[[str], str]) -> None:
        self._rename = rename
        self._taken: set[str] = set()

    def free(self, relative: Path) -> Path:
        """Give ``x.md.sealed``, where that is taken ``x-2.md.sealed``, and so on."""
        name = self._rename(relative.name)
        core = Path(name.removesuffix(SUFFIX))
        tail = core.suffix + name[len(core.name) :]
        place, number = relative.with_name(name), 1
        while str(place).casefold() in self._taken:
            number += 1
            place = relative.with_name(f"{core.stem}-{number}{tail}")
        self._taken.add(str(place).casefold())
        return place


def _files(inputs: list[str], problems: _run.Problems) -> Iterator[tuple[str, Path]]:
    """Give each file with its place below the output folder; say what is none."""
    for name in (match for given in inputs for match in _matches(given, problems)):
        path = Path(name)
        if name != "-" and path.is_dir():
            yield from _below(path, problems)
        else:
            yield name, Path("stdin" if name == "-" else path.name)


def _matches(name: str, problems: _run.Problems) -> list[str]:
    """Expand a glob as a shell does, where no file has that name; give other names as they are."""
    if os.path.lexists(name) or not any(mark in name for mark in "*?["):
        return [name]
    found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - keeps the name as given
    if not found:
        problems.take(BadInput("no file matches", path=name))
    return found


def _below(folder: Path, problems: _run.Problems) -> Iterator[tuple[str, Path]]:
    """Give the files below a folder; links are not followed, as everywhere in dcb."""
    disk = opening.DiskTree()
    stack = [str(folder)]
    while stack:
        current = stack.pop()
        try:
            entries = disk.entries(current)
        except DcbError as error:
            problems.take(error)
            continue
        for entry in entries:
            path = disk.join(current, entry.name)
            if entry.kind == "file":
                yield path, Path(path).relative_to(folder)
            elif entry.kind != "dir":
                say_skipped(Skipped(path, entry.kind))
        stack += [disk.join(current, e.name) for e in reversed(entries) if e.kind == "dir"]


def _read(name: str, limit: int) -> bytes:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as stream:
                data = stream.read(limit + 1)
    except OSError as error:
        raise BadInput(f"cannot read: {error.strerror}", path=name) from error
    if len(data) > limit:
        raise LimitReached(f"more than {envelope.MAX_BYTES >> 20} MiB", path=name)
    return data


def _write(target: Path, data: bytes, found: list[tuple[str, Path]], *, force: bool) -> None:
    batch.guard(target, [Path(name) for name, _ in found if name != "-"])
    if not target.parent.exists():
        target.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    files.write_whole(target, data, force=force, private=True)


def _content(data: bytes) -> dict[str, str]:
    """Give bytes as members of a JSON object: as text where they are one, else in base64."""
    try:
        return {"content": data.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"content": base64.b64encode(data).decode(), "encoding": "base64"}


def _to_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    if sys.stdout.isatty() and data.startswith(envelope.PREFIX.encode()):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _sealed_name(name: str) -> str:
    return name + SUFFIX


def _opened_name(name: str) -> str:
    return (
        name.removesuffix(SUFFIX) if name.endswith(SUFFIX) and name != SUFFIX else f"{name}.opened"
    )
