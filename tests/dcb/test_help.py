"""What ``--help`` of the commands says, and that README names only what exists."""

import re

import pytest

from dcb.cli import _COMMANDS
from dcb.snapshot.merge import POLICIES
from tests.pack import dcb
from tests.paths import ROOT


@pytest.mark.parametrize("command", [*_COMMANDS, "store save", "bundle restore"])
def test_only_the_root_installs_completion(command: str) -> None:
    done = dcb(*command.split(), "--help", COLUMNS="40")
    assert done.code == 0
    assert "--install-completion" not in done.out
    assert "[OPTIONS]" in done.out


def test_defaults_in_brackets_are_shown() -> None:
    merge = " ".join(dcb("merge", "--help").out.split())
    assert "Who wins a conflict [newWins]." in merge
    assert "Who summarizes [extractive]." in merge
    assert "Dialect and rules [published]." in merge
    assert "{BASE} {OVERLAY}" in merge


def test_policies_of_the_readme_exist() -> None:
    found = re.findall(r"--policy (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert found
    assert set(found) <= set(POLICIES)


@pytest.mark.parametrize("command", ["bundle verify", "bundle restore", "store rollback"])
def test_who_never_asks_promises_no_prompt(command: str) -> None:
    assert "prompt" not in dcb(*command.split(), "--help").out
