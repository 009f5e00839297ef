"""TLV documents as a reader meets them: each rule, the hostile pack, what is recognised."""

from __future__ import annotations

import msgspec
import pytest

from converters.errors import BadInput, UnsupportedVersion
from converters.formats.persisting_tlv import (
    FORMAT,
    Document,
    new_block,
    parse,
    serialize,
)
from converters.ir import (
    Text,
    Usage,
)
from converters.opening import Memory
from tests.converters.formats.tlv_documents import REPLY, USER, doc, kinds, one, read
from tests.paths import needs_shared
from tests.sinks import written


def test_parallel_calls_take_the_ids_of_their_results() -> None:
    data = doc(
        (USER, "go"),
        (REPLY, '```tool:A\n{\n  "x": 1\n}\n```\n\n```tool:B\n{}\n```'),
        (USER, "```tool_result:t1\none\n```\n\n```tool_result:t2\ntwo\n```\n\nnow this"),
        (REPLY, "done"),
    )
    session = one(data)
    assert [turn.prompt for turn in session.turns] == ["go", "now this"]
    (step,) = session.turns[0].steps
    assert [(c.id, c.name, c.arguments) for c in step.tool_calls] == [
        ("t1", "A", '{"x":1}'),
        ("t2", "B", "{}"),
    ]
    assert [(r.tool_call_id, r.content) for r in step.tool_results] == [
        ("t1", [Text("one")]),
        ("t2", [Text("two")]),
    ]


def test_named_ids_win_over_the_place() -> None:
    calls = REPLY | {"tool_call_ids": ["a", "b"]}
    data = doc(
        (USER, "go"),
        (calls, "```tool:A\n{}\n```\n\n```tool:B\n{}\n```"),
        (USER, "```tool_result:b\ntwo\n```"),
    )
    (step,) = one(data).turns[0].steps
    assert [c.id for c in step.tool_calls] == ["a", "b"]
    assert [r.tool_call_id for r in step.tool_results] == ["b"]


def test_results_that_repeat_or_have_no_call() -> None:
    data = doc(
        (USER, "go"),
        (REPLY, "```tool:A\n{}\n```"),
        (USER, "```tool_result:t1\none\n```"),
        (USER, "```tool_result:t1\nagain\n```"),
        (USER, "```tool_result:t2\nstray\n```\n\nmore"),
    )
    (session,), report = read(data)
    assert report.records.mapped == 4
    assert report.records.aside == 1
    assert {"duplicate-tool-result", "orphan-tool-result"} <= {e.rule for e in report.entries}
    assert session.turns[1].prompt == "more"
    # Nothing is gone: the text of both is in x-dcb, and an export writes it again.
    assert b"stray" in written(FORMAT, [session])
    assert b"again" in written(FORMAT, [session])


def test_an_open_draft_aborts_its_turn() -> None:
    draft = REPLY | {"draft": True, "call_id": "c1"}
    assert one(doc((USER, "go"), (draft, "On"))).turns[0].aborted
    final = doc((USER, "go"), (draft, "On"), (REPLY | {"call_id": "c1"}, "Once"))
    (session,), report = read(final)
    assert kinds(report) == {"duplicate-record/draft": 1}
    assert not session.turns[0].aborted
    assert [b for s in session.turns[0].steps for b in s.content] == [Text("Once")]
    other = doc((USER, "go"), (draft, "On"), (REPLY | {"call_id": "c2"}, "Once"))
    assert not one(other).turns[0].aborted


def test_ambiguous_fences_are_reported() -> None:
    data = doc(
        (USER, "go"),
        (REPLY, "```tool:A\nnot json\n```"),
        (USER, "```tool_result:t\n```sh\nls\n```\nend\n```"),
    )
    (session,), report = read(data)
    assert {"fence-ambiguous", "tool-args-unparsed"} <= {e.rule for e in report.entries}
    (step,) = session.turns[0].steps
    assert step.tool_results[0].content == [Text("```sh\nls\n```\nend")]
    assert step.tool_calls[0].arguments == "not json"


