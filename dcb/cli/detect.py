"""``dcb detect``: which format, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from converters import detection
from converters.errors import DcbError
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
    for found in open_named(inputs, is_unit=detection.is_unit):
        if isinstance(found, Skipped):
            _run.say(f"skipped: {_run.printable(found.name)}: {found.reason}")
        elif isinstance(found, DcbError):
            failed = True
            _run.print_error(found)
            if json:
                _run.emit(_run.error_record(found))
        elif not _show(found, json=json):
            failed = True
    if failed:
        raise typer.Exit(1)


def _show(found: Input, *, json: bool) -> bool:
    try:
        candidates = detection.rank(found.head)
        detection.pick(found.head)
    except DcbError as error:
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
