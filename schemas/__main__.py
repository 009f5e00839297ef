"""Write the generated schemas anew: ``python -m schemas``."""

from __future__ import annotations

from pathlib import Path

from dcb.files import write_whole
from schemas import SOURCES, generate

for name in SOURCES:
    target = Path(__file__).with_name(f"{name}.schema.json")
    write_whole(target, generate(name), force=True)
