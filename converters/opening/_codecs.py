"""What comes out of compressed bytes, counted against the limits."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol

from converters.errors import BadInput, LimitReached
from converters.opening._streams import CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from converters.types import Limits

__all__ = ["Budget", "Codec", "Counter", "Pieces", "codec_of", "expand", "inflate_member"]

_IN: Final = 1 << 16
_FAILURES: Final = (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError)


class Budget:
    """What has come out of one source in all; every layer and member draws from it."""

    __slots__ = ("limits", "spent")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.spent = 0


class Mark:
    """How far one packed thing was read at most; what is read again is not counted again."""

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given = 0


class Counter:
    """Counts bytes that really went in and came out of one stream."""

    __slots__ = ("_budget", "_given", "_mark", "name", "taken")

    def __init__(self, name: str, budget: Budget, mark: Mark) -> None:
        self.name = name
        self.taken = 0
        self._given = 0
        self._budget, self._mark = budget, mark

    def give(self, size: int) -> None:
        """Count bytes that came out; raises :class:`LimitReached`."""
        self._given += size
        budget, limits = self._budget, self._budget.limits
        if self._given > self._mark.given:
            budget.spent += self._given - self._mark.given
            self._mark.given = self._given
        if budget.spent > limits.expanded:
            raise LimitReached(
                f"expands to more than {limits.expanded} bytes",
                path=self.name,
                hint="--max-expanded raises the limit",
            )
        if self._given > limits.ratio_from and self._given > limits.ratio * self.taken:
            raise LimitReached(
                f"expands to more than {limits.ratio} times its size",
                path=self.name,
                hint="unpack it yourself if you trust it, and name the unpacked file",
            )


class Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Zlib:
    """zlib's decoder with the interface of the others."""

    def __init__(self, bits: int) -> None:
        self._inner = zlib.decompressobj(bits)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = CHUNK, /) -> bytes:
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = len(piece) < max_length and not self._inner.unconsumed_tail
        return piece


class _Zstandard:
    """zstandard's decoder, fed in small steps because it has no limit on what comes out.

    A block of 4 bytes can give 128 KiB, so a step of 1 KiB gives 32 MiB at most.
    """

    _STEP: Final = 1 << 10

    def __init__(self) -> None:
        import zstandard

        self._inner = zstandard.ZstdDecompressor().decompressobj()
        self._failed = zstandard.ZstdError
        self._rest = b""

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def needs_input(self) -> bool:
        return not self._rest

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data) + self._rest

    def decompress(self, data: bytes, _: int = 0, /) -> bytes:
        data = self._rest + data
        try:
            piece: bytes = self._inner.decompress(data[: self._STEP])
        except self._failed as error:
            raise ValueError(str(error)) from error
        self._rest = data[self._STEP :]
        return piece


def _gzip() -> Decoder:
    return _Zlib(31)


def _deflate() -> Decoder:
    return _Zlib(-15)


class Codec(NamedTuple):
    """One compression: its name, the bytes it starts with, and its decoder."""

    name: str
    magic: bytes
    decoder: Callable[[], Decoder]

    def starts(self, data: bytes) -> bool:
        """Whether a frame of it starts here."""
        if self.name == "zstd" and data[1:4] == b"\x2a\x4d\x18" and data[0] >> 4 == 5:
            return True  # a skippable frame
        return data.startswith(self.magic)


CODECS: Final = (
    Codec("gzip", b"\x1f\x8b\x08", _gzip),
    Codec("zstd", b"\x28\xb5\x2f\xfd", _Zstandard),
    Codec("bzip2", b"BZh", bz2.BZ2Decompressor),
    Codec("xz", b"\xfd7zXZ\x00", lzma.LZMADecompressor),
)

MEMBER_METHODS: Final[dict[int, Callable[[], Decoder] | None]] = {
    0: None,
    8: _deflate,
    12: bz2.BZ2Decompressor,
    93: _Zstandard,
}
"""The compression methods of zip members that are read, by number (APPNOTE 4.4.5)."""


