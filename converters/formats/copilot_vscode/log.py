"""The mutation log, replayed into the object that it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio

if TYPE_CHECKING:
    from converters.ledger import Ledger
    from converters.types import Input

__all__ = ["replay"]

_SKIPPED: Final = ("inputState",)


def replay(source: Input, ledger: Ledger) -> Any:
    """Give the object after all lines; lines that fit nothing are counted."""
    state: Any = {}
    with source.open() as stream:
        for line, record in jsonio.records(stream, ledger):
            path = record.get("k")
            kind = record.get("kind")
            if isinstance(path, list) and path and path[0] in _SKIPPED:
                ledger.skipped("record-skipped", line, kind=str(path[0]))
            elif kind == 0:
                state = record.get("v")
                ledger.mapped()
            elif kind in (1, 2, 3) and isinstance(path, list) and path:
                if _mutate(state, kind, path, record):
                    ledger.mapped()
                else:
                    ledger.skipped("malformed-record", line, kind=f"mutation {kind}")
            else:
                ledger.skipped("unknown-record", line, kind=str(kind)[:40])
    return state


def _mutate(state: Any, kind: int, path: list[Any], record: dict[str, Any]) -> bool:
    """Apply one mutation in place; false when its path leads nowhere."""
    holder = state
    for part in path[:-1]:
        holder = _get(holder, part)
    last = path[-1]
    value = record.get("v")
    if kind == 1:
        return _set(holder, last, value)
    if kind == 3:
        return _delete(holder, last)
    target = _get(holder, last)
    if target is None and isinstance(holder, dict) and isinstance(last, str):
        target = holder[last] = []
    if not isinstance(target, list):
        return False
    start = record.get("i")
    if isinstance(start, int) and not isinstance(start, bool):
        del target[max(start, 0) :]
    if isinstance(value, list):
        target += value
    return True


def _get(holder: Any, part: Any) -> Any:
    if isinstance(holder, dict) and isinstance(part, str):
        return holder.get(part)
    if isinstance(holder, list) and isinstance(part, int) and 0 <= part < len(holder):
        return holder[part]
    return None


def _set(holder: Any, part: Any, value: Any) -> bool:
    if isinstance(holder, dict) and isinstance(part, str):
        holder[part] = value
        return True
    if isinstance(holder, list) and isinstance(part, int) and 0 <= part <= len(holder):
        holder[part : part + 1] = [value]
        return True
    return False


def _delete(holder: Any, part: Any) -> bool:
    if isinstance(holder, dict) and isinstance(part, str):
        return holder.pop(part, None) is not None
    if isinstance(holder, list) and isinstance(part, int) and 0 <= part < len(holder):
        del holder[part]
        return True
    return False
