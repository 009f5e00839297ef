"""The contracts between the framework and the format modules.

A format module gives one frozen :class:`Format` record named ``FORMAT``; the
rest of dcb knows formats only through it. Readers are generators that take an
:class:`Input` and a :class:`Context`; they open no file, read no clock and
print nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeAlias

import msgspec

from converters import jsonio
from converters.text import parse_time

if TYPE_CHECKING:
    import mmap
    import sqlite3
    from datetime import tzinfo

    from converters.ir import Session
    from converters.ledger import Ledger, Place

__all__ = [
    "HEAD_BYTES",
    "SQLITE",
    "Capabilities",
    "Context",
    "Format",
    "Head",
    "Input",
    "Kind",
    "Limits",
    "Listed",
    "Match",
    "Option",
    "Options",
    "Sink",
]

HEAD_BYTES = 256 * 1024

SQLITE = b"SQLite format 3\x00"
"""The first bytes of an SQLite database."""

Kind: TypeAlias = Literal["jsonl", "json", "markdown", "text", "sqlite", "dir"]


class Head(msgspec.Struct, frozen=True, dict=True):
    """What a probe may look at: the first 256 KiB and the names around the input.

    ``siblings`` are the file names in the same folder (for a folder: its own
    entries, folders with a trailing ``/``); ``tables`` the table names of an
    SQLite database. Names are hints, content decides. ``part`` is set to ask for one member
    of an object of rows: :attr:`samples` are then its.
    """

    data: bytes
    name: str = ""
    size: int | None = None
    siblings: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    is_dir: bool = False
    part: dict[str, Any] | list[Any] | None = None

    @cached_property
    def text(self) -> str:
        """The bytes as text; BOM and UTF-16 honoured, bad bytes replaced."""
        return jsonio.sniff_text(self.data)

    @cached_property
    def first(self) -> str:
        """The first character that is no blank; empty when there is none near the start."""
        return jsonio.sniff_text(self.data[:4096]).lstrip("\ufeff \t\r\n")[:1]

    def mentions(self, mark: str) -> bool:
        """Whether an ASCII text stands somewhere in the head; quicker than :attr:`text`."""
        known = self._mentioned.get(mark)
        if known is None:
            known = mark.encode() in self.data or (jsonio.is_wide(self.data) and mark in self.text)
            self._mentioned[mark] = known
        return known

    @cached_property
    def _mentioned(self) -> dict[str, bool]:
        return {}

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """The leading JSON values: the root of a document, or the first 20 lines of JSONL.

        A document that is longer than the head is closed where it was cut.
        """
        return jsonio.leading_values(self.data)

    @cached_property
    def records(self) -> tuple[dict[str, Any], ...]:
        """The leading objects: of a JSON array its first 20, else those of :attr:`values`."""
        values = self.values
        if len(values) == 1 and isinstance(values[0], list):
            values = tuple(values[0][:20])
        return tuple(value for value in values if isinstance(value, dict))

    @cached_property
    def samples(self) -> tuple[Any, ...]:
        """The leading objects, and the lists of a list of lists, for probes that judge each one.

        Of objects with the same members of the same kinds, type and role, the first one speaks
        for the others.
        """
        values = self.values if self.part is None else (self.part,)
        if len(values) == 1 and isinstance(values[0], list):
            values = tuple(values[0][:20])
        found: dict[Any, Any] = {}
        for number, value in enumerate(values):
            if isinstance(value, dict):
                marks = (value.get("type"), value.get("role"))
                texts = tuple(mark if isinstance(mark, str) else None for mark in marks)
                found.setdefault((texts, *value, *map(type, value.values())), value)
            elif isinstance(value, list):
                found[number] = value
        return tuple(found.values())

    def parts(self) -> Iterator[Head]:
        """Give a head for each of the first 20 members of a root object that hold something.

        A lone list of messages with roles is no row: the object around it is a format's own.
        """
        root = self.root
        members = root.values() if isinstance(root, dict) else ()
        parts = [value for value in members if value and isinstance(value, dict | list)][:20]
        if len(parts) == 1 and isinstance(parts[0], list):
            first = parts[0][0]
            if isinstance(first, dict) and isinstance(first.get("role"), str):
                return
        for part in parts:
            head = msgspec.structs.replace(self, part=part)
            head.__dict__.update(self.__dict__)
            head.__dict__.pop("samples", None)
            yield head

    @property
    def root(self) -> Any:
        """The one JSON value of the head, or ``None`` when there are none or several."""
        return self.values[0] if len(self.values) == 1 else None

    @property
    def is_sqlite(self) -> bool:
        """Whether the bytes start like an SQLite database."""
        return self.data.startswith(SQLITE)


class Match(msgspec.Struct, frozen=True):
    """A probe's answer: 0 to 100, and why.

    100: a content mark that is the format's own. 80 to 95: a shape that no other
    known format has. 50 to 75: a shape shared with others. Below 50: a guess.
    """

    score: int
    reason: str


class Input(Protocol):
    """One thing to read: a file, an archive member, a stream, a folder, or bytes in memory."""

    @property
    def name(self) -> str:
        """The name for messages: ``dir/export.zip!conversations.json``."""

    @property
    def nested(self) -> bool:
        """Whether it was found in a folder or archive and not named by a person."""

    @property
    def path(self) -> str | None:
        """The path of a plain file, else ``None``."""

    @property
    def torn(self) -> str | None:
        """How packed bytes ended early, known after reading; else ``None``."""

    @property
    def stem(self) -> str:
        """The last part of the name without its suffixes."""

    @property
    def head(self) -> Head:
        """The first bytes and the names around them."""

    @property
    def size(self) -> int | None:
        """Length in bytes, ``None`` where it is not known before reading."""

    def open(self) -> BinaryIO:
        """Open the bytes (decompressed) as a new stream; the caller closes it."""

    def read(self) -> bytes:
        """Give all bytes; :class:`LimitReached` past the limit."""

    def view(self) -> bytes | mmap.mmap:
        """Give all bytes for a scanner, mapped where the input is a plain file."""

    def files(self, pattern: str) -> tuple[Input, ...]:
        """Find companions that the format declares, sorted by name.

        ``pattern`` is a glob relative to the folder of the input (for a folder:
        to itself); ``{name}`` and ``{stem}`` stand for the input's own.
        """

    def database(self) -> sqlite3.Connection:
        """Open an SQLite input read-only without a trace beside it; the caller closes it.

        Text comes as ``bytes`` (SQLite does not check it).
        """


class Sink(Protocol):
    """Where a writer puts one output."""

    def write(self, data: bytes | bytearray, /) -> object:
        """Append to the main file."""

    def beside(self, name: str, data: bytes) -> None:
        """Write a companion; ``name`` is relative to the main file, made safe by the sink."""


class Limits(msgspec.Struct, frozen=True):
    """Limits that a reader states in its errors. Sizes in bytes.

    ``expanded`` is what may come out of one compressed source in all; ``ratio``
    how often its packed size may come out once ``ratio_from`` has; ``members``
    the entries of one archive; ``nesting`` archives within archives.
    """

    depth: int = 512
    document: int = 2 << 30
    database: int = 2 << 30
    image_chars: int = 24 * 1024 * 1024
    expanded: int = 8 << 30
    ratio: int = 200
    ratio_from: int = 64 << 20
    members: int = 100_000
    nesting: int = 2


class Options(msgspec.Struct, frozen=True):
    """What a person asked for. ``format`` holds the options that the format declares.

    ``budget`` (tokens, 0: none) trims each session: :func:`converters.trimming.trim`.
    """

    subagents: Literal["include", "skip"] = "include"
    branch: Literal["active", "all"] | int = "active"
    tz: tzinfo | None = None
    strict: bool = False
    budget: int = 0
    format: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Context(msgspec.Struct):
    """What a reader or writer works with beside its data.

    ``now_ms`` (milliseconds since the epoch) is 0 unless the edge gives the
    clock; a reader uses it only where its format says so.
    """

    ledger: Ledger
    options: Options = msgspec.field(default_factory=Options)
    now_ms: int = 0
    limits: Limits = msgspec.field(default_factory=Limits)

    def ms(self, value: Any, place: Place) -> int | None:
        """Read a time of the source into milliseconds; what is none or has no zone is counted."""
        if value is None:
            return None
        time = parse_time(value, self.options.tz)
        if time is None:
            self.ledger.note("timestamp-invalid", place)
            return None
        if time.assumed:
            self.ledger.note("tz-assumed", place)
        return time.ms

    def option(self, name: str, default: Any = None) -> Any:
        """Give an option of the format, or its default."""
        return self.options.format.get(name, default)


class Option(msgspec.Struct, frozen=True):
    """An option of one format, given as ``-O name=value``."""

    name: str
    default: bool | int | str
    help: str


class Capabilities(msgspec.Struct, frozen=True):
    """The nine columns of the capability matrix (Interchange v1, section 2).

    What the format can record and dcb reads; ``notes`` are footnotes by column.
    """

    tool_results: bool = False
    reasoning: bool = False
    images: bool = False
    cwd: bool = False
    branches: bool = False
    attachments: bool = False
    compacted: bool = False
    timestamps: bool = False
    usage: bool = False
    notes: Mapping[str, str] = msgspec.field(default_factory=dict)


class Listed(msgspec.Struct, frozen=True):
    """One session of a store, as ``dcb scan`` lists it. ``time``: last activity, ms.

    ``parent``: the id of the session that a subagent works for.
    """

    id: str
    title: str | None = None
    cwd: str | None = None
    time: int | None = None
    size: int | None = None
    turns: int | None = None
    parent: str | None = None


Probe: TypeAlias = Callable[[Head], Match | None]
Reader: TypeAlias = Callable[[Input, Context], Iterator["Session"]]
Writer: TypeAlias = Callable[[Iterable["Session"], Sink, Context], None]
Lister: TypeAlias = Callable[[Input], Iterable[Listed]]


class Format(msgspec.Struct, frozen=True):
    """Everything that dcb knows about a format; the module docstring is its notes.

    ``suffix`` is that of written files; ``many``: one written file can hold many
    sessions. ``places`` maps a platform (``linux``, ``darwin``, ``win32``) to glob
    patterns below the home folder, with ``$NAME`` for environment variables.
    ``companions`` are patterns for :meth:`Input.files` whose matches belong to
    another input; those of them in ``series`` are parts of one input (numbered files), and
    count only for an input that is such a part itself: the first one reads the others.
    ``resume`` is the command that goes on with a session, with ``{id}``; ``file_name`` gives the
    name, without suffix, by which the tool finds a written session. ``listing`` lists the
    sessions of a store without reading them; a format of files with one session each needs
    none, the ends of its files are read.
    """

    id: str
    title: str
    kinds: frozenset[Kind]
    probe: Probe
    read: Reader | None = None
    write: Writer | None = None
    listing: Lister | None = None
    capabilities: Capabilities = Capabilities()
    evidence: Literal["A", "B", "C"] = "A"
    suffix: str = ".json"
    many: bool = False
    group: str | None = None
    parent: str | None = None
    aliases: tuple[str, ...] = ()
    places: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    companions: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    resume: str | None = None
    file_name: Callable[[Session], str] | None = None
    options: tuple[Option, ...] = ()
