"""Fixtures of the tests here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dcb.bundle.bundles import QUESTION


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "question.json"
    path.parent.mkdir()
    path.write_text(json.dumps(QUESTION), "utf-8")
    return path