def codec_of(head: bytes) -> Codec | None:
    """Give the compression that the first bytes name; the file's name has no say."""
    for codec in CODECS:
        if codec.starts(head):
            plain = codec.name == "bzip2" and head[4:10] not in (
                b"1AY&SY",
                b"\x17rE8P\x90",
            )
            return None if plain else codec
    return None


class _Source:
    """A packed stream, read in small pieces, and what was read ahead of it."""

    def __init__(self, stream: BinaryIO, counter: Counter) -> None:
        self._stream, self._counter = stream, counter
        self.ahead = b""

    def more(self) -> bytes:
        """Give the next bytes; none at the end."""
        data, self.ahead = self.ahead, b""
        if not data:
            data = self._stream.read(_IN)
            self._counter.taken += len(data)
        return data


def _frame(source: _Source, decoder: Decoder, counter: Counter) -> Generator[bytes, None, bool]:
    """Give what comes out of one frame; its value says whether the frame is whole."""
    while not decoder.eof:
        data = source.more() if decoder.needs_input else b""
        if decoder.needs_input and not data:
            return False
        piece = decoder.decompress(data, CHUNK)
        if piece:
            counter.give(len(piece))
            yield piece
    source.ahead = decoder.unused_data
    return True


def expand(
    stream: BinaryIO, codec: Codec, counter: Counter, torn: Callable[[str], None]
) -> Iterator[bytes]:
    """Give what comes out of a compressed stream, piece by piece, all frames of it.

    A stream that is cut gives what it holds and calls ``torn``; so does one with
    foreign bytes behind it. Raises :class:`BadInput` for damage inside, or when
    the package for the codec is missing.
    """
    source = _Source(stream, counter)
    with stream:
        while True:
            try:
                whole = yield from _frame(source, codec.decoder(), counter)
            except ImportError as error:
                raise BadInput(
                    "reading zstd needs an extra package",
                    path=counter.name,
                    hint="pip install 'dcb[zstd]'",
                ) from error
            except _FAILURES as error:
                raise BadInput(
                    f"damaged {codec.name} stream ({error})", path=counter.name
                ) from error
            if not whole:
                torn(f"{codec.name} stream cut")
                return
            data = b""
            while len(data) < len(codec.magic):
                more = source.more()
                if not more:
                    break
                data = (data + more).lstrip(b"\0")
            source.ahead = data
            if not data:
                return
            if not codec.starts(data):
                torn(f"foreign bytes behind the {codec.name} stream")
                return


def inflate_member(
    stream: BinaryIO, method: int, counter: Counter, expected: tuple[int, int]
) -> Iterator[bytes]:
    """Give what comes out of a zip member; ``expected`` is its CRC-32 and its stated length.

    Raises :class:`BadInput` when the data is damaged or does not fit them.
    """
    make = MEMBER_METHODS[method]
    crc = given = 0
    source = _Source(stream, counter)
    with stream:
        pieces = _stored(source, counter) if make is None else _frame(source, make(), counter)
        try:
            for piece in pieces:
                crc = zlib.crc32(piece, crc)
                given += len(piece)
                yield piece
        except ImportError as error:
            raise BadInput(
                "reading zstd needs an extra package",
                path=counter.name,
                hint="pip install 'dcb[zstd]'",
            ) from error
        except _FAILURES as error:
            raise BadInput(f"damaged member ({error})", path=counter.name) from error
    if (crc, given) != expected:
        raise BadInput("damaged member (checksum or length does not fit)", path=counter.name)


def _stored(source: _Source, counter: Counter) -> Iterator[bytes]:
    while data := source.more():
        counter.give(len(data))
        yield data


class Pieces(io.RawIOBase):
    """An iterator of bytes as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None and not self.closed:
            close()
        super().close()
