"""Settings that all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.paths import SHARED

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Fail when a test that needs the shared material skips although it is there."""
    if call.when == "setup" and call.excinfo is not None and SHARED.is_dir():
        reason = str(call.excinfo.value)
        if "shared" in reason and call.excinfo.typename == "Skipped":
            pytest.fail(f"{item.nodeid} skips, but the shared material is there")
