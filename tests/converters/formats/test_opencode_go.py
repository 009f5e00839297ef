"""The Go OpenCode and Crush: cells that must be repaired, and all that a message says."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from converters.ir import Image, Text, prompt_of
from converters.registry import lookup
from tests.converters.formats.opencode_stores import database
from tests.reading import counts, read

if TYPE_CHECKING:
    from converters.ir import Session
    from converters.ledger import Report

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
PDF = base64.b64encode(b"%PDF-1.4 demo").decode()

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


def part(kind: str, **data: Any) -> dict[str, Any]:
    """Give one part of a message."""
    return {"type": kind, "data": data}


def messages(*given: tuple[str, list[dict[str, Any]]]) -> tuple[Session, Report]:
    """Read messages: role and parts each, a second apart."""
    start = 1767225600000
    rows = [
        (f"m{n}", "s1", role, json.dumps(parts), None, start + 1000 * n, None)
        for n, (role, parts) in enumerate(given)
    ]
    data = database(SCRIPT, sessions=[("s1", "Title", 0, 0)], messages=rows)
    (session,), report = read(OPENCODE_GO, data, "opencode.db")
    return session, report


CALL = part("tool_call", id="c1", name="bash", input="{}")


def test_what_stands_beside_a_result_belongs_to_it() -> None:
    result = part("tool_result", tool_call_id="c1", content="out", metadata='{"exit":0}')
    picture = part("binary", MIMEType="image/png", Data=PNG)
    beside = [result, part("text", text="more"), picture, CALL]
    session, report = messages(
        ("user", [part("text", text="go")]), ("assistant", [CALL]), ("tool", beside)
    )
    (found,) = session.turns[0].steps[0].tool_results
    assert found.content == [Text("out"), Text("more"), Image(PNG, "image/png")]
    assert found.extra == {"metadata": '{"exit":0}'}
    assert report.records.mapped == 3
    assert counts(report) == {"unknown-block": 1}


def test_a_tool_message_of_text_answers_the_oldest_open_call() -> None:
    session, report = messages(
        ("user", [part("text", text="go")]),
        ("assistant", [CALL]),
        ("tool", [part("text", text="out")]),
        ("tool", [part("text", text="too much")]),
        ("tool", []),
    )
    (found,) = session.turns[0].steps[0].tool_results
    assert (found.tool_call_id, found.content) == ("c1", [Text("out")])
    assert counts(report) == {
        "tool-result-text-fallback": 1,
        "orphan-tool-result": 1,
        "empty-message": 1,
    }


def test_a_failure_says_why() -> None:
    failure = part("finish", reason="error", message="Overloaded", details="try again")
    error = {"name": "error", "message": "Overloaded", "details": "try again"}
    ended = part("finish", reason="end_turn", message="Stopped", details="")
    session, report = messages(
        ("assistant", [failure]),
        ("user", [part("text", text="one")]),
        ("assistant", [failure]),
        ("user", [part("text", text="two")]),
        ("assistant", [part("text", text="half"), failure]),
        ("user", [part("text", text="three")]),
        ("assistant", [part("text", text="whole"), ended]),
    )
    one, two, three = session.turns
    assert [turn.aborted for turn in session.turns] == [True, True, False]
    assert one.extra == {"id": "m1", "errors": [error]}
    assert two.steps[0].extra == {"id": "m4", "error": error}
    assert three.steps[0].extra == {
        "id": "m6",
        "finish": {"name": "end_turn", "message": "Stopped"},
    }
    assert counts(report) == {"record-skipped": 1, "record-aside": 1}


def test_a_file_is_kept_with_its_bytes_and_an_address_with_its_image() -> None:
    file = part("binary", Path="/home/user/a.pdf", MIMEType="application/pdf", Data=PDF)
    image = part("image_url", url="https://example.com/a.png")
    session, report = messages(("user", [part("text", text="read"), file, image]))
    text, block, far = prompt_of(session.turns[0])
    assert text == Text("read")
    assert isinstance(block, Text)
    assert block.text == "[file: a.pdf (application/pdf, 13 bytes)]"
    assert block.extra is not None
    assert block.extra["attachments"][0]["data"] == PDF
    assert far.extra == {"image": {"url": "https://example.com/a.png"}}
    assert counts(report) == {"attachment-aside": 1, "attachment-skipped": 1}
