"""``dcb compile``: a three-layer snapshot of each session."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from converters import opening
from converters.errors import DcbError, OutputError, UsageError
from converters.ledger import Ledger, Report, merge
from converters.opening import Skipped
from converters.reading import Unit, read_unit
from converters.types import Context, Options
from dcb import batch, files
from dcb.batch import uncollected
from dcb.cli import _run
from dcb.cli._inputs import (
    BranchOption,
    FromOption,
    InputsArgument,
    JsonOption,
    OverwriteOption,
    SessionsOption,
    StrictOption,
    SubagentsOption,
    TzOption,
    collect,
    local_paths,
    read_options,
    say_skipped,
)
from dcb.cli._settings import current
from dcb.cli._snapshots import (
    LlmBaseUrlOption,
    LlmModelOption,
    ProfileOption,
    SummaryOption,
    llm_summarizer,
)
from dcb.snapshot.compile import Compiled, compile_session
from dcb.snapshot.compile import Options as CompileOptions
from dcb.snapshot.lexicon import extend
from dcb.snapshot.profile import Profile, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Session

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_SUFFIX = ".md"


@app.command(epilog="Example: dcb compile session.jsonl -o snapshot.md")
def compile(  # noqa: A001 - the command's name
    inputs: InputsArgument,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE|DIR|-", help="Where to write.")
    ] = "-",
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=256, max=32768, help="Token budget [4096].")
    ] = None,
    bullets: Annotated[
        int | None, typer.Option("--bullets", min=1, max=30, help="Bullets per section [6].")
    ] = None,
    max_messages: Annotated[
        int | None,
        typer.Option("--max-messages", min=1, max=5000, help="Read the last N messages [400]."),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the snapshot.")] = None,
    description: Annotated[
        str | None, typer.Option("--description", help="Description of the snapshot.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.")] = None,
    profile: ProfileOption = None,
    lexicon: Annotated[
        Path | None, typer.Option("--lexicon", metavar="FILE", help="More words, as TOML.")
    ] = None,
    summary: SummaryOption = None,
    llm_base_url: LlmBaseUrlOption = None,
    llm_model: LlmModelOption = None,
    from_: FromOption = None,
    session: SessionsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show layers, tokens and what the budget drops.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Save into the store.")] = False,
    strict: StrictOption = False,
    subagents: SubagentsOption = "include",
    branch: BranchOption = "active",
    tz: TzOption = None,
    force: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Compile sessions into snapshots: what stays word for word, a summary, the preferences.

    One session goes to -o FILE or stdout, several into the folder -o DIR. Reasoning and tool
    output do not enter a snapshot; what the source's reader lost, and how much the budget and the
    rules left out, is summed up on stderr. --strict looks at what was lost or changed, not at
    what was left out.
    """
    chosen = profile_of(profile or current().profile)
    defaults = CompileOptions()
    options = CompileOptions(
        title=title,
        description=description,
        tags=tuple(tag or ()),
        max_tokens=max_tokens or _setting("max_tokens", defaults.max_tokens, 256, 32768),
        bullets=bullets or _setting("bullets", defaults.bullets, 1, 30),
        max_messages=max_messages or _setting("max_messages", defaults.max_messages, 1, 5000),
        lexicon=None if lexicon is None else extend(chosen.compiling.lexicon(), *_file(lexicon)),
        summarizer=llm_summarizer(chosen, summary, llm_base_url, llm_model),
    )
    reading = read_options(strict=strict, subagents=subagents, branch=branch, tz=tz)
    run = _Compile(chosen, options, reading, session=session, json=json)
    found = collect(inputs, from_=from_, on_error=run.problems.take, on_skip=say_skipped)
    made = run.sessions(found)
    if dry_run:
        for one in made:
            _preview(one, json=json)
    elif save and output == "-":
        run.saved = _save(made, json=json)
    else:
        written = _write(made, output, local_paths(inputs), run.problems, force=force, json=json)
        held = list(written)
        if save:
            run.saved = _save(iter(held), json=json)
    run.finish(strict=strict, listed=dry_run)


