"""``dcb merge``: what was known before and what is known now, as a brief or a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from converters.errors import UsageError
from dcb.cli import _run
from dcb.cli._inputs import FromOption, JsonOption
from dcb.cli._passphrase import PassphraseOption
from dcb.cli._settings import current
from dcb.cli._snapshots import (
    LlmBaseUrlOption,
    LlmModelOption,
    Loader,
    ProfileOption,
    SummaryOption,
    compile_options,
)
from dcb.cli.brief import (
    BulletsOption,
    CopyOption,
    ForceOption,
    OutputOption,
    SessionOption,
    deliver,
    record,
)
from dcb.settings import Settings
from dcb.snapshot.brief import brief_of
from dcb.snapshot.document import write
from dcb.snapshot.merge import POLICIES
from dcb.snapshot.merge import merge as fuse
from dcb.snapshot.profile import PUBLISHED, profile_of
from dcb.snapshot.tokens import estimate_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from dcb.snapshot.merge import Merged
    from dcb.snapshot.profile import Profile

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_WHAT = "Snapshot, sealed snapshot, store:ID, or transcript."
BaseArgument = Annotated[str, typer.Argument(metavar="BASE", help=_WHAT)]
OverlayArgument = Annotated[str, typer.Argument(metavar="OVERLAY", help=_WHAT)]


@app.command(epilog="Example: dcb merge old.md session.jsonl --policy timestamp")
def merge(
    base: BaseArgument,
    overlay: OverlayArgument,
    *,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="|".join(POLICIES), help="Who wins a conflict [newWins]."),
    ] = None,
    as_: Annotated[
        str, typer.Option("--as", metavar="brief|snapshot", help="What to make of the two.")
    ] = "brief",
    output: OutputOption = "-",
    copy: CopyOption = False,
    save: Annotated[bool, typer.Option("--save", help="Save the snapshot into the store.")] = False,
    profile: ProfileOption = None,
    from_: FromOption = None,
    session: SessionOption = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", min=256, max=32768, help="Budget for a transcript and for the snapshot."
        ),
    ] = None,
    bullets: BulletsOption = None,
    summary: SummaryOption = None,
    llm_base_url: LlmBaseUrlOption = None,
    llm_model: LlmModelOption = None,
    passphrase_file: PassphraseOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Merge BASE (known before) and OVERLAY (known now); transcripts are compiled on the fly.

    Entries and bullets add up; preferences that disagree are decided by the policy and
    listed in the report. A snapshot keeps to --max-tokens, without it to what a check allows.
    """
    if as_ not in ("brief", "snapshot"):
        raise UsageError(f"--as is brief or snapshot, not {as_!r}")
    name = policy or current().policy
    if name not in POLICIES:
        raise UsageError(f"no policy {name!r}", hint=f"policies are {', '.join(POLICIES)}")
    chosen = profile_of(profile or current().profile)
    if save and chosen is not PUBLISHED:
        raise UsageError(
            f"--save and the profile {chosen.id} do not go together: its merge has the id of"
            " BASE and would take its place in the store",
            hint="give --profile published, or write the result with -o FILE alone",
        )
    compiling = compile_options(
        chosen,
        max_tokens=max_tokens,
        bullets=bullets,
        summary=summary,
        base_url=llm_base_url,
        model=llm_model,
    )
    loader = Loader(chosen, compiling, passphrase_file, from_, session)
    old, new = loader.load(base), loader.load(overlay)
    budget = _budget(max_tokens) if as_ == "snapshot" or save else None
    merged = fuse(old, new, name, chosen, max_tokens=budget)
    _summarize(merged)
    if budget is not None:
        _say_budget(merged, budget)
    if as_ == "snapshot":
        text, about = _document(merged, chosen)
    else:
        made = brief_of(merged, old, new, name, chosen)
        text, about = made.text, record(made)
    about["doubles"] = merged.doubles
    about["warnings"] = loader.losses
    if merged.budget is not None:
        about["budget"] = merged.budget
    deliver(text, about, [base, overlay], output, copy=copy, force=force, json=json)
    if save:
        _save(merged, passphrase_file)


def _summarize(merged: Merged) -> None:
    decided = len(merged.conflicts)
    parts = [f"{decided} conflict{'s' * (decided != 1)} decided" if decided else "no conflict"]
    if merged.doubles:
        parts.append(f"{merged.doubles} doubles left out")
    _run.say("; ".join(parts))


def _budget(given: int | None) -> int:
    """Give the budget of the merged snapshot: the option, a setting, else the most there is.

    The default of a compile would halve what two compiled snapshots have to say, so that
    only a setting that differs from it counts as one.
    """
    from dcb.checking import MOST_TOKENS

    setting = current().max_tokens
    return given or (setting if setting != Settings().max_tokens else MOST_TOKENS)


def _say_budget(merged: Merged, budget: int) -> None:
    """Say what the budget left out, or that the merge of the profile keeps to none."""
    report = merged.budget
    if report is not None:
        counts = (
            (report.dropped_verbatim, "entries"),
            (report.dropped_bullets, "bullets"),
            (report.dropped_preferences, "preferences"),
        )
        left = ", ".join(f"{name} {count}" for count, name in counts if count)
        _run.say(f"warning: over-budget: left out to keep to {budget} tokens: {left}")
        return
    tokens = estimate_snapshot(merged.snapshot)
    if tokens > budget:
        _run.say(f"warning: over-budget: {tokens} tokens are over the budget of {budget}")


def _document(merged: Merged, profile: Profile) -> tuple[str, dict[str, Any]]:
    written = write(merged.snapshot, profile)
    for change in written.changes:
        _run.say(f"changed: {change.place}: {change.what}")
    return written.text, {
        "snapshotId": written.snapshot.meta.snapshot_id,
        "mode": "merge",
        "document": written.text,
        "object": written.snapshot,
        "tokenEstimate": written.snapshot.meta.token_estimate,
        "conflictCount": len(merged.conflicts),
        "conflicts": merged.conflicts,
    }


def _save(merged: Merged, passphrase_file: Path | None) -> None:
    from dcb.cli._store import chosen_sealing, now_ms, opened_store
    from dcb.store import save

    sealing = chosen_sealing(passphrase_file)
    with opened_store() as store:
        (saved,) = save(store, [merged.snapshot], now_ms=now_ms(), sealing=sealing)
    _run.say(f"saved {saved.snapshot_id} ({saved.state})")
