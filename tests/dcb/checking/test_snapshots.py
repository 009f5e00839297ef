"""The check of snapshot documents, with the table of the recorded ones."""

from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from dcb.checking import check_snapshot
from dcb.snapshot.document import reseal, serialize, write
from dcb.snapshot.lexing import single_line
from dcb.snapshot.model import Preference, Snapshot, VerbatimEntry
from dcb.snapshot.profile import PLUGIN, PROFILES
from dcb.snapshot.tokens import estimate_snapshot
from tests.dcb.snapshot.strategies import snapshots
from tests.dcb.snapshot.test_document_published import SMALL
from tests.pack import cases, dcb, pack
from tests.paths import VECTORS, needs_shared

FOLDER = VECTORS / "dcb" / "snapshots"

# What `dcb check` says of each recorded document: exit code, codes of the findings. The
# estimates of most are no estimates of their layers; the program never looked at them.
STALE = "token-estimate"
TABLE: dict[str, tuple[int, set[str]]] = {
    "01-empty-layers": (0, set()),
    "02-basic-zh": (0, {STALE}),
    "03-code-backticks": (0, {STALE}),
    "04-html-comment": (0, {STALE}),
    "05-cjk-mixed": (0, {STALE}),
    "06-multiline-scalars": (0, {STALE}),
    "07-hostile-header": (0, {STALE, "not-canonical"}),
    "08-large-fence-and-markers": (
        0,
        {STALE, "not-canonical", "content-loss", "section-empty", "header-value"},
    ),
    "09-entry-attribute-edge": (0, {STALE, "not-canonical", "content-loss"}),
    "10-english": (0, {STALE}),
    "edge-crlf-in-code": (0, {STALE, "content-loss"}),
    "edge-literal-escape-text": (0, {STALE}),
    "edge-marker-in-code": (0, {STALE, "content-loss"}),
    "edge-non-code-starts-with-fence": (0, {STALE, "content-loss"}),
    "edge-title-dashes": (0, {STALE}),
}


@needs_shared
def test_the_table_has_every_document() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TABLE)


@needs_shared
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", TABLE)
def test_recorded_documents(name: str, profile: str) -> None:
    code, codes = TABLE[name]
    problems = check_snapshot((FOLDER / f"{name}.md").read_bytes(), PROFILES[profile])
    assert {problem.code for problem in problems} == codes
    assert code == any(problem.severity == "error" for problem in problems)


@needs_shared
def test_recorded_documents_through_the_command_line() -> None:
    for profile in PROFILES:
        for name, (code, codes) in TABLE.items():
            done = dcb("check", "--profile", profile, str(FOLDER / f"{name}.md"))
            assert done.code == code
            assert all(f": {found}: " in done.out for found in codes)
            assert len(done.out.strip().split("\n")) >= len(codes)


HOSTILE = [
    case for case in cases("markdown") if case["format"] == "dcb-snapshot"
]  # fmt: skip


@needs_shared
@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case["name"])
def test_hostile_documents(case: dict[str, Any]) -> None:
    path = str(pack() / case["name"])
    done = dcb("check", path)
    assert done.code in (0, 1)
    assert "Traceback" not in done.err
    found = "clean-error" if done.code else "ok-with-report"
    assert found in {case["expect"], case.get("also")}, done
    shown = dcb("show", path)
    assert "Traceback" not in shown.err
    if found == "ok-with-report":
        for word in case["survive"]:
            assert word in shown.out
    elif "where" in case and case["where"] != "line 3":  # the values stand in lines 7 to 12
        where = case["where"].replace("line ", f"{path}:").replace("dcb:layer", "layers")
        assert where in done.out
    for word in case.get("never", ()):
        assert word not in shown.out


def good() -> Snapshot:
    meta = replace(SMALL.meta, token_estimate=estimate_snapshot(SMALL), tags=("a",))
    return replace(SMALL, meta=meta)


def codes(text: str, **how: Any) -> set[str]:
    return {problem.code for problem in check_snapshot(text.encode(), **how)}


def test_a_good_document_is_clean() -> None:
    assert check_snapshot(serialize(good()).encode()) == []
    plain = replace(good(), meta=replace(good().meta, tags=("a",)))
    assert check_snapshot(serialize(plain, PLUGIN).encode(), PLUGIN) == []


@given(snapshots)
@settings(max_examples=150)
def test_what_the_writer_writes_has_no_errors_but_its_content(snapshot: Snapshot) -> None:
    problems = check_snapshot(write(snapshot).text.encode())
    allowed = {"duplicate-id", "over-budget", "token-estimate", "content-loss"}
    allowed |= {"kind-unknown", "role-unknown", "duplicate-preference"}
    if snapshot.meta.encrypted or not single_line(snapshot.meta.snapshot_id):
        allowed.add("header-value")
    if not all(entry.id for entry in snapshot.verbatim):
        allowed.add("entry-value")
    assert {problem.code for problem in problems} <= allowed


def test_an_edit_and_a_reseal() -> None:
    text = serialize(good())
    edited = text.replace("We use Redis.", "We use Redis 7.\n")
    assert codes(edited) == {"checksum", "token-estimate"}
    assert codes(reseal(edited)) == {"not-canonical"}
    assert codes(text.replace("title: Cache", "title: Stash")) == {"header-digest"}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("v-002", "v-001", "duplicate-id"),
        ("x_dcb_header_sha256: ", "x_other: ", "header-digest"),
        ('"1.0"', '"2.0"', "schema-version"),
        ('"1.0"', '"1.9"', "schema-version"),
        ("checksum: ", "checksum: x", "checksum"),
        ("<!-- dcb:layer:summary -->", "", "layers"),
        ("---\n", "", "unreadable"),
    ],
)
def test_errors(old: str, new: str, code: str) -> None:
    problems = check_snapshot(serialize(good()).replace(old, new, 1).encode())
    assert ("error", code) in {(problem.severity, problem.code) for problem in problems}


def said(text: str) -> list[tuple[str, str, int]]:
    problems = check_snapshot(text.encode())
    return [(problem.severity, problem.code, problem.line) for problem in problems]


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if part in line)


def test_header_values_that_contradict_or_miss() -> None:
    text = reseal(serialize(good()).replace(good().meta.snapshot_id, ""))
    assert said(text) == [("error", "header-value", 3)]
    text = reseal(serialize(good()).replace("encrypted: false", "encrypted: true"))
    assert said(text) == [("error", "header-value", line_of(text, "encrypted:"))]
    theirs = reseal(serialize(good(), PLUGIN).replace("encrypted: false", "encrypted: true"))
    assert ("warning", "header-value", line_of(theirs, "encrypted:")) in said(theirs)


def test_values_of_entries() -> None:
    text = reseal(serialize(good()).replace("id=v-002", "id="))
    assert said(text) == [("error", "entry-value", line_of(text, "id= "))]
    text = reseal(serialize(good()).replace("kind=decision role=user", "kind=foo role=boss"))
    place = line_of(text, "role=boss")
    assert said(text) == [("warning", "kind-unknown", place), ("warning", "role-unknown", place)]


def test_preferences_of_one_scope_and_key() -> None:
    one = Preference(scope="style", key="a b", value="one", explicit=True)
    said_twice = (one, replace(one, scope="role"), replace(one, value="three"))
    snapshot = replace(good(), preferences=said_twice)
    snapshot = replace(snapshot, meta=replace(snapshot.meta, token_estimate=0))
    text = reseal(serialize(snapshot))
    assert said(text) == [("warning", "duplicate-preference", line_of(text, "three"))]


def test_over_budget() -> None:
    assert codes(serialize(good()), max_tokens=3) == {"over-budget"}
    long = VerbatimEntry(id="v-003", content="字" * 33_000, kind="decision")
    assert "over-budget" in codes(serialize(replace(good(), verbatim=(long,))))


def test_a_missing_digest_and_an_old_version_are_warnings() -> None:
    lines = [line for line in serialize(good()).split("\n") if not line.startswith("x_dcb")]
    problems = check_snapshot("\n".join(lines).encode())
    assert [(p.severity, p.code) for p in problems] == [("warning", "header-digest-missing")]
    light = replace(good(), meta=replace(good().meta, weight=0))
    old = serialize(light, PLUGIN).replace("weight: 0\n", "")
    assert codes(old) == {"old-version"}


def test_the_plugins_reader_wants_its_own_form() -> None:
    text = serialize(good())
    assert "checksum" in codes(text, profile=PLUGIN)
    assert codes("\ufeff" + text) == {"bom"}
    assert codes("\ufeff" + serialize(good(), PLUGIN), profile=PLUGIN) == {"unreadable"}
    crlf = text.replace("\n", "\r\n")
    assert "transfer" in next(
        p.message for p in check_snapshot(crlf.encode()) if p.code == "checksum"
    )


def test_what_the_original_would_misread_is_told() -> None:
    code = VerbatimEntry(id="v-001", kind="code", content="<!-- dcb:layer:summary -->")
    text = VerbatimEntry(id="v-001", content="```\nx\n```\ntail")
    negative = Preference(scope="style", key="k", value="v", explicit=True, created_at=-5)
    for snapshot in (
        replace(good(), verbatim=(code,)),
        replace(good(), preferences=(negative,)),
    ):
        assert "content-loss" in codes(serialize(snapshot))
    assert "content-loss" not in codes(serialize(replace(good(), verbatim=(text,))))
    assert "content-loss" in codes(serialize(replace(good(), verbatim=(text,)), PLUGIN))


def test_bytes_that_are_no_text() -> None:
    assert [p.code for p in check_snapshot(b"---\ndcb_schema: \xff")] == ["unreadable"]


def test_two_bare_entries_and_text_in_the_summary_that_the_original_cuts() -> None:
    heading = serialize(good()).replace("### Goal", "### <!-- dcb:layer:preference -->")
    assert "content-loss" in codes(reseal(heading))
    inside = VerbatimEntry(
        id="v-001", kind="code", content="```\n<!-- dcb:layer:preference -->\n```"
    )
    assert "content-loss" in codes(serialize(replace(good(), verbatim=(inside, *good().verbatim))))


def test_what_is_missing_is_said_where_it_is_missing() -> None:
    text = serialize(good()).replace("<!-- dcb:entry id=v-002", "<!-- dcb:entry id=v-001")
    lines = text.split("\n")
    (found,) = [p for p in check_snapshot(text.encode()) if p.code == "duplicate-id"]
    assert "id=v-001" in lines[found.line - 1]
    assert found.line > lines.index(next(line for line in lines if "id=v-001" in line)) + 1
