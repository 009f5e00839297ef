"""JSON Schemas of the documents that dcb reads and writes, generated from the types.

``python -m schemas`` writes them anew; a test keeps them fresh.
"""

from __future__ import annotations

import json
from importlib import import_module, resources
from typing import Any, Final

import msgspec

__all__ = ["SOURCES", "generate", "load", "names"]

SOURCES: Final = {
    "interchange": ("converters.ir:Session", "Interchange v1 document with x-dcb"),
    "bundle": ("dcb.checking.shapes:Bundle", "A portable bundle"),
    "snapshot": ("dcb.snapshot.model:Snapshot", "The object of a snapshot document"),
    "report": ("converters.ledger:RunReport", "The account of a run of dcb"),
}
"""Name -> (``module:type``, title)."""

_OPEN: Final = ("interchange", "bundle")
"""Documents whose readers ignore unknown members."""


def names() -> tuple[str, ...]:
    """Give the names of the schemas that ship with the package."""
    files = resources.files(__name__).iterdir()
    suffix = ".schema.json"
    return tuple(sorted(f.name.removesuffix(suffix) for f in files if f.name.endswith(suffix)))


def load(name: str) -> dict[str, Any]:
    """Give a schema by name; raises ``FileNotFoundError`` for an unknown one."""
    text = resources.files(__name__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def generate(name: str) -> bytes:
    """Give the schema of a name in :data:`SOURCES` as the bytes of its file."""
    where, title = SOURCES[name]
    module, _, attribute = where.partition(":")
    schema = msgspec.json.schema(getattr(import_module(module), attribute))
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:dcb:schema:{name}",
        "title": title,
        **schema,
    }
    if name in _OPEN:
        _allow_unknown(schema)
    return (json.dumps(schema, indent=2, ensure_ascii=False) + "\n").encode()


def _allow_unknown(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("additionalProperties") is False:
            del schema["additionalProperties"]
        for value in schema.values():
            _allow_unknown(value)
    elif isinstance(schema, list):
        for value in schema:
            _allow_unknown(value)
