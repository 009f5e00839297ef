"""From a named source to sessions: opening, detection and the readers put together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from converters import detection, opening, registry
from converters.detection import NoMatch
from converters.errors import BadInput, DcbError, UnknownFormat, UsageError
from converters.ledger import Ledger, Report, merge
from converters.opening import Skipped
from converters.types import Context, Input, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from converters.ir import Session
    from converters.types import Format, Head

__all__ = ["COMPANION", "Reading", "Skipped", "Unit", "read_unit", "units"]

COMPANION = "belongs to another input"


class Spread(Protocol):
    """Something that applies a function to inputs, in order, as ``map`` does."""

    def __call__(
        self, function: Callable[[Input], Any], inputs: Iterable[Input], /
    ) -> Iterable[Any]:
        """Give the results in the order of the inputs."""


class Unit(NamedTuple):
    """One input and the format that reads it; ``only``: ids of the sessions that are wanted."""

    input: Input
    format: Format
    only: frozenset[str] | None = None


def units(
    source: str | Path,
    *,
    from_: str | None = None,
    spread: Spread = map,
    **how: Any,
) -> Iterator[Unit | Skipped | DcbError]:
    """Give what a named source holds: inputs with their formats, in sorted order.

    Problems come as values, so that one bad entry of a folder or archive stops
    nothing. ``from_`` forces a format (or the best member of a group). A file that is a
    declared companion of another input is left out, named; one that should be a part of a
    series and is of no known format is a problem. ``spread`` is a ``map`` that may
    look at inputs in other processes. ``how`` goes to :func:`converters.opening.open_inputs`.
    """
    formats = None if from_ is None else registry.lookup(from_)
    entries = list(opening.open_inputs(source, is_unit=_unit_of(formats), **how))
    inputs = [entry for entry in entries if not isinstance(entry, DcbError | Skipped)]
    recognised = iter(spread(partial(_recognise, formats=formats), inputs))
    found = [
        entry if isinstance(entry, DcbError | Skipped) else _as_unit(entry, next(recognised))
        for entry in entries
    ]
    owned: set[str] = set()
    parts: set[str] = set()
    if len(found) > 1:
        kinds = {entry.input.name: entry.format.id for entry in found if isinstance(entry, Unit)}
        for entry in found:
            # What another input owns owns nothing itself: numbered parts go to the first of them.
            if isinstance(entry, Unit) and entry.input.name not in owned:
                others = _series(entry, kinds)
                owned |= _companions(entry) | others
                parts |= others
    for entry in found:
        name = entry.input.name if isinstance(entry, Unit) else getattr(entry, "name", None)
        if name in parts and isinstance(entry, Skipped):
            yield UnknownFormat(entry.reason, path=name)
        else:
            yield Skipped(name, COMPANION) if name in owned else entry


def _companions(unit: Unit) -> set[str]:
    owned: set[str] = set()
    for pattern in unit.format.companions:
        if pattern not in unit.format.series:
            owned |= {file.name for file in unit.input.files(pattern)}
    return owned - {unit.input.name}


def _series(unit: Unit, kinds: dict[str, str]) -> set[str]:
    """Give the other parts of an input in parts; what another format claims is none of them."""
    own = unit.input.name
    parts: set[str] = set()
    for pattern in unit.format.series:
        names = {file.name for file in unit.input.files(pattern)}
        if own in names:
            parts |= {name for name in names if kinds.get(name, unit.format.id) == unit.format.id}
    return parts - {own}


def _unit_of(formats: Iterable[Format] | None) -> Callable[[Head], bool]:
    if formats is None:
        return detection.is_unit
    kept = tuple(formats)
    return lambda head: bool(detection.rank(head, kept))


def _as_unit(found: Input, what: Format | Skipped | DcbError) -> Unit | Skipped | DcbError:
    return what if isinstance(what, Skipped | DcbError) else Unit(found, what)


def _recognise(found: Input, formats: tuple[Format, ...] | None) -> Format | Skipped | DcbError:
    """Find the format; inside a folder or archive what no format claims is only named."""
    try:
        if formats is not None and len(formats) == 1:
            return _readable(formats[0])
        return detection.pick(found.head, formats).format
    except NoMatch as error:
        return Skipped(found.name, error.message) if found.nested else error
    except DcbError as error:
        return error


def _readable(record: Format) -> Format:
    if record.read is None:
        raise UsageError(f"dcb does not read {record.id!r}")
    return record


def read_unit(unit: Unit, ctx: Context) -> Iterator[Session]:
    """Give the sessions of one input and count them in the ledger.

    An input without a session, or without the ones that are wanted, raises :class:`BadInput`;
    one that came out of a folder or archive is counted as ``empty-session``.
    """
    ledger = ctx.ledger
    ledger.source = ledger.source or unit.input.name
    assert unit.format.read is not None  # noqa: S101 - only readable formats become units
    branch = ctx.options.branch
    numbered = isinstance(branch, int) and branch > 0
    if numbered and not unit.format.capabilities.branches:
        raise BadInput(
            f"no branch {branch}: {unit.format.id} has no branches", path=unit.input.name
        )
    try:
        for session in unit.format.read(unit.input, ctx):
            if unit.only is not None and session.meta.id not in unit.only:
                continue
            ledger.sessions += 1
            yield _fitted(session, ctx) if ctx.options.budget > 0 else session
    except DcbError:
        ledger.abandon()
        raise
    except Exception as error:
        fault = registry.fault_of(unit.format, error, path=unit.input.name)
        if fault is None:
            raise
        ledger.abandon()
        raise fault from error
    if unit.input.torn is not None:
        ledger.note("truncated-input", unit.input.torn)
    if not ledger.sessions:
        if unit.only is not None:
            wanted = ", ".join(sorted(unit.only)[:3])
            hint = "--subagents include reads subagents too"
            raise BadInput(
                f"no session {wanted} in it",
                path=unit.input.name,
                hint=hint if ctx.options.subagents == "skip" else None,
            )
        if not unit.input.nested:
            what = f"branch {branch}" if numbered else "session"
            raise BadInput(f"no {what} in it (read as {unit.format.id})", path=unit.input.name)
        ledger.note("empty-session", unit.input.name)


def _fitted(session: Session, ctx: Context) -> Session:
    """Trim a session; most runs have no budget and load nothing for it."""
    from converters.fitting import fit

    return fit(session, ctx.options.budget, ctx.ledger)


class Reading:
    """Iterates over the sessions of a source; then :attr:`report` and :attr:`problems`.

    A source that is one file raises its problem. In a folder or archive a bad
    entry is collected in ``problems`` and the rest is read.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        from_: str | None = None,
        options: Options | None = None,
        **how: Any,
    ) -> None:
        self.problems: list[DcbError] = []
        self.skipped: list[Skipped] = []
        self._source = source
        self._from = from_
        self._options = options or Options()
        self._how = how
        self._reports: list[Report] = []

    def __iter__(self) -> Iterator[Session]:
        """Give the sessions one by one."""
        self.problems.clear()
        self.skipped.clear()
        self._reports.clear()
        for unit in units(self._source, from_=self._from, **self._how):
            if isinstance(unit, Skipped):
                self.skipped.append(unit)
            elif isinstance(unit, DcbError):
                self._problem(unit, nested=unit.path != str(self._source))
            else:
                yield from self._read(unit)

    def _read(self, unit: Unit) -> Iterator[Session]:
        ledger = Ledger(unit.input.name)
        try:
            yield from read_unit(unit, Context(ledger, self._options))
        except DcbError as error:
            self._problem(error, nested=unit.input.nested)
        finally:
            self._reports.append(ledger.report())

    def _problem(self, error: DcbError, *, nested: bool) -> None:
        if not nested:
            raise error
        self.problems.append(error)

    @property
    def reports(self) -> list[Report]:
        """The account of each input read so far."""
        return list(self._reports)

    @property
    def report(self) -> Report:
        """The account of everything read so far."""
        return merge(self._reports, str(self._source))