def _setting(name: str, default: int, low: int, high: int) -> int:
    """Give a setting of ``dcb.toml``, checked."""
    from dcb.cli._settings import settings

    value = settings().get(name, default)
    if type(value) is not int or not low <= value <= high:
        raise UsageError(f"dcb.toml: {name} must be a whole number from {low} to {high}")
    return value


def _file(path: Path) -> tuple[bytes, str]:
    for found in opening.open_inputs(str(path)):
        if isinstance(found, DcbError):
            raise found
        if not isinstance(found, Skipped):
            return found.read(), str(path)
    raise UsageError("no lexicon in it", path=str(path))


class _Made:
    """A compiled session and where it came from."""

    def __init__(self, source: str, session: Session, compiled: Compiled) -> None:
        self.source = source
        self.session_id = session.meta.id
        self.compiled = compiled

    def record(self, **more: Any) -> dict[str, Any]:
        """Give what ``--json`` prints of it."""
        meta = self.compiled.document.snapshot.meta
        return {
            "source": self.source,
            "session": self.session_id,
            "snapshot": meta.snapshot_id,
            "title": meta.title,
            "tokens": meta.token_estimate,
            "budget": self.compiled.budget,
            "leftOut": self.compiled.left_out,
            "passedOver": self.compiled.passed_over,
            "changes": [change._asdict() for change in self.compiled.document.changes],
            **more,
        }


class _Compile:
    """The state of one run."""

    def __init__(
        self,
        profile: Profile,
        options: CompileOptions,
        reading: Options,
        *,
        session: str | None,
        json: bool,
    ) -> None:
        self._profile = profile
        self._options = options
        self._reading = reading
        self._session = session
        self._json = json
        self._reports: list[Report] = []
        self._changes = 0
        self.problems = _run.Problems(json=json)
        self._made = 0
        self._left: Counter[str] = Counter()
        self.saved = 0

    def sessions(self, units: Iterator[Unit]) -> Iterator[_Made]:
        """Compile every session of every input."""
        for unit in units:
            ledger = Ledger(unit.input.name)
            try:
                with uncollected():
                    for session in read_unit(unit, Context(ledger, self._reading)):
                        if self._session and not session.meta.id.startswith(self._session):
                            continue
                        compiled = compile_session(session, self._options, self._profile)
                        for change in compiled.document.changes:
                            ledger.note(
                                "text-changed", f"snapshot {change.place}", kind=change.what
                            )
                        self._made += 1
                        self._left.update(_left_out(compiled))
                        yield _Made(unit.input.name, session, compiled)
            except DcbError as error:
                error.path = error.path or unit.input.name
                self.problems.take(error)
            self._reports.append(ledger.report())

    def finish(self, *, strict: bool, listed: bool) -> None:
        """Sum up and exit; ``listed``: what was left out has been said one by one."""
        total, failed = merge(self._reports), self.problems.count
        if self._json:
            _run.emit({"report": total, "failed": failed, "saved": self.saved})
        if total.entries or self._made > 1 or failed:
            _run.say(_run.summarize(total))
        left = [f"{count} {what}" for what, count in self._left.items() if count]
        if left and not listed:
            _run.say(f"left out: {', '.join(left)}; --dry-run lists them")
        if not self._made and not failed:
            _run.say("error: no session found")
        _run.finish(failed=bool(failed) or not self._made, degraded=strict and total.degraded)


def _left_out(compiled: Compiled) -> dict[str, int]:
    """Count what could stand in a snapshot and does not, by reason, in words."""
    left = compiled.left_out
    return {
        "over the budget": len(compiled.budget.dropped),
        "replaced preferences": left["replacedPreferences"],
        "doubles": left["doubles"],
        "bullets over the limit": left["bulletsOverLimit"],
        "short texts": left["shortTexts"],
    }


