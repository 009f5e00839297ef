"""Writing: whole or absent, whatever happens (robustness section 1)."""

from __future__ import annotations

import errno
import os
import unicodedata
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters import registry
from converters.errors import OutputError
from converters.ir import Meta, Session
from converters.ledger import Ledger
from converters.types import Context
from dcb import batch, files


def test_order_of_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, link = os.fsync, os.link

    def record_sync(descriptor: int) -> None:
        steps.append("sync folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "sync")
        sync(descriptor)

    def record_link(one: Path, other: Path) -> None:
        steps.append("name")
        link(one, other)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "link", record_link)
    files.write_whole(tmp_path / "a", b"x")
    assert steps == ["sync", "name", "sync folder"]


def test_a_folder_that_cannot_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync
    code = errno.EINVAL

    def sync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(code, "no")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    files.write_whole(tmp_path / "a", b"x")
    code = errno.EIO
    with pytest.raises(OutputError):
        files.write_whole(tmp_path / "b", b"x")


@pytest.mark.parametrize("old", [b"old", None])
def test_exception_half_way(tmp_path: Path, old: bytes | None) -> None:
    target = tmp_path / "a"
    if old is not None:
        target.write_bytes(old)
    with pytest.raises(RuntimeError), files.output(target, force=True) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert (target.read_bytes() if target.exists() else None) == old
    assert [p.name for p in tmp_path.iterdir()] == (["a"] if old is not None else [])


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space") as caught:
        files.write_whole(target, b"new", force=True)
    assert caught.value.path == str(target)
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_failure_while_more_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux tells of a failed write once: it must not be forgotten in between."""
    real = os.fsync
    told: list[int] = []

    def once(descriptor: int) -> None:
        if not told:
            told.append(descriptor)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", once)
    with pytest.raises(OutputError), files.output(tmp_path / "a") as stream:
        for _ in range(40):
            stream.write(bytes(1 << 20))
    assert told
    assert not list(tmp_path.iterdir())


def test_large_outputs_are_whole(tmp_path: Path) -> None:
    pieces = [bytes([n]) * 1_000_003 for n in range(40)]
    with files.output(tmp_path / "a") as stream:
        for piece in pieces:
            stream.write(piece)
    assert (tmp_path / "a").read_bytes() == b"".join(pieces)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_many_files_are_synced_before_they_get_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    steps: list[str] = []
    sync, link = os.fsync, os.link

    def record_sync(descriptor: int) -> None:
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def record_link(one: Path, other: Path) -> None:
        assert Path(one).name in steps
        link(one, other)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "link", record_link)
    job = batch.Job("interchange", tmp_path)
    target = registry.target("interchange")
    sessions = [Session(meta=Meta(f"s{n}"), provider="demo") for n in range(count)]
    made = [batch.write_one(one, target, job, Context(Ledger())) for one in sessions]
    files.sync_all(one.temporary for one in made)
    with batch.Names(tmp_path, ".json", force=False, sources=batch.Sources()) as names:
        placed = [names.place(one) for one in made]
    assert len(set(placed)) == len(list(tmp_path.iterdir())) == count
    assert steps[-1] == tmp_path.name
    assert len(steps) == count + 1


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "folder", tmp_path / "missing" / "a"):
        with pytest.raises(OutputError):
            files.write_whole(target, b"x", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_existing_is_refused_without_force(tmp_path: Path) -> None:
    target = tmp_path / "a"
    files.write_whole(target, b"1")
    with pytest.raises(OutputError, match="exists"):
        files.write_whole(target, b"2")
    assert target.read_bytes() == b"1"
    with pytest.raises(OutputError, match="exists"), files.output(tmp_path / "b") as stream:
        stream.write(b"mine")
        (tmp_path / "b").write_bytes(b"theirs")
    assert (tmp_path / "b").read_bytes() == b"theirs"
    dangling = tmp_path / "c"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError):
        files.write_whole(dangling, b"x")
    assert not (tmp_path / "nowhere").exists()


def _write(target: Path, byte: int) -> None:
    files.write_whole(target, bytes([byte]) * 300_000, force=True)


def test_eight_writers(tmp_path: Path) -> None:
    target = tmp_path / "a"
    context = get_context("spawn")
    workers = [context.Process(target=_write, args=(target, byte)) for byte in range(65, 73)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    data = target.read_bytes()
    assert len(data) == 300_000
    assert len(set(data)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_private_mode(tmp_path: Path) -> None:
    files.write_whole(tmp_path / "a", b"x", private=True)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_replaced_file_is_not_opened_to_more(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for before, private, after in ((0o600, False, 0o600), (0o644, True, 0o600)):
        path.write_bytes(b"old")
        path.chmod(before)
        files.write_whole(path, b"new", force=True, private=private)
        assert path.stat().st_mode & 0o777 == after


@given(st.text())
def test_safe_names(text: str) -> None:
    name = files.safe_name(text)
    assert 0 < len(name.encode()) <= 120
    assert name[0] not in ".-"
    assert name[-1] not in ". "
    assert not set(name) & set('/\\:*?"<>|\0\n')
    assert name.partition(".")[0].lower() not in {"con", "nul", "aux", "prn", "com1", "lpt9"}
    if name != text:
        assert len(name) >= 13


@given(st.text(st.characters(exclude_categories=())), st.booleans())
def test_kept_paths_stay_below_their_folder(text: str, windows: bool) -> None:
    path = files.kept_path(text, windows=windows)
    assert files.kept_path(path, windows=windows) == path
    for part in path.split("/"):
        assert part not in ("", ".", "..")
        assert len(part.encode("utf-8", "surrogatepass")) <= 255
        assert part[-1] not in ". "
        assert not set(part) & set("\\\0\n" + ':*?"<>|' * windows)
        assert part.partition(".")[0].rstrip().lower() not in {"con", "nul", "aux", "com1"}


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("a.jsonl", "a-2.jsonl"),
        ("a b.v1.tar.gz", "a b.v1-2.tar.gz"),
        (".claude", ".claude-2"),
        ("My session", "My session-2"),
    ],
)
def test_numbered_names_keep_their_suffix(name: str, second: str) -> None:
    assert files.numbered(name, 2) == second
    assert len(files.numbered("x" * 249 + ".jsonl", 2)) <= 255


@given(st.sets(st.text(max_size=8), min_size=2, max_size=2))
def test_safe_names_never_meet(pair: set[str]) -> None:
    one, other = (files.safe_name(text) for text in pair)
    folded = {unicodedata.normalize("NFC", name) for name in (one, other)}
    assert len(folded) == 2


def test_session_names() -> None:
    assert files.session_name("Fix the build", "0123456789ab") == "Fix-the-build-01234567"
    assert files.session_name(None, "abc") == "abc-abc"
    climbing = files.session_name("../../etc", "../pwned")
    assert "/" not in climbing
    assert climbing != files.session_name("../../etc", "pwned")


def test_what_has_no_name_yet_is_swept(tmp_path: Path) -> None:
    kept = []
    for name in ("a", "b"):
        with files.staged(tmp_path / name, keep=True) as (stream, temporary):
            stream.write(b"x")
        kept.append(temporary)
    files.place(kept[0], tmp_path / "a", force=True)
    assert kept[1].exists()
    files.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("force", [False, True])
def test_a_pipe_gets_the_content_and_stays(tmp_path: Path, force: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write_whole(pipe, b"content", force=force)
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no such device here")
def test_a_device_is_never_replaced() -> None:
    files.write_whole(Path("/dev/null"), b"content", force=True)
    assert Path("/dev/null").is_char_device()
