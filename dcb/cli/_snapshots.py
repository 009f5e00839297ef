"""One snapshot out of whatever a person names: a document, an envelope, the store, a transcript."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from converters import opening
from converters.errors import DcbError, UsageError, VerifyError
from converters.ledger import Ledger
from converters.opening import Skipped
from converters.reading import Unit, read_unit, units
from converters.types import Context, Options
from dcb import envelope, llm
from dcb.cli import _run
from dcb.cli._inputs import collect, open_named, say_skipped
from dcb.cli._passphrase import passphrase
from dcb.cli._settings import current
from dcb.snapshot import document
from dcb.snapshot.compile import Options as CompileOptions
from dcb.snapshot.compile import compile_session
from dcb.snapshot.losses import damage, losses
from dcb.snapshot.profile import Profile
from dcb.snapshot.summarize import extractive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from converters.types import Input
    from dcb.snapshot.model import Snapshot
    from dcb.snapshot.problem import Problem
    from dcb.snapshot.summarize import Summarizer

__all__ = [
    "KEYS",
    "LlmBaseUrlOption",
    "LlmModelOption",
    "Loader",
    "ProfileOption",
    "SummaryOption",
    "compile_options",
    "is_document",
    "llm_summarizer",
]

KEYS = ("DCB_LLM_API_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key of an LLM endpoint, the first one first."""

ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="published|plugin", help="Dialect and rules [published]."),
]
SummaryOption = Annotated[
    str | None,
    typer.Option("--summary", metavar="extractive|llm", help="Who summarizes [extractive]."),
]
LlmBaseUrlOption = Annotated[
    str | None,
    typer.Option("--llm-base-url", metavar="URL", help="OpenAI-compatible endpoint; implies llm."),
]
LlmModelOption = Annotated[
    str | None, typer.Option("--llm-model", metavar="NAME", help="Model to ask; implies llm.")
]


def llm_summarizer(
    profile: Profile, summary: str | None, base_url: str | None, model: str | None
) -> Summarizer | None:
    """Give the summarizer that options and settings ask for, ``None`` for the extractive one.

    Texts leave the machine only when ``--summary llm``, ``--llm-model``, ``--llm-base-url``
    or the user's own settings say so.
    """
    chosen = current()
    if summary not in (None, "extractive", "llm"):
        raise UsageError(f"--summary is extractive or llm, not {summary!r}")
    wanted = summary or ("llm" if base_url or model else chosen.summary)
    if wanted != "llm":
        return None
    name = model or chosen.llm_model
    if name is None:
        raise UsageError("the LLM summarizer needs --llm-model NAME")
    ask = llm.connect(
        base_url or chosen.llm_base_url,
        name,
        key=next((found for found in map(os.environ.get, KEYS) if found), None),
        max_tokens=chosen.llm_max_tokens,
        temperature=chosen.llm_temperature,
        timeout=chosen.llm_timeout,
    )
    rules = profile.compiling
    return llm.summarizer(
        ask,
        extractive(rules.lexicon(), rules.extracting),
        lambda reason: _run.say(f"warning: summarized without the LLM: {reason}"),
    )


class _Held(NamedTuple):
    """A snapshot that was read, where, and whether it is all of what was named."""

    snapshot: Snapshot
    name: str
    alone: bool


