"""The vectors of the biscuit format: dumps, ctx.json, the sieve, strip and the log of a floor."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from converters.errors import BadInput
from converters.formats.biscuit.alltxt import parse_alltxt
from converters.formats.biscuit.condense import edit_only, join, split, split_as_source, strip
from converters.formats.biscuit.ctx import build_ctx, parse_ctx, rebuild
from converters.formats.biscuit.dump import parse
from converters.formats.biscuit.sieve import sieve
from converters.text import units
from tests.paths import VECTORS, needs_shared

if TYPE_CHECKING:
    from converters.formats.biscuit.model import Dump

pytestmark = needs_shared
FOLDER = VECTORS / "biscuit"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir()) if FOLDER.is_dir() else []
DUMPS = [case for case in CASES if case != "alltxt-01"]
REBUILT = {"09-fatal-recovered", "14-guide-system-facts", "24-ctx-damaged"}
OLD = {"12-legacy-v12": 12, "12b-legacy-v11-prefix": 11}


def text_of(case: str, name: str = "dump.txt") -> str:
    return (FOLDER / case / name).read_bytes().decode("utf-8")


def json_of(case: str, name: str) -> Any:
    return json.loads((FOLDER / case / name).read_bytes())


def projected(dump: Dump) -> dict[str, Any]:
    """The members of ``expected.json``, in its form; the order of warnings does not count."""
    value: dict[str, Any] = msgspec.to_builtins(dump)
    for floor in value["floors"]:
        del floor["line"]
        floor["question"] = floor["questions"][0] if floor["questions"] else None
        for action in floor["actions"]:
            del action["line"], action["literal_null"], action["raw"]
            action["shas"] = [{"kind": kind, "value": sha} for kind, sha in action["shas"]]
            first = action["shas"][0] if action["shas"] else {"kind": None, "value": None}
            action["sha"], action["sha_kind"] = first["value"], first["kind"]
    del value["missing"]
    result: dict[str, Any] = json.loads(json.dumps({"format": "biscuit", **value}))
    return by_warning(result)


def by_warning(value: dict[str, Any]) -> dict[str, Any]:
    value["warnings"].sort(key=lambda warning: json.dumps(warning, sort_keys=True))
    return value


def plain(text: str) -> str:
    return text.replace("\r\n", "\n").removeprefix("\ufeff").strip()


def test_all_cases_are_there() -> None:
    assert len(CASES) == 33


@pytest.mark.parametrize("case", DUMPS)
def test_dump(case: str) -> None:
    expected = json_of(case, "expected.json")
    assert projected(parse(text_of(case))) == by_warning(expected)


@pytest.mark.parametrize("case", DUMPS)
def test_strip(case: str) -> None:
    assert strip(text_of(case)) == text_of(case, "stripped.txt")


@pytest.mark.parametrize("case", DUMPS)
def test_stripped_parses_as_the_dump_without_boxes(case: str) -> None:
    dump = parse(text_of(case))
    codes = {warning.code for warning in dump.warnings}
    if codes & {"stray_text", "orphan_box"}:
        assert case == "26-strays"
        return
    for floor in dump.floors:
        for action in floor.actions:
            action.box = None
    stripped = projected(parse(strip(text_of(case))))
    assert stripped["floors"] == projected(dump)["floors"]


def test_edit_only() -> None:
    assert edit_only(text_of("15-edit-only", "before.txt")) == text_of("15-edit-only")


@pytest.mark.parametrize("case", DUMPS)
def test_ctx(case: str) -> None:
    expected = json_of(case, "expected_ctx.json")
    data = (FOLDER / case / "ctx.json").read_bytes()
    if expected == {"damaged": True}:
        with pytest.raises(BadInput, match="damaged"):
            parse_ctx(data)
        return
    ctx = parse_ctx(data)
    assert {
        "last_compressed_floor": ctx.last_compressed_floor,
        "total_floors": ctx.total_floors,
        "compress_level": ctx.compress_level,
        "narrative_kind": ctx.narrative_kind,
        "narrative_count": ctx.narrative_count,
        "line_floors": ctx.line_floors,
        "facts": [msgspec.to_builtins(fact) for fact in ctx.facts],
        "unknown_fields": ctx.unknown_fields,
        "joined_equals_dump": plain(ctx.dump) == plain(text_of(case)),
        "parse_of_joined_floors": [floor.n for floor in parse(ctx.dump).floors],
    } == expected


@pytest.mark.parametrize("case", DUMPS)
def test_ctx_is_written_as_the_tool_does(case: str) -> None:
    if case in OLD or case.startswith("18") or case == "24-ctx-damaged":
        # V11/V12 had other members; phantom floors count there; no whole file.
        return
    data = (FOLDER / case / "ctx.json").read_bytes()
    assert build_ctx(parse_ctx(data).lines, json.loads(data)) == data


def sieved(case: str, *, escaped: bool = False) -> str:
    messages = json_of(case, "conversation.json")
    headers = re.findall(r"^=== F(\d+)  (\S+ \S+) UTC", text_of(case), re.MULTILINE)
    times = {int(n): time for n, time in headers}
    if case in REBUILT:
        return rebuild(messages, times, root="/proj").dump
    version = OLD.get(case, 16)
    return sieve(messages, times, root="/proj", version=version, escaped=escaped)


@pytest.mark.parametrize(
    "case", [case for case in DUMPS if (FOLDER / case / "conversation.json").exists()]
)
def test_sieve(case: str) -> None:
    given, made = text_of(case), sieved(case)
    if case == "06-box-unclosed-eof":  # the vector is cut inside its box
        assert made.startswith(given)
        assert len(made) > len(given)
    elif case == "12b-legacy-v11-prefix":  # one line of the prefix message stands before it
        assert given == f"═══ COMPRESSED FLOORS F1-F2 (2 floors) ═══\n\n{made}"
    elif case == "18b-header-in-box-resorted":  # reloaded from a ctx.json cut by the source
        assert given == join(split_as_source(made))
    else:
        assert made == given


def test_escaping_keeps_the_box_that_the_source_collides_with() -> None:
    case = "04b-box-collision-unescaped"
    given, made = parse(text_of(case)), parse(sieved(case, escaped=True))
    first, second = given.floors[0].actions[0].box, made.floors[0].actions[0].box
    assert first is not None
    assert second is not None
    assert first.body == second.body
    assert second.escaped
    assert made.warnings == []


@pytest.mark.parametrize("case", DUMPS)
def test_split_as_source(case: str) -> None:
    found = [{"n": e.n, "chars": units(e.text)} for e in split_as_source(text_of(case))]
    assert found == json_of(case, "source_split.json")


@pytest.mark.parametrize("case", DUMPS)
def test_split_gives_the_floors_of_the_parser(case: str) -> None:
    text = text_of(case)
    assert [entry.n for entry in split(text)] == [floor.n for floor in parse(text).floors]


def test_rebuild_of_a_damaged_ctx() -> None:
    case = "24-ctx-damaged"
    found = rebuild(json_of(case, "conversation.json"), "2026-07-18 12:00:00")
    assert found.dump == text_of(case)
    assert found.fatal == [4]
    assert found.sieved == [5]


def test_rebuild_keeps_facts_out_of_the_biscuit() -> None:
    case = "14-guide-system-facts"
    found = rebuild(json_of(case, "conversation.json"), None, now=1784170800)
    expected = json_of(case, "expected_ctx.json")["facts"]
    assert [msgspec.to_builtins(fact) for fact in found.facts] == expected


def test_all_txt() -> None:
    found = msgspec.to_builtins(parse_alltxt(text_of("alltxt-01", "all.txt")))
    assert found.pop("injections") is None
    found |= {"format": "all.txt", "question_newlines_lost": True}
    assert found == json_of("alltxt-01", "expected.json")
