"""Files, folders, companions and listings as inputs."""

from __future__ import annotations

import gzip
import io
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from converters import opening
from converters.errors import BadInput, LimitReached
from converters.opening import Folder, Memory, Stored
from converters.types import Limits
from tests.converters.opening_sources import (
    GOOD,
    found,
    inputs,
    only,
    sent,
    tarred,
    write,
    zipped,
    zstd,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from converters.types import Head


class TestFiles:
    def test_a_plain_file(self, tmp_path: Path) -> None:
        path = write(tmp_path / "my.session.jsonl", GOOD)
        write(tmp_path / "other.txt", b"")
        (tmp_path / "folder").mkdir()
        item = only(path)
        assert (item.name, item.stem, item.size, item.nested, item.torn) == (
            path,
            "my",
            len(GOOD),
            False,
            None,
        )
        assert item.path == path
        assert item.read() == bytes(item.view()) == GOOD
        with item.open() as first, item.open() as second:
            assert first.readline() == b'{"a":1}\n'
            assert list(second) == [b'{"a":1}\n', b'{"a":2}\n']
        assert item.head.data == GOOD
        assert item.head.siblings == {"my.session.jsonl", "other.txt", "folder/"}

    def test_an_empty_file(self, tmp_path: Path) -> None:
        item = only(write(tmp_path / "empty", b""))
        assert (item.size, item.read(), bytes(item.view())) == (0, b"", b"")

    def test_path_objects_and_bytes(self, tmp_path: Path) -> None:
        assert only(Path(write(tmp_path / "a", GOOD))).read() == GOOD
        assert only(GOOD).read() == GOOD
        assert only(gzip.compress(GOOD)).read() == GOOD

    def test_what_is_appended_later_is_not_read(self, tmp_path: Path) -> None:
        path = tmp_path / "grows.jsonl"
        path.write_bytes(GOOD * 1000)
        item = only(path)
        assert item.size == len(GOOD) * 1000
        stop = threading.Event()

        def append() -> None:
            with path.open("ab") as out:
                while not stop.is_set():
                    out.write(GOOD)
                    out.flush()

        writer = threading.Thread(target=append)
        writer.start()
        try:
            for _ in range(20):
                with item.open() as stream:
                    assert len(stream.read()) == item.size
                assert len(item.view()) == item.size
        finally:
            stop.set()
            writer.join()

    def test_a_document_past_the_limit(self, tmp_path: Path) -> None:
        limits = replace(Limits(), document=10)
        path = write(tmp_path / "a.json", b"x" * 11)
        with pytest.raises(LimitReached) as caught:
            only(path, limits=limits).read()
        assert caught.value.path == path
        packed = write(tmp_path / "a.gz", gzip.compress(b"x" * 11))
        with pytest.raises(LimitReached):
            only(packed, limits=limits).read()
        assert only(write(tmp_path / "b", b"x" * 10), limits=limits).read() == b"x" * 10

    @pytest.mark.parametrize("name", ["missing", "missing/file.json", "a\0b", "no*match", ""])
    def test_what_is_not_there(self, tmp_path: Path, name: str) -> None:
        (error,) = found(str(tmp_path / name) if name else "")
        assert isinstance(error, BadInput)
        assert error.path is not None

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
    def test_what_may_not_be_read(self, tmp_path: Path) -> None:
        path = tmp_path / "secret"
        path.write_bytes(GOOD)
        path.chmod(0)
        (error,) = found(path)
        assert isinstance(error, BadInput)
        assert "permission" in str(error)

    def test_globs(self, tmp_path: Path) -> None:
        for name in ("b.jsonl", "a.jsonl", "c.txt", "deep/d.jsonl", "[x].jsonl"):
            write(tmp_path / name, name.encode())
        names = [Path(item.name).name for item in found(f"{tmp_path}/?.jsonl")]
        assert names == ["a.jsonl", "b.jsonl"]
        assert len(found(f"{tmp_path}/**/*.jsonl")) == 4
        assert only(f"{tmp_path}/[x].jsonl").read() == b"[x].jsonl"
        assert not any(item.nested for item in found(f"{tmp_path}/?.jsonl"))

    def test_a_link_that_is_named_is_followed(self, tmp_path: Path) -> None:
        write(tmp_path / "real" / "a.jsonl", GOOD)
        (tmp_path / "link").symlink_to("real/a.jsonl")
        (tmp_path / "folder").symlink_to("real")
        assert only(tmp_path / "link").read() == GOOD
        assert list(inputs(tmp_path / "folder")) == [f"{tmp_path}/folder/a.jsonl"]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
    def test_a_pipe_that_is_named_is_read(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(GOOD,))
        writer.start()
        assert only(tmp_path / "pipe").read() == GOOD
        writer.join()

    def test_a_device_is_refused(self) -> None:
        (error,) = found("/dev/null")
        assert isinstance(error, BadInput)

    def test_standard_input(self) -> None:
        item = only("-", stdin=io.BytesIO(GOOD))
        assert item.name == "-"
        assert item.read() == item.read() == GOOD
        assert item.head.siblings == frozenset()
        assert item.files("*") == ()
        assert list(inputs("-", stdin=io.BytesIO(zipped(("a/b.jsonl", GOOD))))) == ["-!a/b.jsonl"]
        (error,) = found("-")
        assert isinstance(error, BadInput)

    def test_a_large_stream_is_kept_in_a_file_without_a_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("converters.opening._streams._IN_MEMORY", 1000)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        item = only("-", stdin=io.BytesIO(GOOD * 1000))
        assert list(tmp_path.iterdir()) == []
        assert item.read() == bytes(item.view()) == GOOD * 1000
        with item.open() as first, item.open() as second:
            assert first.readline() == second.readline()
            second.seek(-8, os.SEEK_END)
            assert second.read() == b'{"a":2}\n'

    def test_remote_openers(self) -> None:
        def opener(name: str) -> Iterator[tuple[str, Callable[[], io.BytesIO]]]:
            def fail() -> io.BytesIO:
                raise PermissionError(13, "denied")

            if not name.endswith("none"):
                yield f"{name}/1", lambda: io.BytesIO(GOOD)
                yield f"{name}/2", fail
                yield f"{name}/3", lambda: io.BytesIO(gzip.compress(GOOD))

        one, two, three = found("s3://bucket", openers={"s3": opener})
        assert one.name == "s3://bucket/1"
        assert one.read() == three.read() == GOOD
        assert isinstance(two, BadInput)
        assert two.path == "s3://bucket/2"
        for how in ({}, {"openers": {"s3": opener}}):
            (error,) = found("s3://none", **how)
            assert isinstance(error, BadInput)

    def test_head_of(self, tmp_path: Path) -> None:
        assert opening.head_of(GOOD).data == GOOD
        with pytest.raises(BadInput):
            opening.head_of(tmp_path / "missing")
        with pytest.raises(BadInput):
            opening.head_of(tmp_path)


class TestWalking:
    def test_sorted_recursive_and_without_links(self, tmp_path: Path) -> None:
        for name in ("b.jsonl", "a/z.jsonl", "a/b/c.jsonl", "Z.jsonl"):
            write(tmp_path / name, GOOD)
        (tmp_path / "a" / "loop").symlink_to("..")
        (tmp_path / "out.jsonl").symlink_to("/etc/passwd")
        if hasattr(os, "mkfifo"):
            os.mkfifo(tmp_path / "pipe.jsonl")
        names = [(type(item).__name__, item.name[len(str(tmp_path)) :]) for item in found(tmp_path)]
        assert names == [
            ("Stored", "/Z.jsonl"),
            ("Stored", "/a/b/c.jsonl"),
            ("Skipped", "/a/loop"),
            ("Stored", "/a/z.jsonl"),
            ("Stored", "/b.jsonl"),
            ("Skipped", "/out.jsonl"),
            ("Skipped", "/pipe.jsonl"),
        ]
        assert all(item.nested for item in found(tmp_path) if isinstance(item, Stored))

    def test_files_of_a_database_are_no_inputs(self, tmp_path: Path) -> None:
        for name in ("x.db", "x.db-wal", "x.db-shm", "alone-wal"):
            write(tmp_path / name, b"x")
        assert [Path(item.name).name for item in found(tmp_path)] == ["alone-wal", "x.db"]

    def test_one_bad_entry_stops_nothing(self, tmp_path: Path) -> None:
        write(tmp_path / "a.zip", b"PK\x03\x04 broken")
        write(tmp_path / "b.jsonl", GOOD)
        write(tmp_path / "c.gz", zipped(("x", b"1")) + b"")
        write(tmp_path / "d.zip", zipped(("x/y.jsonl", GOOD)))
        bad, good, misnamed, member = found(tmp_path)
        assert isinstance(bad, BadInput)
        assert bad.path == f"{tmp_path}/a.zip"
        assert good.read() == member.read() == GOOD
        assert misnamed.name == f"{tmp_path}/c.gz!x"
        assert member.name == f"{tmp_path}/d.zip!x/y.jsonl"

    def test_names_that_are_no_text(self, tmp_path: Path) -> None:
        raw = os.fsencode(tmp_path) + b"/\xff\xfe.jsonl"
        try:
            with open(raw, "wb") as out:  # noqa: PTH123 - a name of bytes
                out.write(GOOD)
        except OSError:
            pytest.skip("this file system takes names in UTF-8 only")
        item = found(tmp_path)[0]
        assert os.fsencode(item.name) == raw
        assert item.read() == GOOD

    def test_folders_that_are_one_input(self, tmp_path: Path) -> None:
        for name in ("a/meta.json", "a/log/1.jsonl", "b/x.jsonl", "a.jsonl"):
            write(tmp_path / "all" / name, name.encode())
        archive = write(
            tmp_path / "all.zip", zipped(("t/a/meta.json", b"m"), ("t/a/log/1.jsonl", b"1"))
        )
        heads: list[Head] = []

        def is_unit(head: Head) -> bool:
            heads.append(head)
            return "meta.json" in head.siblings

        unit, file, other = found(tmp_path / "all", is_unit=is_unit)
        assert isinstance(unit, Folder)
        assert unit.path == unit.name == f"{tmp_path}/all/a"
        assert [Path(item.name).name for item in (file, other)] == ["a.jsonl", "x.jsonl"]
        assert heads[1].siblings == {"meta.json", "log/"}
        assert heads[1].is_dir
        assert [item.read() for item in unit.files("log/*.jsonl")] == [b"a/log/1.jsonl"]
        (unit,) = found(archive, is_unit=is_unit)
        assert unit.name == f"{archive}!t/a"
        assert unit.path is None
        assert [item.name for item in unit.files("**/*")] == [
            f"{archive}!t/a/log/1.jsonl",
            f"{archive}!t/a/meta.json",
        ]
        for call in (unit.open, unit.read, unit.view, unit.database):
            with pytest.raises(BadInput):
                call()
        (unit,) = found(tmp_path / "all" / "a", is_unit=is_unit)
        assert not unit.nested


class TestCompanions:
    FILES = (
        "p/s1.jsonl",
        "p/s1/subagents/a.jsonl",
        "p/s1/subagents/b.jsonl",
        "p/s2.jsonl",
        "q/[x]*.jsonl",
        "q/[x]*.md",
        "q/xy.md",
        "top.json",
    )

    @pytest.fixture(params=["folder", "zip", "tar", "tar.gz", "memory"])
    def session(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Any]:
        members = [(name, name.encode()) for name in self.FILES]
        if request.param == "folder":
            for name, data in members:
                write(tmp_path / name, data)
            source: Any = tmp_path
        elif request.param == "zip":
            source = write(tmp_path / "x", zipped(*members))
        elif request.param == "memory":

            def memory(name: str) -> Memory:
                up = os.path.dirname(name)  # noqa: PTH120
                around = {os.path.relpath(n, up): d for n, d in members if n != name}
                return Memory(name.encode(), os.path.basename(name), around)  # noqa: PTH119

            return memory
        else:
            data = tarred(*members)
            source = write(tmp_path / "x", gzip.compress(data) if "gz" in request.param else data)

        def pick(name: str) -> Any:
            (item,) = [item for item in found(source) if item.name.endswith(name)]
            return item

        return pick

    def test_globs(self, session: Callable[[str], Any]) -> None:
        item = session("p/s1.jsonl")
        one = [companion.read() for companion in item.files("{stem}/subagents/*.jsonl")]
        assert one == [b"p/s1/subagents/a.jsonl", b"p/s1/subagents/b.jsonl"]
        assert [c.read() for c in item.files("../top.json")] == [b"top.json"]
        assert [c.read() for c in item.files("s?.jsonl")][-1] == b"p/s2.jsonl"
        assert [c.read() for c in item.files("../q/x*.md")] == [b"q/xy.md"]
        assert item.files("nothing/*") == ()
        assert item.files("s1/../../top.json") == ()
        assert item.files("../" * 5 + "**/passwd") == ()
        assert b"p/s1/subagents/b.jsonl" in [c.read() for c in item.files("**/*.jsonl")]

    def test_the_characters_of_a_name_are_no_glob(self, session: Callable[[str], Any]) -> None:
        item = session("q/[x]*.jsonl")
        assert [c.read() for c in item.files("{stem}.md")] == [b"q/[x]*.md"]

    def test_siblings(self, session: Callable[[str], Any]) -> None:
        assert {"s2.jsonl", "s1/"} <= session("p/s1.jsonl").head.siblings

    def test_compressed_companions_and_links(self, tmp_path: Path) -> None:
        path = write(tmp_path / "s.jsonl", GOOD)
        write(tmp_path / "s" / "1.jsonl.zst", zstd(GOOD))
        (tmp_path / "s" / "2.jsonl").symlink_to("/etc/passwd")
        assert [item.read() for item in only(path).files("s/*")] == [GOOD]


class TestListings:
    """A folder is listed once in a run, not once for each of its files."""

    @pytest.fixture
    def listed(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        calls: list[str] = []
        real = os.scandir

        def scandir(folder: str) -> Any:
            calls.append(folder)
            return real(folder)

        monkeypatch.setattr(os, "scandir", scandir)
        return calls

    def test_for_all_sources_of_a_run(self, tmp_path: Path, listed: list[str]) -> None:
        disk = opening.DiskTree()
        for number in range(5):
            stored = only(write(tmp_path / f"{number}.json", b"{}"), disk=disk)
            assert "0.json" in stored.head.siblings
            assert stored.files("*.json")
        assert listed == [str(tmp_path)]

    def test_for_all_inputs_that_come_to_another_process(
        self, tmp_path: Path, listed: list[str]
    ) -> None:
        for number in range(5):
            write(tmp_path / f"{number}.json", b"{}")
        walked = found(str(tmp_path))
        listed.clear()
        for stored in walked:
            assert len(sent(stored).head.siblings) == 5
        assert listed == [str(tmp_path)]

    def test_another_run_looks_again(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.json", b"{}")
        first = sent(only(path))
        assert first.head.siblings == {"a.json"}
        write(tmp_path / "b.json", b"{}")
        assert sent(only(path)).head.siblings == {"a.json", "b.json"}
