"""``dcb detect``: which format, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from converters import detection
from converters.detection import NoMatch
from converters.errors import BadInput, DcbError
from converters.opening import Skipped
from dcb.cli import _run
from dcb.cli._inputs import InputsArgument, JsonOption, open_named

if TYPE_CHECKING:
    from converters.types import Input

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog="Example: dcb detect export.zip")
def detect(inputs: InputsArgument, *, json: JsonOption = False) -> None:
    """Say which format each input has, with the score and reason of every candidate."""
    failed = False
    skipped = shown = 0
    for found in open_named(inputs, is_unit=detection.is_unit):
        if isinstance(found, Skipped):
            skipped += _skip(found)
        elif isinstance(found, DcbError):
            failed = True
            _run.print_error(found)
            if json:
                _run.emit(_run.error_record(found))
        elif (known := _show(found, json=json)) is None:
            skipped += 1
        else:
            shown += known
            failed |= not known
    if skipped and not shown and not failed:
        _run.print_error(BadInput("nothing in it has a known format"))
        failed = True
    if failed:
        raise typer.Exit(1)


def _skip(found: Skipped) -> int:
    _run.say(f"skipped: {_run.printable(found.name)}: {found.reason}")
    return 1


def _show(found: Input, *, json: bool) -> bool | None:
    """Show the candidates; ``False`` for an error, ``None`` for what lies beside transcripts."""
    try:
        candidates = detection.rank(found.head)
        detection.pick(found.head)
    except DcbError as error:
        if found.nested and isinstance(error, NoMatch):
            _skip(Skipped(found.name, error.message))
            return None
        _run.print_error(error)
        if json:
            _run.emit({**_run.error_record(error), "candidates": []})
        return False
    if json:
        listed = [{"id": c.format.id, "score": c.score, "reason": c.reason} for c in candidates]
        _run.emit({"path": found.name, "format": candidates[0].format.id, "candidates": listed})
        return True
    best = candidates[0]
    _run.put(f"{_run.printable(found.name)}: {best.format.id} ({best.score}: {best.reason})")
    for other in candidates[1:]:
        _run.put(f"    or {other.format.id} ({other.score}: {other.reason})")
    return True
