"""JSON in the cells of databases and in the small files of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters import jsonio
from converters.errors import DcbError
from converters.jsonrepair import deep_value, many_levels
from converters.ledger import Ledger

if TYPE_CHECKING:
    from converters.ledger import Place

__all__ = ["object_of", "value_of"]

_REFUSED: Final = (msgspec.DecodeError, RecursionError, ValueError)


def value_of(cell: Any, ledger: Ledger, place: Place) -> Any:
    """Give the JSON value of a cell, text or blob; ``None`` when it holds none.

    What has to be repaired (a lone surrogate, a byte order mark, a torn end) is noted with its
    rule at ``place``. Columns may hold either type (SQLite, "Datatypes", section 3). A value
    deeper than :data:`jsonio.DEPTH` counts as none.
    """
    if isinstance(cell, str):
        cell = cell.encode("utf-8", "replace")
    if not isinstance(cell, bytes):
        return None
    try:
        found = msgspec.json.decode(cell)
    except _REFUSED:
        return _repaired(cell, ledger, place)
    return None if many_levels(cell) and deep_value(found) else found


def object_of(cell: Any, ledger: Ledger, place: Place) -> dict[str, Any] | None:
    """Give the JSON object of a cell, as :func:`value_of`; ``None`` for any other value."""
    found = value_of(cell, ledger, place)
    return found if isinstance(found, dict) else None


def _repaired(cell: bytes, ledger: Ledger, place: Place) -> Any:
    own = Ledger()
    try:
        found = jsonio.load(cell, own)[0]
    except DcbError:
        return None
    for entry in own.report().entries:
        ledger.note(entry.rule, place, entry.count)
    return found
