"""Every session that the readers give becomes a document that passes the check."""

from collections.abc import Iterator

import pytest

from converters.errors import DcbError
from converters.ir import Session
from converters.reading import Reading
from dcb.checking import check_snapshot
from dcb.snapshot.compile import Options, compile_session
from dcb.snapshot.document import read
from dcb.snapshot.profile import PLUGIN
from tests.goldens import Case, case_id, cases, read_source
from tests.paths import CORPUS, needs_shared

FOLDERS = sorted(path.name for path in CORPUS.iterdir()) if CORPUS.is_dir() else []


def check(session: Session) -> None:
    compiled = compile_session(session)
    text = compiled.document.text
    assert [p for p in check_snapshot(text.encode()) if p.severity == "error"] == []
    assert read(text).snapshot == compiled.document.snapshot
    assert compile_session(session).document.text == text
    small = compile_session(session, Options(max_tokens=256)).document
    assert small.snapshot.meta.token_estimate <= 256
    plugin = compile_session(session, profile=PLUGIN).document.text
    assert compile_session(session, profile=PLUGIN).document.text == plugin


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_golden(case: Case) -> None:
    for session in read_source(case.source).sessions:
        check(session)


def sessions(folder: str) -> Iterator[Session]:
    reading = iter(Reading(CORPUS / folder))
    while True:
        try:
            yield next(reading)
        except (StopIteration, DcbError):
            return


@needs_shared
@pytest.mark.parametrize("folder", FOLDERS)
def test_corpus(folder: str) -> None:
    for session in sessions(folder):
        check(session)
