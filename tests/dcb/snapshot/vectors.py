"""The recorded cases of the reference program, as values."""

import math
from typing import Any

import msgspec
import orjson
import pytest

from dcb.snapshot.model import Snapshot
from tests.paths import VECTORS


def _number(value: Any) -> Any:
    if value == "NaN":
        return math.nan
    if isinstance(value, dict):
        return {
            name: _number(item) if name in NUMBERS or isinstance(item, dict | list) else item
            for name, item in value.items()
        }
    return [_number(item) for item in value] if isinstance(value, list) else value


NUMBERS = {"createdAt", "tokenEstimate", "weight"}


def cases(name: str) -> list[Any]:
    """Give the cases of a file as parameters; none where the vectors are absent."""
    path = VECTORS / "dcb" / f"{name}.json"
    if not path.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason="../shared is absent"))]
    found = orjson.loads(path.read_bytes())["cases"]
    return [pytest.param(case, id=case.get("name", str(n))) for n, case in enumerate(found)]


def to_snapshot(value: Any) -> Snapshot:
    """Give the snapshot of a recorded object."""
    return msgspec.convert(_number(value), Snapshot)


def comparable(snapshot: Snapshot) -> Any:
    """Give plain data in which NaN equals NaN and an absent weight is 0."""
    return _comparable(msgspec.to_builtins(snapshot))


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
