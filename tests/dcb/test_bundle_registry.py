"""Every golden session of every format survives the way to another machine."""

from __future__ import annotations

import difflib
import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from converters import registry
from converters.errors import DcbError
from converters.formats.dsh_bundle import document as bundle
from converters.ledger import Ledger
from converters.reading import Unit, read_unit, units
from converters.types import Context, Options
from dcb.bundle.drafts import Job
from dcb.bundle.export import export
from dcb.bundle.restore import Plan, restore
from dcb.bundle.verify import check_input
from tests.dcb.bundle.bundles import opened
from tests.goldens import Case, case_id, cases
from tests.sinks import written

if TYPE_CHECKING:
    from converters.ir import Session

JOB = Job(1_786_000_000_000, "0.0.1", Options())
WHOLE = ("files", "log")


class Golden:
    """What a case holds: its inputs, and the sessions of those that read."""

    def __init__(self, case: Case, *, found: bool = False) -> None:
        self.units: list[Unit] = []
        self.sessions: list[Session] = []
        sources = sorted(filter(Path.is_file, case.source.rglob("*"))) if found else [case.source]
        for unit in chain.from_iterable(units(source, found=found) for source in sources):
            if not isinstance(unit, Unit):
                continue
            try:
                sessions = list(read_unit(unit, Context(Ledger())))
            except DcbError:
                continue
            if sessions:
                self.units.append(unit)
                self.sessions += sessions


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_export_and_restore(case: Case, tmp_path: Path) -> None:
    golden = Golden(case)
    if not golden.sessions:
        assert not (case.folder / "session.json").exists()
        return
    out = tmp_path / "machine-a"
    reports: list[Any] = []
    done = list(export(golden.units, out, JOB, reports=reports))
    assert [one.error for one in done] == [None] * len(done)
    assert len(done) == len(golden.sessions)
    assert all(report.balanced for report in reports)
    bundles = [one.path for one in done if one.path is not None]
    assert len(set(bundles)) == len(golden.sessions)
    documents = []
    for path in bundles:
        assert check_input(opened(path)).problems == []
        documents.append(bundle.parse(path.read_bytes()))
    _as_logs(bundles, golden, tmp_path / "machine-b")
    _as_documents(bundles, golden, tmp_path / "machine-c")
    _as_files(bundles, documents, golden, tmp_path / "machine-d")


@pytest.mark.parametrize("case", [c for c in cases() if c.source.is_dir()], ids=case_id)
def test_what_a_scan_finds(case: Case, tmp_path: Path) -> None:
    """As ``--all`` takes files: nobody named them, so some readers join what lies beside."""
    golden = Golden(case, found=True)
    done = list(export(golden.units, tmp_path / "machine-a", JOB))
    assert [one.error for one in done] == [None] * len(golden.sessions)
    bundles = [one.path for one in done if one.path is not None]
    _as_documents(bundles, golden, tmp_path / "machine-b")


def _plan(into: Path, to: str | None) -> Plan:
    target = None if to is None else registry.target(to)
    return Plan(target, into, lambda _: True, lambda path: path)


def _restore(path: Path, plan: Plan) -> Any:
    return restore(opened(path), plan)


def _as_logs(bundles: list[Path], golden: Golden, into: Path) -> None:
    """As DSH logs: none is skipped, and each one reads."""
    plan = _plan(into, "dsh")
    found = []
    for path, session in zip(bundles, golden.sessions, strict=True):
        done = _restore(path, plan)
        assert done.status == "restored"
        (unit,) = units(done.paths[0])
        assert isinstance(unit, Unit)
        assert unit.format.id == "dsh"
        (back,) = read_unit(unit, Context(Ledger()))
        assert [t.prompt for t in back.turns if t.prompt.strip()] == [
            t.prompt for t in session.turns if t.prompt.strip()
        ]
        found.append(back.meta.id)
    before = everything(into)
    assert all(_restore(path, plan).status == "already-there" for path in bundles)
    assert everything(into) == before


def _as_documents(bundles: list[Path], golden: Golden, into: Path) -> None:
    """As interchange documents: the very sessions that the source gives."""
    target = registry.target("interchange")
    for path, session in zip(bundles, golden.sessions, strict=True):
        done = _restore(path, _plan(into, "interchange"))
        found = done.paths[0].read_bytes()
        expected = written(target, [session])
        assert found == expected, difference(found, expected)


def difference(one: bytes, other: bytes) -> str:
    left, right = (json.dumps(json.loads(data), indent=1).split("\n") for data in (one, other))
    return "\n".join(difflib.unified_diff(left, right, lineterm="", n=1))[:2000]


def _as_files(
    bundles: list[Path], documents: list[dict[str, Any]], golden: Golden, into: Path
) -> None:
    """As their own files: whole-file sources come back byte for byte."""
    natives = [(d.get("x-dcb") or {}).get("native") or {} for d in documents]
    known = [session.meta.id for session in golden.sessions]
    given: dict[str, bytes] = {}
    for path, native in zip(bundles, natives, strict=True):
        if native.get("kind") == "rows" or not native:
            continue
        done = _restore(path, _plan(into, None))
        if native["kind"] == "part":
            assert done.status == "elsewhere"
            assert done.of in known
        elif native["kind"] in WHOLE:
            given |= {str(p): p.read_bytes() for p in done.paths}
    whole = [n for n in natives if n.get("kind") in WHOLE]
    for unit in golden.units:
        if unit.format.id == "dsh-bundle" or not whole or unit.input.head.is_dir:
            continue
        if not unit.input.head.is_sqlite:
            assert unit.input.read() in given.values()
