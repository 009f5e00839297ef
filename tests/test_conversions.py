"""Every golden session into every format that dcb writes: accounted, and readable again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from converters.errors import DcbError
from converters.ledger import Ledger, count_items
from converters.opening import Memory
from converters.registry import all_formats
from converters.types import Context, Format
from tests.goldens import Case, case_id, cases, read_source
from tests.sinks import written

if TYPE_CHECKING:
    from converters.ir import Session

WRITERS = [record for record in all_formats() if record.write is not None]


def sessions(case: Case) -> list[Session]:
    return read_source(case.source).sessions


@pytest.mark.parametrize("target", WRITERS, ids=lambda record: record.id)
@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_kept_and_reported_are_the_total(case: Case, target: Format) -> None:
    for session in sessions(case):
        ledger = Ledger("out")
        data = written(target, [session], ledger)
        report = ledger.report()
        counts = count_items(session)
        assert {kind: item.total for kind, item in report.items.items() if item.total} == counts
        for kind, item in report.items.items():
            assert item.kept + item.reported == item.total, (kind, item)
        assert data
        if target.read is None:
            continue
        again = Ledger("again")
        try:
            back = list(target.read(Memory(data, f"x{target.suffix}"), Context(again)))
        except DcbError as error:
            # A session without any human or assistant text has no form in some targets.
            assert not any(t.prompt.strip() or t.steps for t in session.turns), error
            continue
        assert len(back) == 1
        assert again.report().balanced


@pytest.mark.parametrize("target", WRITERS, ids=lambda record: record.id)
def test_what_is_written_is_detected(target: Format) -> None:
    from converters.detection import rank

    found = [s for case in cases("interchange", "openai-chat", "claude") for s in sessions(case)]
    rich = [s for s in found if len(s.turns) > 1 and any(t.steps for t in s.turns)]
    for session in rich:
        head = Memory(written(target, [session]), f"x{target.suffix}").head
        assert rank(head)[0].format.id == target.id, session.meta.id
