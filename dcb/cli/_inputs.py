"""What commands that read transcripts share: their options, and inputs out of names."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from converters import opening
from converters.errors import BadInput, DcbError, UsageError
from converters.reading import COMPANION, Skipped, Spread, Unit, units
from converters.types import Options
from dcb.cli import _run
from dcb.heap import make_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from zoneinfo import ZoneInfo

    from converters.opening import Opener
    from converters.types import Input

InputsArgument = Annotated[
    list[str],
    typer.Argument(metavar="INPUT...", help="Files, folders, archives, scan:NAME, or - for stdin."),
]
FromOption = Annotated[
    str | None, typer.Option("--from", "-f", help="Format to read; guessed from content.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit 3 when anything was lost or changed.")
]
SubagentsOption = Annotated[
    str, typer.Option("--subagents", metavar="include|skip", help="Sessions of subagents.")
]
BranchOption = Annotated[
    str, typer.Option("--branch", metavar="active|all|N", help="Which branches to give.")
]
TzOption = Annotated[
    str | None, typer.Option("--tz", help="Zone of times without one, such as Asia/Shanghai.")
]
SessionsOption = Annotated[
    str | None, typer.Option("--session", help="Only sessions whose id starts so.")
]
OverwriteOption = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


def read_options(
    *,
    strict: bool = False,
    subagents: str = "include",
    branch: str = "active",
    tz: str | None = None,
    budget: int = 0,
) -> Options:
    """Check the reading options of a command."""
    if subagents not in ("include", "skip"):
        raise UsageError(f"--subagents is include or skip, not {subagents!r}")
    chosen: Any = branch
    if branch not in ("active", "all"):
        if not branch.isdecimal():
            raise UsageError(f"--branch is active, all or a number, not {branch!r}")
        chosen = int(branch)
    return Options(
        subagents="skip" if subagents == "skip" else "include",
        branch=chosen,
        tz=_zone(tz),
        strict=strict,
        budget=budget,
    )


def _zone(name: str | None) -> ZoneInfo | None:
    if name is None:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"no time zone is called {name!r}", hint="names look like Europe/Berlin"
        ) from error


class Source(NamedTuple):
    """Where to read; ``tool``: as what, ``only``: which sessions; ``found``: no person named it."""

    path: str
    tool: str | None = None
    only: frozenset[str] | None = None
    found: bool = False


def local_paths(inputs: Iterable[str]) -> list[Path]:
    """Give the inputs that are files or folders of this machine."""
    return [Path(name) for name in inputs if name != "-" and "://" not in name]


def collect(
    inputs: Iterable[str],
    *,
    from_: str | None = None,
    on_error: Callable[[DcbError], None],
    on_skip: Callable[[Skipped], None] = lambda _: None,
    spread: Spread = map,
) -> Iterator[Unit]:
    """Give every input with its format; problems go to the callbacks and stop nothing.

    ``spread`` is that of :func:`converters.reading.units`.
    """
    sources = (source for name in inputs for source in _resolve(name))
    yield from _opened(sources, on_error, on_skip, from_=from_, spread=spread)


def _opened(
    sources: Iterable[Source | Skipped | DcbError],
    on_error: Callable[[DcbError], None],
    on_skip: Callable[[Skipped], None],
    *,
    from_: str | None = None,
    spread: Spread = map,
) -> Iterator[Unit]:
    how: dict[str, Any] = {"stdin": _stdin(), "openers": _openers(), "disk": opening.DiskTree()}
    for source in sources:
        if isinstance(source, Skipped | DcbError):
            found: Iterable[Unit | Skipped | DcbError] = [source]
            only = None
        else:
            tool, only = from_ or source.tool, source.only
            found = units(source.path, from_=tool, spread=spread, found=source.found, **how)
        for one in found:
            if isinstance(one, Skipped):
                on_skip(one)
            elif isinstance(one, DcbError):
                on_error(one)
            else:
                make_room(one.input.size or 0)
                yield one._replace(only=only)


def say_skipped(entry: Skipped) -> None:
    """Print an entry of a folder or archive that is no input, unless it belongs to one."""
    if entry.reason != COMPANION:
        _run.say(f"skipped: {_run.printable(entry.name)}: {entry.reason}")


def everything(
    tools: list[str] | None,
    *,
    on_error: Callable[[DcbError], None],
    on_skip: Callable[[Skipped], None] = lambda _: None,
) -> Iterator[Unit]:
    """Give every input that a scan of this machine finds, each store or file once."""
    from dcb.cli._scanned import chosen, everywhere

    yield from _opened(everywhere(chosen(tools)), on_error, on_skip)


def open_named(inputs: Iterable[str], **how: Any) -> Iterator[Input | Skipped | DcbError]:
    """Give every input without looking for its format."""
    how |= {"stdin": _stdin(), "openers": _openers(), "disk": opening.DiskTree()}
    for name in inputs:
        for source in _resolve(name):
            if isinstance(source, Skipped | DcbError):
                yield source
            else:
                yield from opening.open_inputs(source.path, **how)


def _resolve(name: str) -> Iterable[Source | Skipped | DcbError]:
    """Give what a name stands for; ``scan:NAME`` means sessions found here."""
    if not name.startswith("scan:") or Path(name).exists():
        return [Source(name)]
    from dcb.cli._scanned import named

    return named(name.removeprefix("scan:"))


def _stdin() -> BinaryIO:
    return sys.stdin.buffer


def _openers() -> dict[str, Opener]:
    """Give openers of remote names; fsspec is imported when one is used."""
    return dict.fromkeys(("s3", "gs", "gcs", "az", "abfs", "http", "https", "memory"), _remote)


def _remote(url: str) -> list[tuple[str, Callable[[], BinaryIO]]]:
    """Give every object that an address stands for: one, a folder's, or a pattern's."""
    try:
        import fsspec
    except ImportError as error:
        raise UsageError(
            "remote inputs need fsspec", path=url, hint="pip install 'dcb[remote]'"
        ) from error
    try:
        files = fsspec.open_files(url, "rb")
        if len(files) == 1 and files[0].fs.isdir(files[0].path):
            found = files[0].fs
            names = [found.unstrip_protocol(name) for name in found.find(files[0].path)]
            files = fsspec.open_files(names, "rb")
    except Exception as error:
        raise BadInput(f"cannot open: {error}"[:200], path=url) from error
    return [(file.full_name, partial(_open_remote, file)) for file in files]


def _open_remote(file: Any) -> BinaryIO:
    try:
        stream: BinaryIO = file.open()
    except Exception as error:
        raise BadInput(f"cannot open: {error}"[:200], path=file.full_name) from error
    return stream


_SNAPSHOT_MARK = b"\ndcb_schema:"


def snapshot_of(source: str) -> bytes | None:
    """Give the bytes of a named file when it looks like a snapshot document, else ``None``."""
    if source == "-" or "://" in source or not Path(source).is_file():
        return None
    found = next(iter(opening.open_inputs(source)), None)
    if found is None or isinstance(found, Skipped | DcbError) or found.nested:
        return None
    data = found.head.data[:4096].removeprefix(b"\xef\xbb\xbf")
    return found.read() if data.startswith(b"---") and _SNAPSHOT_MARK in data else None
