"""``dcb store``: keep, search and version snapshots."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from converters.errors import BadInput, DcbError, UsageError
from converters.text import iso_ms
from dcb import store
from dcb.cli import _run, _tables
from dcb.cli._exporter import Exporter
from dcb.cli._inputs import FromOption, JsonOption, SessionsOption
from dcb.cli._passphrase import (
    PassphraseAtHandOption,
    PassphraseOption,
    passphrase,
    passphrase_at_hand,
)
from dcb.cli._settings import current
from dcb.cli._snapshots import Loader, compile_options
from dcb.cli._store import (
    IndexOption,
    MetadataOption,
    SealOption,
    chosen_sealing,
    now_ms,
    opened_store,
)
from dcb.envelope import is_envelope
from dcb.snapshot.card import snapshot_card
from dcb.snapshot.compiling import Stamp, content_id
from dcb.snapshot.document import body_of, parse
from dcb.snapshot.profile import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dcb.snapshot.model import Snapshot

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Snapshot id, or its beginning.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
MismatchOption = Annotated[
    bool, typer.Option("--accept-mismatch", help="Take snapshots that were changed or are damaged.")
]


@app.command(epilog="Example: dcb store save session.jsonl notes.md --tag auth")
def save(
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT...", help="Snapshots, transcripts, folders, -.")
    ],
    *,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag to add; repeatable.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title instead of its own.")] = None,
    from_: FromOption = None,
    session: SessionsOption = None,
    seal: SealOption = None,
    seal_metadata: MetadataOption = None,
    index_plaintext: IndexOption = None,
    passphrase_file: PassphraseOption = None,
    accept_mismatch: MismatchOption = False,
    json: JsonOption = False,
) -> None:
    """Save snapshots; transcripts are compiled on the fly. An older version is kept in the history.

    All inputs are one transaction and one commit; one that cannot be saved stops no other.
    """
    problems = _run.Problems(json=json)
    loader = Loader(PUBLISHED, compile_options(PUBLISHED), passphrase_file, from_, session)
    loader.accept_mismatch = accept_mismatch
    found = list(_everything(inputs, loader, problems))
    marked = [_marked(one, tag or [], title) for _, one, _ in found]
    sealing = chosen_sealing(
        passphrase_file, seal=seal, metadata=seal_metadata, index=index_plaintext
    )
    with opened_store() as kept:
        saved = store.save(
            kept,
            marked,
            now_ms=now_ms(),
            sealing=sealing,
            on_error=_naming([name for name, _, _ in found], problems),
        )
    _told(saved, [losses for _, _, losses in found], json=json)
    if not found and not problems.count:
        raise UsageError("no snapshot and no session found")
    _run.finish(failed=problems.count > 0)


def _naming(names: list[str], problems: _run.Problems) -> Callable[[int, DcbError], None]:
    """Give what takes the failure of one snapshot of a batch, and names where it came from."""

    def take(place: int, error: DcbError) -> None:
        error.path = error.path or names[place]
        problems.take(error)

    return take


def _everything(
    inputs: list[str], loader: Loader, problems: _run.Problems
) -> Iterable[tuple[str, Snapshot, int]]:
    """Give all snapshots, each with its name and how many lines of its document were lost."""
    for name in inputs:
        others = name.startswith("scan:") or loader.from_ is not None
        if name.startswith("store:"):
            raise UsageError("it is in the store already", path=name)
        if not others:
            for shown, snapshot, losses in loader.documents([name], problems.take):
                if snapshot is None:
                    others = True
                else:
                    yield shown, snapshot, losses
        if others:
            for made in loader.compiled([name], problems.take):
                yield name, made, 0


def _marked(snapshot: Snapshot, tags: list[str], title: str | None) -> Snapshot:
    meta = snapshot.meta
    if title is not None:
        meta = replace(meta, title=title)
    return replace(snapshot, meta=replace(meta, tags=tuple(dict.fromkeys((*meta.tags, *tags)))))


def _told(saved: list[store.Saved], losses: list[int], *, json: bool) -> None:
    for one, lost in zip(saved, losses, strict=True):
        if one.state in ("refused", "failed"):
            continue
        if json:
            record = {"saved": one.snapshot_id, "state": one.state, "sealed": one.sealed}
            _run.emit(record | {"warnings": lost})
        else:
            _run.say(f"saved {_run.printable(one.snapshot_id)} ({_state(one, lost)})")
        if one.changes:
            _run.say(f"note: {one.changes} things could not be kept as they were")


def _state(one: store.Saved, lost: int) -> str:
    warnings = f"{lost} warning{'s' * (lost != 1)}" if lost else ""
    return ", ".join(filter(None, (one.state, "sealed" if one.sealed else "", warnings)))


@app.command("import", epilog="Example: dcb store import exports/")
def import_(
    inputs: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Snapshot documents, folders, archives.")
    ],
    *,
    accept_mismatch: MismatchOption = False,
    new_id: Annotated[
        bool, typer.Option("--new-id", help="Give each an id of its own, made from its content.")
    ] = False,
    force: ForceOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    seal: SealOption = None,
    seal_metadata: MetadataOption = None,
    index_plaintext: IndexOption = None,
    passphrase_file: PassphraseOption = None,
    json: JsonOption = False,
) -> None:
    """Take snapshot documents into the store, ids kept; changed and damaged ones are refused."""
    problems = _run.Problems(json=json)
    loader = Loader(PUBLISHED, compile_options(PUBLISHED), passphrase_file)
    loader.accept_mismatch = accept_mismatch
    found, names, losses = [], [], []
    for name, snapshot, lost in loader.documents(inputs, problems.take):
        if snapshot is None:
            _run.say(f"skipped: {_run.printable(name)}: no snapshot document")
        else:
            found.append(_renamed(snapshot) if new_id else snapshot)
            names.append(name)
            losses.append(lost)
    if dry_run:
        for one, lost in zip(found, losses, strict=True):
            if json:
                record = {"snapshot": one.meta.snapshot_id, "title": one.meta.title}
                _run.emit(record | {"warnings": lost})
            else:
                _run.put(f"{one.meta.snapshot_id}  {_run.printable(one.meta.title)}")
        _run.finish(failed=problems.count > 0)
        return
    sealing = chosen_sealing(
        passphrase_file, seal=seal, metadata=seal_metadata, index=index_plaintext
    )
    with opened_store() as kept:
        saved = store.save(
            kept,
            found,
            now_ms=now_ms(),
            sealing=sealing,
            replace_existing=force,
            on_error=_naming(names, problems),
        )
    _told(saved, losses, json=json)
    for name, done in zip(names, saved, strict=True):
        if done.state == "refused":
            problems.take(
                store.StoreError(
                    f"the store has another snapshot {done.snapshot_id}",
                    path=name,
                    hint="replace it with --force, or take a new id with --new-id",
                )
            )
    if not found and not problems.count:
        raise UsageError("no snapshot document found")
    _run.finish(failed=problems.count > 0)


def _renamed(snapshot: Snapshot) -> Snapshot:
    """Give an id from the old one and the content: the same document gets the same again."""
    body = body_of(PUBLISHED.writing.prepare(snapshot).snapshot)
    name = content_id(Stamp(f"import\n{snapshot.meta.snapshot_id}", body, 0))
    return replace(snapshot, meta=replace(snapshot.meta, snapshot_id=name))


@app.command(epilog="Example: dcb store search 登录 FTS5")
def search(
    query: Annotated[list[str], typer.Argument(metavar="WORD...", help="All must be found.")],
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, max=1000, help="Most hits [10].")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Find snapshots in which all words occur, the best first. No character has a special meaning.

    Sealed snapshots are found by title and tags.
    """
    with opened_store(create=False) as kept:
        hits = store.search(kept, " ".join(query), limit=limit or current().limit)
    if json:
        for hit in hits:
            _run.emit(_camel(hit._asdict()))
    else:
        _tables.hits(hits)
    if not hits:
        _run.say("no hit")


