"""Findings as text, JSON, GitHub annotations, SARIF 2.1.0 and JUnit XML.

Sources: workflow commands of GitHub Actions; SARIF 2.1.0 (OASIS); the JUnit XML that
CI servers read.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcb.snapshot.problem import Problem

__all__ = ["FORMATS", "Finding", "Result", "github", "junit", "record", "sarif", "text"]

FORMATS: Final = ("text", "json", "github", "sarif", "junit")
_XML_BAD: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Finding(NamedTuple):
    """A problem of a file."""

    path: str
    problem: Problem


class Result(NamedTuple):
    """A file that was checked, and its problems."""

    path: str
    kind: str
    problems: Sequence[Problem]


def _message(problem: Problem) -> str:
    if problem.pointer is None:
        return problem.message
    return f"{problem.pointer or '/'}: {problem.message}"


def text(finding: Finding) -> str:
    """Give ``file:line: code: message``; warnings say so."""
    path, problem = finding
    code = problem.code if problem.severity == "error" else f"warning: {problem.code}"
    place = f"{path}:{problem.line}" if problem.line else path
    return f"{place}: {code}: {_message(problem)}"


def record(finding: Finding) -> dict[str, Any]:
    """Give a finding as a JSON object."""
    path, problem = finding
    return {
        "path": path,
        "line": problem.line or None,
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "pointer": problem.pointer,
    }


def github(finding: Finding) -> str:
    """Give a workflow command that makes an annotation."""
    path, problem = finding
    line = f",line={problem.line}" if problem.line else ""
    properties = f"file={_property(path)}{line},title={_property(problem.code)}"
    return f"::{problem.severity} {properties}::{_data(_message(problem))}"


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def sarif(results: Sequence[Result], version: str) -> dict[str, Any]:
    """Give a SARIF log of one run."""
    findings = [(result.path, problem) for result in results for problem in result.problems]
    rules = sorted({problem.code for _, problem in findings})
    driver = {"name": "dcb", "version": version, "rules": [{"id": rule} for rule in rules]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "results": [_sarif_result(path, problem, rules) for path, problem in findings],
            }
        ],
    }


def _sarif_result(path: str, problem: Problem, rules: list[str]) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(path.encode("utf-8", "replace"))}}
    if problem.line:
        physical["region"] = {"startLine": problem.line}
    location: dict[str, Any] = {"physicalLocation": physical}
    if problem.pointer:
        location["logicalLocations"] = [{"fullyQualifiedName": problem.pointer}]
    return {
        "ruleId": problem.code,
        "ruleIndex": rules.index(problem.code),
        "level": problem.severity,
        "message": {"text": _message(problem)},
        "locations": [location],
    }


def junit(results: Sequence[Result]) -> str:
    """Give a JUnit report: a test case per file, a failure where it has errors."""
    failed = sum(any(p.severity == "error" for p in result.problems) for result in results)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuite name="dcb check" tests="{len(results)}" failures="{failed}" errors="0">',
    ]
    for result in results:
        lines += _junit_case(result)
    return "\n".join([*lines, "</testsuite>", ""])


def _junit_case(result: Result) -> list[str]:
    name = _attribute(result.path)
    lines = [f"  <testcase classname={_attribute(result.kind)} name={name}>"]
    told = {
        severity: "\n".join(
            html.escape(_xml(text(Finding(result.path, problem))), quote=False)
            for problem in result.problems
            if problem.severity == severity
        )
        for severity in ("error", "warning")
    }
    if told["error"]:
        first = next(p for p in result.problems if p.severity == "error")
        what = f"message={_attribute(_message(first))} type={_attribute(first.code)}"
        lines.append(f"    <failure {what}>{told['error']}</failure>")
    if told["warning"]:
        lines.append(f"    <system-out>{told['warning']}</system-out>")
    return [*lines, "  </testcase>"]


def _attribute(value: str) -> str:
    return f'"{html.escape(_xml(value))}"'


def _xml(value: str) -> str:
    return _XML_BAD.sub("\ufffd", value)
