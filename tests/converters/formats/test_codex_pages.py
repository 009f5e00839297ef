"""Codex: rollouts that go on where another one was left, and compressed ones."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import BadInput
from converters.formats.codex import FORMAT
from converters.formats.codex.pages import Base, base_of
from converters.reading import Reading
from dcb.scan import EDGE, Found, Machine, scan
from tests.pack import dcb
from tests.reading import counts, lines, read

if TYPE_CHECKING:
    from pathlib import Path

    from converters.ir import Session
    from converters.ledger import Report

A, B, C = (f"019e3b4a-1111-7222-aaaa-{n:012}" for n in (1, 2, 3))
DAY = "../../../2026/03/01/"


def name_of(rollout: str, thread: str | None = None) -> str:
    return f"rollout-2026-03-01T08-00-00-{f'{thread}_' if thread else ''}{rollout}.jsonl"


class Page:
    """Makes the lines of one file; every line takes the next ordinal."""

    def __init__(self, identity: str, start: int = 0, **meta: Any) -> None:
        self.ordinal = start
        self.lines: list[dict[str, Any]] = []
        self.add("session_meta", id=identity, cwd="/srv/demo", **meta)

    def add(self, kind: str, **payload: Any) -> Page:
        stamp = f"2026-03-02T08:{self.ordinal // 60:02}:{self.ordinal % 60:02}.000Z"
        record = {"timestamp": stamp, "ordinal": self.ordinal, "type": kind, "payload": payload}
        self.lines.append(record)
        self.ordinal += 1
        return self

    def turn(self, prompt: str, answer: str) -> Page:
        for role, text in (("user", prompt), ("assistant", answer)):
            content = [{"type": "input_text", "text": text}]
            self.add("response_item", type="message", role=role, content=content)
        return self

    def end(self, rollout: str) -> dict[str, Any]:
        """Say as a base that the file is left here."""
        return {
            "thread_id": rollout,
            "end_ordinal_exclusive": self.ordinal,
            "end_byte_offset": len(self.data),
        }

    @property
    def data(self) -> bytes:
        return lines(*self.lines)


def joined(page: Page, around: dict[str, bytes], name: str = name_of(B, A)) -> Any:
    (session,), report = read(FORMAT, page.data, name, around)
    return [turn.prompt for turn in session.turns], report, session


def kinds(report: Report, rule: str) -> dict[str, int]:
    return next((entry.kinds for entry in report.entries if entry.rule == rule), {})


def pages_of(session: Session) -> Any:
    return (session.extra or {}).get("pages")


@pytest.mark.parametrize(
    "folder",
    ["", "../01/", "../../02/28/", "../../../2025/12/31/", "../../../../archived_sessions/"],
)
def test_a_page_comes_first_up_to_where_it_was_left(folder: str) -> None:
    first = Page(A).turn("one", "1")
    base = first.end(A)
    first.turn("taken back", "x")
    own = Page(A, base["end_ordinal_exclusive"], history_base=base).turn("two", "2")
    prompts, report, session = joined(own, {f"{folder}{name_of(A)}": first.data})
    assert prompts == ["one", "two"]
    assert session.meta.id == A
    assert pages_of(session) == [{"id": A, "records": 3}]
    assert report.records.total == 6
    assert counts(report) == {"history-joined": 1, "duplicate-record": 1}
    assert kinds(report, "history-joined") == {f"page {A}": 1}


def test_pages_of_pages_and_calls_across_them() -> None:
    first = Page(A).turn("one", "1")
    first.add("response_item", type="function_call", name="shell", arguments="{}", call_id="c")
    second = Page(A, first.ordinal, history_base=first.end(A))
    second.add("response_item", type="function_call_output", call_id="c", output="done")
    second.turn("two", "2").add("event_msg", type="thread_name_updated", thread_name="Old")
    fork = Page(C, second.ordinal, history_base=second.end(B), forked_from_id=A).turn("three", "3")
    fork.add("event_msg", type="thread_rolled_back", num_turns=2).turn("four", "4")
    around = {name_of(A): first.data, name_of(B, A): second.data}
    prompts, report, session = joined(fork, around, name_of(C))
    assert prompts == ["one", "four"]
    assert session.title == "Old"
    assert session.turns[0].steps[0].tool_results[0].tool_call_id == "c"
    assert [page["id"] for page in pages_of(session)] == [A, B]
    assert counts(report) == {"history-joined": 2, "duplicate-record": 2, "branch-collapsed": 4}


def test_what_a_page_and_the_file_both_hold_counts_once() -> None:
    first = Page(A).turn("one", "1").turn("one", "1")
    first.add("hologram", x=1)
    own = Page(C, first.ordinal, history_base=first.end(A))
    own.lines += [{**line, "ordinal": 90 + n} for n, line in enumerate(first.lines[1:])]
    own.turn("two", "2").turn("one", "1")
    prompts, report, session = joined(own, {name_of(A): first.data}, name_of(C))
    # Sent again later is no repetition.
    assert prompts == ["one", "one", "two", "one"]
    assert kinds(report, "duplicate-record") == {"session_meta": 1, "of an earlier page": 5}
    assert session.extra is not None
    assert len(session.extra["records"]) == 1


@pytest.mark.parametrize("numbered", [True, False])
def test_ordinals_decide_where_no_line_ends_at_the_byte(numbered: bool) -> None:
    first = Page(A).turn("one", "1").turn("two", "2")
    second = Page(A, 3, history_base={**first.end(A), "end_ordinal_exclusive": 3})
    second.turn("three", "3").turn("four", "4")
    own = Page(C, 6, history_base={"thread_id": B, "end_ordinal_exclusive": 6,
                                   "end_byte_offset": 100}).turn("five", "5")  # fmt: skip
    # Written anew, with blanks: the bytes of both bases are not right any more.
    files = [
        [dict(line) if numbered else {k: line[k] for k in line if k != "ordinal"} for line in page]
        for page in (first.lines, second.lines)
    ]
    around = {
        name: b"\n".join(json.dumps(line, indent=None).encode() + b"  " for line in page) + b"\n"
        for name, page in zip((name_of(A), name_of(B, A)), files, strict=True)
    }
    around[name_of(A)] = around[name_of(A)].replace(b"  \n", b" \n")
    prompts, report, _ = joined(own, around, name_of(C))
    assert prompts == ["one", "three", "five"]
    assert "history-truncated" not in counts(report)


def test_a_page_that_ends_too_early_gives_what_it_has() -> None:
    first = Page(A).turn("one", "1")
    base = {**first.end(A), "end_byte_offset": 1 << 40, "end_ordinal_exclusive": 1 << 40}
    torn = first.data[:-10]
    prompts, report, _ = joined(Page(A, 9, history_base=base).turn("two", "2"), {name_of(A): torn})
    assert prompts == ["one", "two"]
    assert kinds(report, "history-truncated") == {f"page {A} ends too early": 1}
    assert counts(report)["truncated-input"] == 1


def test_missing_pages_and_circles_are_named() -> None:
    gone = {"thread_id": C, "end_ordinal_exclusive": 4, "end_byte_offset": 10}
    middle = Page(A, history_base=gone).turn("one", "1")
    own = Page(A, 7, history_base=middle.end(A)).turn("two", "2")
    prompts, report, _ = joined(own, {name_of(A): middle.data})
    assert prompts == ["one", "two"]
    assert kinds(report, "history-truncated") == {f"page {C} not found": 1}

    back = Page(A, history_base={**gone, "thread_id": B}).turn("one", "1")
    own = Page(A, 7, history_base=back.end(A)).turn("two", "2")
    prompts, report, _ = joined(own, {name_of(A): back.data})
    assert prompts == ["one", "two"]
    assert kinds(report, "history-truncated") == {f"page {B} comes again": 1}

    prompts, report, _ = joined(Page(A, history_base={**gone, "thread_id": B}).turn("x", "y"), {})
    assert prompts == ["x"]
    assert kinds(report, "history-truncated") == {f"page {B} comes again": 1}


def test_a_chain_has_an_end() -> None:
    around: dict[str, bytes] = {}
    base: dict[str, Any] | None = None
    for number in range(80):
        rollout = f"019e3b4a-1111-7222-aaaa-{number + 100:012}"
        page = Page(A, history_base=base).turn(str(number), "ok")
        around[name_of(rollout, A)] = page.data
        base = page.end(rollout)
    prompts, report, _ = joined(Page(A, history_base=base).turn("own", "ok"), around)
    assert prompts == [*map(str, range(16, 80)), "own"]
    assert list(kinds(report, "history-truncated")) == [
        "page 019e3b4a-1111-7222-aaaa-000000000115 is one of more than 64"
    ]


@pytest.mark.parametrize(
    "value",
    ["page-1", 7, [A], {"thread_id": 1, "end_byte_offset": 3}, {"thread_id": A},
     {"thread_id": "../../x", "end_byte_offset": 3}, {"thread_id": A, "end_byte_offset": -1}],
)  # fmt: skip
def test_a_base_of_unknown_shape_is_reported_only(value: Any) -> None:
    assert base_of(value) is None
    around = {name_of(A): Page(A).turn("never", "x").data}
    prompts, report, session = joined(Page(A, history_base=value).turn("own", "ok"), around)
    assert prompts == ["own"]
    assert pages_of(session) is None
    assert counts(report) == {"history-truncated": 1}
    assert len(kinds(report, "history-truncated")) == 1


def test_base_of() -> None:
    full = {"thread_id": A, "end_ordinal_exclusive": 5, "end_byte_offset": 70, "more": 1}
    assert base_of(full) == Base(A, 5, 70)
    assert base_of({"thread_id": A, "end_byte_offset": 0}) == Base(A, None, 0)
    assert base_of({**full, "end_byte_offset": True}) == Base(A, 5, None)


def test_an_empty_prefix_takes_nothing() -> None:
    base = {"thread_id": A, "end_ordinal_exclusive": 0, "end_byte_offset": 0}
    around = {name_of(A): Page(A).turn("never", "x").data}
    prompts, report, _ = joined(Page(C, history_base=base).turn("own", "ok"), around, name_of(C))
    assert prompts == ["own"]
    assert counts(report) == {"history-joined": 1}


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 9))
def test_any_page_is_accounted(data: bytes, offset: int, ordinal: int) -> None:
    page = Page(A).turn("one", "1").data
    base = {"thread_id": A, "end_byte_offset": offset, "end_ordinal_exclusive": ordinal}
    own = Page(A, 7, history_base=base).turn("own", "ok")
    for held in (data, page[: offset // 2] + data, page + data):
        read(FORMAT, own.data, name_of(B, A), {name_of(A): held})


# compressed


def packed(*parts: bytes) -> bytes:
    """Give one frame for each part."""
    return b"".join(zstandard.ZstdCompressor(write_checksum=True).compress(p) for p in parts)


def store(home: Path, day: str, name: str, data: bytes) -> Path:
    path = home / ".codex/sessions" / day / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_many_frames_and_a_compressed_page(tmp_path: Path) -> None:
    first = Page(A).turn("one", "1")
    base = first.end(A)
    first.turn("taken back", "x")
    own = Page(A, 3, history_base=base).turn("two", "2")
    store(tmp_path, "2026/03/01", f"{name_of(A)}.zst", packed(first.data))
    records = own.data.split(b"\n")[:-1]
    frames = packed(*(record + b"\n" for record in records))
    path = store(tmp_path, "2026/03/02", f"{name_of(B, A)}.zst", frames)
    reading = Reading(path)
    (session,) = reading
    assert [turn.prompt for turn in session.turns] == ["one", "two"]
    assert counts(reading.report) == {"history-joined": 1, "duplicate-record": 1}


@pytest.mark.parametrize("kept", [2, 4])
def test_a_torn_frame_keeps_what_is_whole(tmp_path: Path, kept: int) -> None:
    page = Page(A).turn("one", "1").turn("two", "2")
    records = [line + b"\n" for line in page.data.split(b"\n")[:-1]]
    last = packed(b"".join(records[kept:]))
    whole = packed(*records[:kept])
    path = store(tmp_path, "2026/03/01", f"{name_of(A)}.zst", whole + last[: len(last) // 2])
    reading = Reading(path)
    (session,) = reading
    assert [turn.prompt for turn in session.turns] == ["one", "two"][: kept // 2]
    assert counts(reading.report) == {"truncated-input": 1}
    assert reading.report.balanced


def test_a_damaged_page_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    first = Page(A).turn("one", "1")
    data = bytearray(packed(first.data))
    data[-1] ^= 1
    store(tmp_path, "2026/03/01", f"{name_of(A)}.zst", bytes(data))
    own = Page(A, 3, history_base=first.end(A)).turn("two", "2")
    reading = Reading(store(tmp_path, "2026/03/01", name_of(B, A), own.data))
    (session,) = reading
    assert session.turns[-1].prompt == "two"
    (kind,) = kinds(reading.report, "history-truncated")
    assert kind.startswith(f"page {A}: damaged zstd stream")


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Page(A).turn("one", "1")
    path = store(tmp_path, "2026/03/01", f"{name_of(A)}.zst", packed(first.data))
    own = Page(A, 3, history_base=first.end(A)).turn("two", "2")
    other = store(tmp_path, "2026/03/01", name_of(B, A), own.data)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(BadInput, match="zstd needs an extra package") as caught:
        list(Reading(path))
    assert caught.value.hint == "pip install 'dcb[zstd]'"
    reading = Reading(other)
    (session,) = reading
    assert [turn.prompt for turn in session.turns] == ["two"]
    assert list(kinds(reading.report, "history-truncated")) == [
        f"page {A}: reading zstd needs an extra package"
    ]


def test_the_plain_file_counts_where_both_stand(tmp_path: Path) -> None:
    page = Page(A).turn("one", "1")
    path = store(tmp_path, "2026/03/01", name_of(A), page.turn("two", "2").data)
    store(tmp_path, "2026/03/01", f"{name_of(A)}.zst", packed(page.data))
    reading = Reading(tmp_path)
    (session,) = reading
    assert len(session.turns) == 2
    assert [report.source for report in reading.reports] == [str(path)]
    assert [skipped.name for skipped in reading.skipped] == [f"{path}.zst"]


def many(turns: int) -> bytes:
    page = Page(A)
    for number in range(turns):
        page.turn(f"{number} {number:x>900}", "ok")
    return page.data


def test_scan_lists_compressed_rollouts_with_their_last_activity(tmp_path: Path) -> None:
    data = many(200)
    assert len(data) > 2 * EDGE
    path = store(tmp_path, "2026/03/01", f"{name_of(A)}.zst", packed(data))
    machine = Machine(tmp_path, {}, "linux")
    (one,) = scan([FORMAT], machine)
    assert isinstance(one, Found)
    assert (one.id, one.cwd, one.path) == (A, "/srv/demo", str(path))
    (deep,) = scan([FORMAT], machine, deep=True)
    assert isinstance(deep, Found)
    assert (deep.time, deep.turns) == (one.time, 200)
    # The plain file beside it is the same session.
    plain = store(tmp_path, "2026/03/01", name_of(A), data)
    assert [getattr(each, "path", None) for each in scan([FORMAT], machine)] == [str(plain)]


def test_scan_of_a_damaged_end_goes_by_what_came_before(tmp_path: Path) -> None:
    data = many(200)
    broken = packed(data[: 2 * EDGE], data[2 * EDGE :])
    store(tmp_path, "2026/03/01", f"{name_of(A)}.zst", broken[:-1] + b"?")
    (one,) = scan([FORMAT], Machine(tmp_path, {}, "linux"))
    assert isinstance(one, Found)
    assert one.id == A


def test_a_bundle_holds_the_pages_and_unpacked_bytes(tmp_path: Path) -> None:
    first = Page(A).turn("one", "1")
    own = Page(A, 3, history_base=first.end(A)).turn("two", "2")
    store(tmp_path, "2026/02/28", f"{name_of(A)}.zst", packed(first.data))
    path = store(tmp_path, "2026/03/01", f"{name_of(B, A)}.zst", packed(own.data))
    assert dcb("detect", str(path)).out.split(": ")[1].startswith("codex ")
    bundles, files, again = (str(tmp_path / name) for name in ("bundles", "files", "again"))
    assert dcb("bundle", "export", str(path), "-o", bundles).code == 0
    assert dcb("bundle", "restore", bundles, "--native", "--into", files).code == 0
    restored = {file.name: file for file in (tmp_path / "files").rglob("*.jsonl")}
    assert {name: file.read_bytes() for name, file in restored.items()} == {
        name_of(A): first.data,
        name_of(B, A): own.data,
    }
    (session,) = Reading(restored[name_of(B, A)])
    assert [turn.prompt for turn in session.turns] == ["one", "two"]
    assert dcb("bundle", "restore", bundles, "--to", "codex", "--into", again).code == 0
    (file,) = (tmp_path / "again").rglob("*.jsonl")
    (session,) = Reading(file)
    assert [turn.prompt for turn in session.turns] == ["one", "two"]
    assert b"history_base" not in file.read_bytes()
