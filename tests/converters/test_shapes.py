"""The message shapes on their own: blocks, usage, pairing, the writer's account."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.ir import Image, Meta, Reasoning, Session, Text, ToolCallBlock, Usage
from converters.ledger import Ledger
from converters.shapes import anthropic, cells, gemini, openai_chat, openai_responses
from converters.shapes.account import Account
from converters.shapes.attachments import file_block, file_entry, image_or_file
from converters.shapes.pairing import Answer, Pairing
from converters.shapes.rows import mint_id

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "source",
                    "data",
                    "url",
                    "image_url",
                    "id",
                    "name",
                    "input",
                    "content",
                    "inlineData",
                    "functionCall",
                    "functionResponse",
                    "response",
                    "thinking",
                    "file",
                ]
            ),
            inner
            | st.sampled_from(
                ["text", "image", "tool_use", "tool_result", "document", "image_url", "input_file"]
            ),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_blocks_take_any_json(value: Any) -> None:
    for module in (openai_chat, anthropic, gemini, openai_responses):
        for block in module.blocks(value, Ledger(), "x"):
            assert isinstance(block, Text | Reasoning | Image | ToolCallBlock)
        module.usage(value)


def test_a_string_is_one_text_block_everywhere() -> None:
    for module in (openai_chat, anthropic, gemini, openai_responses):
        assert module.blocks("hello", Ledger(), 1) == [Text("hello")]
        assert module.blocks(None, Ledger(), 1) == []


@pytest.mark.parametrize(
    ("read", "raw", "expected"),
    [
        (
            openai_chat.usage,
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(6, 5, 4, None, 3),
        ),
        (
            openai_chat.usage,
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 8},
            Usage(2, 5, 8),
        ),
        (
            anthropic.usage,
            {
                "input_tokens": 1,
                "output_tokens": 2,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 4,
            },
            Usage(1, 2, 3, 4),
        ),
        (
            gemini.usage,
            {
                "promptTokenCount": 10,
                "cachedContentTokenCount": 4,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 7,
                "toolUsePromptTokenCount": 2,
            },
            Usage(8, 12, 4, None, 7),
        ),
        (
            openai_responses.usage,
            {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 10},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 0},
            },
            Usage(0, 5, 10, None, 0),
        ),
    ],
)
def test_usage_in_exclusive_buckets(read: Any, raw: dict[str, Any], expected: Usage) -> None:
    assert read(raw) == expected


@pytest.mark.parametrize("raw", [None, [], {}, {"prompt_tokens": -1, "completion_tokens": 1}, 5])
def test_bad_counts_give_no_usage(raw: Any) -> None:
    for module in (openai_chat, anthropic, gemini, openai_responses):
        assert module.usage(raw) is None


COUNT = st.integers(0, 10**9)


@given(st.builds(Usage, COUNT, COUNT, st.none() | COUNT, st.none() | COUNT, st.none() | COUNT))
def test_usage_goes_there_and_back(usage: Usage) -> None:
    for module in (openai_chat, openai_responses):
        assert module.usage(module.usage_object(usage)) == usage
    back = anthropic.usage(anthropic.usage_object(usage))
    assert back is not None
    usage.reasoning_tokens = None
    assert back == usage


def test_arguments_that_are_no_object_are_wrapped() -> None:
    assert anthropic.input_of('{"a": 1}') == {"a": 1}
    assert anthropic.input_of("plain") == {"arguments": "plain"}
    assert anthropic.input_of("[1]") == {"arguments": [1]}
    # Past 64 bits, exact.
    assert anthropic.input_of('{"n": 36893488147419103233}') == {"n": 36893488147419103233}


def test_thinking_keeps_its_signature() -> None:
    part = {"type": "thinking", "thinking": "t", "signature": "s"}
    (block,) = anthropic.blocks([part], Ledger(), "x")
    assert block == Reasoning("t", {"signature": "s"})
    assert isinstance(block, Reasoning)
    account = Account(Ledger(), Session(meta=Meta("s"), provider="other"))
    assert anthropic.thinking(block, account) == part


def test_images_files_and_addresses() -> None:
    ledger = Ledger()
    assert image_or_file(ledger, 1, url=f"data:image/png;base64,{PNG}") == Image(PNG, "image/png")
    address = image_or_file(ledger, 1, url="https://example.org/a.png")
    assert address == Text("[image]", {"image": {"url": "https://example.org/a.png"}})
    assert ledger.count("attachment-skipped") == 1
    file = file_block(ledger, 1, name="dir/a.txt", media="text/plain", data="aGk=")
    assert file.text == "[file: a.txt (text/plain, 2 bytes)]"
    entry = file_entry(file)
    assert entry is not None
    assert entry["size"] == 2
    assert entry["data"] == "aGk="
    broken = file_block(ledger, 1, data="not base64!")
    assert broken.text == "[file: file]"
    assert (file_entry(broken) or {})["data"] == "not base64!"
    assert ledger.count("attachment-aside") == 2


class TestPairing:
    def test_by_id(self) -> None:
        pairing = Pairing(Ledger())
        assert pairing.call("a", "f") == "a"
        assert pairing.answer("a") == Answer("a")
        assert pairing.answer("a") == Answer(None, "duplicate-tool-result")
        assert pairing.answer("b") == Answer(None, "orphan-tool-result")

    def test_without_id_by_name_then_by_age(self) -> None:
        ledger = Ledger()
        pairing = Pairing(ledger)
        first, second, third = (pairing.call(None, name) for name in ("f", "g", "f"))
        assert len({first, second, third}) == 3
        assert pairing.answer(None, "g").call_id == second
        assert pairing.answer(None).call_id == first
        assert pairing.answer("", "f").call_id == third
        assert pairing.answer(None) == Answer(None, "orphan-tool-result")
        assert ledger.count("id-minted") == 3

    def test_an_id_used_again_names_the_newest_call(self) -> None:
        pairing = Pairing(Ledger())
        assert pairing.call("a", "f") == "a"
        assert pairing.take("a")
        again = pairing.call("a", "f")
        assert again != "a"
        assert not pairing.take("a")
        assert pairing.answer("a").call_id == again
        third = pairing.call("a", "f")
        assert third not in ("a", again)
        assert pairing.answer("a").call_id == third

    def test_a_result_before_its_call(self) -> None:
        pairing = Pairing(Ledger(), lambda: {"late"})
        assert pairing.answer("late") == Answer("late")
        assert pairing.answer("late") == Answer(None, "duplicate-tool-result")
        assert pairing.call("late", "f") == "late"
        assert pairing.answer(None) == Answer(None, "orphan-tool-result")

    def test_many_results_without_ids_take_linear_time(self) -> None:
        pairing = Pairing(Ledger())
        calls = [pairing.call(f"c{n}", "f" if n % 2 else "g") for n in range(40_000)]
        assert [pairing.answer(None).call_id for _ in calls] == calls

    @given(st.lists(st.tuples(st.booleans(), st.sampled_from([None, "", "a", "b"]))))
    def test_no_call_is_answered_twice(self, events: list[tuple[bool, str | None]]) -> None:
        pairing = Pairing(Ledger())
        made, answered = set(), []
        for is_call, native in events:
            if is_call:
                made.add(pairing.call(native, "f"))
            else:
                found = pairing.answer(native, "f").call_id
                answered += [found] if found is not None else []
        assert len(answered) == len(set(answered))
        assert set(answered) <= made


def test_minted_ids_depend_on_content_and_position() -> None:
    assert mint_id(b"x", 0) == mint_id(memoryview(b"x"), 0)
    assert len({mint_id(b"x", 0), mint_id(b"x", 1), mint_id(b"y", 0)}) == 3
    assert mint_id(b"x", 0)[14] == "5"


def test_an_account_without_items_still_names_losses() -> None:
    ledger = Ledger(itemize=False)
    session = Session(meta=Meta("s", 5, "/w"), provider="p", title="t", model="m")
    account = Account(ledger, session)
    account.fields(session)
    account.close()
    report = ledger.report()
    assert report.balanced
    assert report.items == {}
    assert [entry.rule for entry in report.entries] == [
        "time-dropped",
        "model-dropped",
        "cwd-dropped",
        "title-dropped",
    ]


@pytest.mark.parametrize(
    ("cell", "value", "rules"),
    [
        ('{"a":1}', {"a": 1}, {}),
        (b'{"a":1}', {"a": 1}, {}),
        ("[1]", [1], {}),
        ('{"a":"half \\ud83d end"}', {"a": "half \ufffd end"}, {"lone-surrogate": 1}),
        ('{"a":[1,"b', {"a": [1]}, {"truncated-input": 1}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}, {"encoding-repaired": 1}),
        ("[" * 600 + "]" * 600, None, {}),
        ("not json", None, {}),
        ("", None, {}),
        (5, None, {}),
        (None, None, {}),
    ],
)
def test_cells_are_repaired_with_an_entry(cell: Any, value: Any, rules: dict[str, int]) -> None:
    ledger = Ledger("f")
    assert cells.value_of(cell, ledger, "part.id=1") == value
    assert cells.object_of(cell, Ledger(), "x") == (value if isinstance(value, dict) else None)
    entries = ledger.report().entries
    assert {entry.rule: entry.count for entry in entries} == rules
    assert all(entry.places == ["f:part.id=1"] for entry in entries)
