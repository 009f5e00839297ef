"""The bundle document, landing, export, verify and restore, one rule at a time."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters import registry
from converters.errors import BadInput, DcbError, OutputError, UsageError, VerifyError
from converters.formats import dsh_bundle
from converters.formats.dsh_bundle import document as bundle
from converters.ledger import Ledger
from converters.opening import Memory, open_inputs
from converters.reading import Unit, units
from converters.types import Context, Head, Options
from dcb.bundle.drafts import Job
from dcb.bundle.export import Exported, export
from dcb.bundle.landing import Rule, land, remap, rule_of
from dcb.bundle.manifest import NAME, Manifest
from dcb.bundle.native import file_entry, relative_names
from dcb.bundle.restore import Plan, Restored, restore
from dcb.bundle.verify import check_folder, check_input
from tests.paths import GOLDEN, VECTORS, needs_shared

if TYPE_CHECKING:
    from collections.abc import Iterable

BUNDLES = VECTORS / "interchange" / "bundles"
FUNCTIONS = VECTORS / "interchange" / "functions"
NOW = 1_786_000_000_000
PASSPHRASE = "correct horse battery"  # noqa: S105 - a test


def cases(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def opened(path: Path) -> Any:
    (source,) = open_inputs(path)
    return source


def exported(
    sources: Iterable[Path | str], folder: Path, *, now_ms: int = NOW, **how: Any
) -> list[Exported]:
    found = [unit for source in sources for unit in units(source) if isinstance(unit, Unit)]
    job = Job(now_ms, "0.0.1", Options())
    return list(export(found, folder, job, **how))


def plan(into: Path, to: str | None = "dsh", **more: Any) -> Plan:
    target = None if to is None else registry.target(to)
    return Plan(target, into, lambda _: False, lambda path: "/here/" + path, **more)


def restored(folder: Path, to: Plan) -> list[Restored]:
    return [restore(opened(path), to) for path in sorted(folder.glob("*" + bundle.SUFFIX))]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


QUESTION = {
    "interchange": "dsh-chat-import",
    "version": 1,
    "meta": {"id": "q-1", "createdAt": NOW, "cwd": "/nowhere/project"},
    "title": "A question",
    "provider": "demo",
    "turns": [{"prompt": "why?", "steps": [{"content": [{"type": "text", "text": "so"}]}]}],
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "question.json"
    path.parent.mkdir()
    path.write_text(json.dumps(QUESTION), "utf-8")
    return path


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


# -- landing -----------------------------------------------------------------------------------


@needs_shared
@pytest.mark.parametrize("case", cases(BUNDLES / "cross-machine.jsonl"), ids=str)
def test_cross_machine(case: dict[str, Any]) -> None:
    found = land(
        case["originalCwd"],
        case["bundlePath"],
        is_folder=lambda path: path in case["existingDirectories"],
    )
    assert found.cwd_available is case["cwdAvailable"]
    assert found.grouped_to == case["groupedTo"]
    assert found.landing_hint == case["landingHint"]
    assert (found.note is not None) is case["restoreNote"]


@needs_shared
@pytest.mark.parametrize("case", cases(FUNCTIONS / "cwd-remap.jsonl"), ids=str)
def test_cwd_remap(case: dict[str, Any]) -> None:
    rules = [Rule(rule["from"], rule["to"]) for rule in case["rules"]]
    assert remap(case["cwd"], rules) == (case["mapped"], case["report"])


@pytest.mark.parametrize(
    ("cwd", "rule", "windows", "mapped"),
    [
        ("/home/me/p/x", "/home/me=C:\\Users\\me", True, "C:\\Users\\me\\p\\x"),
        ("\\\\server\\share\\p", "\\\\server\\share=/mnt/share", False, "/mnt/share/p"),
        ("C:\\work", "C:\\work=/srv", False, "/srv"),
        ("D:/a/b", "D:=/d", False, "/d/a/b"),
    ],
)
def test_paths_of_any_platform(cwd: str, rule: str, windows: bool, mapped: str) -> None:
    assert remap(cwd, [rule_of(rule)], windows=windows)[0] == mapped


@pytest.mark.parametrize("text", ["", "=", "a=", "=b", "nothing", " = "])
def test_bad_rules_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError):
        rule_of(text)


@needs_shared
@pytest.mark.parametrize(
    "case", cases(BUNDLES / "restore-runs.jsonl"), ids=lambda c: c["args"]["path"]
)
def test_restore_runs(case: dict[str, Any], tmp_path: Path) -> None:
    path = case["args"]["path"]
    source = Memory(case["raw"].encode(), path)
    how = plan(tmp_path, dry_run=bool(case["args"].get("preview")))
    expected = case.get("result", {})
    codes = case.get("error") or expected.get("skipReason")
    if codes:
        with pytest.raises(VerifyError) as caught:
            restore(source, how)
        assert all(code in caught.value.message for code in codes)
        assert check_input(source).problems == codes
        assert tree(tmp_path) == {}
        return
    if expected["alreadyImported"]:
        restore(source, how)
    here = {expected.get("originalCwd")} if expected.get("cwdAvailable") else set()
    done = restore(source, how._replace(is_folder=lambda name: name in here))
    if expected["alreadyImported"]:
        assert restore(source, how).status == "already-there"
        return
    assert done.status == "restored"
    assert done.session_id == expected["sourceSessionId"]
    landing = done.landing
    assert landing.original_cwd == expected["originalCwd"]
    assert landing.cwd_available is expected["cwdAvailable"]
    assert landing.landing_hint == expected["landingHint"]
    assert landing.grouped_to == expected["groupedTo"]
    assert (landing.note is not None) is expected.get("restoreNote", False)


# -- export ------------------------------------------------------------------------------------


def test_export_is_incremental(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (first,) = exported([source], out)
    assert first.status == "written"
    assert first.path is not None
    before = tree(out)
    assert set(before) == {first.path.name, NAME}
    (again,) = exported([source], out, now_ms=NOW + 1)
    assert again.status == "unchanged"
    assert tree(out) == before
    source.write_text(json.dumps({**QUESTION, "title": "Changed"}), "utf-8")
    (changed,) = exported([source], out, now_ms=NOW + 2)
    assert (changed.status, changed.path) == ("replaced", first.path)
    assert set(tree(out)) == set(before)
    document = bundle.parse(first.path.read_bytes())
    assert document["title"] == "Changed"
    assert document["exportedAt"] == NOW + 2
    (entry,) = Manifest.load(out, (out / NAME).read_bytes()).by_name.values()
    assert entry.sha256 == hashlib.sha256(first.path.read_bytes()).hexdigest()
    assert entry.session_id == "q-1"


def test_bundles_that_the_index_lost_are_taken_in_again(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported([source], out)
    before = tree(out)
    (out / NAME).unlink()
    (again,) = exported([source], out, now_ms=NOW + 9)
    assert again.status == "unchanged"
    assert tree(out) == before


def test_a_foreign_file_of_the_same_name_stays(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (first,) = exported([source], out)
    assert first.path is not None
    (out / NAME).unlink()
    first.path.write_bytes(b"not ours")
    (second,) = exported([source], out)
    assert second.path is not None
    assert second.path.name == first.path.name.replace(bundle.SUFFIX, "-2" + bundle.SUFFIX)
    assert first.path.read_bytes() == b"not ours"


def test_a_new_version_of_dcb_writes_anew(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported([source], out)
    (unit,) = (u for u in units(source) if isinstance(u, Unit))
    (done,) = export([unit], out, Job(NOW, "0.0.2", Options()))
    assert done.status == "replaced"


def test_a_damaged_index_is_an_error(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / NAME).write_text("{", "utf-8")
    with pytest.raises(BadInput, match="index"):
        exported([source], out)


def test_one_bad_input_stops_nothing(source: Path, tmp_path: Path) -> None:
    bad = tmp_path / "in" / "bad.json"
    bad.write_text(json.dumps({**QUESTION, "version": 7}), "utf-8")
    found = exported([bad, source], tmp_path / "out")
    assert [one.status for one in found] == ["failed", "written"]
    assert found[0].error is not None
    assert found[0].error.code == "unsupported-version"


def test_a_dsh_log_goes_in_unchanged(tmp_path: Path) -> None:
    log = (GOLDEN / "dsh" / "damaged" / "input.jsonl").read_bytes()
    path = tmp_path / "abc" / "session.jsonl"
    path.parent.mkdir()
    path.write_bytes(log)
    (done,) = exported([path], tmp_path / "out")
    assert done.path is not None
    document = bundle.parse(done.path.read_bytes())
    assert document["log"].encode() == log
    assert document["x-dcb"]["native"] == {
        "format": "dsh",
        "kind": "log",
        "name": "abc/session.jsonl",
    }
    (back,) = restored(tmp_path / "out", plan(tmp_path / "back", None))
    assert tree(tmp_path / "back") == {"abc/session.jsonl": log}
    assert back.status == "restored"


def test_a_dsh_log_travels_with_its_images(tmp_path: Path) -> None:
    folder = GOLDEN / "dsh" / "images" / "input"
    exported([folder], tmp_path / "out")
    (path,) = (tmp_path / "out").glob("*" + bundle.SUFFIX)
    document = bundle.parse(path.read_bytes())
    (entry,) = document["x-dcb"]["attachments"]
    image = next((folder / "attachments").rglob("c4*7"))
    assert dsh_bundle.unpack(entry) == image.read_bytes()
    restored(tmp_path / "out", plan(tmp_path / "back", None))
    assert tree(tmp_path / "back") == {f"input/{name}": data for name, data in tree(folder).items()}
    (done,) = restored(tmp_path / "out", plan(tmp_path / "log"))
    assert len(done.paths) == 2
    (unit,) = (u for u in units(done.paths[0]) if isinstance(u, Unit))
    assert unit.format.read is not None
    (session,) = unit.format.read(unit.input, Context(Ledger()))
    assert session.turns[0].prompt_blocks is not None
    assert session.turns[0].prompt_blocks[1].data is not None  # type: ignore[union-attr]


def test_a_bundle_goes_through_unchanged(tmp_path: Path) -> None:
    path = GOLDEN / "dsh-bundle" / "plain" / "input.dshbundle.json"
    (done,) = exported([path], tmp_path / "out")
    assert done.path is not None
    assert bundle.parse(done.path.read_bytes()) == bundle.parse(path.read_bytes())
    (bad,) = exported(
        [GOLDEN / "dsh-bundle" / "tampered" / "input.dshbundle.json"], tmp_path / "out"
    )
    assert isinstance(bad.error, VerifyError)


def test_sessions_of_one_file_get_their_own_part(tmp_path: Path) -> None:
    documents = [
        {**QUESTION, "meta": {"id": f"s-{n}", "createdAt": n}, "title": f"T{n}"} for n in range(3)
    ]
    path = tmp_path / "many.json"
    path.write_text(json.dumps(documents), "utf-8")
    found = exported([path], tmp_path / "out")
    assert [one.status for one in found] == ["written"] * 3
    for n, one in enumerate(found):
        assert one.path is not None
        native = bundle.parse(one.path.read_bytes())["x-dcb"]["native"]
        (entry,) = native.pop("files")
        assert native.pop("path").endswith("/many.json")
        assert native == {"format": "interchange", "kind": "object", "pointer": f"/{n}", "wrap": ""}
        assert json.loads(dsh_bundle.unpack(entry)) == documents[n]
    back = restored(tmp_path / "out", plan(tmp_path / "back", "interchange"))
    assert [one.status for one in back] == ["restored"] * 3
    titles = {json.loads(data)["title"] for data in tree(tmp_path / "back").values()}
    assert titles == {"T0", "T1", "T2"}


def test_entries_are_reproducible() -> None:
    one, two = file_entry("a", b"x" * 1000), file_entry("a", b"x" * 1000)
    assert one == two
    packed = base64.b64decode(one["data"])
    assert packed[4:8] == b"\0\0\0\0"
    assert gzip.decompress(packed) == b"x" * 1000


@pytest.mark.parametrize(
    "change",
    [
        {"data": None},
        {"data": "!!!"},
        {"data": base64.b64encode(b"no gzip").decode()},
        {"size": 3},
        {"size": -1},
        {"size": True},
        {"size": 3 << 30},
        {"sha256": "0" * 64},
        {"data": file_entry("a", b"y" * 100)["data"]},
        {"data": base64.b64encode(gzip.compress(b"x" * 100)[:-9]).decode()},
    ],
)
def test_a_damaged_entry_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DcbError):
        dsh_bundle.unpack({**file_entry("a", b"x" * 100), **change})


def test_relative_names() -> None:
    assert relative_names(["/a/b/c.jsonl"]) == {"/a/b/c.jsonl": "c.jsonl"}
    assert relative_names(["a/b/c.jsonl", "a/b/c/s/1.jsonl"]) == {
        "a/b/c.jsonl": "c.jsonl",
        "a/b/c/s/1.jsonl": "c/s/1.jsonl",
    }
    assert relative_names(["x.zip!d/a.json"]) == {"x.zip!d/a.json": "a.json"}
    assert relative_names(["/s/05/a", "/s/04/b"]) == {"/s/05/a": "05/a", "/s/04/b": "04/b"}
    assert relative_names(["-"]) == {"-": "-"}
    assert relative_names(["C:\\x\\a.json"]) == {"C:\\x\\a.json": "a.json"}


# -- sealed ------------------------------------------------------------------------------------


def test_sealed_bundles(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (done,) = exported([source], out, passphrase=PASSPHRASE)
    assert done.path is not None
    assert done.path.name.endswith(".dshbundle.json.sealed")
    assert b"why?" not in done.path.read_bytes()
    assert exported([source], out, passphrase=PASSPHRASE)[0].status == "unchanged"
    sealed = opened(done.path)
    assert check_input(sealed).problems == ["sealed"]
    assert check_input(sealed, "wrong passphrase").problems == ["open-failed"]
    assert check_input(sealed, PASSPHRASE).problems == []
    with pytest.raises(DcbError, match="sealed"):
        restore(sealed, plan(tmp_path / "back"))
    restore(sealed, plan(tmp_path / "back", None, passphrase=PASSPHRASE))
    assert tree(tmp_path / "back") == {"question.json": source.read_bytes()}
    (out / NAME).unlink()
    assert exported([source], out, passphrase=PASSPHRASE)[0].status == "unchanged"


# -- verify ------------------------------------------------------------------------------------


def test_a_folder_is_checked_against_its_index(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = source.with_name("other.json")
    other.write_text(json.dumps({**QUESTION, "meta": {"id": "q-2"}, "title": "Other"}), "utf-8")
    one, two = exported([source, other], out)
    assert one.path is not None
    assert two.path is not None

    def check() -> list[tuple[str, list[str]]]:
        names = sorted(p.name for p in out.glob("*" + bundle.SUFFIX))
        checked = {name: check_input(opened(out / name)) for name in names}
        return [(Path(c.name).name, c.problems) for c in check_folder(out, names, checked)]

    assert check() == []
    document = bundle.parse(two.path.read_bytes())
    two.path.write_bytes(bundle.text(bundle.seal({**document, "title": "swapped"})))
    one.path.rename(out / ("moved" + bundle.SUFFIX))
    assert check() == [
        (one.path.name, ["missing"]),
        (two.path.name, ["changed"]),
        ("moved" + bundle.SUFFIX, ["extra"]),
    ]
    (out / NAME).unlink()
    assert check() == []


def test_native_bytes_are_checked(source: Path, tmp_path: Path) -> None:
    (done,) = exported([source], tmp_path / "out")
    assert done.path is not None
    document = bundle.parse(done.path.read_bytes())
    document["x-dcb"]["native"]["files"][0]["sha256"] = "0" * 64
    resealed = Memory(bundle.text(bundle.seal(document)), "b")
    assert check_input(resealed).problems == ["native-damaged"]
    with pytest.raises(BadInput):
        restore(resealed, plan(tmp_path / "back", None))
    assert not (tmp_path / "back").exists()


def test_every_flipped_byte_is_found_or_changes_nothing(tmp_path: Path) -> None:
    small = {**QUESTION, "title": "T", "turns": [{"prompt": "why?", "steps": []}]}
    path = tmp_path / "q.json"
    path.write_text(json.dumps(small), "utf-8")
    (done,) = exported([path], tmp_path / "out")
    assert done.path is not None
    data = done.path.read_bytes()
    whole = bundle.parse(data)
    body = {name: value for name, value in whole.items() if name != "sha256"}
    silent = 0
    for position in range(len(data)):
        for bit in (1, 32):
            flipped = bytearray(data)
            flipped[position] ^= bit
            if check_input(Memory(bytes(flipped))).problems:
                continue
            silent += 1
            document = bundle.parse(bytes(flipped))
            kept = {name: value for name, value in document.items() if name != "sha256"}
            assert json.dumps(kept) == json.dumps(body), position
    # White space between the members, and nothing else.
    assert silent < 400


# -- restore -----------------------------------------------------------------------------------


def test_restoring_twice_changes_nothing(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    for to in ("dsh", "interchange", None):
        into = tmp_path / f"back-{to}"
        (first,) = restored(tmp_path / "out", plan(into, to))
        before = tree(into)
        (second,) = restored(tmp_path / "out", plan(into, to))
        assert (first.status, second.status) == ("restored", "already-there")
        assert first.paths == second.paths
        assert tree(into) == before


def test_another_session_is_never_overwritten(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    for to in ("dsh", "interchange", None):
        into = tmp_path / f"back-{to}"
        (first,) = restored(tmp_path / "out", plan(into, to))
        first.paths[0].write_bytes(b"something else")
        (second,) = restored(tmp_path / "out", plan(into, to))
        assert second.status == "restored"
        name = first.paths[0].name
        assert second.paths[0].name == f"{name.split('.')[0]}-2.{name.split('.', 1)[1]}"
        assert first.paths[0].read_bytes() == b"something else"
        (third,) = restored(tmp_path / "out", plan(into, to))
        assert (third.status, third.paths) == ("already-there", second.paths)


def test_dry_run_writes_nothing(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    (done,) = restored(tmp_path / "out", plan(tmp_path / "back", dry_run=True))
    assert done.status == "would-restore"
    assert not (tmp_path / "back").exists()


def test_a_restored_log_has_a_whole_header_and_lands(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")

    def header(**more: Any) -> dict[str, Any]:
        (done,) = restored(tmp_path / "out", plan(tmp_path / "back", **more))
        found: dict[str, Any] = json.loads(done.paths[0].read_bytes().split(b"\n")[0])
        return found

    expected = {
        "type": "session",
        "version": 3,
        "id": "q-1",
        "createdAt": NOW,
        "isSeeded": False,
        "delegationDepth": 0,
        "cwd": str(tmp_path / "out"),
    }
    assert header() == expected
    assert header(session_id="other")["id"] == "other"
    assert header(rules=(Rule("/nowhere", "/srv"),))["cwd"] == "/srv/project"
    (done,) = restored(tmp_path / "out", plan(tmp_path / "kept")._replace(is_folder=lambda _: True))
    assert b'"cwd":"/nowhere/project"' in done.paths[0].read_bytes()
    assert done.landing.cwd_available


def test_the_log_of_a_host_comes_back_as_it_was(tmp_path: Path) -> None:
    log = (GOLDEN / "dsh" / "events" / "input.jsonl").read_bytes()
    path = tmp_path / "session.jsonl"
    path.write_bytes(log)
    exported([path], tmp_path / "out")
    (done,) = restored(tmp_path / "out", plan(tmp_path / "back"))
    assert done.paths[0].read_bytes() == log


def test_a_log_with_gaps_is_numbered_anew(tmp_path: Path) -> None:
    events = [
        {"type": "session/imported", "seq": 0, "time": 1, "ignorable": True, "data": {}},
        {"type": "turn/start", "seq": 1, "time": 1, "data": {"turn": 1}},
        {"type": "user/message", "seq": 5, "time": 2, "data": {"content": "q"}, "ignorable": True},
    ]
    log = "".join(json.dumps(record) + "\n" for record in [{"type": "session", "id": "s"}, *events])
    made = bundle.make(log + '{"type":"tu', exported_at=7, source_session_id="s")
    done = restore(Memory(bundle.text(made), "s"), plan(tmp_path))
    records = [json.loads(line) for line in done.paths[0].read_bytes().strip().split(b"\n")]
    assert [record.get("seq") for record in records] == [None, 0, 1]
    assert records[0]["createdAt"] == 1
    assert "ignorable" not in records[2]
    assert records[2]["surfaceOp"] == "append"


@pytest.mark.parametrize("log", ["x\n", '{"type":"session","id":"s"}\n', "[1]\n{}\n"])
def test_a_log_without_events_is_refused(log: str, tmp_path: Path) -> None:
    made = bundle.make(log, exported_at=1, source_session_id="s")
    for to in ("dsh", "interchange"):
        with pytest.raises(BadInput):
            restore(Memory(bundle.text(made), "s"), plan(tmp_path / "back", to))
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../../evil",
        "/etc/evil",
        "..\\..\\evil",
        "C:\\evil",
        "a/../../../evil",
        "",
        ".",
        "con",
        "-x",
    ],
)
def test_names_in_a_bundle_stay_below_the_folder(name: str, tmp_path: Path) -> None:
    extra = {
        "native": {"format": "interchange", "kind": "files", "files": [file_entry(name, b"x")]}
    }
    made = bundle.make(
        '{"type":"turn/start","seq":0}\n',
        exported_at=1,
        source_session_id="../../id",
        title="../t",
        cwd="../../../tmp/x",
        extra=extra,
    )
    into = tmp_path / "deep" / "back"
    for to in (None, "dsh"):
        done = restore(Memory(bundle.text(made), "b"), plan(into, to))
        assert all(path.resolve().is_relative_to(into) for path in done.paths)
    assert set(tree(tmp_path)) == {f"deep/back/{n}" for n in tree(into)}


def test_rows_are_never_written_natively(tmp_path: Path) -> None:
    extra = {"native": {"format": "crush", "kind": "rows", "files": []}}
    log = '{"type":"turn/start","seq":0}\n'
    made = bundle.make(log, exported_at=1, source_session_id="s", extra=extra)
    with pytest.raises(BadInput, match="database"):
        restore(Memory(bundle.text(made), "b"), plan(tmp_path, None))


@pytest.mark.parametrize(
    "native", [None, 5, {}, {"kind": "files"}, {"kind": "files", "files": [5]}, {"kind": "new"}]
)
def test_odd_native_members_are_refused_or_unused(native: Any, tmp_path: Path) -> None:
    log = '{"type":"user/message","seq":0,"data":{"content":"hello"}}\n'
    made = bundle.make(log, exported_at=1, source_session_id="s", extra={"native": native, "x": 1})
    source = Memory(bundle.text(made), "b")
    with pytest.raises(BadInput, match="native"):
        restore(source, plan(tmp_path, None))
    assert restore(source, plan(tmp_path, "interchange")).status == "restored"


def test_into_must_be_a_folder(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    with pytest.raises(OutputError):
        restored(tmp_path / "out", plan(source))
    with pytest.raises(OutputError):
        restored(tmp_path / "out", plan(source / "below"))


def test_session_id_and_native_exclude_each_other(source: Path, tmp_path: Path) -> None:
    exported([source], tmp_path / "out")
    with pytest.raises(UsageError):
        restored(tmp_path / "out", plan(tmp_path, None, session_id="x"))
