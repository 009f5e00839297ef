"""The event builder of DSH logs against its vectors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from converters.formats import interchange
from converters.formats.dsh.events import build, estimate_text
from converters.ir import (
    Meta,
    Session,
    Step,
    ToolCall,
    ToolResult,
    Turn,
)
from converters.ledger import Ledger
from converters.opening import Memory
from converters.trimming import trim
from converters.turns import sanitize_usage
from converters.types import Context
from tests.converters.formats.dsh_logs import LOGS
from tests.paths import VECTORS, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

COUNTERS = ("messages", "toolCalls", "compactions", "duplicateToolResults", "orphanToolResults")


# -- the event builder -------------------------------------------------------------------------


def ir_of(ir: dict[str, Any]) -> Session:
    """Decode the IR of a vector: without the members that the typed form does not have."""
    turns = json.loads(json.dumps(ir["turns"]))
    for turn in turns:
        for step in turn["steps"]:
            for call in step["toolCalls"]:
                call.pop("type", None)
            usage = sanitize_usage(step.pop("usage", None))
            if usage is not None:
                step["usage"] = msgspec.to_builtins(usage)
    meta = {name: value for name, value in ir["meta"].items() if name != "version"}
    document = {"meta": meta, "provider": ir["provider"], "model": ir["model"], "turns": turns}
    return msgspec.convert(document, Session)


def log_cases() -> list[Path]:
    return sorted(LOGS.glob("*.json")) if LOGS.is_dir() else []


@needs_shared
def test_log_vectors_are_there() -> None:
    assert len(log_cases()) == 24


@needs_shared
@pytest.mark.parametrize("path", log_cases(), ids=lambda path: path.stem)
@pytest.mark.parametrize("generation", [3, 4])
def test_events_of_the_vectors(path: Path, generation: Any) -> None:
    case = json.loads(path.read_text("utf-8"))
    ir = case["ir"]
    built = build(
        ir_of(ir),
        generation=generation,
        title=ir.get("title"),
        environment=f"<environment change notice for {ir['provider']}>",
    )
    assert json.dumps(built.events) == json.dumps(case[f"v{generation}"])
    for name in COUNTERS:
        assert built.counts[name] == case["counters"].get(name, 0), name


def generic_cases() -> list[dict[str, Any]]:
    path = VECTORS / "interchange" / "generic" / "documents.jsonl"
    if not path.is_file():
        return []
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert len(found) == 88
    return found


@needs_shared
@pytest.mark.parametrize("case", generic_cases(), ids=lambda case: case["case"])
def test_event_types_of_generic_documents(case: dict[str, Any]) -> None:
    if not case["eventTypes"]:
        assert "skipReason" in case["result"]
        return
    text = case["raw"] if "raw" in case else json.dumps(case["input"])
    ctx = Context(Ledger())
    assert interchange.FORMAT.read is not None
    (session,) = interchange.FORMAT.read(Memory(text.encode("utf-8", "surrogatepass")), ctx)
    budget = (case.get("args") or {}).get("budget", 0)
    built = build(trim(session, budget).session, generation=3)
    assert [event["type"] for event in built.events] == case["eventTypes"]
    for name in ("messages", "toolCalls", "compactions", "duplicateToolResults"):
        assert built.counts[name] == case["result"].get(name, 0), name


def test_a_duplicate_call_does_not_move_the_clock_twice() -> None:
    call = ToolCall("c", "n", "{}")
    steps = [
        Step([], [call], [ToolResult("c", [], time=50)], 10),
        Step([], [call], [], 60),
    ]
    built = build(Session(meta=Meta("s", 1), provider="p", turns=[Turn("q", None, steps)]))
    assert built.late == 0
    assert [e["time"] for e in built.events if e["type"] == "tool/result"] == [50, 60]


def test_estimate_counts_cjk_one_each() -> None:
    assert estimate_text("") == 0
    assert estimate_text("abcde") == 2
    assert estimate_text("你好ab") == 3
