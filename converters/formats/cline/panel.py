"""The panel's messages in the shape of a history, for tasks whose history is gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from converters.types import Context

__all__ = ["as_messages"]

_USER: Final = ("task", "user_feedback", "user_feedback_diff")
_ANSWER: Final = ("text", "completion_result")
_CALLS: Final = ("tool", "command", "use_mcp_server", "browser_action_launch")
_RESULTS: Final = ("command_output", "mcp_server_response", "browser_action_result")
_SKIPPED: Final = (
    "api_req_started",
    "api_req_finished",
    "api_req_retried",
    "checkpoint_created",
    "checkpoint_saved",
    "shell_integration_warning",
    "mcp_server_request_started",
)

Placed = tuple[str, dict[str, Any]]


def as_messages(found: list[Placed], ctx: Context) -> list[Placed]:
    """Give history messages for panel messages; what has no part in a dialogue is counted."""
    messages: list[Placed] = []
    calls = 0
    for index, (place, record) in enumerate(found):
        kind = record.get("say") or record.get("ask")
        text = record.get("text")
        if record.get("partial") is True:
            ctx.ledger.skipped("duplicate-record", place, kind="partial")
        elif kind in _SKIPPED or not isinstance(text, str) or not text:
            ctx.ledger.skipped("record-skipped", place, kind=str(kind)[:40])
        elif kind in _USER or (kind == "text" and not messages and index < 3):
            content: list[Any] = [{"type": "text", "text": text}, *_images(record)]
            messages.append((place, _message("user", content, record)))
        elif kind == "reasoning":
            content = [{"type": "thinking", "thinking": text}]
            messages.append((place, _message("assistant", content, record)))
        elif kind in _CALLS:
            calls += 1
            name, arguments = _call(str(kind), text)
            content = [
                {"type": "tool_use", "id": f"call-{calls}", "name": name, "input": arguments}
            ]
            messages.append((place, _message("assistant", content, record)))
        elif kind in _RESULTS and calls:
            content = [{"type": "tool_result", "tool_use_id": f"call-{calls}", "content": text}]
            messages.append((place, _message("user", content, record)))
        elif kind in _ANSWER or record.get("type") == "ask":
            content = [{"type": "text", "text": text}]
            messages.append((place, _message("assistant", content, record)))
        else:
            ctx.ledger.skipped("unknown-record", place, kind=str(kind)[:40])
    return messages


def _message(role: str, content: list[Any], record: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": content, "ts": record.get("ts")}


def _images(record: dict[str, Any]) -> list[dict[str, Any]]:
    images = record.get("images")
    return [
        {"type": "image", "source": {"type": "url", "url": image}}
        for image in (images if isinstance(images, list) else ())
        if isinstance(image, str)
    ]


def _call(kind: str, text: str) -> tuple[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return kind, {"command" if kind == "command" else "text": text}
    if isinstance(value, dict):
        name = value.get("tool") or value.get("toolName") or kind
        return str(name), {k: v for k, v in value.items() if k not in ("tool", "toolName")}
    return kind, {"text": text}
