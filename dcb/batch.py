"""Many inputs into many outputs: naming, one input at a time, several processes.

A worker process converts whole inputs and leaves its outputs under temporary names;
the parent gives them their names in input order, so that ``--jobs`` changes nothing
but the time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from collections import deque
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn, Self, TypeVar, cast

import msgspec

from converters import registry
from converters.errors import DcbError, LimitReached, OutputError
from converters.ledger import Ledger, Report
from converters.reading import Unit, read_unit
from converters.turns import title_of
from converters.types import Context, Format, Options
from converters.writing import put
from dcb import files

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from converters.ir import Session
    from converters.reading import Spread

_T = TypeVar("_T")

_TOGETHER: Final = 16
"""Outputs whose bytes are sent to the disk in one go."""

_LOOKS: Final = 8
"""Inputs that a worker looks at, or converts when they are small, before it answers."""

_HANDFUL: Final = 4 << 20

_KEPT: Final[list[object]] = []

_INTERRUPTED: Final = threading.Event()
"""Set in a worker process that is to stop."""

__all__ = [
    "Job",
    "Made",
    "Names",
    "Outcome",
    "Sources",
    "convert_unit",
    "discard",
    "guard",
    "keep",
    "peek",
    "processes",
    "run",
    "spool",
    "spread",
    "stem_of",
    "uncollected",
    "write_one",
]


class Job(msgspec.Struct, frozen=True):
    """What is the same for every input of a run. ``folder`` holds the outputs."""

    to: str
    folder: Path
    options: Options = msgspec.field(default_factory=Options)
    to_options: dict[str, Any] = msgspec.field(default_factory=dict)
    itemize: bool = True
    now_ms: int = 0


class Made(msgspec.Struct):
    """One output that waits for its name: a temporary file and its companions."""

    temporary: Path
    stem: str
    session: str
    title: str | None
    beside: list[tuple[str, bytes]] = msgspec.field(default_factory=list)


class Outcome(msgspec.Struct):
    """What became of one input."""

    source: str
    format: str
    report: Report
    made: list[Made] = msgspec.field(default_factory=list)
    error: DcbError | None = None


class _Sink:
    """A staged file with its companions."""

    def __init__(self, stream: BinaryIO, made: Made) -> None:
        self.write = stream.write
        self._made = made

    def beside(self, name: str, data: bytes) -> None:
        self._made.beside.append((name, data))


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Leave reference cycles uncollected while a block runs.

    A session is many small objects without cycles; looking for cycles among them while they
    are made and written costs up to a third of the time. Blocks may stand within one another.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def convert_unit(unit: Unit, job: Job) -> Outcome:
    """Convert one input, as :func:`_convert`, without looking for reference cycles."""
    with uncollected():
        return _convert(unit, job)


def _convert(unit: Unit, job: Job) -> Outcome:
    """Convert one input into temporary files, one per session; errors come as a value.

    An input that fails leaves no output, not even of its whole sessions.
    """
    target = registry.target(job.to)
    ledger = Ledger(unit.input.name, itemize=job.itemize)
    outcome = Outcome(unit.input.name, unit.format.id, Report(unit.input.name))
    reading = Context(ledger, job.options, job.now_ms)
    writing = Context(ledger, Options(format=job.to_options, tz=job.options.tz), job.now_ms)
    try:
        sessions = read_unit(unit, reading)
        while (session := _next(sessions)) is not None:
            outcome.made.append(write_one(session, target, job, writing))
    except DcbError as error:
        outcome.error = error
        discard(outcome.made)
        outcome.made = []
    except BaseException:
        discard(outcome.made)
        raise
    outcome.report = ledger.report()
    return outcome


def _next(sessions: Iterator[Session]) -> Session | None:
    with _interruptible():
        return next(sessions, None)


def write_one(session: Session, target: Format, job: Job, ctx: Context) -> Made:
    """Write one session under a temporary name in the folder of the job, not yet synced."""
    title = title_of(session.turns, session.title)
    stem = stem_of(session, title, target)
    made = Made(job.folder / stem, stem, session.meta.id, title)
    with files.staged(made.temporary, keep=True) as (stream, made.temporary), _interruptible():
        put(iter((session,)), _Sink(stream, made), target, ctx)
    return made


def stem_of(session: Session, title: str | None, target: Format) -> str:
    """Give the name of a session's file: the tool's own where it goes by it, else the title's."""
    if target.file_name is not None:
        return files.safe_name(target.file_name(session))
    return files.session_name(title, session.meta.id)


def discard(made: Iterable[Made]) -> None:
    """Remove outputs that got no name."""
    for one in made:
        files.drop(one.temporary)


class Names:
    """Gives outputs their names in one folder; two sessions never share one.

    A context: the names are durable when it ends.
    """

    def __init__(self, folder: Path, suffix: str, *, force: bool, sources: Sources) -> None:
        self._folder = folder
        self._suffix = suffix
        self._force = force
        self._sources = sources
        self._taken: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        files.sync_folder(self._folder)

    def place(self, made: Made) -> Path:
        """Rename a synced output; raises :class:`OutputError` when its name is taken on disk."""
        target = self._free(made.stem)
        try:
            self._sources.guard(target)
            files.place(made.temporary, target, force=self._force, sync=False)
        finally:
            discard([made])
        for name, data in made.beside:
            files.write_beside(target, name, data, force=self._force)
        return target

    def _free(self, stem: str) -> Path:
        number = 1
        while True:
            name = stem if number == 1 else f"{stem}-{number}"
            if name.casefold() not in self._taken:
                self._taken.add(name.casefold())
                return self._folder / f"{name}{self._suffix}"
            number += 1


class Sources:
    """The files that a run reads, by whatever name: no output takes the place of one of them."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._known: set[tuple[int, int]] = set()
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> None:
        """Take one more file or folder to the sources."""
        known = _identity(path)
        if known is not None:
            self._known.add(known)

    def guard(self, target: Path, option: str = "-o") -> None:
        """Refuse an output that is one of the inputs; ``option`` is what named it."""
        if self._known and _identity(target) in self._known:
            raise OutputError(
                "the output is an input",
                path=str(target),
                hint=f"choose another name with {option}",
            )


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell a file from all others, whatever its spelling; ``None`` where there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def guard(target: Path, sources: Iterable[Path]) -> None:
    """Refuse an output that is one of the inputs."""
    if target.exists():
        Sources(sources).guard(target)


def run(
    units: Iterable[Unit], job: Job, *, jobs: int = 1, executor: Executor | None = None
) -> Generator[Outcome, None, None]:
    """Convert inputs, ``jobs`` at a time, and give the outcomes in input order, synced.

    With an ``executor`` (anything with ``submit``, such as dask's) the work goes there. Raises
    :class:`OutputError` when the disk refuses an output.
    """
    waiting: list[Outcome] = []
    count = 0
    try:
        with contextlib.closing(_converted(units, job, jobs=jobs, executor=executor)) as converted:
            for outcome in converted:
                waiting.append(outcome)
                count += len(outcome.made)
                if count >= _TOGETHER:
                    yield from _synced(waiting)
                    waiting, count = [], 0
        yield from _synced(waiting)
        waiting = []
    finally:
        for outcome in waiting:
            discard(outcome.made)


def _synced(outcomes: list[Outcome]) -> list[Outcome]:
    files.sync_all(made.temporary for outcome in outcomes for made in outcome.made)
    return outcomes


def _converted(
    units: Iterable[Unit], job: Job, *, jobs: int, executor: Executor | None
) -> Generator[Outcome, None, None]:
    if jobs <= 1 and executor is None:
        for unit in units:
            yield convert_unit(unit, job)
        return
    with processes(jobs) if executor is None else contextlib.nullcontext(executor) as found:
        assert found is not None  # noqa: S101 - jobs is more than one
        yield from _ordered(found, units, job, ahead=4 * max(jobs, 2))


@contextlib.contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """Give worker processes for a block; ``None`` for one job, which needs none.

    Raises :class:`LimitReached` when the system ends one of them, as it does when memory is short.
    """
    if jobs <= 1:
        yield None
        return
    # Most runs need no processes; their machinery takes a while to load.
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

    # What is loaded before the workers start need not be loaded in each of them.
    registry.all_formats()
    try:
        with ProcessPoolExecutor(jobs, initializer=_quiet) as executor:
            try:
                yield executor
            except BaseException:
                executor.shutdown(cancel_futures=True)
                raise
    except BrokenExecutor as error:
        raise LimitReached(
            "a worker process was ended from outside", hint="memory may be short: use fewer --jobs"
        ) from error


def _quiet() -> None:
    """Let a worker process pass over an interrupt while it waits: its parent takes care of it.

    The end that the pool asks for when another worker was killed comes at once; the parent's
    way to it would only end the task, and the pool would wait for this process for ever.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _remember)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _remember(*_: object) -> None:
    """Leave an interrupt to the next block that may be interrupted."""
    _INTERRUPTED.set()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let a signal end the work of a worker process in this block, where it leaves no file."""
    if signal.getsignal(signal.SIGINT) is not _remember:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _end)
    try:
        if _INTERRUPTED.is_set():
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, _remember)


def _end(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def spread(executor: Executor | None) -> Spread:
    """Give the ``map`` that lets workers look at inputs."""
    return map if executor is None else partial(executor.map, chunksize=_LOOKS)


def _ordered(
    executor: Executor, units: Iterable[Unit], job: Job, *, ahead: int
) -> Iterator[Outcome]:
    """Keep a bounded number of inputs under way and give outcomes in order."""
    todo = _handfuls(units)
    waiting: deque[Future[list[Outcome]]] = deque()
    outcomes: deque[Outcome] = deque()
    try:
        for some in islice(todo, ahead):
            waiting.append(executor.submit(_convert_all, some, job))
        while waiting:
            outcomes.extend(waiting[0].result())
            waiting.popleft()
            for some in islice(todo, 1):
                waiting.append(executor.submit(_convert_all, some, job))
            while outcomes:
                yield outcomes[0]
                outcomes.popleft()
    finally:
        for outcome in outcomes:
            discard(outcome.made)
        _abandon(waiting)


def _abandon(waiting: Iterable[Future[list[Outcome]]]) -> None:
    """Remove what was converted and is not wanted any more."""
    left = [future for future in waiting if not future.cancel()]
    for future in left:
        if future.exception() is None:
            for outcome in future.result():
                discard(outcome.made)


def _convert_all(units: list[Unit], job: Job) -> list[Outcome]:
    outcomes: list[Outcome] = []
    try:
        outcomes.extend(convert_unit(unit, job) for unit in units)
    except BaseException as error:
        for outcome in outcomes:
            discard(outcome.made)
        if isinstance(error, SystemExit):
            # The pool would take it for the outcome of the task and wait for the next one.
            os._exit(128 + signal.SIGTERM)
        raise
    return outcomes


def _handfuls(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Give small inputs several at a time: sending one takes as long as converting it."""
    some: list[Unit] = []
    size = 0
    for unit in units:
        some.append(unit)
        size += unit.input.size or _HANDFUL
        if size >= _HANDFUL or len(some) == _LOOKS:
            yield some
            some, size = [], 0
    if some:
        yield some


def spool(write: Callable[[BinaryIO], None], out: BinaryIO) -> None:
    """Hold an output back until it is whole, then copy it to ``out``."""
    import tempfile

    with tempfile.SpooledTemporaryFile(64 << 20) as held:
        write(cast("BinaryIO", held))
        held.seek(0)
        while piece := held.read(1 << 20):
            out.write(piece)


def keep(value: object) -> None:
    """Keep an object until the next one or the end of the process.

    The last session of a run goes quicker with the whole process than object by object.
    """
    _KEPT[:] = [value]


def peek(found: Iterator[_T]) -> tuple[int, Iterator[_T]]:
    """Say whether there are none, one or more (2), and give them all again."""
    first = list(islice(found, 2))
    return len(first), chain(first, found)
