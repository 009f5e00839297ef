"""Findings for machines."""

import json
from xml.etree import ElementTree as ET

import pytest

from dcb.checking import Problem
from dcb.checking.output import Finding, Result, github, junit, record, sarif, text

ERROR = Problem("error", "checksum", 11, "50% off,\nnot: fit")
WARNING = Problem("warning", "schema", 1, "must be string", "/turns/0")
WHOLE = Problem("error", "secret", 0, "found")


@pytest.mark.parametrize(
    ("problem", "wanted"),
    [
        (ERROR, "a,b.md:11: checksum: 50% off,\nnot: fit"),
        (WARNING, "a,b.md:1: warning: schema: /turns/0: must be string"),
        (WHOLE, "a,b.md: secret: found"),
        (Problem("error", "schema", 1, "m", ""), "a,b.md:1: schema: /: m"),
    ],
)
def test_text(problem: Problem, wanted: str) -> None:
    assert text(Finding("a,b.md", problem)) == wanted


def test_github() -> None:
    assert github(Finding("a,b.md", ERROR)) == (
        "::error file=a%2Cb.md,line=11,title=checksum::50%25 off,%0Anot: fit"
    )
    assert github(Finding("a.md", WHOLE)) == "::error file=a.md,title=secret::found"


def test_record() -> None:
    assert record(Finding("a.md", WHOLE))["line"] is None
    assert json.dumps(record(Finding("a.md", WARNING)))


def test_sarif() -> None:
    log = sarif([Result("a b.md", "snapshot", [ERROR, WARNING]), Result("c", "other", [])], "1.2")
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["checksum", "schema"]
    for result, problem in zip(run["results"], (ERROR, WARNING), strict=True):
        assert rules[result["ruleIndex"]] == result["ruleId"] == problem.code
        assert result["level"] == problem.severity
        place = result["locations"][0]["physicalLocation"]
        assert place == {
            "artifactLocation": {"uri": "a%20b.md"},
            "region": {"startLine": problem.line},
        }


def test_junit() -> None:
    hostile = Problem("error", "layers", 3, 'a <b> & "c" \x00\x1b')
    report = junit([Result('x"<.md', "snapshot", [hostile, WARNING]), Result("y.md", "other", [])])
    root = ET.fromstring(report)  # noqa: S314 - made here
    assert root.attrib["tests"] == "2"
    assert root.attrib["failures"] == "1"
    first, second = root.findall("testcase")
    assert first.attrib["name"] == 'x"<.md'
    failure = first.find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "layers"
    assert first.find("system-out") is not None
    assert second.find("failure") is None
