"""``dcb check``: find what is wrong with documents; for people and for CI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from converters.errors import DcbError, OutputError, UsageError
from converters.opening import Memory, Skipped
from dcb import files
from dcb.checking import MOST_TOKENS, Problem, check_json, check_snapshot, kind_of
from dcb.checking import output as write
from dcb.cli import _run
from dcb.cli._inputs import JsonOption, open_named
from dcb.snapshot.document import decode, reseal
from dcb.snapshot.profile import profile_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Input
    from dcb.checking.secrets import Labels
    from dcb.snapshot.profile import Profile

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog="Example: dcb check snapshots/ --format github --warnings-as-errors")
def check(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files, folders, archives, or - for stdin."),
    ],
    *,
    format_: Annotated[
        str, typer.Option("--format", metavar="|".join(write.FORMATS), help="Form of the findings.")
    ] = "text",
    profile: Annotated[
        str, typer.Option("--profile", metavar="published|plugin", help="Whose reader is asked.")
    ] = "published",
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=0, help="Most tokens that a snapshot may have.")
    ] = MOST_TOKENS,
    warnings_as_errors: Annotated[
        bool, typer.Option("--warnings-as-errors", help="Exit 1 on warnings too.")
    ] = False,
    ignore_others: Annotated[
        bool,
        typer.Option("--ignore-others", help="Pass over named files that are no documents of dcb."),
    ] = False,
    reseal_: Annotated[
        bool,
        typer.Option("--reseal", help="After an edit: compute checksum, tokens and digest anew."),
    ] = False,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Look for credentials too, in transcripts as well.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check snapshots, interchange documents, bundles and reports; exit 1 on an error.

    Findings go to stdout as FILE:LINE: CODE: MESSAGE. Files of other kinds inside folders are
    passed over. With --secrets every file is searched; values are never printed.
    """
    form = "json" if json else format_
    if form not in write.FORMATS:
        raise UsageError(f"no format {form!r}", hint=f"formats are {', '.join(write.FORMATS)}")
    if reseal_ and "-" in paths and form != "text":
        raise UsageError("resealing stdin gives the document on stdout, and no other form fits")
    run = _Check(profile_of(profile), max_tokens, ignore_others=ignore_others, secrets=secrets)
    results = []
    for found in open_named(paths):
        if isinstance(found, Skipped):
            continue
        if isinstance(found, DcbError):
            result: write.Result | None = _failed(found)
        else:
            result = run.resealed(found) if reseal_ else run.result(found)
        if result is not None:
            results.append(result)
            _show(result, form, to_stderr=reseal_ and result.path == "-")
    _finish(results, form, warnings_as_errors=warnings_as_errors)


class _Check:
    """What stays the same while the files of a run are checked."""

    def __init__(
        self, profile: Profile, max_tokens: int, *, ignore_others: bool, secrets: bool
    ) -> None:
        self._profile = profile
        self._max_tokens = max_tokens
        self._ignore_others = ignore_others
        self._labels = _labels() if secrets else None

    def result(self, source: Input) -> write.Result | None:
        """Check one input; ``None`` when it is none of ours and may be passed over."""
        try:
            return self._result(source)
        except DcbError as error:
            error.path = error.path or source.name
            return _failed(error)

    def resealed(self, source: Input) -> write.Result | None:
        """Reseal one input, then check what it has become."""
        try:
            source, failure = _reseal(source), None
        except OutputError as error:
            failure = Problem("error", error.code, 0, error.message)
        result = self.result(source)
        if result is None or failure is None:
            return result
        return result._replace(problems=[*result.problems, failure])

    def _result(self, source: Input) -> write.Result | None:
        head = source.head
        kind = None if head.is_dir or head.is_sqlite else kind_of(head.data, _root(source))
        problems: list[Problem] = []
        if kind == "snapshot":
            problems = check_snapshot(source.read(), self._profile, max_tokens=self._max_tokens)
        elif kind is not None:
            problems = check_json(source.read(), kind)
        elif self._labels is None:
            if source.nested or self._ignore_others:
                return None
            what = "none of the documents that dcb checks"
            problems = [Problem("error", "unreadable", 1, what)]
        if self._labels is not None:
            problems += _secrets(source, self._labels)
        return write.Result(source.name, kind or "other", problems)


def _root(source: Input) -> object:
    values = source.head.values
    return values[0] if values else None


def _labels() -> Labels:
    from dcb.checking.secrets import Labels

    return Labels()


def _secrets(source: Input, labels: Labels) -> Iterator[Problem]:
    """Search text line by line, a database by what its reader gives."""
    from converters import detection
    from converters.reading import Unit
    from dcb.checking.secrets import in_lines, in_sessions

    if source.head.is_sqlite:
        return in_sessions(Unit(source, detection.pick(source.head).format), labels)
    return in_lines(source, labels)


def _failed(error: DcbError) -> write.Result:
    line = error.position if isinstance(error.position, int) else 0
    return write.Result(
        error.path or "-", "other", [Problem("error", error.code, line, error.message)]
    )


def _reseal(source: Input) -> Input:
    """Write a snapshot document anew in its place and give it; others stay as they are."""
    if source.head.is_dir or kind_of(source.head.data, _root(source)) != "snapshot":
        return source
    if source.path is None and source.name != "-":
        raise OutputError("packed: it cannot be resealed in its place", path=source.name)
    try:
        old = source.read()
        new = reseal(decode(old)).encode()
    except DcbError:
        return source  # the check that follows says what is wrong
    if source.path is None:
        sys.stdout.buffer.write(new)
        sys.stdout.buffer.flush()
    elif new != old:
        # A link stays a link: what it names is written.
        files.write_whole(Path(source.path).resolve(), new, force=True)
        _run.say(f"resealed {_run.printable(source.name)}")
    return Memory(new, source.name, nested=source.nested)


def _show(result: write.Result, form: str, *, to_stderr: bool = False) -> None:
    findings = [write.Finding(result.path, problem) for problem in result.problems]
    if form == "json":
        listed = [write.record(finding) for finding in findings]
        _run.emit({"path": result.path, "kind": result.kind, "problems": listed})
    elif form in ("text", "github"):
        line = write.text if form == "text" else write.github
        show = _run.say if to_stderr else _run.put
        for finding in findings:
            show(_run.printable(line(finding)))


def _finish(results: list[write.Result], form: str, *, warnings_as_errors: bool) -> None:
    severities = [problem.severity for result in results for problem in result.problems]
    errors, warnings = severities.count("error"), severities.count("warning")
    if form == "json":
        _run.emit({"files": len(results), "errors": errors, "warnings": warnings})
    elif form == "sarif":
        from importlib import metadata

        _run.emit(write.sarif(results, metadata.version("dcb")))
    elif form == "junit":
        sys.stdout.buffer.write(write.junit(results).encode())
        sys.stdout.buffer.flush()
    _run.say(f"{len(results)} checked: {errors} errors, {warnings} warnings")
    if not results:
        _run.say("nothing to check here")
    if errors or (warnings and warnings_as_errors):
        raise typer.Exit(1)
