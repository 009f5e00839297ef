"""The plugin profile gives the bytes and values that program 0.2.0 gave."""

from typing import Any

import msgspec
import pytest

from converters.errors import BadInput
from dcb.snapshot import lexing
from dcb.snapshot.document import parse, serialize, verify, write
from dcb.snapshot.profile import PLUGIN
from dcb.snapshot.tokens import estimate, estimate_snapshot
from tests.dcb.snapshot.vectors import cases, comparable, to_snapshot
from tests.paths import VECTORS, needs_shared


@pytest.mark.parametrize("case", cases("serialize"))
def test_serialize(case: Any) -> None:
    document = write(to_snapshot(case["input"]), PLUGIN)
    assert document.text == case["output"]["markdown"]
    assert document.snapshot.meta.checksum == case["output"]["checksum"]
    assert document.changes == ()


@pytest.mark.parametrize("case", cases("parse"))
def test_parse(case: Any) -> None:
    text = case["input"]
    assert verify(text, PLUGIN) == case["output"]["verify"]
    if "error" in case["output"]:
        with pytest.raises(BadInput):
            parse(text, PLUGIN)
    else:
        wanted = to_snapshot(case["output"]["snapshot"])
        assert comparable(parse(text, PLUGIN)) == comparable(wanted)


@pytest.mark.parametrize("case", cases("verify"))
def test_verify(case: Any) -> None:
    assert verify(case["input"], PLUGIN) == case["output"]


@pytest.mark.parametrize("case", cases("roundtrip"))
def test_roundtrip(case: Any) -> None:
    first = serialize(to_snapshot(case["input"]), PLUGIN)
    second = serialize(parse(first, PLUGIN), PLUGIN)
    assert (first == second) == case["output"]["second_document_identical"]


@pytest.mark.parametrize("case", cases("edge_roundtrip"))
def test_edge_roundtrip(case: Any) -> None:
    wanted = case["output"]
    text = serialize(to_snapshot(case["input"]), PLUGIN)
    assert text == wanted["markdown"]
    assert verify(text, PLUGIN) == wanted["verify"]
    assert comparable(parse(text, PLUGIN)) == comparable(to_snapshot(wanted["parsed"]))


@needs_shared
def test_snapshot_files_are_written_byte_for_byte() -> None:
    folder = VECTORS / "dcb" / "snapshots"
    recorded = {
        path.stem: path.read_bytes()
        for path in folder.iterdir()
        if not path.stem.startswith("edge")
    }
    assert len(recorded) == 10
    for name, data in recorded.items():
        case = next(c.values[0] for c in cases("serialize") if c.id == name)
        assert serialize(to_snapshot(case["input"]), PLUGIN).encode() == data


@pytest.mark.parametrize("case", cases("checksum"))
def test_checksum(case: Any) -> None:
    assert PLUGIN.writing.checksum(case["input"]) == case["output"]


@pytest.mark.parametrize("case", cases("fence_for"))
def test_fence(case: Any) -> None:
    assert lexing.fence_for(case["input"]) == case["output"]


@pytest.mark.parametrize("case", cases("escape"))
def test_escape(case: Any) -> None:
    text, wanted = case["input"], case["output"]
    assert lexing.escape(text) == wanted["escaped"]
    assert lexing.unescape(text) == wanted["unescaped"]
    assert (lexing.unescape(lexing.escape(text)) == text) == wanted["round_trip"]


@pytest.mark.parametrize("case", cases("scalar"))
def test_single_line(case: Any) -> None:
    assert lexing.single_line(case["input"]) == case["output"]


@pytest.mark.parametrize("case", cases("estimate_tokens"))
def test_estimate(case: Any) -> None:
    assert estimate(case["input"]) == case["output"]


@pytest.mark.parametrize("case", cases("apply_token_budget"))
def test_snapshot_estimate(case: Any) -> None:
    if case["input"]["budget"] is None:
        snapshot = to_snapshot(case["input"]["snapshot"])
        assert estimate_snapshot(snapshot) == case["output"]["estimate_after"]


def test_a_time_that_is_none_cannot_be_written() -> None:
    case = cases("serialize")[0].values[0]
    if not case:
        pytest.skip("../shared is absent")
    snapshot = to_snapshot(case["input"])
    meta = msgspec.structs.replace(snapshot.meta, created_at=float("nan"))
    with pytest.raises(BadInput):
        serialize(msgspec.structs.replace(snapshot, meta=meta), PLUGIN)
