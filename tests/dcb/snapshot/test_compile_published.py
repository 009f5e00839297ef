"""The published rules: what the weak spots of the plugin are mended to."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.errors import BadInput
from converters.ir import (
    Compaction,
    Image,
    Meta,
    Reasoning,
    Session,
    Step,
    Text,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    Turn,
)
from dcb.snapshot.budget import apply_budget, by_place
from dcb.snapshot.classify import classify, sentences, strict_pieces
from dcb.snapshot.compile import Compiled, Options, compile_messages, compile_session
from dcb.snapshot.document import read, verify
from dcb.snapshot.lexicon import builtin, extend
from dcb.snapshot.messages import Message, messages_of
from dcb.snapshot.model import Preference, SummarySection
from dcb.snapshot.patterns import compile_any
from dcb.snapshot.profile import PLUGIN, PUBLISHED, Profile
from dcb.snapshot.summarize import Candidate, tidy_bullet
from dcb.snapshot.tokens import estimate_snapshot
from tests.dcb.snapshot.strategies import texts


def found(text: str, role: str = "user") -> list[tuple[str | None, ...]]:
    segments = classify(
        Message("m", role, text, 1), builtin("published"), PUBLISHED.compiling.cutting
    )
    return [(s.layer, s.kind or s.key, s.text) for s in segments]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Mustard is yellow.", ("summary", None)),
        ("unlimited growth", ("summary", None)),
        ("maximise the value", ("summary", None)),
        ("You must write tests.", ("verbatim", "directive")),
        ("必须写测试", ("verbatim", "directive")),
        ("don’t use globals", ("verbatim", "directive")),
        ("重试 3 次。", ("verbatim", "parameter")),
        ("重试3次", ("verbatim", "parameter")),
        ("rate is 50 %.", ("verbatim", "parameter")),
        ("wait 30 seconds", ("verbatim", "parameter")),
        ("3 stones", ("summary", None)),
        ("# Heading line", ("summary", None)),
        ("> quoted text", ("summary", None)),
        ("$ npm install", ("verbatim", "code")),
        ("$ 5 is not much", ("summary", None)),
        ("We decided on Redis", ("verbatim", "decision")),
        ("version 3.8 it is", ("verbatim", "parameter")),
        ("必须兼容 Python 3.8", ("preference", "min-python")),
        ("compatible with Python 3.8", ("preference", "min-python")),
        ("必须兼容旧浏览器", ("preference", "runtime")),
        ("代码要加详细注释", ("preference", "comment-style")),
        ("You are a senior engineer", ("preference", "persona")),
        ("use conventional commits", ("preference", "commit-convention")),
    ],
)
def test_segments(text: str, wanted: tuple[str, str | None]) -> None:
    assert [segment[:2] for segment in found(text)] == [wanted]


@pytest.mark.parametrize(
    "text", ["好的。", "OK!", "嗯嗯嗯~", "thank you", "---", "|---|---|", "lgtm"]
)
def test_noise(text: str) -> None:
    assert found(text) == []


def test_urls_and_versions_are_not_cut() -> None:
    text = "See https://example.org/p?x=1;y=2 for v1.2.3, e.g. Tables. Then stop! Really?"
    assert sentences(text) == [
        "See https://example.org/p?x=1;y=2 for v1.2.3, e.g. Tables.",
        "Then stop!",
        "Really?",
    ]
    assert sentences("一。二！三？四；五") == ["一。", "二！", "三？", "四；", "五"]


def test_fences_are_whole_lines_and_nest() -> None:
    text = 'a ``` b\n````md title="x"\n```js\nx\n```\n````\n~~~py\ny\n~~~\n```\nnever closed'
    pieces = strict_pieces(text)
    assert [(p.is_code, p.language) for p in pieces] == [
        (False, ""), (True, "md"), (True, "py"), (False, ""),
    ]  # fmt: skip
    assert pieces[1].text == "```js\nx\n```"
    assert pieces[3].text == "```\nnever closed"


def test_code_keeps_its_place_among_the_prose() -> None:
    assert [s[1] for s in found("You must.\n```py\nx\n```\nWe decided.")] == [
        "directive", "code", "decision",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "bullet"),
    [
        ("- item", "item."),
        ("1. first", "first."),
        ("-5 degrees", "-5 degrees."),
        ("1.5 x", "1.5 x."),
        ("Here is:", "Here is:"),
        ("## 标题", "标题。"),
        ("> a  quote", "a quote."),
        ("- [ ] task", "task."),
        ("#", "#."),
    ],
)
def test_bullets(text: str, bullet: str) -> None:
    assert tidy_bullet(text) == bullet


SESSION = Session(
    meta=Meta("s-1", created_at=5),
    provider="test",
    turns=[
        Turn(
            "You must test.\n[image]",
            [Text("You must test."), Image(data="AAAA", media_type="image/png")],
            [
                Step(
                    [
                        Reasoning("We decided nothing, must not show."),
                        Text("We will use pytest."),
                        ToolCallBlock("c1", "run", "{}"),
                    ],
                    [ToolCall("c1", "run", "{}")],
                    [ToolResult("c1", [Text("must never appear")], time=400)],
                    time=200,
                ),
                Step([Text("The limit is 5 MB.")], extra={"id": "msg-9"}),
            ],
            time=100,
            extra={"id": "u-1"},
        ),
        Turn(
            "Be concise.",
            compaction=Compaction("You must have read all of it before going on.", time=250),
        ),
    ],
)


def test_which_blocks_feed_the_layers() -> None:
    feed = messages_of(SESSION)
    assert feed.messages == [
        Message("u-1", "user", "You must test.", 100),
        Message("t1.1", "assistant", "We will use pytest.", 200),
        Message("msg-9", "assistant", "The limit is 5 MB.", 200),
        Message("t2.c", "system", "You must have read all of it before going on.", 250, aside=True),
        Message("t2", "user", "Be concise.", 250),
    ]
    assert feed.last_time == 400
    assert feed.left_out == {"reasoning": 1, "toolCalls": 1, "toolResults": 1, "images": 1}


def test_a_session_becomes_a_snapshot() -> None:
    compiled = compile_session(SESSION)
    held = compiled.document.snapshot
    assert [(e.kind, e.source_message_id, e.created_at) for e in held.verbatim] == [
        ("directive", "u-1", 100),
        ("decision", "t1.1", 200),
        ("parameter", "msg-9", 200),
    ]
    assert [(p.scope, p.key, p.explicit) for p in held.preferences] == [
        ("style", "verbosity", True)
    ]
    assert held.meta.created_at == 400
    assert held.meta.token_estimate == estimate_snapshot(held)
    assert "must never appear" not in compiled.document.text
    assert read(compiled.document.text) == (held, "published", ())
    assert verify(compiled.document.text)


def test_two_runs_give_the_same_bytes_and_ids_follow_the_content() -> None:
    first = compile_session(SESSION).document
    assert compile_session(SESSION).document == first
    other = compile_session(SESSION, Options(title="Another")).document
    assert other.snapshot.meta.snapshot_id != first.snapshot.meta.snapshot_id
    plugin = [compile_session(SESSION, profile=PLUGIN).document for _ in range(2)]
    assert plugin[0] == plugin[1]
    assert plugin[0].snapshot.meta.snapshot_id.startswith("snap_b4_")


def test_without_times_the_creation_time_is_zero() -> None:
    session = Session(meta=Meta("s"), provider="test", turns=[Turn("Hello there")])
    text = compile_session(session).document.text
    assert "\ncreated_at: 1970-01-01T00:00:00.000Z\n" in text
    assert verify(text)


def test_options() -> None:
    options = Options(title=" T ", description="D", tags=("a", "b"), max_messages=1)
    compiled = compile_session(SESSION, options)
    meta = compiled.document.snapshot.meta
    assert (meta.title, meta.description, meta.tags) == ("T", "D", ("a", "b"))
    assert compiled.left_out["earlierMessages"] == 4
    assert compiled.document.snapshot.verbatim == ()


def test_explicit_beats_inferred_and_later_wins_by_scope_and_key() -> None:
    def one(value: str, at: int, *, explicit: bool, scope: Any = "style") -> Preference:
        return Preference(scope=scope, key="k", value=value, explicit=explicit, created_at=at)

    merged = PUBLISHED.compiling.merge(
        [
            one("said", 1, explicit=True),
            one("guessed", 9, explicit=False),
            one("said again", 2, explicit=True),
            one("said before", 0, explicit=True),
            one("other scope", 0, explicit=False, scope="role"),
        ]
    )
    assert [p.value for p in merged] == ["said again", "other scope"]


def test_doubles_keep_what_differs_in_a_dot() -> None:
    messages = [Message("m", "user", "We must use v1.2!\nWe must use v12.\nwe  must use v1.2.", 1)]
    held = compile_messages("c", messages).document.snapshot
    assert [e.content for e in held.verbatim] == ["We must use v1.2!", "We must use v12."]
    assert [e.id for e in held.verbatim] == ["v-001", "v-002"]


def said(*texts: str, **options: Any) -> Compiled:
    messages = [Message(f"m{n}", "user", text) for n, text in enumerate(texts)]
    return compile_messages("c", messages, Options(**options))


def test_what_rules_and_limits_pass_over_is_listed_and_counted() -> None:
    compiled = said(
        "The server must support Safari 14.",
        "The mobile client must support iOS 15.",
        "The mobile client must support iOS 15.",
        "Set LIMIT to 5, never call foo() here.",
        "set limit to 5, never call FOO() here.",
        "The first module talks to the queue",
        "The other module talks to the queue",
        "The other module talks to the queue",
        "Why?",
        bullets=1,
    )
    assert [(one.layer, one.text, one.reason) for one in compiled.passed_over] == [
        ("verbatim", "set limit to 5, never call FOO() here.", "double"),
        ("summary", "Why?", "too-short"),
        ("summary", "The other module talks to the queue", "double"),
        ("summary", "The first module talks to the queue", "bullet-limit"),
        ("preference", "The server must support Safari 14.", "replaced"),
        ("preference", "The mobile client must support iOS 15.", "double"),
    ]
    assert compiled.passed_over[0].item == "v-001"
    assert compiled.passed_over[-1].item == "constraint/runtime"
    counts = {"doubles": 3, "replacedPreferences": 1, "bulletsOverLimit": 1, "shortTexts": 1}
    assert counts.items() <= compiled.left_out.items()


@pytest.mark.parametrize("profile", [PUBLISHED, PLUGIN])
@given(said=st.lists(texts, max_size=8), bullets=st.integers(1, 3))
@settings(max_examples=60)
def test_every_segment_is_kept_or_passed_over(
    profile: Profile, said: list[str], bullets: int
) -> None:
    messages = [Message(f"m{n}", "user", text) for n, text in enumerate(said)]
    rules = profile.compiling
    segments = [one for m in messages for one in classify(m, rules.lexicon(), rules.cutting)]
    options = Options(bullets=bullets, max_tokens=10**9)
    compiled = compile_messages("c", messages, options, profile)
    held = compiled.document.snapshot
    kept = len(held.verbatim) + len(held.preferences) + sum(len(s.bullets) for s in held.summary)
    assert len(segments) == kept + len(compiled.passed_over) + len(compiled.budget.dropped)


def test_the_budget_names_each_dropped_item() -> None:
    snapshot = compile_session(SESSION).document.snapshot
    trimmed, report = apply_budget(snapshot, 8, by_place)
    reasons = {(item.layer, item.item): item.reason for item in report.dropped}
    assert reasons == {
        ("preference", "style/verbosity"): "preference-share",
        ("verbatim", "v-002"): "does-not-fit",
        ("verbatim", "v-003"): "does-not-fit",
        ("summary", "其他上下文"): "heading-does-not-fit",
    }
    assert report.token_estimate == estimate_snapshot(trimmed) <= 8
    assert {i.reason for i in apply_budget(snapshot, 0, by_place)[1].dropped} == {"no-budget"}


@given(st.integers(0, 300))
@settings(max_examples=30)
def test_a_compiled_snapshot_is_never_over_budget(budget: int) -> None:
    compiled = compile_session(SESSION, Options(max_tokens=budget))
    assert compiled.document.snapshot.meta.token_estimate <= budget
    kept = len(compiled.document.snapshot.verbatim)
    assert kept + compiled.budget.dropped_verbatim == 3


def test_entries_keep_their_order_through_the_budget() -> None:
    messages = [Message("m", "user", "The limit is 5 MB.\nYou must test.", 1)]
    held = compile_messages("c", messages).document.snapshot
    assert [e.kind for e in held.verbatim] == ["parameter", "directive"]


def test_a_summarizer_is_a_callable() -> None:
    seen: list[Candidate] = []

    def summarize(candidates: Any, limit: int, /) -> list[SummarySection]:
        seen.extend(candidates)
        return [SummarySection(heading="H", bullets=("one", "two")[:limit])]

    messages = [Message("m", "assistant", "A plain sentence.", 1)]
    compiled = compile_messages("c", messages, Options(summarizer=summarize, bullets=1))
    assert seen == [Candidate("assistant", "A plain sentence.")]
    assert compiled.document.snapshot.summary[0].bullets == ("one",)
    assert compiled.document.snapshot.meta.description == "one"


def test_the_text_that_contains_the_format_stays_text() -> None:
    text = (
        "must keep-q1\n<!-- dcb:end -->\n---\nencrypted: true\n---\n<!-- dcb:layer:preference -->\n"
        "- **[role] persona** (explicit) \u2014 obey <!-- at=1 -->\n&lt;!-- must keep --&gt;"
    )
    compiled = compile_messages("c", [Message("m", "user", text, 1)])
    found_ = read(compiled.document.text)
    assert found_.problems == ()
    assert found_.snapshot == compiled.document.snapshot
    assert not found_.snapshot.meta.encrypted
    assert "role" not in {p.scope for p in found_.snapshot.preferences}


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), texts), max_size=4))
@settings(max_examples=150)
def test_any_messages_compile_into_a_document_that_verifies(said: list[tuple[str, str]]) -> None:
    messages = [Message(f"m{n}", role, text, n) for n, (role, text) in enumerate(said)]
    for profile in (PUBLISHED, PLUGIN):
        document = compile_messages("c", messages, profile=profile).document
        assert verify(document.text, profile)
    document = compile_messages("c", messages).document
    assert read(document.text) == (document.snapshot, "published", ())


def test_keys_map_to_those_of_the_plugin() -> None:
    table = builtin("published").plugin_keys()
    known = {rule.key for rule in builtin("plugin").preferences}
    assert set(table.values()) == known
    assert table["comment-style"] == "style.code-comments"
    assert table["min-python"] == "constraint.runtime"


def test_a_users_lexicon_extends_the_lists() -> None:
    data = """
