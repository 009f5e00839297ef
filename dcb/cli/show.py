"""``dcb show``: one transcript or snapshot for reading in a terminal."""

from __future__ import annotations

import pydoc
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from converters.errors import DcbError, UsageError
from converters.ir import Image, Reasoning, Text, ToolCallBlock, prompt_of
from converters.ledger import Ledger
from converters.reading import read_unit
from converters.text import iso_ms
from converters.turns import title_of
from converters.types import Context
from dcb.cli import _run
from dcb.cli._inputs import (
    BranchOption,
    FromOption,
    JsonOption,
    SubagentsOption,
    TzOption,
    collect,
    read_options,
    snapshot_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Block, Session, Step, Turn

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_RULE: Final = "\u2500" * 12


@app.command(epilog="Example: dcb show session.jsonl")
def show(
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="A transcript, a snapshot, or - for stdin.")
    ],
    *,
    from_: FromOption = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Show the session whose id starts so.")
    ] = None,
    pager: Annotated[bool, typer.Option("--pager/--no-pager", help="Page on a terminal.")] = True,
    subagents: SubagentsOption = "include",
    branch: BranchOption = "active",
    tz: TzOption = None,
    json: JsonOption = False,
) -> None:
    """Show one transcript or snapshot, readable; control sequences become visible text.

    With --json a transcript comes as interchange documents, a snapshot as its object.
    """
    found = snapshot_of(source) if from_ is None else None
    if found is not None:
        try:
            _show_snapshot(found, json=json, pager=pager)
        except DcbError as error:
            error.path = error.path or source
            raise
        return
    options = read_options(subagents=subagents, branch=branch, tz=tz)
    failed: list[DcbError] = []
    shown = 0
    for unit in collect([source], from_=from_, on_error=failed.append):
        try:
            for one in read_unit(unit, Context(Ledger(unit.input.name), options)):
                if session is not None and not one.meta.id.startswith(session):
                    continue
                shown += 1
                if json:
                    _run.emit(one)
                else:
                    _page(render(one), pager=pager)
        except DcbError as error:
            error.path = error.path or unit.input.name
            failed.append(error)
    for problem in failed:
        _run.print_error(problem)
    if not shown and session is not None and not failed:
        raise UsageError(f"no session's id starts with {session!r}")
    if not shown and not failed:
        _run.say("error: no session found")
    if failed or not shown:
        raise typer.Exit(1)


def _show_snapshot(data: bytes, *, json: bool, pager: bool) -> None:
    from dcb.snapshot.render import lines, to_object

    if json:
        _run.emit(to_object(data))
    else:
        _page(iter(lines(data)), pager=pager)


def _page(lines: Iterator[str], *, pager: bool) -> None:
    if pager and sys.stdout.isatty():
        pydoc.pager("\n".join(_run.printable(line, lines=True) for line in lines))
        return
    for line in lines:
        _run.put(line)


def render(session: Session) -> Iterator[str]:
    """Give a session as lines of text."""
    yield title_of(session.turns, session.title) or session.meta.id
    facts = [("session", session.meta.id), ("tool", session.provider), ("model", session.model)]
    facts += [("cwd", session.meta.cwd), ("created", _when(session.meta.created_at))]
    parent = (session.extra or {}).get("parent")
    if isinstance(parent, dict):
        facts.append(("parent", str(parent.get("sessionId"))))
    for name, value in facts:
        if value:
            yield f"  {name}: {value}"
    for number, turn in enumerate(session.turns, 1):
        yield from _turn(number, turn)


def _when(ms: int | None) -> str | None:
    try:
        return None if ms is None else iso_ms(ms)
    except ValueError:
        return None


def _turn(number: int, turn: Turn) -> Iterator[str]:
    marks = [name for name in ("aborted", "shadowed") if getattr(turn, name)]
    yield ""
    yield " ".join(filter(None, [_RULE, f"turn {number}", _when(turn.time), *marks]))
    if turn.compaction is not None:
        yield "[earlier turns compacted]"
        yield from _quote(turn.compaction.summary)
    for block in prompt_of(turn):
        yield from _block(block, "> ")
    for step in turn.steps:
        yield from _step(step)


def _step(step: Step) -> Iterator[str]:
    head = " ".join(filter(None, ["assistant", step.model, _when(step.time)]))
    usage = step.usage
    if usage is not None:
        head += f" ({usage.input_tokens} in, {usage.output_tokens} out)"
    yield ""
    yield f"{head}:"
    shown = set()
    for block in step.content:
        if isinstance(block, ToolCallBlock):
            shown.add(block.id)
        yield from _block(block, "")
    for call in step.tool_calls:
        if call.id not in shown:
            yield f"[call {call.name}] {call.arguments}"
    for result in step.tool_results:
        yield "[error]" if result.is_error else "[result]"
        for block in result.content:
            yield from _block(block, "    ")


def _block(block: Block, indent: str) -> Iterator[str]:
    if isinstance(block, Text):
        yield from (indent + line for line in block.text.split("\n"))
    elif isinstance(block, Reasoning):
        yield from ("  | " + line for line in block.text.split("\n"))
    elif isinstance(block, ToolCallBlock):
        yield f"{indent}[call {block.name}] {block.arguments}"
    else:
        yield f"{indent}{_image(block)}"


def _image(image: Image) -> str:
    size: Any = len(image.data) * 3 // 4 if image.data else (image.attachment or {}).get("bytes")
    facts = ", ".join(str(fact) for fact in (image.name, image.media_type, size) if fact)
    return f"[image {facts}]"


def _quote(text: str) -> Iterator[str]:
    yield from ("  | " + line for line in text.split("\n"))
