"""ChatGPT exports: messages, calls and results, images, files and times."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from converters.ir import Image, Reasoning, Session, Text
from tests.converters.formats.chatgpt_exports import chain, one

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_thoughts_belong_to_the_next_answer() -> None:
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "A", "content": "b"}]}
    session, found = one(
        chain(
            ("user", "q"),
            ("assistant", thoughts),
            ("assistant", {"content_type": "reasoning_recap", "content": "Thought for 2s"}),
            ("assistant", "yes", {"metadata": {"model_slug": "model-x"}}),
            ("assistant", {"content_type": "thoughts", "thoughts": [], "content": "left"}),
            ("user", "next"),
        )
    )
    first, second = session.turns[0].steps
    assert first.content == [Reasoning("A\nb", {"id": "m-n2"}), Text("yes")]
    assert first.model == session.model == "model-x"
    assert second.content == [Reasoning("left", {"id": "m-n5"})]
    assert found == {"record-skipped": 1}


def call(name: str, text: str = "go") -> tuple[Any, ...]:
    return ("assistant", {"content_type": "code", "text": text}, {"recipient": name})


def answer(name: str | None, text: str, **more: Any) -> tuple[Any, ...]:
    return ("tool", {"content_type": "execution_output", "text": text}, {"tool": name, **more})


def results(session: Session) -> list[tuple[str, str, list[str], bool]]:
    return [
        (made.name, made.id, [b.text for b in r.content if isinstance(b, Text)], r.is_error)
        for turn in session.turns
        for step in turn.steps
        for made in step.tool_calls
        for r in step.tool_results
        if r.tool_call_id == made.id
    ]


def test_results_find_the_nearest_call_of_their_name() -> None:
    session, found = one(
        chain(
            ("user", "q"),
            call("python"),
            call("python"),
            answer("python", "second"),
            call("web"),
            answer("web.run", "by place"),
            answer("web.run", "goes on"),
            ("user", "next"),
            answer("python", "first"),
            answer("ghost", "made"),
        )
    )
    assert results(session) == [
        ("python", "m-n2", ["first"], False),
        ("python", "m-n3", ["second"], False),
        ("web", "m-n5", ["by place", "goes on"], False),
        ("ghost", "call-mapping-n10", ["made"], False),
    ]
    assert found == {"tool-result-text-fallback": 4, "id-minted": 1}


@pytest.mark.parametrize(
    ("content", "more"),
    [
        ({"content_type": "system_error", "name": "E", "text": "x"}, {}),
        ("x", {"status": "finished_with_error"}),
        ("x", {"metadata": {"aggregate_result": {"status": "failed_with_in_kernel_exception"}}}),
    ],
)
def test_failed_results(content: Any, more: dict[str, Any]) -> None:
    session, _ = one(
        chain(("user", "q"), call("python"), ("tool", content, {"tool": "python", **more}))
    )
    assert [row[3] for row in results(session)] == [True]


def test_hidden_superseded_and_strange_messages() -> None:
    hidden = {"metadata": {"is_visually_hidden_from_conversation": True}}
    session, found = one(
        chain(
            ("system", "be kind"),
            ("user", "custom", {"metadata": {"is_user_system_message": True}}),
            ("user", "hidden", hidden),
            ("user", "q"),
            ("assistant", "old", {"weight": 0}),
            ("assistant", "new", {"weight": 1.0}),
            ("narrator", "aside"),
            ("assistant", {"content_type": "widget", "a": 1}),
            ("assistant", {"content_type": "card", "text": "shown"}),
        )
    )
    assert [b.text for s in session.turns[0].steps for b in s.content if isinstance(b, Text)] == [
        "new",
        "shown",
    ]
    assert session.extra is not None
    assert session.extra["system"] == ["be kind", "custom"]
    assert [record["id"] for record in session.extra["records"]] == [
        "m-n3",
        "m-n5",
        "m-n7",
        "m-n8",
    ]
    assert found == {
        "system-prompt-aside": 2,
        "injection-skipped": 1,
        "message-discarded": 1,
        "role-unknown": 1,
        "unknown-record": 1,
        "unknown-block": 2,
    }


@pytest.mark.parametrize(
    "more",
    [{"status": "in_progress"}, {"metadata": {"finish_details": {"type": "interrupted"}}}],
)
def test_an_interrupted_answer_aborts_the_turn(more: dict[str, Any]) -> None:
    session, _ = one(chain(("user", "q"), ("assistant", "so", more), ("user", "r")))
    assert [turn.aborted for turn in session.turns] == [True, False]


def test_other_texts_of_a_content_stay_with_its_block() -> None:
    page = {"content_type": "sonic_webpage", "url": "https://a.example/x", "domain": "a.example"}
    session, found = one(
        chain(
            ("user", "q"),
            call("web"),
            ("tool", {**page, "title": "T", "text": "all", "snippet": "some"}, {"tool": "web"}),
            ("tool", {**page, "snippet": "only"}, {"tool": "web"}),
            (
                "tool",
                {"content_type": "tether_browsing_display", "result": "r", "summary": "s"},
                {"tool": "web"},
            ),
            ("assistant", {"content_type": "code", "language": "python", "text": "1"}),
            ("assistant", {"content_type": "code", "language": "unknown", "text": "2"}),
            ("assistant", {"content_type": "card", "text": "shown", "more": [1], "none": None}),
        )
    )
    first, *others = session.turns[0].steps
    assert first.tool_results[0].content == [
        Text("T https://a.example/x", {"native": {"snippet": "some"}}),
        Text("all"),
        Text("a.example https://a.example/x"),
        Text("only"),
        Text("r", {"native": {"summary": "s"}}),
    ]
    assert [step.content for step in others] == [
        [Text("1", {"native": {"language": "python"}})],
        [Text("2")],
        [Text("shown", {"native": {"more": [1]}})],
    ]
    assert found == {"tool-result-text-fallback": 1, "unknown-block": 1}


def test_what_is_said_in_an_unusual_form_is_kept() -> None:
    value = chain(
        ("user", {"content_type": "text", "parts": [], "text": "q"}),
        ("assistant", {"content_type": "code", "parts": [""], "text": "1"}),
        ("assistant", {"content_type": "text", "parts": {"0": "lost?"}}),
        ("assistant", {"content_type": "text", "parts": ["", None]}),
        ("assistant", {"content_type": "code", "language": "unknown", "text": ""}),
        ("assistant", "bare"),
    )
    value["mapping"]["n6"]["message"]["content"] = "bare"
    session, found = one(value)
    assert session.turns[0].prompt == "q"
    assert [step.content for step in session.turns[0].steps] == [[Text("1")], [Text("bare")]]
    assert session.extra is not None
    assert [record["id"] for record in session.extra["records"]] == ["m-n3"]
    assert found == {"empty-message": 2, "record-aside": 1}


def test_a_call_keeps_its_images_and_files() -> None:
    pointer = picture("file-service://file-XyZ")
    more = {"recipient": "t", "metadata": {"attachments": [{"id": "file-A", "name": "a.txt"}]}}
    session, found = one(
        [chain(("user", "q"), ("assistant", pointer, more))], {"file-XyZ.png": PNG}
    )
    (step,) = session.turns[0].steps
    assert [(made.name, made.arguments) for made in step.tool_calls] == [("t", "look")]
    _, image, file = step.content
    assert isinstance(image, Image)
    assert isinstance(file, Text)
    assert file.text == "[file: a.txt]"
    assert found == {"attachment-aside": 1, "tool-result-missing": 1}


ENTITY = '\ue200entity\ue202["city","Paris"]\ue201'
LINK = "\ue200link_title\ue202Wiki\ue202turn0search0\ue201"


def cited(text: str, **metadata: Any) -> tuple[str, list[Any], dict[str, int]]:
    session, found = one(chain(("user", "q"), ("assistant", text, {"metadata": metadata})))
    (block,) = session.turns[0].steps[0].content
    assert isinstance(block, Text)
    assert block.extra is not None
    return block.text, block.extra["citations"], found


def test_citation_marks_give_way_to_what_their_references_show() -> None:
    text = f"It is {ENTITY}, see {LINK} and {LINK}. Old 【12†L1】, 【注】, {ENTITY[:-1]}."
    references = [
        {"matched_text": ENTITY, "start_idx": 6, "alt": "Paris"},
        {"matched_text": LINK, "start_idx": 1, "alt": "[Wiki](https://w.example)"},
        {"matched_text": " ", "start_idx": 2, "alt": "never"},
        {"matched_text": "x【", "alt": "never"},
        {"matched_text": 5},
        "odd",
    ]
    shown, kept, found = cited(text, content_references=references)
    link = "[Wiki](https://w.example)"
    assert shown == f"It is Paris, see {link} and {link}. Old 【12†L1】, 【注】, {ENTITY[:-1]}."
    assert kept == references
    assert found == {"citation-aside": 6}


def test_one_mark_named_twice_is_told_apart_by_place() -> None:
    mark = "\ue200cite\ue202turn0\ue201"
    references = [
        {"matched_text": mark, "start_idx": 2, "alt": "(one)"},
        {"matched_text": mark, "start_idx": 3 + len(mark), "alt": "(two)"},
        {"matched_text": "【1†a】【2†b】", "start_idx": 4 + 2 * len(mark), "alt": None},
        {"matched_text": "【1†a】", "start_idx": 4 + 2 * len(mark), "alt": "inside"},
    ]
    shown, _, _ = cited(f"a {mark} {mark} 【2†b】【1†a】.", content_references=references[:2])
    assert shown == "a (one) (two) 【2†b】【1†a】."
    shown, _, _ = cited(f"a {mark} {mark} 【1†a】【2†b】.", content_references=references[:3])
    assert shown == "a (one) (two) ."


def test_citations_without_references_leave_the_text() -> None:
    text = "Fact \ue200cite\ue202turn0\ue201 and 【3†source】."
    assert cited(text, citations=[{"start_ix": 1}])[:2] == (text, [{"start_ix": 1}])
    both = cited(text, citations=[{"start_ix": 1}], content_references=[{"type": "hidden"}])
    assert both[:2] == (text, [{"type": "hidden"}, {"start_ix": 1}])


def test_citations_of_a_message_without_text_stay_with_its_first_block() -> None:
    pointed = picture("file-service://file-XyZ")
    pointed["parts"].pop()
    session, found = one(
        [chain(("user", pointed, {"metadata": {"citations": [{"a": 1}]}}))], {"file-XyZ.png": PNG}
    )
    assert session.turns[0].prompt_blocks is not None
    (block,) = session.turns[0].prompt_blocks
    assert isinstance(block, Image)
    assert block.extra == {"citations": [{"a": 1}]}
    assert found == {"citation-aside": 1}


def test_many_marks_and_references_take_linear_time() -> None:
    mark = "\ue200cite\ue202turn0\ue201"
    references = [
        {"matched_text": mark * (n % 3 + 1), "start_idx": n, "alt": "."} for n in range(50_000)
    ]
    shown, _, _ = cited(mark * 50_000 + "【" * 50_000, content_references=references)
    assert "\ue200" not in shown


def picture(pointer: str) -> dict[str, Any]:
    part = {"content_type": "image_asset_pointer", "asset_pointer": pointer}
    return {"content_type": "multimodal_text", "parts": [part, "look"]}


@pytest.mark.parametrize(
    ("pointer", "file"),
    [
        ("sediment://file_00ab", "file_00ab-sanitized.png"),
        ("file-service://file-XyZ", "file-XyZ.png"),
        ("file-service://file-XyZ", "dalle-generations/file-XyZ-1234.webp"),
        ("sediment://file_00ab", "user-1/file-00ab_2.png"),
    ],
)
def test_images_of_the_export(pointer: str, file: str) -> None:
    session, found = one([chain(("user", picture(pointer)))], {file: PNG})
    blocks = session.turns[0].prompt_blocks
    name = file.rpartition("/")[2]
    image = Image(base64.b64encode(PNG).decode(), "image/png", name)
    assert blocks == [image, Text("look")]
    assert found == {}


def test_images_that_the_export_lacks() -> None:
    around = {"file-Xy.png": PNG, "file-XyZZ.png": PNG}
    session, found = one([chain(("user", picture("file-service://file-XyZ")))], around)
    assert session.turns[0].prompt_blocks == [
        Text("[image]", {"image": {"id": "file-service://file-XyZ"}}),
        Text("look"),
    ]
    assert found == {"attachment-skipped": 1}


def test_attachments_have_their_bytes_where_the_export_has_them() -> None:
    entries = [
        {"id": "file-One", "name": "one.txt", "mime_type": "text/plain", "size": 3},
        {"id": "file-Two", "name": "../two.pdf", "mime_type": "application/pdf", "size": 9},
        {"id": "file_00ab", "name": "seen.png"},
        7,
    ]
    value = chain(("user", picture("sediment://file_00ab"), {"metadata": {"attachments": entries}}))
    around = {"file-One-one.txt": b"abc", "file_00ab.dat": PNG}
    session, found = one([value], around)
    assert session.turns[0].prompt_blocks is not None
    image, _, first, second = session.turns[0].prompt_blocks
    assert isinstance(image, Image)
    assert image.name == "seen.png"
    assert isinstance(first, Text)
    assert first.text == "[file: one.txt (text/plain, 3 bytes)]"
    assert first.extra is not None
    (entry,) = first.extra["attachments"]
    assert (entry["data"], entry["size"], entry["id"]) == ("YWJj", 3, "file-One")
    assert "blake3" in entry
    assert second == Text(
        "[file: two.pdf (application/pdf, 9 bytes)]",
        {
            "attachments": [
                {
                    "kind": "file",
                    "name": "../two.pdf",
                    "type": "application/pdf",
                    "id": "file-Two",
                    "size": 9,
                }
            ]
        },
    )
    assert found == {"attachment-aside": 2, "malformed-block": 1}


def test_times() -> None:
    session, found = one(
        chain(
            ("user", "q", {"create_time": 1700000000.1234}),
            ("assistant", "a", {"create_time": None}),
            ("user", "r", {"create_time": "2026-01-01T00:00:00"}),
            ("user", "s", {"create_time": 1e30}),
            ("user", "t", {"create_time": 1700000000123}),
        )
    )
    assert [turn.time for turn in session.turns] == [
        1700000000123,
        1767225600000,
        None,
        1700000000123,
    ]
    assert session.turns[0].steps[0].time is None
    assert found == {"tz-assumed": 1, "timestamp-invalid": 1}
