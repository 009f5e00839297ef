"""The plugin profile classifies, summarizes, trims and compiles as program 0.2.0 did."""

from typing import Any

import msgspec
import pytest

from dcb.snapshot.budget import apply_budget, by_time
from dcb.snapshot.classify import classify, loose_segments
from dcb.snapshot.compile import Options, compile_messages
from dcb.snapshot.compiling import Stamp, sequence_id, stamp_id
from dcb.snapshot.lexicon import builtin
from dcb.snapshot.messages import Message
from dcb.snapshot.profile import PLUGIN
from dcb.snapshot.summarize import bucket, keywords, loose_bullet
from dcb.snapshot.tokens import estimate_snapshot
from tests.dcb.snapshot.vectors import cases, comparable, to_snapshot


def _message(value: Any) -> Message:
    return Message(value["id"], value["role"], value["content"], value["createdAt"])


@pytest.mark.parametrize("case", cases("classify"))
def test_classify(case: Any) -> None:
    found = classify(_message(case["input"]), builtin("plugin"), PLUGIN.compiling.cutting)
    assert [
        {
            name: value
            for name in ("layer", "kind", "language", "text", "key", "scope")
            if (value := getattr(segment, name)) is not None
        }
        for segment in found
    ] == case["output"]


@pytest.mark.parametrize("case", cases("split_segments"))
def test_segments(case: Any) -> None:
    assert loose_segments(case["input"]) == case["output"]


@pytest.mark.parametrize("case", cases("keywords"))
def test_keywords(case: Any) -> None:
    assert list(keywords(case["input"], builtin("plugin"))) == case["output"]


@pytest.mark.parametrize("case", cases("bucket"))
def test_bucket(case: Any) -> None:
    assert bucket(case["input"], builtin("plugin")) == case["output"]


@pytest.mark.parametrize("case", cases("normalize_bullet"))
def test_bullet(case: Any) -> None:
    assert loose_bullet(case["input"]) == case["output"]


@pytest.mark.parametrize("case", cases("compile_ids"))
def test_ids(case: Any) -> None:
    given = case["input"]
    if "prefix" in given:
        assert sequence_id(given["prefix"], given["seq"]) == case["output"]
    else:
        assert stamp_id(Stamp("", "", 0, given["now"], given["suffix"])) == case["output"]


@pytest.mark.parametrize("case", cases("apply_token_budget"))
def test_budget(case: Any) -> None:
    if case["input"]["budget"] is None:
        pytest.skip("this case is of the estimate alone")
    snapshot = to_snapshot(case["input"]["snapshot"])
    trimmed, report = apply_budget(snapshot, case["input"]["budget"], by_time)
    wanted = case["output"]
    assert msgspec.to_builtins(report).items() >= wanted["report"].items()
    assert [entry.id for entry in trimmed.verbatim] == wanted["verbatim_ids"]
    assert comparable(trimmed)["summary"] == wanted["summary"]
    assert [one.key for one in trimmed.preferences] == wanted["preference_keys"]
    assert estimate_snapshot(trimmed) == wanted["estimate_after"]
    assert len(report.dropped) == sum(
        value for name, value in wanted["report"].items() if name.startswith("dropped")
    )


@pytest.mark.parametrize("case", cases("compile"))
def test_compile(case: Any) -> None:
    given, wanted = case["input"], case["output"]
    options = Options(
        title=given.get("title"),
        description=given.get("description"),
        tags=tuple(given.get("tags", ())),
        max_tokens=given.get("maxTokens", 4096),
        bullets=given.get("maxBulletsPerSection", 6),
        now_ms=given["now"],
        suffix=given["snapshot_id_suffix"],
    )
    messages = [_message(value) for value in given["messages"]]
    compiled = compile_messages(given["conversationId"], messages, options, PLUGIN)
    assert comparable(compiled.document.snapshot) == comparable(to_snapshot(wanted["snapshot"]))
    assert compiled.document.text == wanted["markdown"]
    assert msgspec.to_builtins(compiled.budget).items() >= wanted["report"].items()
