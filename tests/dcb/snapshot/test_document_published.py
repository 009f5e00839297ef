"""The published profile: what is written reads back, what is read is judged."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from converters.errors import BadInput, DcbError, UnsupportedVersion
from dcb.snapshot.document import (
    body_of,
    decode,
    parse,
    read,
    reseal,
    serialize,
    verdict,
    verify,
    write,
)
from dcb.snapshot.lexing import percent_decode, percent_encode, utf8
from dcb.snapshot.model import Meta, Preference, Snapshot, SummarySection, VerbatimEntry
from dcb.snapshot.profile import PLUGIN, PUBLISHED, profile_of
from dcb.snapshot.tokens import estimate_snapshot
from tests.dcb.snapshot.strategies import snapshots, texts
from tests.dcb.snapshot.vectors import cases, to_snapshot
from tests.paths import VECTORS, needs_shared

SMALL = Snapshot(
    meta=Meta(
        snapshot_id="0b0e9f5c-5f0e-5b0e-8f0e-0b0e9f5c5f0e",
        source_conversation_id="conv 1",
        title="Cache",
        description="How the cache is built.",
        tags=("auth", "a,b"),
        created_at=1772323200000,
        token_estimate=25,
        weight=1.5,
    ),
    verbatim=(
        VerbatimEntry(id="v-001", source_message_id="m1", content="We use Redis.", created_at=5),
        VerbatimEntry(id="v-002", kind="code", language="py", content="x = `1`\n", created_at=6),
    ),
    summary=(SummarySection(heading="Goal", bullets=("A cache that lasts.",)),),
    preferences=(Preference(scope="style", key="verbosity", value="be brief", explicit=True),),
)


@given(snapshots)
@settings(max_examples=400)
def test_what_is_written_reads_back_as_the_writer_says(snapshot: Snapshot) -> None:
    document = write(snapshot)
    found = read(document.text)
    assert found.snapshot == document.snapshot
    assert found.dialect == "published"
    assert found.problems == ()
    assert verify(document.text)
    if not document.changes:
        meta = replace(snapshot.meta, checksum=document.snapshot.meta.checksum)
        assert found.snapshot == replace(snapshot, meta=meta)
    # What the writer holds needs no further change, and gives the same bytes.
    again = write(document.snapshot)
    assert again.text == document.text
    assert again.changes == ()


@pytest.mark.property
@given(snapshots)
@settings(max_examples=1500, deadline=None)
def test_what_is_written_reads_back_larger(snapshot: Snapshot) -> None:
    document = write(snapshot)
    assert read(document.text) == (document.snapshot, "published", ())


@given(snapshots)
@settings(max_examples=100)
def test_the_bytes_hold_the_text(snapshot: Snapshot) -> None:
    text = serialize(snapshot)
    assert decode(text.encode()) == text


@given(texts, texts)
@settings(max_examples=300)
def test_percent_encoding_is_reversible(text: str, unsafe: str) -> None:
    plain = utf8(text).decode()
    wanted = utf8(unsafe).decode().replace("%", "")
    for hexdigit in "0123456789ABCDEF":
        wanted = wanted.replace(hexdigit, "")
    coded = percent_encode(plain, wanted)
    assert percent_decode(coded) == plain
    assert not set(wanted) & set(coded)


@given(st.text() | texts | st.builds("---\n{}\n---\n\n{}".format, texts, texts))
@settings(max_examples=300)
def test_reading_anything_gives_a_snapshot_or_a_clean_error(text: str) -> None:
    for profile in (PUBLISHED, PLUGIN):
        with contextlib.suppress(DcbError):
            read(text, profile)
    verdict(text)


@pytest.mark.parametrize("case", cases("edge_roundtrip"))
def test_edges_survive_or_are_reported(case: Any) -> None:
    snapshot = to_snapshot(case["input"])
    document = write(snapshot)
    held = parse(document.text)
    assert held == document.snapshot
    same = held == replace(
        snapshot, meta=replace(snapshot.meta, checksum=document.snapshot.meta.checksum)
    )
    assert same == (not document.changes)


UNCHANGED = {
    "marker-in-code",
    "marker-in-title",
    "marker-in-heading",
    "marker-in-tag",
    "entry-header-in-code",
    "non-code-starts-with-fence",
    "literal-escape-text",
    "empty-preference-value",
    "preference-key-space",
    "preference-key-stars",
    "tag-only-brackets",
    "language-without-code",
    "year-10000",
    "empty-content",
}


@pytest.mark.parametrize("case", cases("edge_roundtrip"))
def test_what_the_original_loses_is_kept(case: Any) -> None:
    if case.get("name") in UNCHANGED:
        assert write(to_snapshot(case["input"])).changes == ()
    elif case["output"]["differences"] and case["name"] != "nbsp-and-bom-trim":
        assert write(to_snapshot(case["input"])).changes


@pytest.mark.parametrize("case", cases("edge_roundtrip"))
def test_documents_of_the_original_are_read_better_than_by_itself(case: Any) -> None:
    # What the plugin wrote and then loses in reading is still in the document.
    kept = {"marker-in-code", "non-code-starts-with-fence", "marker-in-heading", "crlf-in-code"}
    if case["name"] in kept:
        snapshot = to_snapshot(case["input"])
        found = read(case["output"]["markdown"])
        assert found.dialect == "plugin"
        assert found.snapshot.verbatim == snapshot.verbatim
        assert found.snapshot.summary == snapshot.summary


def test_the_published_header() -> None:
    lines = serialize(SMALL).split("\n")
    assert lines[:2] == ["---", 'dcb_schema: "1.0"']
    assert "tags: [auth, a%2Cb]" in lines
    assert "weight: 1.5" in lines
    assert any(line.startswith("checksum: ") and len(line) == 74 for line in lines)
    assert lines[13].startswith("x_dcb_header_sha256: ")
    light = serialize(replace(SMALL, meta=replace(SMALL.meta, weight=0)))
    assert "\nweight:" not in light


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x07, 0x20, 0x80, 0xFF])
def test_every_changed_byte_is_found(mask: int) -> None:
    good = serialize(SMALL).encode()
    for place in range(len(good)):
        data = bytearray(good)
        data[place] ^= mask
        assert _found(bytes(data)), (place, bytes(data[max(0, place - 20) : place + 20]))


@pytest.mark.property
def test_every_other_byte_in_the_header_is_found() -> None:
    good = serialize(SMALL).encode()
    for place in range(good.index(b"# Cache") + 2):
        for value in range(256):
            data = bytearray(good)
            data[place] = value
            assert bytes(data) == good or _found(bytes(data)), (place, value)


def _found(data: bytes) -> bool:
    try:
        text = decode(data)
        problems = read(text).problems
    except DcbError:
        return True
    return verdict(text) != "exact" or any(note.severity == "error" for note in problems)


def test_line_ends_and_marks_of_a_transfer_are_folded_and_reported() -> None:
    text = serialize(SMALL)
    crlf = text.replace("\n", "\r\n")
    assert verdict(crlf) == "folded"
    assert not verify(crlf)
    assert [p.code for p in read(crlf).problems] == ["crlf"]
    assert parse(crlf) == parse(text)
    marked = "\ufeff" + text
    assert [p.code for p in read(marked).problems] == ["bom"]
    assert parse(marked) == parse(text)
    with pytest.raises(BadInput):
        parse(marked, PLUGIN)


def test_an_old_document_says_so() -> None:
    text = serialize(SMALL, PLUGIN).replace("weight: 1.5\n", "")
    found = read(text)
    assert found.dialect == "plugin-0.1.0"
    assert found.snapshot.meta.weight == 0
    assert verify(text)


def test_both_dialects_read_alike() -> None:
    plain = replace(SMALL, meta=replace(SMALL.meta, tags=("auth",)))
    one, two = read(serialize(plain)), read(serialize(plain, PLUGIN))
    assert (one.dialect, two.dialect) == ("published", "plugin")
    checksum = one.snapshot.meta.checksum
    assert f"sha256:{checksum}" == two.snapshot.meta.checksum
    assert one.snapshot == replace(
        two.snapshot, meta=replace(two.snapshot.meta, checksum=checksum, schema_version="1.0")
    )


def test_other_schema_versions_are_refused() -> None:
    text = serialize(SMALL)
    with pytest.raises(UnsupportedVersion, match=r"9\.9"):
        read(text.replace('"1.0"', '"9.9"'))
    assert "schema-version" in {p.code for p in read(text.replace('"1.0"', '"1.7"')).problems}
    with pytest.raises(UnsupportedVersion):
        write(replace(SMALL, meta=replace(SMALL.meta, schema_version="2.0")))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("2026-03-01T00:00:00.000Z", "yesterday", "header-value"),
        ("token_estimate: 25", "token_estimate: many", "header-value"),
        ("token_estimate: 25", "token_estimate: " + "9" * 5000, "header-value"),
        ("weight: 1.5", "weight: heavy", "header-value"),
        ("encrypted: false", "encrypted: maybe", "header-value"),
        ("[auth, a%2Cb]", "auth", "header-value"),
        ("[verbatim, summary, preference]", "[summary]", "header-value"),
        ("title: Cache\n", "", "header-line"),
        ("title: Cache\n", "title: Cache\ntitle: Cache\n", "header-line"),
        ("title: Cache\n", "title: Cache\nwhat\n", "header-line"),
        ("title: Cache\n", "title: Cache\nmood: good\n", "header-unknown"),
        ("x_dcb_header", "x_dbc_header", "header-digest"),
        ("\n---\n\n#", "\n---  \n\n#", "header-digest"),
        ("at=5", "at=soon", "entry-value"),
        ("at=0 -->", "at=99999999999999999999 -->", "entry-value"),
        ("<!-- dcb:end -->\n", "", "end-missing"),
        ("<!-- dcb:end -->\n", "<!-- dcb:end -->\nmore\n", "text-after-end"),
        ("\n```\n\n<!-- dcb:layer:s", "\n``\n\n<!-- dcb:layer:s", "fence-open"),
        ("\n- A cache that lasts.", "\nA cache that lasts.", "section-empty"),
        ("### Goal\n", "no heading\n\n### Goal\n", "stray-text"),
        ("**[style]", "**[mood]", "stray-text"),
    ],
)
def test_what_is_odd_is_named(old: str, new: str, code: str) -> None:
    text = serialize(SMALL)
    assert old in text
    assert code in {problem.code for problem in read(text.replace(old, new, 1)).problems}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<!-- dcb:layer:summary -->", ""),
        ("<!-- dcb:layer:summary -->", "<!-- dcb:layer:summary --> "[:-4]),
        ("<!-- dcb:layer:summary -->", "x <!-- dcb:layer:summary -->"),
        ("<!-- dcb:layer:summary -->", "<!-- dcb:layer:verbatim -->\n<!-- dcb:layer:summary -->"),
        ("<!-- dcb:layer:verbatim -->", "<!-- dcb:layer:summary -->"),
        ("---\n", ""),
        ("\n---\n", "\n"),
    ],
)
def test_what_cannot_be_read_is_refused(old: str, new: str) -> None:
    with pytest.raises(BadInput):
        read(serialize(SMALL).replace(old, new, 1))


def test_nothing_after_the_end_is_read() -> None:
    extra = "<!-- dcb:layer:preference -->\n- **[role] persona** (explicit) \u2014 smuggled\n"
    found = read(serialize(SMALL) + extra)
    assert len(found.snapshot.preferences) == 1
    assert "text-after-end" in {problem.code for problem in found.problems}


def test_reseal_keeps_the_edit_and_mends_the_header() -> None:
    edited = serialize(SMALL).replace("We use Redis.", "We use Redis 7.\n\nAnd *only* Redis.")
    edited = edited.replace("title: Cache", "title: The cache")
    assert not verify(edited)
    sealed = reseal("\ufeff" + edited.replace("\n", "\r\n"))
    assert verify(sealed)
    found = read(sealed)
    assert found.problems == ()
    assert found.snapshot.verbatim[0].content == "We use Redis 7.\n\nAnd *only* Redis."
    assert found.snapshot.meta.title == "The cache"
    assert found.snapshot.meta.token_estimate == estimate_snapshot(found.snapshot)
    assert reseal(sealed) == sealed


@pytest.mark.parametrize("profile", [PUBLISHED, PLUGIN])
def test_reseal_of_an_untouched_document_changes_nothing(profile: Any) -> None:
    meta = replace(SMALL.meta, token_estimate=estimate_snapshot(SMALL), tags=("a",))
    text = serialize(replace(SMALL, meta=meta), profile)
    assert reseal(text) == text


def test_reseal_adds_what_is_missing() -> None:
    text = serialize(SMALL)
    lines = [line for line in text.split("\n") if not line.startswith(("checksum", "x_dcb"))]
    assert verdict("\n".join(lines)) == "missing"
    sealed = reseal("\n".join(lines))
    assert verify(sealed)
    assert "\nx_dcb_header_sha256: " in sealed


@needs_shared
def test_every_recorded_document_reads_in_the_published_profile() -> None:
    for path in sorted((VECTORS / "dcb" / "snapshots").iterdir()):
        assert read(path.read_bytes().decode()).dialect == "plugin"


def test_profiles_have_names() -> None:
    assert profile_of("plugin") is PLUGIN
    with pytest.raises(DcbError, match="no profile"):
        profile_of("other")


def test_not_utf8_is_said() -> None:
    with pytest.raises(BadInput, match="UTF-8"):
        decode(b"---\n\xff")


def test_a_body_needs_no_header() -> None:
    assert serialize(SMALL).endswith(f"---\n\n{body_of(SMALL)}")


def test_unclosed_fences_stay_linear() -> None:
    entry = "<!-- dcb:entry id=v kind=code -->\n" + "`" * 5 + "{}\ncode\n\n"
    body = "".join(entry.format(n) for n in range(20_000))
    text = serialize(SMALL).replace("<!-- dcb:entry", body + "<!-- dcb:entry", 1)
    assert "fence-open" in {problem.code for problem in read(text).problems}
