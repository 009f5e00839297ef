"""``dcb brief``: a snapshot as text for the start of a new conversation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from converters.errors import UsageError
from dcb import batch, files
from dcb.cli import _run
from dcb.cli._inputs import FromOption, JsonOption, local_paths
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
from dcb.snapshot.brief import brief as make
from dcb.snapshot.lexing import utf8
from dcb.snapshot.profile import profile_of

if TYPE_CHECKING:
    from dcb.snapshot.brief import Brief

app = typer.Typer(rich_markup_mode=None, add_completion=False)

OutputOption = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE|-", help="Where to write.")
]
SessionOption = Annotated[
    str | None, typer.Option("--session", help="The session whose id starts so.")
]
MaxTokensOption = Annotated[
    int | None, typer.Option("--max-tokens", min=256, max=32768, help="Budget for a transcript.")
]
BulletsOption = Annotated[
    int | None, typer.Option("--bullets", min=1, max=30, help="Bullets per section.")
]
CopyOption = Annotated[bool, typer.Option("--copy", help="Put it on the clipboard.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]

_CLIPBOARDS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
    ("clip.exe",),
)


@app.command(epilog="Example: dcb brief session.jsonl --copy")
def brief(
    source: Annotated[
        str,
        typer.Argument(metavar="SNAPSHOT", help="Snapshot, sealed snapshot, store:ID, transcript."),
    ],
    *,
    output: OutputOption = "-",
    copy: CopyOption = False,
    profile: ProfileOption = None,
    from_: FromOption = None,
    session: SessionOption = None,
    max_tokens: MaxTokensOption = None,
    bullets: BulletsOption = None,
    summary: SummaryOption = None,
    llm_base_url: LlmBaseUrlOption = None,
    llm_model: LlmModelOption = None,
    passphrase_file: PassphraseOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Make a brief to start a new conversation from; a transcript is compiled on the fly."""
    chosen = profile_of(profile or current().profile)
    compiling = compile_options(
        chosen,
        max_tokens=max_tokens,
        bullets=bullets,
        summary=summary,
        base_url=llm_base_url,
        model=llm_model,
    )
    loader = Loader(chosen, compiling, passphrase_file, from_, session)
    made = make(loader.load(source), chosen)
    about = record(made) | {"warnings": loader.losses}
    deliver(made.text, about, [source], output, copy=copy, force=force, json=json)


def record(made: Brief) -> dict[str, Any]:
    """Give what ``--json`` prints of a brief."""
    return {
        "snapshotId": made.snapshot_id,
        "mode": made.mode,
        "brief": made.text,
        "tokenEstimate": made.token_estimate,
        "conflictCount": len(made.conflicts),
        "conflicts": made.conflicts,
    }


def deliver(
    text: str,
    about: dict[str, Any],
    sources: list[str],
    output: str,
    *,
    copy: bool,
    force: bool,
    json: bool,
) -> None:
    """Put a text where it is wanted: a file, the clipboard, stdout."""
    data = utf8(text if text.endswith("\n") else text + "\n")
    if output != "-":
        target = Path(output)
        if target.is_dir():
            raise UsageError("the output is a folder, and there is one text", path=output)
        batch.guard(target, local_paths(sources))
        files.write_whole(target, data, force=force)
    copied = copy and to_clipboard(data)
    if copy:
        _run.say("copied to the clipboard" if copied else "note: there is no clipboard here")
    if json:
        _run.emit(about | ({"output": output} if output != "-" else {}) | {"copied": copied})
    elif output == "-" and not copied:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def to_clipboard(data: bytes) -> bool:
    """Hand the text to the first clipboard program that takes it."""
    for command in _CLIPBOARDS:
        program = shutil.which(command[0])
        if program is None:
            continue
        try:
            done = subprocess.run(  # noqa: S603 - the programs are named above
                [program, *command[1:]],
                # clip.exe takes text without a mark for UTF-8 in the code page of the system.
                input=data.decode().encode("utf-16") if command[0] == "clip.exe" else data,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return True
    return False
