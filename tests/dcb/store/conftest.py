"""Fixtures of the tests here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from dcb import history, store
from tests.dcb.store.snapshots import NOW

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    with store.open_store(tmp_path / "home", now_ms=NOW) as opened:
        yield opened


@pytest.fixture
def versioned(tmp_path: Path) -> Any:
    home = tmp_path / "home"
    repo = history.open_history(
        home / "snapshots", environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    )
    if repo is None:
        pytest.skip("git is not installed")
    with store.open_store(home, history=repo, now_ms=NOW) as opened:
        yield opened