@app.command("list", epilog="Example: dcb store list --limit 5")
def list_(
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most snapshots.")] = 20,
    every: Annotated[bool, typer.Option("--all", help="List all.")] = False,
    json: JsonOption = False,
) -> None:
    """List snapshots, the newest first."""
    with opened_store(create=False) as kept:
        rows = store.listing(kept, limit=-1 if every else limit)
    if json:
        for row in rows:
            _run.emit(_camel(row._asdict()))
    else:
        _tables.rows(rows)


@app.command(epilog="Example: dcb store show snap_mm6u0000")
def show(
    snapshot_id: IdArgument,
    *,
    passphrase_file: PassphraseOption = None,
    json: JsonOption = False,
) -> None:
    """Print the document of a snapshot; a sealed one is opened."""
    text = _text(snapshot_id, passphrase_file)
    if json:
        _run.emit(parse(text))
    elif sys.stdout.isatty():
        _run.put(text.removesuffix("\n"))
    else:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


def _text(snapshot_id: str, passphrase_file: Path | None) -> str:
    with opened_store(create=False) as kept:
        row = store.find(kept, snapshot_id)
        text = store.stored_text(kept, row.snapshot_id)
    secret = passphrase(passphrase_file) if is_envelope(text) else None
    return store.opened(text, row.snapshot_id, secret)


