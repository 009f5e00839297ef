"""Records of Claude Code transcripts for tests: made-up, one member changed at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.formats.claude import FORMAT
from tests.reading import counts, lines, read

if TYPE_CHECKING:
    from converters.ir import Session

SID = "6f1f7a52-3c6e-4b1f-9d0a-2d7f5a1c9e33"
DAY = "2026-03-02T08:00:"
START = 1772438400000


def user(number: int, content: Any, parent: str | None = "", **more: Any) -> dict[str, Any]:
    previous = f"r{number - 1}" if number > 1 else None
    return {
        "type": "user",
        "uuid": f"r{number}",
        "parentUuid": previous if parent == "" else parent,
        "sessionId": SID,
        "timestamp": f"{DAY}{number:02}.000Z",
        "cwd": "/srv/demo",
        "version": "2.1.0",
        "gitBranch": "main",
        "isSidechain": False,
        "message": {"role": "user", "content": content},
        **more,
    }


def assistant(
    number: int, content: Any, key: str | None = None, parent: str | None = "", **more: Any
) -> dict[str, Any]:
    record = user(number, content, parent)
    usage = more.pop("usage", {"input_tokens": 3, "output_tokens": 5})
    message = {"id": key or f"msg_{number}", "role": "assistant", "content": content}
    message |= {"model": "model-x", "usage": usage}
    return {**record, "type": "assistant", "message": message, **more}


def call(identity: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def answer(identity: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": content}


def text(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}]


def one(*records: Any, **options: Any) -> tuple[Session, dict[str, int]]:
    """Read records that make one session; give it and the counts of the report."""
    sessions, report = read(FORMAT, lines(*records), **options)
    assert len(sessions) == 1
    return sessions[0], counts(report)
