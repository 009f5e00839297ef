"""``dcb convert``: transcripts into another format."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, NamedTuple

import typer

from converters import registry
from converters.errors import DcbError, OutputError, UsageError
from converters.ledger import Ledger, Report, RunReport, merge
from converters.reading import Unit, read_unit
from converters.types import Context
from converters.writing import check_options, put
from dcb import batch, files
from dcb.cli import _run
from dcb.cli._inputs import (
    BranchOption,
    FromOption,
    InputsArgument,
    JsonOption,
    StrictOption,
    SubagentsOption,
    TzOption,
    collect,
    local_paths,
    read_options,
    say_skipped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from converters.ir import Session
    from converters.types import Format

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_TOGETHER: Final = 256
"""Outputs whose bytes are sent to the disk in one go."""


class _Run:
    """The state of one run: what was done, what failed, what to print."""

    def __init__(self, *, json: bool, itemize: bool) -> None:
        self.json = json
        self.itemize = itemize
        self.ledgers: list[Ledger] = []
        self.outcomes: list[Report] = []
        self.problems = _run.Problems(json=json)
        self.made = 0

    def done(self, source: str, session: str, title: str | None, target: Path | None) -> None:
        self.made += 1
        if self.json and target is not None:
            record = {"source": source, "session": session, "title": title, "output": str(target)}
            _run.emit(record)

    def reports(self) -> list[Report]:
        """Give the account of each input; only whole when everything is written."""
        return [*self.outcomes, *(ledger.report() for ledger in self.ledgers)]


@app.command(epilog="Example: dcb convert session.jsonl --to openai-chat -o out.jsonl")
def convert(
    inputs: InputsArgument,
    *,
    to: Annotated[str, typer.Option("--to", "-t", help="Format to write; see `dcb formats`.")],
    from_: FromOption = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE|DIR|-", help="Where to write.")
    ] = "-",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-O", metavar="NAME=VALUE", help="Option of the target format."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write the account of the run as JSON.")
    ] = None,
    strict: StrictOption = False,
    subagents: SubagentsOption = "include",
    branch: BranchOption = "active",
    tz: TzOption = None,
    budget: Annotated[
        int,
        typer.Option(
            "--budget", min=0, metavar="TOKENS", help="Trim each session to about TOKENS; 0: off."
        ),
    ] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes at once.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    json: JsonOption = False,
) -> None:
    """Convert transcripts (files, folders, archives, - for stdin) into another format.

    One session goes to -o FILE or to stdout; several go into the folder -o DIR, or into
    one file where the format holds many (interchange: .jsonl). What was lost or changed is
    summed up on stderr.
    """
    target = registry.target(to)
    given = check_options(target, _pairs(option or []))
    options = read_options(strict=strict, subagents=subagents, branch=branch, tz=tz, budget=budget)
    if not output:
        raise UsageError("-o needs a name", hint="- is stdout, . the current folder")
    sources = batch.Sources(local_paths(inputs))
    if report is not None:
        _check_report(report, Path(output), sources, force=force)
    run = _Run(json=json, itemize=report is not None or json or strict)
    job = batch.Job(
        to=target.id, folder=Path(output), options=options, to_options=given, itemize=run.itemize
    )
    with batch.uncollected(), batch.processes(jobs) as workers:
        found = collect(
            inputs,
            from_=from_,
            on_error=run.problems.take,
            on_skip=say_skipped,
            spread=batch.spread(workers),
        )
        plan = _Plan(output, target, sources, job, force=force, jobs=jobs, workers=workers)
        plan.carry_out(found, run)
    _finish(run, report, force=force, strict=strict)


def _check_report(report: Path, output: Path, sources: batch.Sources, *, force: bool) -> None:
    """Refuse a report that could not be written at the end, or only over something else."""
    if report.resolve() == output.resolve():
        raise UsageError(f"-o and --report both name {str(report)!r}")
    sources.guard(report, "--report")
    if report.exists() and not force:
        raise OutputError("the file exists", path=str(report), hint="overwrite with --force")
    # The folder of the outputs may still have to be made.
    if not report.parent.is_dir() and report.parent.resolve() != output.resolve():
        raise OutputError("the folder does not exist", path=str(report))


def _pairs(options: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (text.partition("=") for text in options)}


def _finish(run: _Run, report: Path | None, *, force: bool, strict: bool) -> None:
    reports = run.reports()
    total, failed = merge(reports), run.problems.count
    if report is not None:
        import msgspec

        data = msgspec.json.format(msgspec.json.encode(RunReport(reports, total)), indent=2)
        files.write_whole(report, data + b"\n", force=force)
    if run.json:
        _run.emit({"report": total, "failed": failed})
    if reports and (total.entries or run.made > 1 or failed):
        _run.say(_run.summarize(total))
    if not failed and not run.made:
        _run.say("error: no session found")
    _run.finish(failed=bool(failed) or not run.made, degraded=strict and total.degraded)


class _Read(NamedTuple):
    """A session with the name and the account of its input."""

    source: str
    session: Session
    ledger: Ledger


class _Plan:
    """Where the outputs go, and so how the run proceeds."""

    def __init__(
        self,
        output: str,
        target: Format,
        sources: batch.Sources,
        job: batch.Job,
        *,
        force: bool,
        jobs: int,
        workers: Executor | None,
    ) -> None:
        self.output = output
        self.target = target
        self.sources = sources
        self.job = job
        self.force = force
        self.jobs = jobs
        self.workers = workers

    def carry_out(self, units: Iterator[Unit], run: _Run) -> None:
        """Convert everything to where ``-o`` points."""
        units = self._noted(units)
        path = Path(self.output)
        if self.output == "-":
            self._to_stdout(units, run)
        elif path.is_dir() or self.output.endswith(("/", "\\")):
            self._to_folder(units, run)
        else:
            self._to_file(units, run, path)

    def _noted(self, units: Iterator[Unit]) -> Iterator[Unit]:
        """Remember which files are read: a pattern or ``scan:`` name does not say it."""
        for unit in units:
            if unit.input.path is not None:
                self.sources.add(Path(unit.input.path))
            yield unit

    def _read(self, units: Iterator[Unit], run: _Run) -> Iterator[_Read]:
        """Give all sessions in one stream; each input has its own account."""
        for unit in units:
            ledger = Ledger(unit.input.name, itemize=run.itemize)
            run.ledgers.append(ledger)
            try:
                for session in read_unit(unit, Context(ledger, self.job.options)):
                    yield _Read(unit.input.name, session, ledger)
            except DcbError as error:
                run.problems.take(error)

    @staticmethod
    def _handed(
        found: Iterator[_Read], writing: Context, handed: list[tuple[str, str, str | None]]
    ) -> Iterator[Session]:
        """Hand each session to a writer together with the account of its own input."""
        session = None
        for source, session, ledger in found:
            writing.ledger = ledger
            handed.append((source, session.meta.id, session.title))
            yield session
        batch.keep(session)

    def _write(self, sessions: Iterator[Session], sink: Any, writing: Context) -> None:
        put(sessions, sink, self.target, writing)

    def _context(self) -> Context:
        from converters.types import Options

        return Context(Ledger(), Options(format=self.job.to_options, tz=self.job.options.tz))

    def _to_stdout(self, units: Iterator[Unit], run: _Run) -> None:
        writing = self._context()
        count, found = batch.peek(self._read(units, run))
        if count > 1 and not self.target.many and self.target.id != "interchange":
            raise UsageError(
                f"several sessions, and a {self.target.id} output holds one",
                hint="give a folder with -o DIR",
            )
        handed: list[tuple[str, str, str | None]] = []
        sessions = self._handed(found, writing, handed)
        batch.spool(lambda held: self._write(sessions, _Stream(held), writing), sys.stdout.buffer)
        sys.stdout.buffer.flush()
        run.made += len(handed)

    def _to_file(self, units: Iterator[Unit], run: _Run, path: Path) -> None:
        writing = self._context()
        count, found = batch.peek(self._read(units, run))
        if count > 1 and not self._holds_many(path):
            self._named(found, run, writing)
            return
        self.sources.guard(path)
        if not count:
            return
        handed: list[tuple[str, str, str | None]] = []
        with files.output(path, force=self.force) as stream:
            sink = _Stream(stream)
            self._write(self._handed(found, writing, handed), sink, writing)
            # By now all the sources are known.
            self.sources.guard(path)
        for name, data in sink.files:
            files.write_beside(path, name, data, force=self.force)
        for one in handed:
            run.done(*one, path)

    def _holds_many(self, path: Path) -> bool:
        """Whether a file of this name takes several sessions; interchange does as JSON Lines."""
        if self.target.id == "interchange":
            return path.suffix == ".jsonl"
        return self.target.many and bool(path.suffix)

    def _named(self, found: Iterator[_Read], run: _Run, writing: Context) -> None:
        """Write each session of one stream into its own file of the folder."""
        waiting: list[tuple[str, batch.Made]] = []

        def place(names: batch.Names) -> None:
            files.sync_all(made.temporary for _, made in waiting)
            for source, made in waiting:
                run.done(source, made.session, made.title, names.place(made))
            waiting.clear()

        try:
            with self._names() as names:
                for source, session, ledger in found:
                    writing.ledger = ledger
                    made = batch.write_one(session, self.target, self.job, writing)
                    waiting.append((source, made))
                    if len(waiting) == _TOGETHER:
                        place(names)
                place(names)
        finally:
            batch.discard(made for _, made in waiting)

    def _names(self) -> batch.Names:
        files.make_folder(self.job.folder)
        return batch.Names(
            self.job.folder, self.target.suffix, force=self.force, sources=self.sources
        )

    def _to_folder(self, units: Iterator[Unit], run: _Run) -> None:
        outcomes = batch.run(units, self.job, jobs=self.jobs, executor=self.workers)
        with self._names() as names, closing(outcomes):
            for outcome in outcomes:
                if outcome.error is not None:
                    run.problems.take(outcome.error)
                run.outcomes.append(outcome.report)
                for made in outcome.made:
                    try:
                        run.done(outcome.source, made.session, made.title, names.place(made))
                    except DcbError as error:
                        run.problems.take(error)


class _Stream:
    """A stream as a sink; companions wait until the main file is whole."""

    def __init__(self, stream: BinaryIO) -> None:
        self.write = stream.write
        self.files: list[tuple[str, bytes]] = []

    def beside(self, name: str, data: bytes) -> None:
        self.files.append((name, data))
