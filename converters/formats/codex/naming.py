"""The names by which the tool finds a written rollout."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Final

from converters.text import iso_ms

if TYPE_CHECKING:
    from converters.ir import Session

__all__ = ["file_name", "native_id"]

_NAMESPACE: Final = uuid.UUID("0c0d9c5e-8e8b-5d5f-a6d0-7f1f0b0f5a90")
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def native_id(session: Session) -> str:
    """Give the UUID under which the tool finds the session; a made one where it has none."""
    identity = session.meta.id
    return identity if _UUID.fullmatch(identity) else str(uuid.uuid5(_NAMESPACE, identity))


def file_name(session: Session) -> str:
    """Give the name that the tool looks for, ``rollout-<time>-<UUID>``, without suffix."""
    times = (session.meta.created_at, *(turn.time for turn in session.turns))
    known = next((time for time in times if time is not None), 0)
    try:
        time = iso_ms(known)
    except ValueError:
        time = iso_ms(0)
    return f"rollout-{time.partition('.')[0].replace(':', '-')}-{native_id(session)}"
