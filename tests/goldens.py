"""Golden cases: found by folder, read like a user's files, outputs kept beside the input."""

from __future__ import annotations

import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from syrupy.data import SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension

from converters.errors import DcbError
from converters.ledger import Ledger, Report
from converters.reading import Unit, read_unit, units
from converters.types import Context, Options
from tests.paths import GOLDENS

if TYPE_CHECKING:
    from converters.ir import Session


class Case(NamedTuple):
    """One golden case: ``golden/<format>/<name>/input.*`` or a folder ``input``.

    ``source`` is what is read (for ``input.sql`` the database built from it), ``folder``
    where the outputs stand.
    """

    format: str
    name: str
    source: Path
    folder: Path


class Read(NamedTuple):
    """What a case gives: its sessions, the account of each input, the error if it fails."""

    units: list[Unit]
    sessions: list[Session]
    reports: list[Report]
    error: DcbError | None


def cases(*formats: str) -> list[Case]:
    found = []
    for path in sorted(path for folder in GOLDENS for path in folder.glob("*/*/input*")):
        kind = path.parent.parent.name
        if not formats or kind in formats:
            source = database(path) if path.suffix == ".sql" else path
            found.append(Case(kind, path.parent.name, source, path.parent))
    return found


@cache
def database(script: Path) -> Path:
    """Build the database of ``input.sql``: its text can be reviewed, a database cannot."""
    target = Path(tempfile.mkdtemp(prefix="dcb-golden-")) / "input.db"
    connection = sqlite3.connect(target)
    connection.executescript(script.read_text(encoding="utf-8"))
    connection.close()
    return target


def case_id(case: Case) -> str:
    return f"{case.format}-{case.name}"


def read_source(source: Path, options: Options | None = None, from_: str | None = None) -> Read:
    """Read every input of a source; places in reports are relative to its folder."""
    read = Read([], [], [], None)
    error: DcbError | None = None
    for unit in units(source, from_=from_):
        if isinstance(unit, DcbError):
            error = unit
        elif isinstance(unit, Unit):
            read.units.append(unit)
            name = unit.input.name.removeprefix(f"{source.parent}/")
            ledger = Ledger(name)
            try:
                read.sessions.extend(read_unit(unit, Context(ledger, options or Options())))
            except DcbError as caught:
                error = caught
            read.reports.append(relative(ledger.report(), source.parent))
    return read._replace(error=error)


def relative(report: Report, folder: Path) -> Report:
    """Name the files of a report below a folder, so that it reads the same in every checkout."""
    data = msgspec.json.encode(report).replace(f"{folder}/".encode(), b"")
    return msgspec.json.decode(data, type=Report)


def pretty(value: Any) -> bytes:
    """Give indented JSON of Structs, one member a line, for review."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


class GoldenExtension(SingleFileSnapshotExtension):
    """Keeps each output as a file of the case's folder; never deletes anything there."""

    @classmethod
    def get_location(cls, *, test_location: Any, index: Any) -> str:
        return str(Path(cls.dirname(test_location=test_location)) / str(index))

    @classmethod
    def dirname(cls, *, test_location: Any) -> str:
        # The report asks for the location of every test, also of those without a case.
        spec = getattr(test_location.item, "callspec", None)
        case = spec.params.get("case") if spec else None
        return str(case.folder if isinstance(case, Case) else GOLDENS[0])

    @classmethod
    def matches_test_location(cls, *, test_location: Any, snapshot_location: str) -> bool:
        return cls.dirname(test_location=test_location) == str(Path(snapshot_location).parent)

    def discover_snapshots(self, **_: Any) -> SnapshotCollections:
        return SnapshotCollections()
