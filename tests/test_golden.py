"""Every golden case gives the sessions, report and snapshot that stand beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dcb.snapshot.compile import compile_session
from tests.goldens import Case, GoldenExtension, case_id, cases, pretty, read_source

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(GoldenExtension)


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_golden(case: Case, golden: SnapshotAssertion) -> None:
    read = read_source(case.source)
    if read.units:
        assert {unit.format.id for unit in read.units} == {case.format}
    if read.error is not None:
        assert "Traceback" not in str(read.error)
        text = str(read.error).replace(f"{case.source.parent}/", "")
        assert golden(name="error.txt") == f"{text}\n".encode()
    if read.sessions:
        sessions = read.sessions
        assert golden(name="session.json") == pretty(
            sessions[0] if len(sessions) == 1 else sessions
        )
        assert golden(name="snapshot.md") == compile_session(sessions[0]).document.text.encode()
    if read.reports:
        reports = read.reports
        assert golden(name="report.json") == pretty(reports[0] if len(reports) == 1 else reports)
    assert read.error is not None or read.sessions


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_accounted(case: Case) -> None:
    read = read_source(case.source)
    for report in read.reports:
        assert report.balanced, report
        assert report.records.total > 0 or read.error is not None
