"""Where a session lands on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from converters.errors import UsageError, VerifyError
from converters.opening import Memory
from dcb.bundle.landing import Rule, land, remap, rule_of
from dcb.bundle.restore import restore
from dcb.bundle.verify import check_input
from tests.dcb.bundle.bundles import BUNDLES, FUNCTIONS, cases, plan, tree
from tests.paths import needs_shared

# -- landing -----------------------------------------------------------------------------------


@needs_shared
@pytest.mark.parametrize("case", cases(BUNDLES / "cross-machine.jsonl"), ids=str)
def test_cross_machine(case: dict[str, Any]) -> None:
    found = land(
        case["originalCwd"],
        case["bundlePath"],
        is_folder=lambda path: path in case["existingDirectories"],
    )
    assert found.cwd_available is case["cwdAvailable"]
    assert found.grouped_to == case["groupedTo"]
    assert found.landing_hint == case["landingHint"]
    assert (found.note is not None) is case["restoreNote"]


@needs_shared
@pytest.mark.parametrize("case", cases(FUNCTIONS / "cwd-remap.jsonl"), ids=str)
def test_cwd_remap(case: dict[str, Any]) -> None:
    rules = [Rule(rule["from"], rule["to"]) for rule in case["rules"]]
    assert remap(case["cwd"], rules) == (case["mapped"], case["report"])


@pytest.mark.parametrize(
    ("cwd", "rule", "windows", "mapped"),
    [
        ("/home/me/p/x", "/home/me=C:\\Users\\me", True, "C:\\Users\\me\\p\\x"),
        ("\\\\server\\share\\p", "\\\\server\\share=/mnt/share", False, "/mnt/share/p"),
        ("C:\\work", "C:\\work=/srv", False, "/srv"),
        ("D:/a/b", "D:=/d", False, "/d/a/b"),
    ],
)
def test_paths_of_any_platform(cwd: str, rule: str, windows: bool, mapped: str) -> None:
    assert remap(cwd, [rule_of(rule)], windows=windows)[0] == mapped


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("z.zip!sub/a.json", "."),
        ("z.zip!a.json", "."),
        ("in/z.zip!a.json", "in"),
        ("/in/z.zip!sub/deep/a.json", "/in"),
        ("/z.zip!sub/a.json", "/"),
        ("/in/z.zip!b.tar!c/a.json", "/in"),
        ("/in/wow!/z.zip!sub/a.json", "/in/wow!"),
        ("/in/wow!/a!b.json", "/in/wow!"),
        ("C:\\in\\z.zip!sub/a.json", "C:\\in"),
    ],
)
def test_the_folder_of_a_member_is_that_of_its_archive(path: str, folder: str) -> None:
    found = land("/gone", path, is_folder=lambda name: name == "/in/wow!")
    assert (found.grouped_to, found.cwd_available) == (folder, False)


@pytest.mark.parametrize("text", ["", "=", "a=", "=b", "nothing", " = "])
def test_bad_rules_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError):
        rule_of(text)


@needs_shared
@pytest.mark.parametrize(
    "case", cases(BUNDLES / "restore-runs.jsonl"), ids=lambda c: c["args"]["path"]
)
def test_restore_runs(case: dict[str, Any], tmp_path: Path) -> None:
    path = case["args"]["path"]
    source = Memory(case["raw"].encode(), path)
    how = plan(tmp_path, dry_run=bool(case["args"].get("preview")))
    expected = case.get("result", {})
    codes = case.get("error") or expected.get("skipReason")
    if codes:
        with pytest.raises(VerifyError) as caught:
            restore(source, how)
        assert all(code in caught.value.message for code in codes)
        assert check_input(source).problems == codes
        assert tree(tmp_path) == {}
        return
    if expected["alreadyImported"]:
        restore(source, how)
    here = {expected.get("originalCwd")} if expected.get("cwdAvailable") else set()
    done = restore(source, how._replace(is_folder=lambda name: name in here))
    if expected["alreadyImported"]:
        assert restore(source, how).status == "already-there"
        return
    assert done.status == "restored"
    assert done.session_id == expected["sourceSessionId"]
    landing = done.landing
    assert landing.original_cwd == expected["originalCwd"]
    assert landing.cwd_available is expected["cwdAvailable"]
    assert landing.landing_hint == expected["landingHint"]
    assert landing.grouped_to == expected["groupedTo"]
    assert (landing.note is not None) is expected.get("restoreNote", False)
