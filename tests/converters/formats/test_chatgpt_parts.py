"""ChatGPT exports in parts: which belong together, and parts that cannot be read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from converters.formats.chatgpt import FORMAT
from converters.ledger import Ledger
from converters.reading import Reading, Skipped, Unit, units
from converters.types import Context, Head
from tests.converters.formats.chatgpt_exports import chain, dump
from tests.reading import counts


def part(*numbers: int, **first: Any) -> bytes:
    return dump(
        [
            {**first, **chain(("user", f"q{number}")), "conversation_id": f"c-{number}"}
            for number in numbers
        ]
    )


def prompts(reading: Reading) -> list[str]:
    return [session.turns[0].prompt for session in reading]


def test_parts_of_a_folder_are_one_export(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"conversations-00{number}.json").write_bytes(part(number))
    capture = tmp_path / "zz.json"
    capture.write_bytes(dump({**chain(("user", "captured")), "conversation_id": "c-9"}))
    whole = {**chain(("user", "whole")), "conversation_id": "c-8"}
    (tmp_path / "conversations.json").write_bytes(dump([whole]))
    found_prompts = []
    skipped = []
    for unit in units(tmp_path):
        if isinstance(unit, Skipped):
            skipped.append(Path(unit.name).name)
        else:
            assert isinstance(unit, Unit)
            assert unit.format.read is not None
            ledger = Ledger(unit.input.name)
            found = list(unit.format.read(unit.input, Context(ledger)))
            found_prompts += [session.turns[0].prompt for session in found]
            assert ledger.report().balanced
    assert found_prompts == ["q0", "q1", "q2", "whole", "captured"]
    assert skipped == ["conversations-001.json", "conversations-002.json", "conversations.json"]
    # A part that a person names is read alone.
    (unit,) = units(tmp_path / "conversations-001.json")
    assert isinstance(unit, Unit)
    assert unit.format.read is not None
    assert len(list(unit.format.read(unit.input, Context(Ledger())))) == 1


BAD = {
    "page": (b"<html>", "an HTML page, not a transcript", "byte 0"),
    "text": (b"not json at all", "no known format, and no line of it is JSON", "byte 0"),
    "empty": (b"", "the file is empty", None),
    "zeros": (b"\x00" * 500, "nothing but blanks in it", None),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_a_part_that_cannot_be_read_is_named_and_the_others_are_read(
    tmp_path: Path, bad: tuple[bytes, str, str | None], at: int, *, packed: bool
) -> None:
    data, reason, position = bad
    files = {
        f"conversations-00{number}.json": data if number == at else part(number)
        for number in range(3)
    }
    source = tmp_path / "export"
    if packed:
        with zipfile.ZipFile(source, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        source.mkdir()
        for name, content in files.items():
            (source / name).write_bytes(content)
    reading = Reading(source)
    assert prompts(reading) == [f"q{number}" for number in range(3) if number != at]
    name = f"{source}{'!' if packed else '/'}conversations-00{at}.json"
    assert [(error.path, error.message) for error in reading.problems] == [(name, reason)]
    assert reading.skipped == [Skipped(_last_part(source, at, packed=packed), _COMPANION)]
    report = reading.report
    assert counts(report) == {"malformed-record": 1}
    assert report.entries[0].places == [name if position is None else f"{name}:{position}"]
    assert report.balanced
    # A format that a person forces reads all the same.
    assert prompts(Reading(source, from_="chatgpt")) == prompts(reading)


_COMPANION = "belongs to another input"


def _last_part(source: Path, bad: int, *, packed: bool) -> str:
    number = 1 if bad == 2 else 2
    return f"{source}{'!' if packed else '/'}conversations-00{number}.json"


@pytest.mark.parametrize(
    ("first", "found", "rules"),
    [
        (
            b"\xff\xfe" + part(0).decode().encode("utf-16"),
            "q0",
            {"encoding-repaired", "text-outside-records"},
        ),
        (part(0, title="x", safe_urls=["http://x.example/"] * 20_000), "q0", set()),
        (part(0)[:60], None, {"truncated-input"}),
        (b"[]", None, set()),
    ],
    ids=["two-marks", "long-member", "torn", "no-conversation"],
)
def test_a_first_part_that_is_hard_to_recognise(
    tmp_path: Path, first: bytes, found: str | None, rules: set[str]
) -> None:
    (tmp_path / "conversations-000.json").write_bytes(first)
    (tmp_path / "conversations-001.json").write_bytes(part(1))
    reading = Reading(tmp_path)
    assert prompts(reading) == [name for name in (found, "q1") if name]
    assert reading.problems == []
    assert counts(reading.report).keys() == rules
    assert reading.report.balanced


def test_a_part_of_something_else_is_no_list_of_damaged_conversations(tmp_path: Path) -> None:
    (tmp_path / "conversations-1.json").write_bytes(part(1))
    other = tmp_path / "conversations-other.json"
    other.write_bytes(
        dump([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a"}])
    )
    strange = tmp_path / "conversations-strange.json"
    strange.write_bytes(dump([{"a": 1}, {"b": 2}]))
    reading = Reading(tmp_path)
    assert prompts(reading) == ["q1", "hi"]
    assert [error.path for error in reading.problems] == [str(strange)]
    (entry,) = reading.report.entries
    assert (entry.rule, entry.places) == ("unknown-record", [str(other), str(strange)])


def test_probe_of_a_conversation_whose_mapping_begins_behind_the_head() -> None:
    long = ["http://x.example/"] * 20_000
    cut = [{"title": "x", "create_time": 1.5, "other": long}]
    own = [{"title": "x", "safe_urls": long}]
    named = "export.zip!conversations-000.json"
    for name, value, score in (
        (named, cut, 50),
        ("conversations.json", cut, 50),
        ("talk.json", cut, None),
        ("talk.json", own, 40),
        (named, [{"inserted_at": "x", **cut[0]}], None),
        (named, [{"uuid": "u", "name": "x", "chat_messages": []}], None),
        (named, [], 30),
        ("conversations.json", [], None),
    ):
        match = FORMAT.probe(Head(dump(value)[: 256 << 10], name))
        assert (match.score if match else None) == score


def test_the_documents_of_canvases_are_counted_once(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"conversations-{number}.json").write_bytes(part(number))
    (tmp_path / "textdocs").mkdir()
    (tmp_path / "textdocs" / "essay.md").write_text("final")
    reading = Reading(tmp_path)
    assert prompts(reading) == ["q0", "q1"]
    (entry,) = reading.report.entries
    assert (entry.rule, entry.kinds) == ("record-skipped", {"textdoc": 1})
    assert entry.places[0].endswith("textdocs/essay.md")
