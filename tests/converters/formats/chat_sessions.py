"""What the tests of the chat formats share."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from converters.ir import (
    Session,
    Step,
    Text,
)
from converters.ledger import Ledger, Report
from converters.registry import lookup
from tests.goldens import cases
from tests.reading import read
from tests.sinks import written

if TYPE_CHECKING:
    from converters.types import Format

IDS = (
    "openai-chat",
    "anthropic-messages",
    "gemini-contents",
    "openai-responses",
    "sharegpt",
    "instruction-pairs",
)
FORMATS = [lookup(name)[0] for name in IDS]
CASES = cases(*IDS)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAA"
BORDERS = frozenset(
    {
        "turn-merged",
        "step-merged",
        "order-changed",
        "text-changed",
        "empty-message",
        "prompt-missing",
        "compaction-text",
        "tool-call-dropped",
        "reasoning-dropped",
        "image-text",
    }
)
"""Rules that say a written file reads back with other texts or other borders."""


def load(
    record: Format, data: bytes, name: str = "input.json", **options: Any
) -> tuple[list[Session], Report]:
    return read(record, data, name, **options)


def save(record: Format, sessions: list[Session]) -> tuple[bytes, Report]:
    ledger = Ledger()
    data = written(record, sessions, ledger)
    report = ledger.report()
    assert report.balanced, report.items
    return data, report


def rules(report: Report) -> set[str]:
    return {entry.rule for entry in report.entries}


def plain(session: Session) -> Any:
    """The session without ids that were minted for it."""
    raw = msgspec.json.encode(session)
    return json.loads(raw.replace(b'"' + session.meta.id.encode(), b'"ID'))


PLACEHOLDER = re.compile(r"\[image\][^\n]*|\[file: (?:document|audio|image)\b")


def shown(text: str) -> str:
    """Placeholders show names and kinds that not every target holds."""
    return PLACEHOLDER.sub(lambda m: "[image]" if m[0][1] == "i" else "[file: file", text)


def arguments(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value


def results(step: Step) -> list[str]:
    """The texts of the results in the order of the calls; none counts as an empty one."""
    texts = {
        r.tool_call_id: "\n".join(b.text for b in r.content if isinstance(b, Text))
        for r in step.tool_results
    }
    own = [texts.pop(call.id, "") for call in step.tool_calls]
    return own + list(texts.values())


def essence(session: Session, *, tools: bool = True) -> Any:
    """What every chat shape must carry: prompts, answers, calls and results, in order."""
    return [
        [
            shown(turn.prompt),
            [
                [
                    [shown(b.text) for b in step.content if isinstance(b, Text)],
                    [(c.name, arguments(c.arguments)) for c in step.tool_calls] if tools else [],
                    results(step) if tools else [],
                ]
                for step in turn.steps
            ],
        ]
        for turn in session.turns
    ]