@dataclass
class Loader:
    """How snapshots are read in one run of a command."""

    profile: Profile
    compiling: CompileOptions
    passphrase_file: Path | None = None
    from_: str | None = None
    session: str | None = None
    reading: Options = field(default_factory=lambda: Options(subagents="skip"))
    accept_mismatch: bool | None = None
    """``None``: a checksum that fails or a body that is damaged is a warning; ``False``: an
    error; ``True``: said, taken."""
    losses: int = 0
    """How many lines of documents were said to be lost so far."""

    @cached_property
    def passphrase(self) -> str:
        """The passphrase; asked for once, when something sealed is met."""
        return passphrase(self.passphrase_file)

    @cached_property
    def stdin(self) -> bytes:
        """All of stdin: whether it is a document shows only in the bytes."""
        return sys.stdin.buffer.read()

    def load(self, name: str) -> Snapshot:
        """Give the one snapshot that a name stands for.

        A document or an envelope is read, ``store:ID`` taken from the store, a transcript
        of any format compiled; folders, archives and globs may hold the one.
        :class:`UsageError` when there are several.
        """
        if name.startswith("store:") and not Path(name).exists():
            return self._stored(name.removeprefix("store:"))
        held = list(islice(self._held(name), 2))
        if len(held) > 1:
            raise self._several("several snapshots", name)
        if held and held[0].alone:
            return held[0].snapshot
        compiled = self._compiled(name, held[0].name if held else None)
        if held and compiled is not None:
            raise self._several("a snapshot and a session", name)
        return compiled or held[0].snapshot

    def _several(self, what: str, name: str) -> UsageError:
        hint = "name the file, or a session with --session ID"
        return UsageError(f"{what}, and one is wanted", path=name, hint=hint)

    def _held(self, name: str) -> Iterator[_Held]:
        """Give each document and envelope in what is named.

        What cannot be opened is left to the reading of transcripts, which says so.
        ``--from`` and ``--session`` ask for a transcript: a document found beside it is named
        as passed over.
        """
        if self.from_ is not None or name.startswith("scan:"):
            return
        found: Iterable[Input | Skipped | DcbError]
        if name == "-":
            found = opening.open_inputs(name, stdin=io.BytesIO(self.stdin))
        else:
            found = open_named([name])
        for one in found:
            if isinstance(one, DcbError | Skipped) or one.head.is_dir:
                continue
            if not is_document(one.head.data):
                continue
            alone = not one.nested and name == one.name
            if not alone and self.session is not None:
                say_skipped(Skipped(one.name, "a snapshot, and --session names a session"))
                continue
            try:
                made = self._document_of(one)
            except DcbError as error:
                error.path = error.path or one.name
                raise
            if made is not None:
                yield _Held(made, one.name, alone)

    def document(self, data: bytes, name: str) -> Snapshot:
        """Read a document, look at its checksum, and say what of it no snapshot holds."""
        try:
            text = document.decode(data, name)
            found = document.read(text, self.profile)
        except DcbError as error:
            error.path = error.path or name
            raise
        if not document.verify(text):
            self._mismatch(text, name)
        self._lost(losses(text, found), name)
        return found.snapshot

    def _lost(self, lost: list[Problem], name: str) -> None:
        """Say what the reader passed over; where it is to be kept, refuse what is damaged."""
        broken = damage(lost) if self.accept_mismatch is False else []
        if broken:
            first, more = broken[0], len(broken) - 1
            raise VerifyError(
                f"{first.code}: {first.message}{f' (and {more} more)' if more else ''}",
                path=name,
                position=first.line or None,
                hint="look at it with `dcb check`; take it all the same with --accept-mismatch",
            )
        if not lost:
            return
        from dcb.checking.output import Finding, text

        self.losses += len(lost)
        for problem in lost:
            _run.say(_run.printable(text(Finding(name, problem._replace(severity="warning")))))

    def _mismatch(self, text: str, name: str) -> None:
        verdict = document.verdict(text)
        if verdict == "folded":
            _run.say(f"note: {name}: the checksum fits once BOM and CRLF are folded")
            return
        what = "has no checksum" if verdict == "missing" else "was changed after it was written"
        if self.accept_mismatch is False:
            raise VerifyError(
                f"the snapshot {what}",
                path=name,
                hint="look at it with `dcb check`; take it all the same with --accept-mismatch",
            )
        _run.say(f"warning: {_run.printable(name)}: the snapshot {what}")

    def _stored(self, snapshot_id: str) -> Snapshot:
        from dcb.cli._store import opened_store
        from dcb.store import find, opened, stored_text

        with opened_store(create=False) as store:
            row = find(store, snapshot_id)
            text = stored_text(store, row.snapshot_id)
        key = self.passphrase if envelope.is_envelope(text) else None
        return self.document(
            opened(text, row.snapshot_id, key).encode(), f"store:{row.snapshot_id}"
        )

    def _compiled(self, name: str, held: str | None) -> Snapshot | None:
        """Compile the one session; ``None`` if there is none beside the document ``held``."""
        failed: list[DcbError] = []
        made: list[Snapshot] = []
        for snapshot in self.compiled([name], failed.append):
            made.append(snapshot)
            if len(made) > 1:
                raise UsageError(
                    "several sessions, and one is wanted",
                    path=name,
                    hint="name one with --session ID",
                )
        for error in failed:
            if held is None or error.path != held:  # the document is no transcript, of course
                raise error
        if not made and held is None:
            raise UsageError("no such session", path=name)
        return made[0] if made else None

    def compiled(
        self, names: Iterable[str], on_error: Callable[[DcbError], None]
    ) -> Iterator[Snapshot]:
        """Compile every session of transcripts; a broken one stops no other."""
        for unit in self._units(names, on_error):
            ledger = Ledger(unit.input.name)
            reading = self.reading
            if unit.only is not None:  # who names a subagent wants it
                reading = msgspec.structs.replace(reading, subagents="include")
            try:
                for session in read_unit(unit, Context(ledger, reading)):
                    if self.session is None or session.meta.id.startswith(self.session):
                        done = compile_session(session, self.compiling, self.profile)
                        for change in done.document.changes:
                            ledger.note(
                                "text-changed", f"snapshot {change.place}", kind=change.what
                            )
                        yield done.document.snapshot
            except DcbError as error:
                error.path = error.path or unit.input.name
                on_error(error)
            report = ledger.report()
            if report.entries:
                _run.say(_run.summarize(report))

    def _units(self, names: Iterable[str], on_error: Callable[[DcbError], None]) -> Iterator[Unit]:
        for name in names:
            if name != "-":
                yield from collect([name], from_=self.from_, on_error=on_error)
                continue
            for found in units("-", from_=self.from_, stdin=io.BytesIO(self.stdin)):
                if isinstance(found, DcbError):
                    on_error(found)
                elif isinstance(found, Unit):
                    yield found

    def documents(
        self, names: Iterable[str], on_error: Callable[[DcbError], None]
    ) -> Iterator[tuple[str, Snapshot | None, int]]:
        """Give the snapshot of every document and envelope, ``None`` for what is neither.

        With its name, and how many of its lines were lost.
        """
        for name in names:
            if name == "-":
                found: Iterable[Input | Skipped | DcbError | None] = [None]
            else:
                found = open_named([name])
            for one in found:
                if isinstance(one, DcbError):
                    on_error(one)
                elif not isinstance(one, Skipped):
                    shown = "-" if one is None else one.name
                    before = self.losses
                    try:
                        made = self._document_of(one)
                    except DcbError as error:
                        error.path = error.path or shown
                        on_error(error)
                    else:
                        yield shown, made, self.losses - before

    def _document_of(self, source: Input | None) -> Snapshot | None:
        """Read an input (``None``: stdin) when it is a document or an envelope."""
        if source is not None and source.head.is_dir:
            return None
        if not is_document(self.stdin if source is None else source.head.data):
            return None
        data = self.stdin if source is None else source.read()
        if data.startswith(b"dcb1."):
            data = envelope.open_envelope(_one_line(data), self.passphrase)
        return self.document(data, "-" if source is None else source.name)


def is_document(head: bytes) -> bool:
    """Whether bytes begin like a snapshot document or an envelope."""
    start = head[:4096].removeprefix(b"\xef\xbb\xbf")
    return start.startswith(b"dcb1.") or (start.startswith(b"---") and b"\ndcb_schema:" in start)


def _one_line(data: bytes) -> bytes:
    """Take off the line break that ends a text file; it is not part of an envelope."""
    return data.removesuffix(b"\n").removesuffix(b"\r")


def compile_options(profile: Profile, **given: Any) -> CompileOptions:
    """Give compile options: the settings, with what a command was given over them."""
    chosen = current()
    summarizer = llm_summarizer(
        profile, given.pop("summary", None), given.pop("base_url", None), given.pop("model", None)
    )
    return CompileOptions(
        max_tokens=given.pop("max_tokens", None) or chosen.max_tokens,
        bullets=given.pop("bullets", None) or chosen.bullets,
        max_messages=given.pop("max_messages", None) or chosen.max_messages,
        summarizer=summarizer,
        **given,
    )
