"""Claude Code: every rule of the reader, and any value in any member."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import BadInput
from converters.formats.claude import FORMAT
from converters.formats.claude.human import scan, strip_reminders
from converters.ir import Image, Reasoning, Text, ToolCall, ToolCallBlock, ToolResult, Usage
from converters.types import Head
from tests.converters.formats.claude_records import (
    DAY,
    SID,
    START,
    answer,
    assistant,
    call,
    one,
    text,
    user,
)
from tests.reading import counts, lines, read
from tests.wrong_types import VALUES

FIX = "<command-name>/fix</command-name>\n<command-args>the bug</command-args>"


def test_one_message_in_several_lines_is_one_step_with_the_largest_usage() -> None:
    small, large = ({"input_tokens": 3, "output_tokens": n} for n in (1, 90))
    session, _ = one(
        user(1, "hello"),
        assistant(2, [{"type": "thinking", "thinking": "hm", "signature": "s"}], "m", usage=small),
        assistant(3, text("yes"), "m", usage=large),
        assistant(4, [call("c1", command="ls")], "m", usage=small),
        user(5, [answer("c1", "README")]),
    )
    (step,) = session.turns[0].steps
    assert step.content == [
        Reasoning("hm", {"signature": "s"}),
        Text("yes"),
        ToolCallBlock("c1", "Bash", '{"command": "ls"}'.replace(": ", ":")),
    ]
    assert step.usage == Usage(3, 90)
    assert step.time == START + 2000
    assert step.tool_results == [ToolResult("c1", [Text("README")], False, START + 5000)]
    assert step.extra == {"id": "msg_m".removeprefix("msg_"), "uuid": "r2"}


def test_chunks_that_repeat_or_grow_collapse() -> None:
    session, found = one(
        user(1, "hello"),
        assistant(2, text("The"), "m"),
        assistant(3, text("The answer"), "m"),
        assistant(4, [*text("The answer"), call("c1")], "m"),
    )
    assert [block for block in session.turns[0].steps[0].content if isinstance(block, Text)] == [
        Text("The answer")
    ]
    assert len(session.turns[0].steps[0].tool_calls) == 1
    assert found["duplicate-record"] == 2


def test_records_copied_by_a_resume_count_once_and_a_message_sent_twice_stays() -> None:
    first = [user(1, "same"), assistant(2, text("a"))]
    copied, found = one(*first, *first, user(3, "same", "r2"), assistant(4, text("b")))
    plain, _ = one(*first, user(3, "same", "r2"), assistant(4, text("b")))
    assert copied == plain
    assert found["duplicate-record"] == 2
    assert [turn.prompt for turn in plain.turns] == ["same", "same"]


def test_a_ghost_retry_goes() -> None:
    session, found = one(
        user(1, "go"),
        assistant(2, [call("c1", a=1)], "m1"),
        assistant(3, [*text("again"), call("c1", a=1)], "m2"),
        user(4, [answer("c1", "done")]),
    )
    (step,) = session.turns[0].steps
    assert step.tool_calls == [ToolCall("c1", "Bash", '{"a":1}')]
    assert step.tool_results[0].content == [Text("done")]
    assert found == {"retry-dropped": 1}


def test_a_rewound_prompt_is_a_branch_and_parallel_results_are_not() -> None:
    records = [
        user(1, "start"),
        assistant(2, [call("c1"), call("c2")], "m1"),
        user(3, [answer("c1", "one")], "r2"),
        user(4, [answer("c2", "two")], "r2"),
        assistant(5, text("done"), "m2", "r4"),
        user(6, "first try", "r5"),
        assistant(7, text("tried"), "m3", "r6"),
        user(8, "second try", "r5"),
        assistant(9, text("better"), "m4", "r8"),
    ]
    session, found = one(*records)
    assert [turn.prompt for turn in session.turns] == ["start", "second try"]
    assert len(session.turns[0].steps[0].tool_results) == 2
    assert found["branch-collapsed"] == 2
    assert session.extra is not None
    (branch,) = session.extra["branches"]
    assert branch["id"] == f"{SID}~b1"
    assert branch["parent"] == "r5"
    assert branch["turns"][0]["prompt"] == "first try"

    every, report = read(FORMAT, lines(*records), branch="all")
    assert [found.meta.id for found in every] == [SID, f"{SID}~b1"]
    assert [turn.prompt for turn in every[1].turns] == ["start", "first try"]
    assert "branch-collapsed" not in counts(report)
    named, _ = read(FORMAT, lines(*records), branch=1)
    assert [found.meta.id for found in named] == [f"{SID}~b1"]
    with pytest.raises(BadInput, match="no branch 2"):
        read(FORMAT, lines(*records), branch=2)


@pytest.mark.parametrize("at", [1, 2, 15, 16, 17, 39])
def test_a_fork_is_found_wherever_it_is(at: int) -> None:
    """A log is read straight into turns until a fork shows; both ways give the same session."""
    time = "2026-03-02T08:00:00.000Z"
    records: list[dict[str, Any]] = []
    for turn in range(40):
        number = 2 * turn + 1
        # Prompt ``at`` goes back to where the one before it began.
        parent = f"r{number - 3}" if turn == at and at > 1 else ""
        parent = "r2" if turn == at == 1 else parent
        records.append(user(number, f"prompt {turn}", parent, timestamp=time))
        records.append(assistant(number + 1, text(f"answer {turn}"), timestamp=time))
    straight, found = one(*records)
    listed, _ = one(*records, branch=0)
    assert straight.turns == listed.turns
    assert len(straight.turns) == (40 if at == 1 else 39)
    assert found.get("branch-collapsed", 0) == (0 if at == 1 else 2)


def test_branches_inside_branches() -> None:
    records = [
        user(1, "root"),
        assistant(2, text("a")),
        user(3, "left", "r2"),
        assistant(4, text("b"), parent="r3"),
        user(5, "left one", "r4"),
        user(6, "left two", "r4"),
        user(7, "right", "r2"),
        assistant(8, text("c"), parent="r7"),
    ]
    session, _ = one(*records)
    assert [turn.prompt for turn in session.turns] == ["root", "right"]
    assert session.extra is not None
    kept = [[t["prompt"] for t in branch["turns"]] for branch in session.extra["branches"]]
    assert kept == [["left", "left two"], ["left one"]]
    every, _ = read(FORMAT, lines(*records), branch="all")
    assert [[turn.prompt for turn in found.turns] for found in every] == [
        ["root", "right"],
        ["root", "left", "left two"],
        ["root", "left", "left one"],
    ]


def test_a_log_without_one_root_is_taken_in_file_order() -> None:
    session, found = one(user(1, "a"), user(2, "b", "gone"), user(3, "c", "r1"), user(4, "d", "r1"))
    assert [turn.prompt for turn in session.turns] == ["a", "b", "c", "d"]
    assert "branch-collapsed" not in found


def test_parents_may_be_skipped_records() -> None:
    quiet = {
        "type": "progress",
        "uuid": "p1",
        "parentUuid": "r2",
        "data": {"type": "hook_progress"},
    }
    session, found = one(
        user(1, "a"), assistant(2, text("b")), quiet, user(3, "old", "p1"), user(4, "new", "r2")
    )
    assert [turn.prompt for turn in session.turns] == ["a", "new"]
    assert found == {"record-skipped": 1, "branch-collapsed": 1}


def test_sidechains_and_companions_are_sessions_with_their_parent() -> None:
    task = call("c1", "Task", prompt="look around", description="d")
    side = {"isSidechain": True, "sessionId": SID}
    main = lines(
        user(1, "go"),
        assistant(2, [task], "m1"),
        {**user(11, "look around", None), **side},
        {**assistant(12, text("seen"), "s1", "r11"), **side},
        {
            **user(3, [answer("c2", "ok")], "r2"),
            "toolUseResult": {"agentId": "a77", "status": "completed"},
        },
    )
    other = lines({**user(1, "dig", None), **side, "agentId": "a77"})
    around = {f"{SID}/subagents/agent-a77.jsonl": other}
    sessions, report = read(FORMAT, main, f"{SID}.jsonl", around)
    assert [found.meta.id for found in sessions] == [SID, f"{SID}~s1", "a77"]
    assert [(found.extra or {}).get("parent") for found in sessions] == [
        None,
        {"sessionId": SID, "callId": "c1"},
        {"sessionId": SID, "callId": "c2"},
    ]
    assert report.records.total == 6
    alone, report = read(FORMAT, main, f"{SID}.jsonl", around, subagents="skip")
    assert [found.meta.id for found in alone] == [SID]
    assert counts(report)["subagent-skipped"] == 3


def test_an_old_subagent_file_is_read_by_its_name() -> None:
    sessions, _ = read(FORMAT, lines(user(1, "dig")), "agent-b01.jsonl")
    (session,) = sessions
    assert session.meta.id == "b01"
    assert session.extra is not None
    assert session.extra["parent"] == {"sessionId": SID}
    assert read(FORMAT, lines(user(1, "dig")), "agent-b01.jsonl", subagents="skip")[0] == []


def test_a_compaction_shadows_and_waits_for_the_next_turn() -> None:
    session, found = one(
        user(1, "old"),
        assistant(2, text("x")),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b",
            "parentUuid": None,
            "logicalParentUuid": "r2",
            "timestamp": f"{DAY}03.000Z",
        },
        user(4, "This session is being continued from before: facts", "b", isCompactSummary=True),
        user(5, "new", "r4"),
        {"type": "system", "subtype": "compact_boundary", "uuid": "b2", "parentUuid": "r5"},
        user(6, "newest", "b2"),
    )
    assert [(turn.prompt, turn.shadowed) for turn in session.turns] == [
        ("old", True),
        ("new", True),
        ("newest", False),
    ]
    compaction = session.turns[1].compaction
    assert compaction is not None
    assert compaction.summary.endswith("facts")
    assert compaction.model == "model-x"
    assert session.turns[2].compaction is None
    assert found == {"compacted-unavailable": 1}


def test_old_summaries_compact_between_and_name_at_the_ends() -> None:
    title = {"type": "summary", "summary": "Another session", "leafUuid": "elsewhere"}
    session, found = one(
        title,
        user(1, "a"),
        {"type": "summary", "summary": "So far", "leafUuid": "r1"},
        user(2, "b"),
        {"type": "summary", "summary": "The end", "leafUuid": "r2"},
    )
    assert [(turn.prompt, turn.shadowed) for turn in session.turns] == [("a", True), ("b", False)]
    assert session.turns[1].compaction is not None
    assert session.turns[1].compaction.summary == "So far"
    assert session.title == "The end"
    assert found == {"record-skipped": 1}


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_summary_record_beside_a_boundary_is_a_title_only(at: int) -> None:
    """Both notations of one place make one compaction."""
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": "r2"}
    marks = [boundary, user(4, "This session is being continued: facts", isCompactSummary=True)]
    marks.insert(at, {"type": "summary", "summary": "A title", "leafUuid": "r2"})
    session, found = one(user(1, "a"), assistant(2, text("x")), *marks, user(5, "b", "r4"))
    assert [(turn.prompt, turn.shadowed) for turn in session.turns] == [("a", True), ("b", False)]
    assert session.turns[1].compaction is not None
    assert session.turns[1].compaction.summary.endswith("facts")
    assert (session.title, found) == ("A title", {})
    # Where the boundary has no other text, the record is it.
    alone = [mark for mark in marks if mark["type"] != "user"]
    session, found = one(user(1, "a"), assistant(2, text("x")), *alone, user(5, "b", "b"))
    assert session.turns[1].compaction is not None
    assert (session.turns[1].compaction.summary, found) == ("A title", {})


def test_titles_by_rank() -> None:
    ranks = [
        {"type": "ai-title", "aiTitle": "generated"},
        {"type": "ai-title", "aiTitle": "worktree"},
        {"type": "summary", "summary": "summed up", "leafUuid": "x"},
        {"type": "custom-title", "customTitle": "mine"},
        {"type": "custom-title", "customTitle": "mine now"},
    ]
    titles = [one(user(1, "first words"), *ranks[:n])[0].title for n in range(6)]
    assert titles == ["first words", "generated", "generated", "summed up", "mine", "mine now"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("plain", "plain"),
        ("a <b> tag", "a <b> tag"),
        ("<div>html</div>", "<div>html</div>"),
        ("<system-reminder>x</system-reminder>", None),
        ("<system-reminder>x</system-reminder>\nhello", "hello"),
        ("hello\n<system-reminder>x</system-reminder>", "hello"),
        ("<system-reminder>never closed", None),
        ("<local-command-stdout>out</local-command-stdout>", None),
        ("Caveat: The messages below were", None),
        ("Stop hook feedback: x", None),
        ("<pasted_content id=1>body</pasted_content>", "body"),
        ("<command-name>/x</command-name><command-args></command-args>", None),
        (f"<command-message>fix</command-message>\n{FIX}", "/fix the bug"),
    ],
)
def test_human_part(given: str, wanted: str | None) -> None:
    assert scan(given).text == wanted


def test_reminders_leave_the_ends_of_a_result_only() -> None:
    inside = "see <system-reminder>x</system-reminder> here"
    assert strip_reminders(inside) == (inside, 0)
    assert strip_reminders("out\n\n<system-reminder>a</system-reminder>\n") == ("out", 1)
    session, found = one(
        user(1, "go"),
        assistant(2, [call("c1")]),
        user(3, [answer("c1", "out\n<system-reminder>a</system-reminder>")]),
    )
    assert session.turns[0].steps[0].tool_results[0].content == [Text("out")]
    assert found == {"injection-skipped": 1}


def test_commands_injections_and_interruptions() -> None:
    session, found = one(
        user(1, "<command-name>/clear</command-name>\n<command-args></command-args>"),
        user(2, "<command-name>/fix</command-name>\n<command-args>it</command-args>"),
        user(3, "expansion of the command", isMeta=True),
        assistant(4, text("on it")),
        user(5, [{"type": "text", "text": "[Request interrupted by user]"}]),
    )
    assert [(turn.prompt, turn.aborted) for turn in session.turns] == [("/fix it", True)]
    assert found == {"injection-skipped": 2, "command-skipped": 1}


def test_a_prompt_beside_results_opens_a_turn_and_the_results_arrive() -> None:
    session, _ = one(
        user(1, "go"),
        assistant(2, [call("c1")]),
        user(3, [answer("c1", "r"), {"type": "text", "text": "and now this"}]),
    )
    assert [turn.prompt for turn in session.turns] == ["go", "and now this"]
    assert session.turns[0].steps[0].tool_results[0].content == [Text("r")]


def test_sealed_reasoning_unknown_blocks_and_records_are_kept() -> None:
    session, found = one(
        user(1, "go"),
        {"type": "hologram", "x": 1},
        {"no": "type"},
        assistant(
            2,
            [
                {"type": "redacted_thinking", "data": "zz"},
                {"type": "thinking", "thinking": "", "signature": "sig"},
                *text("said"),
                {"type": "smell", "data": "rose"},
            ],
        ),
    )
    step = session.turns[0].steps[0]
    assert step.content == [Text("said")]
    assert step.extra is not None
    assert step.extra["native"] == {
        "sealed": [
            {"at": 0, "type": "redacted_thinking", "data": "zz"},
            {"at": 1, "type": "thinking", "signature": "sig"},
        ],
        "blocks": [{"at": 3, "block": {"type": "smell", "data": "rose"}}],
    }
    assert session.extra is not None
    assert session.extra["records"] == [{"type": "hologram", "x": 1}, {"no": "type"}]
    assert found == {"reasoning-encrypted": 2, "unknown-record": 2, "unknown-block": 1}


def test_images_and_documents() -> None:
    png = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    session, found = one(
        user(
            1,
            [
                {"type": "image", "source": png},
                {"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}},
                {
                    "type": "document",
                    "title": "notes.txt",
                    "source": {"type": "text", "media_type": "text/plain", "data": "abc"},
                },
            ],
        ),
        assistant(2, [call("c1")]),
        user(3, [answer("c1", [{"type": "image", "source": png}])]),
    )
    blocks = session.turns[0].prompt_blocks
    assert blocks is not None
    assert blocks[0] == Image("iVBORw0KGgo=", "image/png")
    assert isinstance(blocks[2], Text)
    assert blocks[2].text == "[file: notes.txt (text/plain, 3 bytes)]"
    result = session.turns[0].steps[0].tool_results[0]
    assert result.content == [Image("iVBORw0KGgo=", "image/png")]
    assert found == {"attachment-skipped": 1, "attachment-aside": 1}


@pytest.mark.parametrize(
    ("damage", "wanted", "rule"),
    [
        (b"a\\ud83d", '{"command":"a\ufffd"}', "lone-surrogate"),
        (b"a\xff", '{"command":"a\ufffd"}', "encoding-repaired"),
        (b"a\\u00e9", '{"command":"a\\u00e9"}', None),
    ],
)
def test_tool_inputs_are_mended_too(damage: bytes, wanted: str, rule: str | None) -> None:
    """The decoder only skips over them."""
    line = json.dumps(assistant(2, [call("c1", command="@")]), separators=(",", ":")).encode()
    sessions, report = read(FORMAT, lines(user(1, "go"), line.replace(b"@", damage)))
    assert sessions[0].turns[0].steps[0].tool_calls[0].arguments == wanted
    assert counts(report).keys() == {"tool-result-missing"} | ({rule} if rule else set())


def test_a_synthetic_model_is_no_model_and_its_zeros_no_usage() -> None:
    record = assistant(2, text("API Error"), usage={"input_tokens": 0, "output_tokens": 0})
    record["message"]["model"] = "<synthetic>"
    session, _ = one(user(1, "go"), record)
    assert session.turns[0].steps[0].model is None
    assert session.turns[0].steps[0].usage is None
    assert session.model is None


def test_facts_of_the_envelope_may_come_late() -> None:
    first = user(1, "go")
    del first["gitBranch"], first["version"]
    session, _ = one(first, assistant(2, text("x")))
    assert session.extra == {"git": {"branch": "main"}, "native": {"version": "2.1.0"}}


def test_tokens_put_into_the_cache_are_usage() -> None:
    usage = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 5000}
    session, _ = one(user(1, "go"), assistant(2, text("x"), usage=usage))
    assert session.turns[0].steps[0].usage == Usage(0, 0, None, 5000)


def test_ids() -> None:
    assert read(FORMAT, lines(user(1, "x")), "copy.jsonl")[0][0].meta.id == SID
    resumed = [user(1, "x"), user(2, "y", sessionId="new-id")]
    assert read(FORMAT, lines(*resumed), "new-id.jsonl")[0][0].meta.id == "new-id"
    bare = {"type": "user", "message": {"role": "user", "content": "x"}}
    assert read(FORMAT, lines(bare), "named.jsonl")[0][0].meta.id == "named"
    sessions, report = read(FORMAT, lines(bare), "-")
    assert len(sessions[0].meta.id) == 36
    assert counts(report)["id-minted"] == 1


@pytest.mark.parametrize(
    ("records", "score"),
    [
        ([user(1, "x")], 90),
        ([{"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}], 85),
        ([{"type": "summary", "summary": "s", "leafUuid": "l"}], 80),
        ([{"type": "workspace-directories"}, user(1, "x")], None),
        ([{"role": "user", "content": "x"}], None),
        ([{"type": "user", "text": "x"}], None),
    ],
)
def test_probe(records: list[Any], score: int | None) -> None:
    found = FORMAT.probe(Head(lines(*records), "x.jsonl"))
    assert (found.score if found else None) == score


_MEMBERS = st.sampled_from(
    ["type", "uuid", "parentUuid", "message", "timestamp", "isSidechain", "isMeta", "toolUseResult",
     "isCompactSummary", "agentId", "sessionId", "cwd", "subtype", "summary", "leafUuid", "data"]
)  # fmt: skip


@given(st.lists(st.tuples(_MEMBERS, VALUES), max_size=4), st.integers(0, 4))
def test_any_value_in_any_member_is_accounted(changes: list[tuple[str, Any]], at: int) -> None:
    records = [
        user(1, "go"),
        assistant(2, [call("c1")]),
        user(3, [answer("c1", text("x"))]),
        assistant(4, text("y")),
        user(5, "on"),
    ]
    records[at].update(changes)
    read(FORMAT, json.dumps(records[0]).encode() + b"\n" + lines(*records[1:]))