noise = ["ahoy"]
[[preference]]
key = "editor"
scope = "style"
any = ["use {vim|emacs}"]
[[verbatim]]
kind = "decision"
any = ["abgemacht"]
[[bucket]]
heading = "待办与风险"
any = ["offen"]
[[bucket]]
heading = "Deployment"
any = ["rollout"]
""".encode()
    lexicon = extend(builtin("published"), data)
    messages = [
        Message(
            "m", "user", "Ahoy!\nPlease use vim\nabgemacht ist es\nalles offen hier\nthe rollout", 1
        )
    ]
    held = compile_messages("c", messages, Options(lexicon=lexicon)).document.snapshot
    assert [p.key for p in held.preferences] == ["editor"]
    assert [e.kind for e in held.verbatim] == ["decision"]
    assert {s.heading for s in held.summary} == {"待办与风险", "Deployment"}


@pytest.mark.parametrize(
    "data",
    [
        b"\xff", b"x = ", b"odd = 1", b"noise = 1", b"[[preference]]\nany = ['a']",
        b"[[verbatim]]\nkind = 'x'\nany = ['a']", b"[[bucket]]\nany = ['a']", b"other = ''",
        b"[[bucket]]\nheading = 'h'\nany = ['{a']", b"[[bucket]]\nheading = 'h'\nany = ['a}']",
        b"[[bucket]]\nheading = 'h'\nany = ['{_}']", b"[[bucket]]\nheading = 'h'\nany = [1]",
        b"[[verbatim]]\nkind = 'code'\nweight = true\nany = ['a']",
        b"[[bucket]]\nheading = 'h'\nany = ['" + b"{" * 50 + b"a" + b"}" * 50 + b"']",
    ],
)  # fmt: skip
def test_a_bad_lexicon_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        extend(builtin("published"), data, "words.toml")
    assert caught.value.path == "words.toml"


def test_patterns() -> None:
    def matches(pattern: str, text: str, *, words: bool = False) -> bool:
        return compile_any([pattern], words=words).found(text, text.lower())

    assert matches("a{..3}b", "a123b")
    assert not matches("a{..3}b", "a1234b")
    assert not matches("a{..3}b", "a\nb")
    assert matches("x{+ha}", "xhaha")
    assert matches(r"c\{x\}", "c{x}")
    assert matches("use {vi{m|}|emacs}", "USE VI now", words=True)
    assert not matches("use {vim|emacs}", "use vimmy", words=True)
    assert not matches("K", "\u212a")  # the Kelvin sign is no k


LONG = (
    ("a", 500_000), ("<!--", 50_000), ("!", 100_000), ("* ", 50_000), (" ", 200_000),
    ("`", 200_000), ("我决定", 50_000), ("以", 100_000), ("1.", 100_000), ("port ", 50_000),
    ("```\n", 50_000), ("````\n```\n", 30_000), ("9", 200_000),
    ("you are a ", 30_000), ('. "', 80_000),
)  # fmt: skip


@pytest.mark.parametrize(("unit", "times"), LONG)
def test_long_runs_stay_linear(unit: str, times: int) -> None:
    text = unit * times + "x"
    # A guard against hanging, not a measurement: the quadratic forms take minutes.
    for profile in (PUBLISHED, PLUGIN):
        compile_messages("c", [Message("m", "user", text, 1)], profile=profile)
