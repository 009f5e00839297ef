"""From sessions to a format: the writers behind one function, with options checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters import registry
from converters.errors import DcbError, UsageError
from converters.ledger import Ledger, Report
from converters.types import Context, Options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

    from converters.ir import Session
    from converters.types import Format, Sink

__all__ = ["check_options", "put", "write"]


class _Plain:
    """A binary stream as a sink; it has no place for companions."""

    def __init__(self, stream: BinaryIO, ledger: Ledger) -> None:
        self._stream = stream
        self._ledger = ledger
        self.write = stream.write

    def beside(self, name: str, data: bytes) -> None:
        """Count a companion file that a plain stream cannot take."""
        del data
        self._ledger.note("companion-dropped", name)


def write(
    sessions: Iterable[Session], sink: Sink | BinaryIO, *, to: str, options: Mapping[str, Any]
) -> Report:
    """Write sessions and give the account of their items."""
    record = registry.target(to)
    ledger = Ledger()
    ctx = Context(ledger, Options(format=check_options(record, options)))
    target: Sink = sink if hasattr(sink, "beside") else _Plain(sink, ledger)
    put(_counted(sessions, ledger), target, record, ctx)
    return ledger.report()


def put(sessions: Iterable[Session], sink: Sink, record: Format, ctx: Context) -> None:
    """Let a format write; what a plugin raises is an error of its own, not of dcb."""
    assert record.write is not None  # noqa: S101 - target() gives writers only
    try:
        record.write(sessions, sink, ctx)
    except (DcbError, OSError):
        raise
    except Exception as error:
        fault = registry.fault_of(record, error, " to write")
        if fault is None:
            raise
        raise fault from error


def _counted(sessions: Iterable[Session], ledger: Ledger) -> Iterable[Session]:
    for session in sessions:
        ledger.sessions += 1
        yield session


def check_options(record: Format, given: Mapping[str, Any]) -> dict[str, Any]:
    """Give the format options with their declared types; text values are parsed.

    Raises :class:`UsageError` for an option that the format does not declare.
    """
    declared = {option.name: option for option in record.options}
    values = {}
    for name, value in given.items():
        option = declared.get(name)
        if option is None:
            known = ", ".join(declared) or "none"
            raise UsageError(f"{record.id} has no option {name!r}", hint=f"its options: {known}")
        values[name] = _typed(name, value, type(option.default))
    return values


def _typed(name: str, value: Any, kind: type) -> Any:
    if isinstance(value, kind) or not isinstance(value, str):
        return value
    if kind is bool:
        word = value.lower()
        if word in ("true", "yes", "on", "1", ""):
            return True
        if word in ("false", "no", "off", "0"):
            return False
        raise UsageError(f"option {name}: {value!r} is neither true nor false")
    try:
        return int(value)
    except ValueError as error:
        raise UsageError(f"option {name}: {value!r} is no number") from error
