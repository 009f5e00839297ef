"""Recordings of Gemini CLI: their lines, and what reading them gives."""

from __future__ import annotations

import hashlib
from typing import Any

from converters.formats.gemini import FORMAT
from converters.ir import Session, Text
from tests.reading import counts, lines, read

SID = "0aa1b2c3-1111-4222-8333-444455556666"
START = 1767780000000
FOLDER = "/home/kim/boats"
HASH = hashlib.sha256(FOLDER.encode()).hexdigest()
HEAD = {"sessionId": SID, "projectHash": HASH, "startTime": "2026-01-07T10:00:00.000Z"}


def user(number: int, content: Any, **more: Any) -> dict[str, Any]:
    stamp = f"2026-01-07T10:00:{number:02}.000Z"
    return {"id": f"u{number}", "timestamp": stamp, "type": "user", "content": content, **more}


def model(number: int, content: Any, **more: Any) -> dict[str, Any]:
    return user(number, content, **more) | {"id": f"g{number}", "type": "gemini"} | more


def call(name: str, identity: str | None = "c1", **more: Any) -> dict[str, Any]:
    made = {"name": name, "args": {"a": 1}, "status": "success", **more}
    return made if identity is None else {"id": identity, **made}


def response(value: dict[str, Any], **more: Any) -> list[Any]:
    return [{"functionResponse": {"name": "x", "response": value, **more}}]


def one(*records: Any, **options: Any) -> tuple[Session, dict[str, int]]:
    sessions, report = read(FORMAT, lines(HEAD, *records), "session-1.jsonl", **options)
    (session,) = sessions
    found = counts(report)
    found.pop("cwd-missing", None)
    return session, found


def texts(session: Session) -> list[str]:
    """Give prompts and answers in order."""
    found = []
    for turn in session.turns:
        found.append(turn.prompt)
        found += [b.text for s in turn.steps for b in s.content if isinstance(b, Text)]
    return found
