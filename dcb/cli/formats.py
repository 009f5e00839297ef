"""``dcb formats``: the capability matrix, and the notes of one format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from converters import registry
from dcb.cli import _run

if TYPE_CHECKING:
    from converters.types import Format

app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS: Final = {
    "tool_results": "toolResults",
    "reasoning": "reasoning",
    "images": "images",
    "cwd": "cwd",
    "branches": "branches",
    "attachments": "attachments",
    "compacted": "compacted",
    "timestamps": "timestamps",
    "usage": "usage",
}


@app.command(epilog="Example: dcb formats claude")
def formats(
    name: Annotated[str | None, typer.Argument(help="Print the notes of this format.")] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """List the formats with what each can record and dcb reads, or explain one.

    r: dcb reads it, w: dcb writes it.
    """
    if name is not None:
        for record in registry.lookup(name):
            _explain(record, json=json)
        return
    records = registry.all_formats()
    if json:
        for record in records:
            _run.emit(describe(record))
    elif markdown:
        _run.put(matrix(records))
    else:
        _table(records)


def describe(record: Format) -> dict[str, Any]:
    """Give a format as a JSON object."""
    capabilities = record.capabilities
    return {
        "id": record.id,
        "title": record.title,
        "group": record.group,
        "reads": record.read is not None,
        "writes": record.write is not None,
        "kinds": sorted(record.kinds),
        "evidence": record.evidence,
        "experimental": record.evidence == "C",
        "capabilities": {wire: getattr(capabilities, name) for name, wire in COLUMNS.items()},
        "notes": dict(capabilities.notes),
        "places": {system: list(globs) for system, globs in record.places.items()},
        "resume": record.resume,
        "options": [{"name": o.name, "default": o.default, "help": o.help} for o in record.options],
    }


def _explain(record: Format, *, json: bool) -> None:
    if json:
        _run.emit({**describe(record), "text": registry.notes(record)})
        return
    _run.put(f"{record.id}: {record.title}\n\n{registry.notes(record)}")
    if record.options:
        _run.put("\nOptions (-O NAME=VALUE):")
        for option in record.options:
            _run.put(f"  {option.name}={option.default}  {option.help}")
    if record.resume:
        _run.put(f"\nResume: {record.resume}")


def _mode(record: Format) -> str:
    mode = ("r" if record.read else "") + ("w" if record.write else "")
    return f"{mode} experimental" if record.evidence == "C" else mode


def _table(records: tuple[Format, ...]) -> None:
    width = max((len(record.id) for record in records), default=6)
    heads = list(COLUMNS.values())
    _run.put("  ".join(["format".ljust(width), "mode", *heads]))
    for record in records:
        cells = [
            ("yes" if getattr(record.capabilities, name) else "-").ljust(len(head))
            for name, head in COLUMNS.items()
        ]
        _run.put("  ".join([record.id.ljust(width), _mode(record).ljust(4), *cells]).rstrip())


def matrix(records: tuple[Format, ...]) -> str:
    """Give the capability matrix as a Markdown table with footnotes."""
    notes: list[str] = []
    rows = ["| format | reads | writes | " + " | ".join(COLUMNS.values()) + " |"]
    rows.append("|" + " --- |" * (3 + len(COLUMNS)))
    for record in records:
        cells = [
            f"`{record.id}`" + (" (experimental)" if record.evidence == "C" else ""),
            "yes" if record.read else "-",
            "yes" if record.write else "-",
        ]
        for name, head in COLUMNS.items():
            cell = "yes" if getattr(record.capabilities, name) else "-"
            note = record.capabilities.notes.get(name) or record.capabilities.notes.get(head)
            if note:
                if note not in notes:
                    notes.append(note)
                cell += f" [{notes.index(note) + 1}]"
            cells.append(cell)
        rows.append("| " + " | ".join(cells) + " |")
    if notes:
        rows.append("")
        rows += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join(rows)