@app.command(epilog="Example: dcb store card snap_mm6u0000")
def card(snapshot_id: IdArgument, *, json: JsonOption = False) -> None:
    """Print a snapshot's card: plain text for a chat window."""
    with opened_store(create=False) as kept:
        row = store.find(kept, snapshot_id)
    text = snapshot_card(
        row.snapshot_id,
        row.title,
        tokens=row.tokens,
        created_at=row.created_at,
        tags=row.tags,
        sealed=row.sealed,
        conversation=row.conversation,
    )
    if json:
        _run.emit({"card": text})
    else:
        _run.put(text)


@app.command(epilog="Example: dcb store rm snap_mm6u0000")
def rm(
    snapshot_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of snapshots.")],
    *,
    json: JsonOption = False,
) -> None:
    """Remove snapshots; their versions stay in the history, `rollback` brings them back.

    Where there is no history, whole ids are wanted.
    """
    with opened_store(create=False) as kept:
        forgotten = kept.history is None
        found = [(name, store.find(kept, name).snapshot_id) for name in snapshot_ids]
        names = list(dict.fromkeys(name for _, name in found))
        for given, name in found:
            # Said twice, the beginning of an id would take the next one with it.
            if forgotten and given != name:
                raise UsageError(
                    f"{given!r} is not the whole id, and without a history nothing brings it back",
                    hint=f"give the whole id: {name}",
                )
        store.remove(kept, names)
    for name in names:
        if json:
            _run.emit({"removed": name, "inHistory": not forgotten})
        else:
            _run.say(f"removed {_run.printable(name)}{' (no history)' if forgotten else ''}")


@app.command(epilog="Example: dcb store history snap_mm6u0000")
def history(snapshot_id: IdArgument, *, json: JsonOption = False) -> None:
    """List the versions of a snapshot, the newest first; also of a removed one."""
    with opened_store(create=False) as kept:
        name = store.known(kept, snapshot_id)
        found = store.versions(kept, name)
    if not found:
        raise BadInput(f"the history has no snapshot {name[:60]!r}")
    for version in found:
        if json:
            _run.emit(_camel({"ref": version.ref, "time": version.time, "subject": version.subject,
                              "removed": version.removed}))  # fmt: skip
        else:
            _run.put(f"{version.ref[:12]}  {iso_ms(version.time)[:19]}  {version.subject}")


@app.command(epilog="Example: dcb store rollback snap_mm6u0000 --to 1a2b3c4d")
def rollback(
    snapshot_id: IdArgument,
    *,
    to: Annotated[
        str | None, typer.Option("--to", metavar="REF", help="Version [the previous one].")
    ] = None,
    passphrase_file: PassphraseAtHandOption = None,
    json: JsonOption = False,
) -> None:
    """Save an old version again; that is a new version. What is sealed stays sealed."""
    secret = passphrase_at_hand(passphrase_file)
    sealing = None if secret is None else store.Sealing(secret)
    with opened_store(create=False) as kept:
        name = store.known(kept, snapshot_id)
        saved, ref = store.rollback(kept, name, to, now_ms=now_ms(), sealing=sealing)
    if json:
        _run.emit({"saved": name, "ref": ref, "state": saved.state, "sealed": saved.sealed})
    else:
        _run.say(f"{_run.printable(name)} is again as in {ref[:12]} ({saved.state})")


