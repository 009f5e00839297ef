"""Made-up ChatGPT exports for the tests of its reader."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from converters.formats.chatgpt import FORMAT
from tests.reading import counts, read

if TYPE_CHECKING:
    from converters.ir import Session


def node(
    name: str, parent: str | None, role: str | None = None, text: Any = "", **more: Any
) -> dict[str, Any]:
    """Give a node; without a role one without a message."""
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    message = None
    if role is not None:
        author = {"role": role, "name": more.pop("tool", None)}
        message = {"id": f"m-{name}", "author": author, "content": content, **more}
    return {"id": name, "parent": parent, "children": [], "message": message}


def conversation(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    value = {"conversation_id": "c-1", "mapping": {n["id"]: n for n in nodes}}
    if nodes:
        value["current_node"] = nodes[-1]["id"]
    return {**value, **more}


def chain(*messages: tuple[Any, ...]) -> dict[str, Any]:
    """Give a conversation without branches; each message is role, text and members."""
    nodes = [node("root", None)]
    for number, (role, text, *more) in enumerate(messages, 1):
        nodes.append(node(f"n{number}", nodes[-1]["id"], role, text, **(more[0] if more else {})))
    return conversation(*nodes)


def dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def one(
    value: Any, around: dict[str, bytes] | None = None, **options: Any
) -> tuple[Session, dict[str, int]]:
    sessions, report = read(FORMAT, dump(value), "conversations.json", around, **options)
    (session,) = sessions
    return session, counts(report)