def _write(
    made: Iterator[_Made],
    output: str,
    sources: list[Path],
    problems: _run.Problems,
    *,
    force: bool,
    json: bool,
) -> Iterator[_Made]:
    """Write one document to a file or stdout, several into a folder; give what was written."""
    target = Path(output)
    if output != "-" and (target.is_dir() or output.endswith(("/", "\\"))):
        yield from _write_folder(made, target, sources, problems, force=force, json=json)
        return
    count, made = batch.peek(made)
    if count > 1 and not (json and output == "-"):
        if output != "-" and not target.suffix:
            yield from _write_folder(made, target, sources, problems, force=force, json=json)
            return
        raise UsageError("several sessions, and a snapshot holds one", hint="give -o DIR/")
    for one in made:
        if output == "-":
            if json:
                _run.emit(one.record(document=one.compiled.document.text))
            else:
                sys.stdout.buffer.write(one.compiled.document.text.encode("utf-8", "replace"))
                sys.stdout.buffer.flush()
        else:
            batch.guard(target, sources)
            _put(one, target, force=force, json=json)
        yield one


def _write_folder(
    made: Iterator[_Made],
    folder: Path,
    sources: list[Path],
    problems: _run.Problems,
    *,
    force: bool,
    json: bool,
) -> Iterator[_Made]:
    """Write each document into a folder; one that cannot be written stops no other."""
    files.make_folder(folder)
    taken: set[str] = set()
    for one in made:
        stem = files.session_name(one.compiled.document.snapshot.meta.title, one.session_id)
        name, number = stem, 1
        while name.casefold() in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name.casefold())
        target = folder / f"{name}{_SUFFIX}"
        try:
            batch.guard(target, sources)
            _put(one, target, force=force, json=json)
        except OutputError as error:
            problems.take(error)
        else:
            yield one


def _put(one: _Made, target: Path, *, force: bool, json: bool) -> None:
    files.write_whole(target, one.compiled.document.text.encode("utf-8", "replace"), force=force)
    if json:
        _run.emit(one.record(output=str(target)))


def _preview(one: _Made, *, json: bool) -> None:
    """Show what would be written: the layers, the tokens, what the budget dropped."""
    compiled = one.compiled
    if json:
        _run.emit(one.record(object=compiled.document.snapshot))
        return
    from dcb.snapshot.render import lines

    for line in lines(compiled.document.text.encode("utf-8", "replace")):
        _run.put(line)
    report = compiled.budget
    _run.put("")
    _run.put(f"tokens: {report.token_estimate} of {report.budget}")
    for item in report.dropped:
        text = " ".join(item.text.split())[:60]
        _run.put(f"dropped: {item.layer} {item.item} ({item.tokens} tokens, {item.reason}): {text}")
    for over in compiled.passed_over:
        text = " ".join(over.text.split())[:60]
        _run.put(f"passed over: {over.layer} {over.item} ({over.reason}): {text}")
    left = ", ".join(f"{name} {count}" for name, count in compiled.left_out.items() if count)
    if left:
        _run.put(f"not in a snapshot: {left}")
    for change in compiled.document.changes:
        _run.put(f"changed: {change.place}: {change.what}")


def _save(made: Iterator[_Made], *, json: bool) -> int:
    """Save the snapshots into the store, all or none."""
    from dcb.cli._store import chosen_sealing, now_ms, opened_store
    from dcb.store import save

    snapshots = [one.compiled.document.snapshot for one in made]
    if not snapshots:
        return 0
    sealing = chosen_sealing(None)
    with opened_store() as store:
        saved = save(store, snapshots, now_ms=now_ms(), sealing=sealing)
    for one in saved:
        if json:
            _run.emit({"saved": one.snapshot_id, "state": one.state})
        else:
            _run.say(f"saved {one.snapshot_id} ({one.state})")
    return len(saved)
