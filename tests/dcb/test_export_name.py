"""Names of exported snapshots."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dcb.store.exporting import export_name
from tests.paths import VECTORS, needs_shared


def cases() -> list[Any]:
    path = VECTORS / "dcb" / "export_name.json"
    if not path.is_file():
        return []
    listed = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=ascii(case["input"]["title"])) for case in listed]


@needs_shared
@pytest.mark.parametrize("case", cases())
def test_vectors(case: dict[str, Any]) -> None:
    assert export_name(case["input"]["snapshotId"], case["input"]["title"]) == case["output"]


def test_a_pair_is_never_cut_in_half() -> None:
    name = export_name("s", "x" * 39 + "𠮷𠮷")
    assert name == f"s__{'x' * 39}.md"


@pytest.mark.parametrize("name", ["../../up", "a/b", ".git", "-rf", "CON"])
def test_an_id_never_leads_elsewhere(name: str) -> None:
    made = export_name(name, "../t")
    assert "/" not in made
    assert "\\" not in made
    assert not made.startswith((".", "-"))
