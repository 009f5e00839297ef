"""DSH logs that are written: both generations, images, the account, what comes back."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections import Counter
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import UsageError
from converters.formats import dsh
from converters.formats.dsh.attachments import dimensions, object_path, store_images
from converters.formats.dsh.write import is_absolute, pack_zstd, session_log
from converters.ir import (
    Block,
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
    Usage,
)
from converters.ledger import Ledger, count_items
from converters.types import Context, Options
from tests.converters.formats.dsh_logs import PNG, event, read, texts
from tests.paths import VECTORS, needs_shared
from tests.sinks import MemorySink


def write(session: Session, **options: Any) -> tuple[bytes, MemorySink, Ledger]:
    ledger, sink = Ledger(), MemorySink()
    ctx = Context(ledger, Options(format=options), now_ms=1_786_000_000_000)
    assert dsh.FORMAT.write is not None
    dsh.FORMAT.write([session], sink, ctx)
    report = ledger.report()
    assert report.balanced, report.items
    return bytes(sink.data), sink, ledger


# -- writing -----------------------------------------------------------------------------------


def sample() -> Session:
    call = ToolCall("c1", "read", '{"p":"a"}')
    steps = [
        Step(
            [Reasoning("think"), Text("answer"), ToolCallBlock("c1", "read", '{"p":"a"}')],
            [call],
            [ToolResult("c1", [Text("body")], is_error=True, time=1_700_000_003_000)],
            1_700_000_002_000,
            "other-model",
            Usage(10, 5, 3, 1, 2),
        ),
        Step([Text("done")], [], [], 1_700_000_004_000),
    ]
    return Session(
        meta=Meta("abc", 1_700_000_000_000, "/home/user/demo"),
        title="A title",
        provider="demo",
        model="demo-model",
        turns=[
            Turn("first", None, steps, 1_700_000_001_000, aborted=True, shadowed=True),
            Turn(
                "second",
                None,
                [Step([Text("x")], [], [], 1_700_000_006_000)],
                1_700_000_005_000,
                compaction=Compaction("summed up", "demo", None, 1_700_000_004_500),
            ),
        ],
    )


def without_extra(session: Session) -> Session:
    document = msgspec.to_builtins(session)

    def drop(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: drop(v) for k, v in value.items() if k != "x-dcb"}
        return [drop(v) for v in value] if isinstance(value, list) else value

    return msgspec.convert(drop(document), Session)


@pytest.mark.parametrize("generation", [3, 4])
def test_write_and_read_back(generation: int) -> None:
    data, _, ledger = write(sample(), generation=generation)
    assert not ledger.report().entries
    header = json.loads(data[: data.find(b"\n")])
    assert header == {
        "type": "session",
        "version": generation,
        "id": "abc",
        "createdAt": 1_700_000_000_000,
        "isSeeded": False,
        "delegationDepth": 0,
        "cwd": "/home/user/demo",
    }
    (back,), _ = read(data)
    expected = sample()
    # The summary event must name a model: the session's own.
    compaction = expected.turns[1].compaction
    assert compaction is not None
    compaction.model = "demo-model"
    expected.model = back.model = None
    assert [s.model for t in back.turns for s in t.steps] == [None, "demo-model", "demo-model"]
    for turn in (*back.turns, *expected.turns):
        for step in turn.steps:
            step.model = None
    assert without_extra(back) == expected


def test_what_a_log_cannot_hold_is_reported() -> None:
    session = Session(
        meta=Meta("abc", 2_000, "relative/dir"),
        title="  ",
        provider="demo",
        model="never-used",
        turns=[
            Turn("late", None, [Step([], [], [ToolResult("none", [Text("r")])], 5)], 1),
            Turn("", None, [], None, shadowed=True, compaction=Compaction("s", "p", "m", 1)),
        ],
        extra={"tags": ["a"], "parent": {"sessionId": "up"}},
    )
    session.turns[0].steps[0].model = "own"
    data, _, ledger = write(session)
    entries = {entry.rule: entry.count for entry in ledger.report().entries}
    assert entries == {
        "orphan-tool-result": 2,
        "time-filled": 1,
        "cwd-dropped": 1,
        "title-dropped": 1,
        "model-dropped": 1,
        "time-dropped": 3,
        "state-dropped": 1,
        "extra-dropped": 1,
    }
    assert json.loads(data.split(b"\n")[0])["parentSession"] == "up"


def test_absolute_paths_of_any_platform() -> None:
    for path in ("/", "/a", "C:\\x", "d:/x", "\\\\server\\share", "\\\\server\\share\\a"):
        assert is_absolute(path), path
    for path in ("", ".", "a/b", "C:", "C:x", "\\x", "\\\\server", "~"):
        assert not is_absolute(path), path


def test_images_go_to_the_store_in_generation_4_only() -> None:
    payload = base64.b64encode(PNG).decode()
    blocks: list[Block] = [
        Text("see"),
        Image(payload, "image/png", "x.png"),
        Image("!!", "image/png"),
    ]
    session = Session(meta=Meta("i", 1), provider="p", turns=[Turn("see", blocks, [])])
    data, sink, ledger = write(session)
    digest = hashlib.sha256(PNG).hexdigest()
    assert sink.files == {object_path(digest): PNG}
    assert payload.encode() not in data
    assert ledger.count("image-text") == 1
    (back,), _ = read(data, {object_path(digest): PNG})
    assert back.turns[0].prompt_blocks == [*blocks[:2], Text("[image]")]
    data, sink, ledger = write(session, generation=3)
    assert sink.files == {}
    assert ledger.count("image-text") == 2
    assert b"[image] x.png" in data


def test_only_the_first_500_images_are_stored() -> None:
    blocks = [
        {"type": "image", "data": base64.b64encode(PNG + bytes([n % 250, n // 250])).decode(),
         "mediaType": "image/png"}
        for n in range(502)
    ]  # fmt: skip
    objects, degraded = store_images([event("user/message", 0, {"content": blocks})], generation=4)
    assert (len(objects), degraded) == (500, 2)


def test_dimensions_come_from_the_header() -> None:
    assert dimensions(PNG) == (1, 1)
    assert dimensions(b"GIF89a" + b"\x05\x00\x07\x00") == (5, 7)
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x09\x00\x08" + bytes(9)
    assert dimensions(jpeg) == (8, 9)
    webp = b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00" + bytes(4) + b"\x04\x00\x00\x02\x00\x00"
    assert dimensions(webp) == (5, 3)
    for junk in (
        b"",
        b"\x89PNG",
        b"\xff\xd8\xff",
        b"RIFFxxxxWEBP",
        b"\xff\xd8" + b"\xff\xe0\x00\x00" * 9,
    ):
        assert dimensions(junk) == (0, 0)


def test_zstd_output_has_checksummed_frames_of_whole_lines() -> None:
    data, _, _ = write(sample(), zstd=True)
    plain_data, _, _ = write(sample())
    out = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    assert out.read() == plain_data
    first = zstandard.ZstdDecompressor().decompress(data)
    assert first == plain_data[: plain_data.find(b"\n") + 1]
    assert zstandard.get_frame_parameters(data).has_checksum


def test_pack_zstd_keeps_lines_whole() -> None:
    text = b'{"type":"session"}\n' + (b"x" * 700_000 + b"\n") * 4
    packed = pack_zstd(text)
    frames = []
    while packed:
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        frames.append(decompressor.decompress(packed))
        packed = decompressor.unused_data
    assert b"".join(frames) == text
    assert all(frame.endswith(b"\n") for frame in frames)
    assert len(frames) == 3


def test_unknown_generation_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        write(sample(), generation=7)


@needs_shared
def test_session_log_vector() -> None:
    path = VECTORS / "interchange" / "functions" / "session-log.jsonl"
    for line in path.read_bytes().splitlines():
        case = json.loads(line)
        assert session_log(*case["args"]) == case["result"]


ids = st.sampled_from(["a", "b", "c", "d"])
blocks: st.SearchStrategy[Block] = st.one_of(texts.map(Text), texts.map(Reasoning))
times = st.none() | st.integers(0, 100)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    calls = [ToolCall(c, draw(texts), draw(texts)) for c in draw(st.lists(ids, max_size=4))]
    turns = []
    for _ in range(draw(st.integers(1, 4))):
        steps = [
            Step(
                draw(st.lists(blocks, max_size=2)),
                draw(st.lists(st.sampled_from(calls), max_size=2)) if calls else [],
                [
                    ToolResult(
                        c, draw(st.lists(blocks, max_size=1)), draw(st.booleans()), draw(times)
                    )
                    for c in draw(st.lists(ids, max_size=2))
                ],
                draw(times),
                draw(st.none() | st.just("m2")),
                draw(st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9))),
                draw(st.none() | st.just({"id": "x"})),
            )
            for _ in range(draw(st.integers(0, 2)))
        ]
        compaction = draw(
            st.none()
            | st.builds(Compaction, st.just("s"), st.just("p"), st.none() | st.just("m"), times)
        )
        turns.append(
            Turn(
                draw(texts),
                draw(st.none() | st.lists(blocks, min_size=1, max_size=2)),
                steps,
                draw(times),
                aborted=draw(st.booleans()),
                shadowed=draw(st.booleans()),
                compaction=compaction,
            )
        )
    return Session(
        meta=Meta("s", draw(times), draw(st.none() | st.sampled_from(["/a", "rel", "C:\\x"]))),
        title=draw(st.none() | texts),
        provider="p",
        model=draw(st.none() | st.just("m")),
        turns=turns,
    )


@given(sessions(), st.sampled_from([3, 4]))
def test_every_item_is_accounted_for(session: Session, generation: int) -> None:
    data, _, _ = write(session, generation=generation)
    records = [json.loads(line) for line in data[:-1].split(b"\n")]
    events = records[1:]
    assert [e["seq"] for e in events] == list(range(len(events)))
    clock = [e["time"] for e in events]
    assert clock == sorted(clock)
    for e in events:
        assert all(n < e["seq"] for n in e.get("sourceEventSeqs", []))


@given(sessions(), st.sampled_from([3, 4]))
def test_what_is_kept_reads_back(session: Session, generation: int) -> None:
    data, _, ledger = write(session, generation=generation)
    kept = {kind: item.kept for kind, item in ledger.report().items.items()}
    found, _ = read(data)
    back = count_items(found[0]) if found else Counter()
    ids = [call.id for turn in session.turns for step in turn.steps for call in step.tool_calls]
    for kind in ("usage", "compaction", "title", "cwd"):
        assert back[kind] == kept.get(kind, 0), kind
    if len(ids) == len(set(ids)):
        # Open calls read back with an empty result.
        missing = ledger.count("tool-result-missing")
        assert back["call"] == kept.get("call", 0)
        assert back["result"] == kept.get("result", 0) + missing
        assert back["error"] == kept.get("error", 0)
    folded = ledger.count("compaction-text")
    assert back["block.reasoning"] == kept.get("block.reasoning", 0) + folded
