"""Bundles for tests: the vectors, exporting and restoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converters import registry
from converters.formats.dsh_bundle import document as bundle
from converters.opening import Stored, open_inputs
from converters.reading import Unit, units
from converters.types import Options
from dcb.bundle.drafts import Job
from dcb.bundle.export import Exported, export
from dcb.bundle.restore import Plan, Restored, restore
from tests.paths import VECTORS

if TYPE_CHECKING:
    from collections.abc import Iterable


BUNDLES = VECTORS / "interchange" / "bundles"
FUNCTIONS = VECTORS / "interchange" / "functions"
NOW = 1_786_000_000_000


def cases(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def opened(path: Path) -> Stored:
    (source,) = open_inputs(path)
    assert isinstance(source, Stored)
    return source


def exported(
    sources: Iterable[Path | str], folder: Path, *, now_ms: int = NOW, **how: Any
) -> list[Exported]:
    found = [unit for source in sources for unit in units(source) if isinstance(unit, Unit)]
    job = Job(now_ms, "0.0.1", Options())
    return list(export(found, folder, job, **how))


def plan(into: Path, to: str | None = "dsh", **more: Any) -> Plan:
    target = None if to is None else registry.target(to)
    return Plan(target, into, lambda _: False, lambda path: "/here/" + path, **more)


def restored(folder: Path, to: Plan) -> list[Restored]:
    return [restore(opened(path), to) for path in sorted(folder.glob("*" + bundle.SUFFIX))]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


QUESTION = {
    "interchange": "dsh-chat-import",
    "version": 1,
    "meta": {"id": "q-1", "createdAt": NOW, "cwd": "/nowhere/project"},
    "title": "A question",
    "provider": "demo",
    "turns": [{"prompt": "why?", "steps": [{"content": [{"type": "text", "text": "so"}]}]}],
}