def test_fences_count_for_their_speaker_only() -> None:
    session = one(doc((USER, "```tool:A\n{}\n```"), (REPLY, "```tool_result:t\nx\n```")))
    assert session.turns[0].prompt == "```tool:A\n{}\n```"
    assert session.turns[0].steps[0].tool_calls == []
    never_closed = one(doc((USER, "hi"), (REPLY, "```tool:A\n{}")))
    assert never_closed.turns[0].steps[0].content == [Text("```tool:A\n{}")]


def test_usage_and_models() -> None:
    data = doc(
        (USER | {"model": "m1", "call_id": "c"}, "go"),
        (REPLY | {"call_id": "c", "prompt_tokens": 9, "completion_tokens": 2}, "a"),
        (REPLY | {"input_tokens": 3, "prompt_tokens": 9, "total_tokens": 5}, "b"),
        (REPLY | {"model": "m2", "prompt_tokens": "9", "completion_tokens": 2}, "c"),
        (REPLY | {"prompt_tokens": -1, "completion_tokens": 2**60}, "d"),
    )
    (session,), report = read(data)
    steps = session.turns[0].steps
    assert [step.usage for step in steps] == [Usage(9, 2), Usage(3, 2), None, None]
    assert [step.model for step in steps] == ["m1", None, "m2", None]
    assert session.model == "m2"
    assert {e.rule: e.count for e in report.entries}["usage-invalid"] == 2


def test_times() -> None:
    zoned = USER | {"timestamp": "2026-01-01T01:00:00+01:00"}
    data = doc((zoned, "a"), (REPLY | {"timestamp": "2026-01-01 00:00:01"}, "b"), (USER, "c"),
               (REPLY | {"timestamp": 5}, "d"))  # fmt: skip
    (session,), report = read(data)
    assert session.turns[0].time == session.meta.created_at == 1767225600000
    assert session.turns[0].steps[0].time == 1767225601000
    assert {"tz-assumed", "timestamp-invalid"} <= {e.rule for e in report.entries}


def test_subagents_on_request() -> None:
    data = doc((USER | {"subagent_id": "w", "parent_agent_id": "root"}, "go"), (REPLY, "done"))
    assert (one(data).extra or {})["parent"] == {"subagentId": "w", "agentId": "root"}
    sessions, report = read(data, subagents="skip")
    assert not sessions
    assert report.records.skipped == 2
    assert [entry.rule for entry in report.entries] == ["subagent-skipped"]


def test_documents_that_are_refused() -> None:
    for data in (b"", b"just words\n", b"---\ntitle: x\n---\n\nwords\n"):
        with pytest.raises(BadInput):
            read(data)
    with pytest.raises(UnsupportedVersion, match=r"persisting:2\.0"):
        read(doc((USER, "x")).replace(b"persisting:1.0", b"persisting:2.0"))


def test_a_document_without_conversation_gives_none() -> None:
    sessions, report = read(doc(({"role": "note"}, "only a note"), (USER, "")))
    assert not sessions
    assert report.records.skipped == 2


def test_utf16_is_decoded() -> None:
    data = doc((USER, "grüße"), (REPLY, "ok"))
    (session,), report = read(data.decode().encode("utf-16"))
    assert session.turns[0].prompt == "grüße"
    assert report.entries[0].rule == "encoding-repaired"


def test_hostile_frontmatter() -> None:
    body = serialize(Document(b"", (new_block(USER, b"hi"), new_block(REPLY, b"ho"))))
    for front in (
        b"a: &x [1]\nb: *x",
        b"a: " + b"[" * 5000,
        b"a: !!python/object/apply:os.system [x]",
        b"- a\n- b",
        b"a: {b: .inf, c: !!binary aGk=}\n2: x",
        b"k: " + b"9" * 6000,
        b"\xff\xfe: 1",
        b"x: 1\n" * 100_000,
    ):
        data = b"---\nformat: persisting:1.0\nsession: s\n" + front + b"\n---\n\n" + body
        session = one(data)
        assert session.turns[0].prompt == "hi"
        msgspec.json.encode(session)
        assert one(written(FORMAT, [session])).turns[0].prompt == "hi"