@app.command(
    epilog="Example: dcb store weight snap_mm6u0000 3",
    context_settings={"ignore_unknown_options": True},  # -1 is a number, no option
)
def weight(
    snapshot_id: IdArgument,
    value: Annotated[float, typer.Argument(metavar="NUMBER", help="The new weight.")],
    *,
    passphrase_file: PassphraseAtHandOption = None,
    json: JsonOption = False,
) -> None:
    """Set the weight of a snapshot, which decides merges under the policy `weighted`."""
    if not abs(value) <= 1e9:
        raise UsageError("a weight is a number up to 1000000000")
    number = int(value) if value.is_integer() else value
    secret = passphrase_at_hand(passphrase_file)
    sealing = None if secret is None else store.Sealing(secret)
    with opened_store(create=False) as kept:
        name = store.find(kept, snapshot_id).snapshot_id
        saved = store.set_weight(kept, name, number, now_ms=now_ms(), sealing=sealing)
    _told([saved], [0], json=json)


@app.command(epilog="Example: dcb store export --all -o backup/")
def export(
    snapshot_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID...]", help="Ids of snapshots.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Export all snapshots.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder.")],
    keep_sealed: Annotated[
        bool, typer.Option("--keep-sealed", help="Export envelopes as they are, NAME.md.sealed.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write snapshots as Markdown files <id>__<title>.md; sealed ones are opened.

    A file that is there with the same content is left alone.
    """
    if every == bool(snapshot_ids):
        raise UsageError("name snapshots, or give --all")
    problems = _run.Problems(json=json)
    exporter = Exporter(output, passphrase_file, keep_sealed=keep_sealed, force=force)
    with opened_store(create=False) as kept:
        if every:
            found: Iterable[tuple[store.Row, str]] = store.every(kept)
        else:
            rows = [store.find(kept, name) for name in snapshot_ids or ()]
            found = [(row, store.stored_text(kept, row.snapshot_id)) for row in rows]
        for row, text in found:
            try:
                target, state = exporter.put(row, text)
            except UsageError:
                raise
            except DcbError as error:
                problems.take(error)
                continue
            if json:
                record = {"snapshot": row.snapshot_id, "output": str(target), "state": state}
                _run.emit(record)
            else:
                _run.say(f"{state} {_run.printable(str(target))}")
    _run.finish(failed=problems.count > 0)


@app.command(epilog="Example: dcb store integrity")
def integrity(*, passphrase_file: PassphraseAtHandOption = None, json: JsonOption = False) -> None:
    """Check the database, its indexes and every document; exit 1 when something is wrong."""
    secret = passphrase_at_hand(passphrase_file)
    with opened_store(create=False) as kept:
        found = store.integrity(kept, secret)
        count = len(store.listing(kept, limit=-1))
    for one in found:
        if json:
            _run.emit(_camel(one._asdict()))
        else:
            _run.put(": ".join(filter(None, (one.snapshot_id, one.what))))
    if found:
        raise typer.Exit(1)
    _run.say(f"{count} snapshots, all well")


@app.command(epilog="Example: dcb store vacuum")
def vacuum(*, json: JsonOption = False) -> None:
    """Rebuild the indexes, forget the words of removed snapshots, give room back."""
    with opened_store(create=False) as kept:
        before, after = store.vacuum(kept)
    if json:
        _run.emit({"before": before, "after": after})
    else:
        _run.say(f"{before} bytes before, {after} after")


def _camel(record: dict[str, Any]) -> dict[str, Any]:
    names = ("".join((a, *(part.title() for part in rest))) for a, *rest in
             (name.split("_") for name in record))  # fmt: skip
    return dict(zip(names, record.values(), strict=True))
