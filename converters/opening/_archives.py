"""The members of zip and tar archives. Nothing is written under a member's name."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from converters.errors import BadInput, DcbError, LimitReached
from converters.opening._codecs import MEMBER_METHODS, Counter, Mark, Pieces, inflate_member
from converters.opening._content import Stretch
from converters.opening._streams import Window, buffered, unbuffered
from converters.opening._trees import IndexTree, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.opening._codecs import Budget
    from converters.opening._content import Content
    from converters.types import Limits

__all__ = ["Archive", "is_tar", "is_zip", "tar_tree", "zip_tree"]

_ZIP_ERRORS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    ArithmeticError,
    LookupError,
    RuntimeError,
)
_TAR_ERRORS: Final = (
    tarfile.TarError,
    OSError,
    EOFError,
    ValueError,
    ArithmeticError,
    LookupError,
    RecursionError,
)
_LOCAL: Final = 30
_LOCAL_MAGIC: Final = b"PK\x03\x04"
_ENTRY: Final = b"PK\x01\x02"
_TAR_HEADER: Final = 64 << 20


class Archive(NamedTuple):
    """The tree of an archive, and what of it is damaged as a whole."""

    tree: IndexTree
    problems: list[DcbError]


def is_zip(start: bytes) -> bool:
    """Whether bytes start like a zip archive (also an empty one)."""
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def is_tar(start: bytes) -> bool:
    """Whether the first 512 bytes are a tar header: its checksum fits."""
    if len(start) < tarfile.BLOCKSIZE or not start[0]:
        return False
    try:
        tarfile.TarInfo.frombuf(start[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except _TAR_ERRORS:
        return False
    return True


class _Directory(io.BufferedReader):
    """A zip file for its parser, which reads the directory at once, however many entries it has."""

    most = 0
    shown = ""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if len(data) > self.most and data.count(_ENTRY) > self.most:
            raise LimitReached(f"more than {self.most} members", path=self.shown)
        return data


def zip_tree(content: Content, name: str, limits: Limits, budget: Budget) -> Archive:
    """List a zip archive. A member that cannot be read says so when it is asked for."""
    stream = content.open()
    directory = _Directory(Window(stream, 0, stream.seek(0, io.SEEK_END), name))
    directory.most, directory.shown = limits.members, name
    with directory:
        try:
            infos = zipfile.ZipFile(directory).infolist()
        except _ZIP_ERRORS as error:
            raise BadInput(
                f"damaged zip archive ({error})", path=name, hint="the file may be cut"
            ) from error
    if len(infos) > limits.members:
        raise LimitReached(f"more than {limits.members} members", path=name)
    tree = IndexTree(name, folders=limits.members)
    shared = _overlaps(infos)
    for position, info in enumerate(infos):
        if info.is_dir():
            continue
        mode = info.external_attr >> 16
        kind = kind_of(mode) if stat.S_IFMT(mode) else "file"
        refusal = _refusal(info, overlaps=position in shared)
        member = ZipMember(content, info, f"{name}!{info.filename}", budget, refusal)
        path = info.filename.replace("\\", "/")  # as some packers on Windows write it
        tree.add(path, "file" if kind == "dir" else kind, member.checked, info.filename)
    return Archive(tree, [])


def _overlaps(infos: list[zipfile.ZipInfo]) -> set[int]:
    """Give the places of members that share bytes with one before them."""
    found: set[int] = set()
    end = 0
    for position in sorted(range(len(infos)), key=lambda place: infos[place].header_offset):
        info = infos[position]
        if info.header_offset < end:
            found.add(position)
        else:
            end = info.header_offset + _LOCAL + info.compress_size
    return found


def _refusal(info: zipfile.ZipInfo, *, overlaps: bool) -> str | None:
    """Say why a member is not read, if so."""
    if info.flag_bits & 0x1:
        return "encrypted member"
    if overlaps:
        return "member shares its bytes with another one"
    if info.compress_type not in MEMBER_METHODS:
        return f"unknown compression method {info.compress_type}"
    return None


class ZipMember:
    """One member of a zip archive, read from where it lies."""

    seekable = False
    path: str | None = None
    torn: str | None = None

    def __init__(
        self,
        archive: Content,
        info: zipfile.ZipInfo,
        name: str,
        budget: Budget,
        refusal: str | None,
    ) -> None:
        self.size: int | None = info.file_size
        self._archive, self._name, self._budget, self._refusal = archive, name, budget, refusal
        self._offset, self._packed = info.header_offset, info.compress_size
        self._method, self._expected = info.compress_type, (info.CRC, info.file_size)
        self._mark = Mark()

    def checked(self) -> Content:
        """Give the member itself; raises :class:`BadInput` when it is not to be read."""
        if self._refusal is not None:
            raise BadInput(self._refusal, path=self._name)
        return self

    def open(self) -> BinaryIO:
        """Open what comes out of it."""
        stream = unbuffered(self._archive.open())
        stream.seek(max(self._offset, 0))
        header = stream.read(_LOCAL)
        if len(header) < _LOCAL or not header.startswith(_LOCAL_MAGIC):
            stream.close()
            raise BadInput("damaged zip archive (no member here)", path=self._name)
        start = self._offset + _LOCAL + sum(struct.unpack_from("<HH", header, 26))
        packed: Any = Window(stream, start, self._packed, self._name)
        counter = Counter(self._name, self._budget, self._mark)
        return buffered(Pieces(inflate_member(packed, self._method, counter, self._expected)))

    def view(self) -> None:
        """Give nothing: it is not mapped."""
        return


class _Headers:
    """A tar archive for its parser; a header of many megabytes is refused, not read."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name = stream, name
        self.tell, self.seek = stream.tell, stream.seek

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _TAR_HEADER:
            raise LimitReached("a header of the tar archive is too long", path=self._name)
        return self._stream.read(size)


def tar_tree(content: Content, name: str, limits: Limits, _: Budget) -> Archive:
    """List a tar archive; a damaged one gives its members before the damage."""
    tree = IndexTree(name, folders=limits.members)
    problems: list[DcbError] = []
    with content.open() as stream:
        try:
            for info in _tar_members(stream, name):
                if len(tree) >= limits.members:
                    raise LimitReached(f"more than {limits.members} members", path=name)
                kind = _tar_kind(info)
                if kind != "dir":
                    member = Stretch(content, info.offset_data, info.size, f"{name}!{info.name}")
                    tree.add(info.name, kind, partial(_same, member))
        except _TAR_ERRORS as error:
            problem = BadInput(f"damaged tar archive ({error})", path=name)
            problem.__cause__ = error
            problems.append(problem)
    return Archive(tree, problems)


def _same(content: Content) -> Content:
    return content


def _tar_members(stream: BinaryIO, name: str) -> Iterator[tarfile.TarInfo]:
    headers: Any = _Headers(stream, name)
    archive = tarfile.TarFile(fileobj=headers, encoding="utf-8", errors="surrogateescape")
    while (info := archive.next()) is not None:
        vars(archive)["members"].clear()  # tarfile keeps them all; the tree has what it needs
        yield info


def _tar_kind(info: tarfile.TarInfo) -> str:
    if info.issparse():
        return "sparse file"
    if info.isreg():
        return "file"
    if info.isdir():
        return "dir"
    if info.issym() or info.islnk():
        return "symbolic link" if info.issym() else "hard link"
    return "pipe" if info.isfifo() else "device"
