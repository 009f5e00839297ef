"""What all commands share: messages, errors, exit codes, safe text, outputs."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

import orjson
import typer

if TYPE_CHECKING:
    from types import FrameType

    from converters.errors import DcbError
    from converters.ledger import Report

__all__ = [
    "Problems",
    "catch_signals",
    "close_stdout",
    "disable_plugins",
    "emit",
    "error_record",
    "finish",
    "flush_stdout",
    "open_streams",
    "print_error",
    "print_os_error",
    "printable",
    "say",
    "show_warnings",
    "summarize",
    "sweep",
    "terminal",
]

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str, *, lines: bool = False) -> str:
    """Give text for a terminal: control, bidi and zero-width characters as visible escapes.

    ``lines`` keeps line breaks and tabs.
    """
    shown = _UNSAFE.sub(lambda m: m[0].encode("unicode_escape", "surrogatepass").decode(), text)
    return shown if lines else shown.replace("\n", "\\n").replace("\t", "\\t")


def say(text: str) -> None:
    """Print a message for a person to stderr, made safe."""
    print(_fit(printable(text, lines=True), sys.stderr), file=sys.stderr)


def put(text: str) -> None:
    """Print a line of results to stdout, made safe."""
    print(_fit(printable(text, lines=True), sys.stdout))


def _fit(text: str, stream: Any) -> str:
    """Replace what the encoding of the stream does not have."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def emit(value: Any) -> None:
    """Print one JSON object on a line of stdout, for machines."""
    try:
        data = orjson.dumps(value, default=_plain, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        data = orjson.dumps(_sound(_plain(value)), option=orjson.OPT_APPEND_NEWLINE)
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def _sound(value: Any) -> Any:
    """Make every text of a JSON value fit for JSON; file names may hold any bytes."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        except UnicodeEncodeError:  # half a pair, which no file name of this system holds
            return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_sound(name): _sound(item) for name, item in value.items()}
    return [_sound(item) for item in value] if isinstance(value, list) else value


def error_record(error: DcbError) -> dict[str, Any]:
    """Give an error as the object that ``--json`` prints."""
    return {
        "error": error.message,
        "code": error.code,
        "path": _valid(error.path),
        "position": error.position,
        "hint": error.hint,
    }


def _valid(text: str | None) -> str | None:
    """Make a file name that is not UTF-8 fit for JSON."""
    return None if text is None else os.fsencode(text).decode("utf-8", "backslashreplace")


def print_error(error: DcbError) -> None:
    """Print ``error: FILE:POSITION: what`` and the hint to stderr."""
    say(f"error: {printable(str(error))}")
    if error.hint:
        say(f"hint: {error.hint}")


class Problems:
    """Counts and prints what failed in a run; the rest is done all the same."""

    def __init__(self, *, json: bool) -> None:
        self.count = 0
        self._json = json

    def take(self, error: DcbError) -> None:
        """Print an error, with ``--json`` also as a record."""
        self.count += 1
        print_error(error)
        if self._json:
            emit(error_record(error))


def finish(*, failed: bool, degraded: bool = False) -> None:
    """End a command with its exit code: 1 for a failure, 3 for a refused loss, else go on.

    ``degraded``: something was lost or changed, and ``--strict`` was given.
    """
    if failed:
        raise typer.Exit(1)
    if degraded:
        raise typer.Exit(3)


def summarize(report: Report) -> str:
    """Give a report in one line."""
    r = report.records
    parts = [f"{report.sessions} session{'s' * (report.sessions != 1)}"]
    if r.total:
        parts.append(f"{r.total} records: {r.mapped} mapped, {r.aside} aside, {r.skipped} skipped")
    if report.entries:
        parts.append(", ".join(f"{entry.rule} {entry.count}" for entry in report.entries))
    return "; ".join(parts)


def terminal() -> bool:
    """Whether stderr is a terminal that may show progress."""
    return sys.stderr.isatty()


def color() -> bool:
    """Whether stdout may carry colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def disable_plugins() -> None:
    """Leave format plugins out of this run."""
    from converters import registry

    registry.use_plugins(enabled=False)


def catch_signals() -> None:
    """Turn SIGTERM into an orderly exit with code 143, so that no temporary file stays."""
    signal.signal(signal.SIGTERM, _terminate)


def sweep() -> None:
    """Remove temporary files that an interrupt left between their end and their name."""
    files = sys.modules.get("dcb.files")
    if files is not None:
        files.sweep()


def _terminate(signum: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)


def open_streams() -> None:
    """Put something in the place of the standard streams that a shell has closed.

    Reading then gives nothing and results are refused; messages go nowhere.
    """
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            stream = os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8")
            setattr(sys, name, stream)


def show_warnings() -> None:
    """Print warnings, such as those of plugins that do not load, as messages of one line."""
    import warnings

    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"warning: {printable(str(message))}")

    warnings.showwarning = show


def print_os_error(error: OSError) -> None:
    """Print a failure of the system that no part of dcb could foresee, such as a full disk."""
    what = error.strerror or str(error)
    if error.filename is None:
        say(f"error: cannot write: {what}")
    else:
        say(f"error: {printable(os.fsdecode(error.filename))}: {what}")


def flush_stdout() -> OSError | None:
    """Send off what is printed; gives the failure, after which nothing more is tried."""
    try:
        sys.stdout.flush()
    except OSError as error:
        close_stdout()
        return error
    return None


def close_stdout() -> None:
    """Give up on a closed pipe without a second complaint at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
