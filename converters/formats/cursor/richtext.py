"""The text of what a person typed, from the document of Cursor's input field (Lexical, as JSON)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.ledger import Ledger
from converters.shapes.cells import object_of

if TYPE_CHECKING:
    from converters.ledger import Place

__all__ = ["rich_text"]

_INSIDE: Final = ("root", "list", "link", "autolink")
"""Nodes with children that end no line: they stand around or inside of those which do."""


def rich_text(value: Any, ledger: Ledger, place: Place) -> str:
    """Give the text of ``richText``: a document in JSON, or its root; any other text as it stands.

    ``{root: {children: [{type: "paragraph", children: [{type: "text", text}, ...]}]}}``.
    """
    own = Ledger(ledger.source)
    is_text = isinstance(value, str)
    looks = is_text and value.lstrip()[:1] == "{"
    document = object_of(value, own, place) if looks else value
    root = document.get("root") if isinstance(document, dict) else None
    if not isinstance(root, dict):
        return value if is_text else ""
    ledger.absorb(own)
    return _text(root)


def _text(root: dict[str, Any]) -> str:
    """Walk the nodes in order, without recursion."""
    found: list[str] = []
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            found.append(node)
        elif isinstance(node, dict):
            text, children = node.get("text"), node.get("children")
            if isinstance(text, str):
                found.append(text)
            elif node.get("type") == "linebreak":
                found.append("\n")
            if isinstance(children, list):
                if node.get("type") not in _INSIDE:
                    stack.append("\n")
                stack += (child for child in reversed(children) if isinstance(child, dict))
    return "".join(found).strip("\n")
