"""Public sample files as users have them: each reads accounted, or fails as the table says.

``tests/corpus.json``: folder -> file -> the format that reads it, ``companion``, ``skipped`` (no
format claims it), ``empty`` (recognised, no conversation in it) or ``error: CODE``. Write it anew
with ``python -m tests.test_corpus`` and read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from converters.errors import DcbError
from converters.ledger import Ledger, Report
from converters.reading import COMPANION, Skipped, Unit, read_unit, units
from converters.types import Context
from tests.paths import CORPUS, needs_shared

TABLE = Path(__file__).with_name("corpus.json")
FOLDERS = {
    "chat-anthropic-messages": "anthropic-messages",
    "chat-openai-messages": "openai-chat",
    "chat-openai-responses": "openai-responses",
    "chat-chatgpt-export": "chatgpt",
    "claude": "claude",
    "codex": "codex",
    "gemini": "gemini",
    "cursor": "cursor",
    "opencode": "opencode",
    "opencode-go": "opencode-go",
    "cline": "cline",
    "copilot-vscode": "copilot-vscode",
    "goose": "goose",
    "dsh": "dsh",
}
"""Folders of the corpus that a reader claims, and which one."""


def outcomes(folder: Path) -> tuple[dict[str, str], list[Report]]:
    """Give what becomes of every file of a folder, and the account of each input."""
    found: dict[str, str] = {}
    reports = []
    for entry in units(folder):
        if isinstance(entry, DcbError):
            found[_name(entry.path or "", folder)] = f"error: {entry.code}"
        elif isinstance(entry, Skipped):
            kind = "companion" if entry.reason == COMPANION else "skipped"
            found[_name(entry.name, folder)] = kind
        else:
            found[_name(entry.input.name, folder)], report = _read(entry)
            reports.append(report)
            if entry.input.name == str(folder):
                _inside(folder, found, reports)
    return found, reports


def _inside(folder: Path, found: dict[str, str], reports: list[Report]) -> None:
    """The folder is one input; what does not belong to it is read by its own name."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if name.partition("/")[0] in ("session", "message", "part"):
            found[name] = "companion"
        else:
            inner, accounts = outcomes(path)
            found[name] = next(iter(inner.values()))
            reports += accounts


def _name(name: str, folder: Path) -> str:
    return name.removeprefix(str(folder)).lstrip("/!") or "."


def _read(unit: Unit) -> tuple[str, Report]:
    ledger = Ledger(unit.input.name)
    try:
        n = sum(1 for _ in read_unit(unit, Context(ledger)))
    except DcbError as error:
        return f"error: {error.code}", ledger.report()
    return unit.format.id if n else "empty", ledger.report()


def folders() -> list[str]:
    return [name for name in FOLDERS if (CORPUS / name).is_dir()]


@needs_shared
@pytest.mark.parametrize("name", folders())
def test_folder(name: str) -> None:
    found, reports = outcomes(CORPUS / name)
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    assert found == table[name]
    for report in reports:
        assert report.balanced, report
    assert {FOLDERS[name], "empty"} & set(found.values())


@needs_shared
def test_no_wrong_winner() -> None:
    """Files of a folder are read as its own format; strangers are listed here by name."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    wrong = {
        f"{folder}/{file}": outcome
        for folder, files in table.items()
        for file, outcome in files.items()
        if outcome not in (FOLDERS[folder], "companion", "skipped", "empty")
        and not outcome.startswith("error")
    }
    assert wrong == STRANGERS


STRANGERS = {
    # One string message: nothing in it is Anthropic's own.
    "chat-anthropic-messages/main_user_pro.json": "openai-chat",
    # Made up for a test of another project, in shapes that these tools do not write.
    "cursor/grouping_cursor_session.jsonl": "claude",
    "opencode/grouping_opencode_session.jsonl": "openai-chat",
}


if __name__ == "__main__":
    made = {name: outcomes(CORPUS / name)[0] for name in folders()}
    TABLE.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
