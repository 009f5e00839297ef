"""The files beside a conversation: images, uploads and voice, by the id of their asset."""

from __future__ import annotations

import base64
import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.errors import DcbError
from converters.images import MAX_CHARS

if TYPE_CHECKING:
    from converters.types import Input

__all__ = ["DOCUMENTS", "PATTERNS", "Asset", "Files", "asset_id", "last_of"]

PATTERNS: Final = (
    "file-*",
    "file_*",
    "*/file-*",
    "*/file_*",
    "*/audio/file-*",
    "*/audio/file_*",
    "dalle-generations/*",
)
"""Where the export puts them, relative to ``conversations.json``."""

DOCUMENTS: Final = "textdocs/*"
"""The final texts of canvases, which no conversation names."""

_ASSET: Final = re.compile(r"(?:[a-z-]++://)?+(file[-_][A-Za-z0-9_-]++)", re.ASCII)
_MAX_BYTES: Final = MAX_CHARS // 4 * 3


class Asset(NamedTuple):
    """A file of the export: its own name and its bytes as base64."""

    name: str
    data: str


class Files:
    """The files of an export, looked up on first use."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._found: dict[str, Input] | None = None
        self._keys: list[str] = []

    def load(self, pointer: Any) -> Asset | None:
        """Give the file of an asset pointer or id; both spellings of its id fit.

        ``None`` when the export does not hold it, when it cannot be read, and past 18 MB.
        """
        identity = asset_id(pointer)
        file = self._find(identity) if identity is not None else None
        if file is None:
            return None
        try:
            with file.open() as stream:
                data = stream.read(_MAX_BYTES + 1)
        except DcbError:
            return None
        if not data or len(data) > _MAX_BYTES:
            return None
        return Asset(last_of(file.name), base64.b64encode(data).decode("ascii"))

    def _find(self, identity: str) -> Input | None:
        if self._found is None:
            self._found = {}
            for pattern in PATTERNS:
                for file in self._source.files(pattern):
                    key = _spelled(last_of(file.name).partition(".")[0])
                    self._found.setdefault(key, file)
            self._keys = sorted(self._found)
        exact = self._found.get(identity)
        if exact is not None:
            return exact
        for mark in "-_":
            at = bisect_left(self._keys, identity + mark)
            if at < len(self._keys) and self._keys[at].startswith(identity + mark):
                return self._found[self._keys[at]]
        return None


def asset_id(pointer: Any) -> str | None:
    """Give the id of ``sediment://file_X``, ``file-service://file-X`` or ``file-X``."""
    match = _ASSET.fullmatch(pointer) if isinstance(pointer, str) else None
    return _spelled(match[1]) if match else None


def _spelled(name: str) -> str:
    return f"file-{name[5:]}" if name.startswith("file_") else name


def last_of(name: str) -> str:
    """Give the last part of the name of an input or companion."""
    return name.replace("!", "/").rpartition("/")[2]