def test_wrong_lengths_in_a_row() -> None:
    """Every length of a document wrong: each block is still cut at the next header."""
    heads = USER | {"v": 1}, REPLY | {"v": 1}
    data = doc(*((heads[n % 2], f"message {n}") for n in range(20)))
    for wrong in (b'"length":1,', b'"length":11,', b'"length":99999999,', b'"length":-1,'):
        broken = data.replace(b'"length":9,', wrong).replace(b'"length":10,', wrong)
        (session,), report = read(broken)
        said = [turn.prompt for turn in session.turns]
        assert said == [f"message {n}" for n in range(0, 20, 2)]
        assert report.records.mapped == 20
        assert report.degraded


def test_many_damaged_blocks_take_linear_work() -> None:
    """Shapes that invite a scan of the rest of the file for every block."""
    header = b'<!-- persisting:block:user {"type":"markdown","length":%d,"role":"user"} -->\n\n'
    for data in (
        b"".join(header % (10**6 - n) + b"x\n\n" for n in range(4000)),
        b"".join(header % 1 + b"xx\n\n" for _ in range(4000)) + b" \n" * 200_000 + b"#",
        b"<!-- persisting:block:user {\n" * 10_000,
        b"<!-- persisting:block {" * 10_000,
        (header % 0) + b"---\n" * 30_000,
        (header % 1) + b"```\n<!-- persisting:block:a {}" * 10_000,
        b"<!-- persisting:subagent-self a.md -->\n" * 10_000,
        (header % 390_000) + b"<!-- persisting:subagent-self a.md -->\n" * 10_000,
        (header % 300_000) + b"```tool_result:x\n```\n" * 20_000,
    ):
        assert serialize(parse(data)) == data
        try:
            read(data)
        except BadInput:
            continue


@needs_shared
def test_hostile_pack(tmp_path_factory: pytest.TempPathFactory) -> None:
    from tests.pack import cases, pack

    seen = 0
    for case in cases("markdown"):
        if case.get("format") != "persisting-tlv":
            continue
        seen += 1
        data = (pack() / case["name"]).read_bytes()
        (session,), report = read(data)
        text = msgspec.json.encode(session).decode()
        for word in (*case.get("survive", ()), *case.get("should", ())):
            assert word in text, (case["name"], word)
        rules = {entry.rule for entry in report.entries}
        assert rules & set(case.get("rules", ())) or case.get("quiet")
        if "where" in case:
            line = case["where"].removeprefix("line ")
            assert [e.places for e in report.entries] == [[f"x.md:{line}"]]
        if case["name"].endswith("fake-block.md"):
            assert len(session.turns) == len(session.turns[0].steps) == 1
    assert seen == 5


def test_probe() -> None:
    def score(data: bytes, name: str = "x") -> int:
        match = FORMAT.probe(Memory(data, name).head)
        return match.score if match else 0

    block = serialize(Document(b"", (new_block(USER, b"hi"),)))
    assert score(doc((USER, "x"))) == 100
    assert score(b"\xef\xbb\xbf---\r\nformat: 'persisting'\r\n---\r\n") == 100
    assert score(b"---\nformat: persistence\n---\n") == 0
    assert score(b"# title\n\n" + block) == 95
    assert score(b"---\nother: x\n---\n\n" + block) == 95
    assert score(b"Notes about the format.\n\n" + block) == 40
    assert score(b"words\n\nformat: persisting:1.0\n") == 0
    assert score(b"", "run-1.md") == 0
