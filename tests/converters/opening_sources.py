"""What the tests of opening inputs share: sources to open, and ways to look at what they give."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zstandard
from msgspec.structs import replace

from converters.errors import DcbError
from converters.opening import Stored, open_inputs
from converters.types import Limits

if TYPE_CHECKING:
    from collections.abc import Callable


GOOD = b'{"a":1}\n{"a":2}\n'
SMALL = replace(Limits(), expanded=1 << 20, ratio_from=1 << 14, ratio=20, members=50)


def found(source: Any, **how: Any) -> list[Any]:
    return list(open_inputs(source, **how))


def inputs(source: Any, **how: Any) -> dict[str, bytes]:
    """Give the bytes of every input by name; anything else in the source is a failure."""
    given = found(source, **how)
    assert all(isinstance(item, Stored) for item in given), given
    return {item.name: item.read() for item in given}


def only(source: Any, **how: Any) -> Stored:
    (item,) = found(source, **how)
    if isinstance(item, DcbError):
        raise item
    assert isinstance(item, Stored)
    return item


def write(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def tarred(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd,
}


def sent(stored: Stored) -> Stored:
    """Give an input as another process gets it."""
    came: Stored = pickle.loads(pickle.dumps(stored))  # noqa: S301 - our own bytes
    return came


def digest(folder: Path) -> list[tuple[str, int, int, bytes]]:
    return sorted(
        (str(path), path.lstat().st_size, path.lstat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )
