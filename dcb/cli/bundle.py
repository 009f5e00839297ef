"""``dcb bundle``: back up sessions, check the bundles, restore them on another machine."""

from __future__ import annotations

import os
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from converters.errors import DcbError, OutputError, UsageError
from converters.ledger import Report, merge
from converters.reading import Skipped, Unit
from dcb.bundle.verify import INDEX, Checked, check_folder, check_input, is_bundle_name
from dcb.cli import _run
from dcb.cli._inputs import (
    BranchOption,
    FromOption,
    JsonOption,
    StrictOption,
    SubagentsOption,
    TzOption,
    collect,
    everything,
    open_named,
    read_options,
    say_skipped,
)
from dcb.cli._passphrase import (
    PassphraseAtHandOption,
    PassphraseOption,
    passphrase,
    passphrase_at_hand,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.types import Input
    from dcb.bundle.export import Exported
    from dcb.bundle.restore import Restored

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)

_INDEX_MARK = b'"dcb-bundles"'

PathsArgument = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="Bundles, or folders that hold bundles.")
]


@app.command("export", epilog="Example: dcb bundle export ~/.claude/projects -o backup/")
def export_(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT...]", help="Files, folders, archives, scan:NAME, or -."),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the bundles.")
    ],
    all_: Annotated[
        bool, typer.Option("--all", help="Every session of this machine; see `dcb scan`.")
    ] = False,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", help="With --all: only this tool; may repeat.")
    ] = None,
    from_: FromOption = None,
    subagents: SubagentsOption = "include",
    branch: BranchOption = "active",
    tz: TzOption = None,
    strict: StrictOption = False,
    seal: Annotated[
        bool, typer.Option("--seal", help="Encrypt each bundle; --passphrase-file does too.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    json: JsonOption = False,
) -> None:
    """Write one bundle per session into a folder: its log, and its source's own bytes.

    Run it again to bring the folder up to date; what did not change is not written again.
    """
    from dcb.bundle.drafts import Job
    from dcb.bundle.export import export

    problems = _run.Problems(json=json)
    options = read_options(strict=strict, subagents=subagents, branch=branch, tz=tz)
    job = Job(time.time_ns() // 1_000_000, metadata.version("dcb"), options)
    secret = None
    if seal or passphrase_file is not None:
        secret = passphrase(passphrase_file, sealing=True)
    if bool(inputs) == all_ or (tool and not all_):
        raise UsageError("give inputs, or --all with or without --tool")

    def on_error(error: DcbError) -> None:
        if _is_own(error.path, output):
            _say_own(str(error.path))
        else:
            problems.take(error)

    def on_skip(entry: Skipped) -> None:
        if not _is_own(entry.name, output):
            say_skipped(entry)

    if all_:
        found = everything(tool, on_error=on_error, on_skip=on_skip)
    else:
        found = collect(inputs or (), from_=from_, on_error=on_error, on_skip=on_skip)
    reports: list[Report] = []
    made: dict[str, int] = {}
    for one in export(_outside(found, output), output, job, passphrase=secret, reports=reports):
        if one.error is not None:
            problems.take(one.error)
            continue
        made[one.status] = made.get(one.status, 0) + 1
        _show_exported(one, json=json)
    total = merge(reports)
    counts = ", ".join(f"{n} {status}" for status, n in made.items()) or "no session found"
    _run.say(f"{counts}; {problems.count} failed" if problems.count else counts)
    if total.entries:
        _run.say(_run.summarize(total))
    if json:
        _run.emit({"report": total, "failed": problems.count})
    _run.finish(failed=bool(problems.count) or not made, degraded=strict and total.degraded)


def _outside(found: Iterable[Unit], folder: Path) -> Iterator[Unit]:
    """Leave out the bundles that this command keeps in its folder; say so of a named one."""
    for unit in found:
        if not _is_own(unit.input.path, folder):
            yield unit
        elif not unit.input.nested:
            _say_own(unit.input.name)


def _is_own(name: str | None, folder: Path) -> bool:
    """Whether a file is a bundle or the index of the folder that bundles are written to."""
    path = Path(name or "")
    if not is_bundle_name(path.name) and path.name != INDEX:
        return False
    if path.parent.resolve() != folder.resolve() or not path.is_file():
        return False
    return path.name != INDEX or _names_bundles(path)


def _names_bundles(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return _INDEX_MARK in stream.read(200)
    except OSError:
        return False


def _say_own(name: str) -> None:
    _run.say(f"skipped: {_run.printable(name)}: belongs to the output folder")


def _show_exported(one: Exported, *, json: bool) -> None:
    if json:
        _run.emit(
            {
                "source": one.source,
                "session": one.session_id,
                "title": one.title,
                "output": str(one.path),
                "status": one.status,
            }
        )
    elif one.status != "unchanged":
        _run.put(str(one.path))


@app.command(epilog="Example: dcb bundle verify backup/")
def verify(
    paths: PathsArgument,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse repeated members too.")] = False,
    passphrase_file: PassphraseAtHandOption = None,
    json: JsonOption = False,
) -> None:
    """Check both fingerprints of every bundle, and a folder against its index.

    Exit code 1 when anything is wrong; the codes stand behind each file.
    """
    problems = _run.Problems(json=json)
    secret = passphrase_at_hand(passphrase_file)
    checked: list[Checked] = []
    folders: dict[Path, dict[str, Checked]] = {}
    for source, nested in _bundles(paths, problems, folders):
        one = check_input(source, secret, strict=strict)
        checked.append(one)
        if nested:
            folders.setdefault(Path(source.name).parent, {})[Path(source.name).name] = one
    for folder, names in folders.items():
        try:
            checked += check_folder(folder, names, names)
        except DcbError as error:
            problems.take(error)
    for one in checked:
        _show_checked(one, json=json)
    bad = sum(1 for one in checked if one.problems)
    if not checked and not problems.count:
        _run.say("error: no bundle found")
    _run.finish(failed=bool(bad or problems.count) or not checked)


def _show_checked(one: Checked, *, json: bool) -> None:
    if json:
        record = {"bundle": one.name, "ok": not one.problems, "problems": one.problems}
        _run.emit({**record, "session": one.session_id, "sha256": one.sha256})
    else:
        _run.put(f"{one.name}: {', '.join(one.problems) or 'ok'}")


def _bundles(
    paths: list[str],
    problems: _run.Problems,
    folders: dict[Path, dict[str, Checked]] | None = None,
) -> Iterator[tuple[Input, bool]]:
    """Give every bundle, and whether it was found in a folder; note folders with an index."""
    for found in open_named(paths):
        if isinstance(found, DcbError):
            problems.take(found)
        elif isinstance(found, Skipped) or not hasattr(found, "nested"):
            continue
        elif not found.nested:
            if not _is_index(found):
                yield found, False
        elif is_bundle_name(found.name):
            yield found, True
        elif folders is not None and Path(found.name).name == INDEX:
            folders.setdefault(Path(found.name).parent, {})


def _is_index(source: Input) -> bool:
    """Whether a named file is the index beside bundles, as a pattern such as backup/* names it."""
    return Path(source.name).name == INDEX and _INDEX_MARK in source.head.data[:200]


@app.command("restore", epilog="Example: dcb bundle restore backup/ --to claude --into out/")
def restore_(
    paths: PathsArgument,
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", "-t", help="Format to restore to; a DSH log without it."),
    ] = None,
    native: Annotated[
        bool, typer.Option("--native", help="Give the source's own files back, byte for byte.")
    ] = False,
    into: Annotated[
        Path, typer.Option("--into", metavar="DIR", help="Folder that gets the files.")
    ] = Path(),
    session_id: Annotated[
        str | None, typer.Option("--session-id", metavar="ID", help="New id of the session.")
    ] = None,
    map_cwd: Annotated[
        list[str] | None,
        typer.Option("--map-cwd", metavar="FROM=TO", help="Where a working directory is here."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-O", metavar="NAME=VALUE", help="Option of the target format."),
    ] = None,
    strict: StrictOption = False,
    passphrase_file: PassphraseAtHandOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be written.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Restore sessions from bundles; nothing that exists is overwritten.

    A session whose working directory is not on this machine is grouped by --map-cwd, else to
    the folder of its bundle, and the result says so.
    """
    from dcb.bundle.landing import is_here, rule_of
    from dcb.bundle.restore import Plan, restore

    if native and to is not None:
        raise UsageError("--native and --to exclude each other")
    from converters import registry
    from converters.writing import check_options

    problems = _run.Problems(json=json)
    target = None if native else registry.target(to or "dsh")
    given = dict(text.partition("=")[::2] for text in option or ())
    plan = Plan(
        to=target,
        into=into,
        is_folder=is_here,
        here=lambda path: str(Path(path).resolve()),
        rules=tuple(map(rule_of, map_cwd or ())),
        to_options={} if target is None else check_options(target, given),
        session_id=session_id,
        passphrase=passphrase_at_hand(passphrase_file),
        strict=strict,
        dry_run=dry_run,
        windows=os.name == "nt",
    )
    sources = [source for source, _ in _bundles(paths, problems)]
    if session_id is not None and len(sources) > 1:
        raise UsageError("--session-id takes one bundle")
    done: list[Restored] = []
    for source in sources:
        try:
            one = restore(source, plan)
        except UsageError:
            raise
        except DcbError as error:
            problems.take(error)
        except OSError as error:
            # What nobody foresaw of one bundle is no reason to leave the others.
            problems.take(OutputError(error.strerror or str(error), path=source.name))
        else:
            done.append(one)
            _show_restored(one, json=json)
    _finish(done, problems, strict=strict, json=json)


def _finish(done: list[Restored], problems: _run.Problems, *, strict: bool, json: bool) -> None:
    total = merge(one.report for one in done if one.report is not None)
    if total.entries:
        _run.say(_run.summarize(total))
    if json:
        _run.emit({"report": total, "restored": len(done), "failed": problems.count})
    if not done and not problems.count:
        _run.say("error: no bundle found")
    _run.finish(failed=bool(problems.count) or not done, degraded=strict and total.degraded)


def _show_restored(one: Restored, *, json: bool) -> None:
    landing = one.landing
    if json:
        record: dict[str, Any] = {
            "bundle": one.bundle,
            "session": one.session_id,
            "status": one.status,
            "paths": [str(path) for path in one.paths],
            "originalCwd": landing.original_cwd,
            "cwdAvailable": landing.cwd_available,
            "groupedTo": landing.grouped_to,
            "landingHint": landing.landing_hint,
            "remapped": landing.remapped,
            "restoreNote": landing.note,
            "renamed": [change._asdict() for change in one.renamed] or None,
            "of": one.of,
        }
        _run.emit({name: value for name, value in record.items() if value is not None})
        return
    if one.status == "elsewhere":
        _run.say(f"{one.bundle}: its files travel with the bundle of session {one.of}")
    for path in one.paths:
        _run.put(f"{one.status} {path}")
    for name, given in one.renamed:
        _run.say(_run.printable(f"note: {name} is no name for every system; it is {given} here"))
    if landing.note:
        _run.say(f"note: {landing.note}")
