"""The schemas are those of the types, and what dcb writes fits them."""

from __future__ import annotations

import json

import msgspec
import pytest
from jsonschema import Draft202012Validator

import schemas
from tests.goldens import Case, case_id, cases, read_source
from tests.paths import ROOT


@pytest.mark.parametrize("name", sorted(schemas.SOURCES))
def test_fresh(name: str) -> None:
    path = ROOT / "schemas" / f"{name}.schema.json"
    assert path.read_bytes() == schemas.generate(name), "run `python -m schemas`"
    Draft202012Validator.check_schema(schemas.load(name))


def test_every_file_has_a_source() -> None:
    assert set(schemas.names()) == set(schemas.SOURCES)


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_golden_sessions_and_reports_fit(case: Case) -> None:
    session = Draft202012Validator(schemas.load("interchange"))
    report = schemas.load("report")
    one = Draft202012Validator({**report, "$ref": "#/$defs/Report"})
    read = read_source(case.source)
    for found in read.sessions:
        session.validate(json.loads(msgspec.json.encode(found)))
    for account in read.reports:
        one.validate(json.loads(msgspec.json.encode(account)))
