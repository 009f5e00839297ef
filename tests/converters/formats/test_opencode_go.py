"""The Go OpenCode: cells that must be repaired."""

from __future__ import annotations

from converters.ir import Text
from converters.registry import lookup
from tests.converters.formats.opencode_stores import database
from tests.reading import counts, read

(OPENCODE_GO,) = lookup("opencode-go")
SCRIPT = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT, created_at INTEGER, updated_at INTEGER);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT DEFAULT '[]',
  model TEXT, created_at INTEGER, finished_at INTEGER);
"""


def test_half_a_pair_costs_no_message() -> None:
    parts = '[{"type": "text", "data": {"text": "half \\ud83d"}}]'
    rows = [
        ("m1", "s1", "user", parts, None, 1767225600000, None),
        ("m2", "s1", "assistant", parts.encode(), "demo-model", 1767225601000, None),
    ]
    data = database(SCRIPT, sessions=[("s1", "Title", 0, 0)], messages=rows)
    (session,), report = read(OPENCODE_GO, data, "opencode.db")
    (turn,) = session.turns
    assert turn.prompt == "half �"
    assert turn.steps[0].content == [Text("half �")]
    assert report.records.mapped == report.records.total == 2
    assert counts(report) == {"lone-surrogate": 2}
    assert report.entries[0].places == [
        "opencode.db:messages.id=m1",
        "opencode.db:messages.id=m2",
    ]
