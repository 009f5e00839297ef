"""The bundle document: fingerprints, the vectors, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import BadInput
from converters.formats import dsh_bundle
from converters.formats.dsh_bundle import document as bundle
from converters.ledger import Ledger
from converters.opening import Memory
from converters.types import Context, Head
from dcb.bundle.verify import check_input
from tests.dcb.bundle.bundles import BUNDLES, FUNCTIONS, NOW, cases
from tests.paths import needs_shared

# -- the document ------------------------------------------------------------------------------


@needs_shared
@pytest.mark.parametrize("case", cases(BUNDLES / "verify-cases.jsonl"), ids=lambda c: c["case"])
def test_verify_codes(case: dict[str, Any]) -> None:
    problems = bundle.verify(bundle.parse(case["raw"]))
    assert problems == case["problems"]
    assert (not problems) is case["ok"]


@needs_shared
def test_function_vectors() -> None:
    for case in cases(FUNCTIONS / "bundle-verify.jsonl"):
        problems = bundle.verify(case["args"][0])
        assert {"ok": not problems, "problems": problems} == case["result"]
    for case in cases(FUNCTIONS / "bundle-serialize.jsonl"):
        (args,) = case["args"]
        made = bundle.serialize(
            args["meta"],
            args["events"],
            exported_at=args.get("exportedAt", NOW),
            source_session_id=args["sourceSessionId"],
            title=args.get("title"),
            cwd=args.get("cwd"),
        )
        assert json.dumps(made) == json.dumps(case["result"])


@needs_shared
def test_fingerprints_of_valid_bundles() -> None:
    found = cases(BUNDLES / "fingerprint-inputs.jsonl")
    assert len(found) == 8
    for case in found:
        document = bundle.parse((BUNDLES / case["file"]).read_bytes())
        assert bundle.verify(document) == []
        assert bundle.fingerprint(document) == case["bundle"]
        assert bundle.log_fingerprint(document["log"]) == case["session"]
        assert len(document["log"].encode()) == case["logBytes"]


@needs_shared
@pytest.mark.parametrize("case", cases(BUNDLES / "restored.jsonl"), ids=lambda c: c["file"])
def test_sessions_of_valid_bundles(case: dict[str, Any]) -> None:
    result = case["result"]
    ledger = Ledger()
    raw = (BUNDLES / case["file"]).read_bytes()
    assert dsh_bundle.FORMAT.read is not None
    found = list(dsh_bundle.FORMAT.read(Memory(raw, case["file"]), Context(ledger)))
    assert ledger.report().balanced
    if "no-cwd" in case["file"]:
        # The log holds a turn/start alone: no conversation.
        assert found == []
        return
    (session,) = found
    assert session.meta.id == result["meta"]["sourceId"]
    assert session.meta.cwd == result["meta"].get("cwd")
    assert session.provider == result["meta"]["provider"]
    prompts = [turn.prompt for turn in session.turns]
    for turn in result["turns"]:
        assert turn["prompt"] in prompts or any(
            t.compaction and t.compaction.summary == turn["prompt"] for t in session.turns
        )
    texts = json.dumps([s.__class__.__name__ for s in session.turns])
    assert len(session.turns) >= len(result["turns"]), texts


@needs_shared
@pytest.mark.parametrize("case", cases(BUNDLES / "landing-hint.jsonl"), ids=lambda c: str(c["cwd"]))
def test_landing_hint(case: dict[str, Any]) -> None:
    made = bundle.make("x\n", exported_at=1, source_session_id="s", cwd=case["cwd"])
    assert made["originalCwd"] == case["originalCwd"]
    assert made["landingHint"] == case["landingHint"]


def test_probe_takes_the_first_mark() -> None:
    def score(text: str) -> int:
        match = dsh_bundle.FORMAT.probe(Head(text.encode()))
        return match.score if match else 0

    assert score('{"bundle" : "dsh-chat-import"}') == 100
    assert score('{"interchange":"dsh-chat-import","bundle":"dsh-chat-import"}') == 0
    assert score('{"x":"' + "y" * 65536 + '","bundle":"dsh-chat-import"}') == 0
    assert score(r'{"x":"\"bundle\":\"dsh-chat-import\""}') == 0


def test_strict_refuses_repeated_members() -> None:
    made = bundle.text(bundle.make("a\n", exported_at=1, source_session_id="s"))
    twice = made.replace(b'"version": 1,', b'"version": 9, "version": 1,')
    assert bundle.verify(bundle.parse(twice)) == []
    with pytest.raises(BadInput, match="twice"):
        bundle.parse(twice, strict=True)


@pytest.mark.parametrize("junk", [b"", b"{", b"\xef\xbb\xbf{}", b"[" * 5000, b'{"a":NaN}', b"\xff"])
def test_what_is_no_json_is_refused(junk: bytes) -> None:
    with pytest.raises(BadInput):
        bundle.parse(junk)
    assert check_input(Memory(junk)).problems == ["not-json"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_verify_never_breaks(value: Any) -> None:
    assert bundle.verify(value)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.text(min_size=1))
def test_seal_and_parse_round_trip(extra: dict[str, Any], log: str) -> None:
    document = bundle.seal(
        {**bundle.make(log, exported_at=1, source_session_id="s"), "more": extra}
    )
    again = bundle.parse(bundle.text(document))
    assert bundle.fingerprint(again) == document["sha256"]["bundle"]
    assert [p for p in bundle.verify(again) if p != "log-missing"] == []
