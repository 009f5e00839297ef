"""The capability matrix against the published one: equal, or a footnote says why not."""

from __future__ import annotations

import pytest

from converters.registry import lookup
from dcb.cli.formats import COLUMNS
from tests.paths import SHARED, needs_shared

SEED = SHARED / "seeds" / "004_3155b8ade0e5f270.txt"
NINE = ["claude", "codex", "chatgpt", "gemini", "cursor", "opencode", "cline"]
NINE += ["copilot-vscode", "goose"]


def published() -> dict[str, list[str]]:
    if not SEED.exists():
        return {}
    rows = [line for line in SEED.read_text(encoding="utf-8").split("\n") if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    return {row[0]: row[1:] for row in cells if len(row) == 10}


@needs_shared
@pytest.mark.parametrize("name", NINE)
def test_row(name: str) -> None:
    (record,) = lookup(name)
    notes = record.capabilities.notes
    for (attribute, wire), cell in zip(COLUMNS.items(), published()[name], strict=True):
        ours = getattr(record.capabilities, attribute)
        if ours != cell.startswith("\u2705"):
            assert notes.get(attribute) or notes.get(wire), (name, wire, cell)
