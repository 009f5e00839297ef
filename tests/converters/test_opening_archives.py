"""Compressed files and archives as inputs, also hostile ones."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import struct
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from converters.errors import BadInput, DcbError, LimitReached
from converters.opening import Skipped, Stored, open_inputs
from converters.types import Limits
from tests.converters.opening_sources import (
    GOOD,
    PACKERS,
    SMALL,
    digest,
    found,
    inputs,
    only,
    tarred,
    write,
    zipped,
    zstd,
)
from tests.pack import cases, pack


class TestCompression:
    @pytest.mark.parametrize("name", PACKERS)
    def test_magic_decides(self, tmp_path: Path, name: str) -> None:
        pack_it = PACKERS[name]
        big = GOOD * 50_000
        for data in (GOOD, b"", big):
            item = only(write(tmp_path / "s.jsonl", pack_it(data)))
            assert (item.read(), item.size, item.torn) == (data, None, None)
            assert item.head.data == data[: 256 * 1024]
        item = only(write(tmp_path / "s", pack_it(b"one\n") + pack_it(b"") + pack_it(b"two\n")))
        assert item.read() == b"one\ntwo\n"
        item = only(write(tmp_path / "s", pack_it(GOOD) + b"\0" * 1000))
        assert (item.read(), item.torn) == (GOOD, None)
        item = only(write(tmp_path / "s", pack_it(GOOD) + b"garbage"))
        assert item.read() == GOOD
        assert item.torn == f"foreign bytes behind the {name} stream"
        plain = only(write(tmp_path / "s.gz", GOOD))
        assert plain.read() == GOOD

    @pytest.mark.parametrize("name", PACKERS)
    def test_a_cut_stream_gives_what_came_out(self, tmp_path: Path, name: str) -> None:
        data = random.Random(1).randbytes(3_000_000)
        packed = PACKERS[name](data)
        item = only(write(tmp_path / "s", packed[:-2000]))
        got = item.read()
        assert data.startswith(got)
        assert len(got) > 1_000_000
        assert item.torn == f"{name} stream cut"
        item = only(write(tmp_path / "s", PACKERS[name](GOOD) + packed[:20]))
        assert item.read().startswith(GOOD)
        assert item.torn is not None

    @pytest.mark.parametrize("name", PACKERS)
    def test_damage_is_an_error_of_ours(self, tmp_path: Path, name: str) -> None:
        data = random.Random(2).randbytes(200_000)
        packed = bytearray(PACKERS[name](data))
        packed[len(packed) // 2] ^= 0xFF
        packed[-5] ^= 0xFF
        path = write(tmp_path / "s", bytes(packed))
        with pytest.raises(BadInput) as caught:
            only(path).read()
        assert caught.value.path == path

    def test_zstd_has_skippable_frames(self, tmp_path: Path) -> None:
        skip = struct.pack("<II", 0x184D2A50, 4) + b"abcd"
        assert only(write(tmp_path / "s", skip + zstd(GOOD) + skip + zstd(GOOD))).read() == GOOD * 2

    def test_zstd_without_its_package(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "zstandard", None)
        (error,) = found(write(tmp_path / "s.zst", zstd(GOOD)))
        assert isinstance(error, BadInput)
        assert error.hint == "pip install 'dcb[zstd]'"

    @pytest.mark.parametrize("name", PACKERS)
    def test_bombs(self, tmp_path: Path, name: str) -> None:
        path = write(tmp_path / "bomb", PACKERS[name](b"\n" * 40_000_000))
        with pytest.raises(LimitReached) as caught:
            only(path, limits=replace(Limits(), ratio_from=1 << 20)).read()
        assert "times its size" in str(caught.value)
        limits = replace(Limits(), expanded=1 << 20, ratio=10**9)
        with pytest.raises(LimitReached) as caught:
            only(path, limits=limits).read()
        assert caught.value.hint == "--max-expanded raises the limit"

    def test_reading_twice_counts_once(self, tmp_path: Path) -> None:
        path = write(tmp_path / "s.gz", gzip.compress(os.urandom(600_000)))
        item = only(path, limits=replace(Limits(), expanded=1 << 20))
        assert len(item.read()) == len(item.read()) == 600_000

    def test_layers(self, tmp_path: Path) -> None:
        assert only(write(tmp_path / "s", gzip.compress(zstd(GOOD)))).read() == GOOD
        (error,) = found(write(tmp_path / "s", gzip.compress(zstd(gzip.compress(GOOD)))))
        assert isinstance(error, LimitReached)


class TestArchives:
    @pytest.mark.parametrize("kind", ["zip", "tar", *PACKERS])
    def test_members(self, tmp_path: Path, kind: str) -> None:
        members = (("a/s.jsonl", GOOD), ("b.txt", b""), ("c/d/e.json", b"[1]" * 100_000))
        data = zipped(*members) if kind == "zip" else tarred(*members)
        data = PACKERS[kind](data) if kind in PACKERS else data
        path = write(tmp_path / "export.bin", data)
        assert inputs(path) == {f"{path}!{name}": content for name, content in members}
        assert sorted(tmp_path.iterdir()) == [Path(path)]

    @pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2])
    def test_methods_of_zip(self, tmp_path: Path, method: int) -> None:
        path = write(tmp_path / "x", zipped(("a.jsonl", GOOD), method=method))
        assert inputs(path) == {f"{path}!a.jsonl": GOOD}

    def test_an_unknown_method(self, tmp_path: Path) -> None:
        data = zipped(("a.jsonl", GOOD), method=zipfile.ZIP_LZMA)
        (error,) = found(write(tmp_path / "x", data))
        assert "method 14" in str(error)

    def test_in_one_another(self, tmp_path: Path) -> None:
        inner = zipped(("s.jsonl", GOOD), ("t.jsonl.gz", gzip.compress(GOOD)))
        path = write(tmp_path / "x", tarred(("in.zip", inner), ("in.tgz", gzip.compress(inner))))
        assert list(inputs(path)) == [
            f"{path}!in.tgz!s.jsonl",
            f"{path}!in.tgz!t.jsonl.gz",
            f"{path}!in.zip!s.jsonl",
            f"{path}!in.zip!t.jsonl.gz",
        ]
        path = write(tmp_path / "y", zipped(("a", zipped(("b", inner))), ("z.jsonl", GOOD)))
        error, good = found(path)
        assert isinstance(error, LimitReached)
        assert error.path == f"{path}!a!b"
        assert good.read() == GOOD

    def test_repeated_names_are_both_read(self, tmp_path: Path) -> None:
        members = (("a/s.jsonl", b"1"), ("a/s.jsonl", b"2"), ("/a/s.jsonl", b"3"), ("a", b"4"))
        for data in (zipped(*members), tarred(*members)):
            path = write(tmp_path / "x", data)
            assert sorted(inputs(path).values()) == [b"1", b"2", b"3", b"4"]
            assert f"{path}!a/s.jsonl#2" in inputs(path)

    def test_a_bad_member_leaves_the_others(self, tmp_path: Path) -> None:
        data = bytearray(zipped(("1.jsonl", GOOD), ("2.jsonl", GOOD * 100), ("3.jsonl", GOOD)))
        second = data.index(b"2.jsonl")
        data[second + 12] ^= 0xFF
        entry = data.index(b"PK\x01\x02")
        data[entry + 8] |= 1
        path = write(tmp_path / "x", bytes(data))
        encrypted, *rest = found(path)
        assert isinstance(encrypted, BadInput)
        assert encrypted.path == f"{path}!1.jsonl"
        assert "encrypted" in encrypted.message
        damaged, good = rest
        if not isinstance(damaged, BadInput):
            with pytest.raises(BadInput) as caught:
                damaged.read()
            damaged = caught.value
        assert damaged.path == f"{path}!2.jsonl"
        assert good.read() == GOOD

    def test_a_wrong_checksum(self, tmp_path: Path) -> None:
        data = bytearray(zipped(("1.jsonl", GOOD), method=zipfile.ZIP_STORED))
        data[data.index(b'{"a"')] = 0x20
        with pytest.raises(BadInput, match="checksum"):
            only(write(tmp_path / "x", bytes(data))).read()

    def test_a_cut_tar_gives_what_it_holds(self, tmp_path: Path) -> None:
        data = tarred(("1.jsonl", GOOD), ("2.jsonl", GOOD * 1000))
        path = write(tmp_path / "x", data[:4000])
        error, first, second = found(path)
        assert isinstance(error, BadInput)
        assert first.read() == GOOD
        assert (GOOD * 1000).startswith(second.read())
        assert second.torn == "archive cut"

    def test_limits(self, tmp_path: Path) -> None:
        many = [(f"{n}.jsonl", b"") for n in range(51)]
        for data in (zipped(*many), tarred(*many)):
            (error,) = found(write(tmp_path / "x", data), limits=SMALL)
            assert isinstance(error, LimitReached)
            assert "50 members" in error.message
        path = write(tmp_path / "x", zipped(("a", b"\n" * 100_000), ("b.jsonl", GOOD)))
        bomb, good = found(path, limits=SMALL)  # it goes off at the first look
        assert isinstance(bomb, LimitReached)
        assert bomb.path == f"{path}!a"
        assert good.read() == GOOD
        halves = [(str(n), os.urandom(600_000)) for n in range(2)]
        first, second = found(write(tmp_path / "x", zipped(*halves)), limits=SMALL)
        first.read()
        with pytest.raises(LimitReached):
            second.read()

    def test_a_name_of_ten_thousand_folders(self, tmp_path: Path) -> None:
        for data in (zipped(("a/" * 10_000 + "x", b"1")), tarred(("a/" * 10_000 + "x", b"1"))):
            (error,) = found(write(tmp_path / "x", data))
            assert isinstance(error, LimitReached)

    def test_a_sparse_file_is_skipped_by_name(self, tmp_path: Path) -> None:
        info = tarfile.TarInfo("sparse.jsonl")
        info.type = tarfile.GNUTYPE_SPARSE
        path = write(tmp_path / "x", info.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)
        assert found(path) == [Skipped(f"{path}!sparse.jsonl", "sparse file")]

    def test_an_archive_without_members(self, tmp_path: Path) -> None:
        for data in (zipped(), zipped(("folder/", b""))):
            (error,) = found(write(tmp_path / "x", data))
            assert isinstance(error, BadInput)
            assert "without members" in error.message

    @pytest.mark.parametrize("kind", ["zip", "tar", *PACKERS])
    def test_mutated_bytes_raise_nothing_else(self, tmp_path: Path, kind: str) -> None:
        chance = random.Random(7)
        members = (("a/s.jsonl", GOOD * 9), ("b/" * 3 + "\u00e9.md", b"x" * 700), ("c", b""))
        whole = zipped(*members) if kind == "zip" else tarred(*members)
        whole = PACKERS[kind](whole) if kind in PACKERS else whole
        for _ in range(250):
            data = bytearray(whole)
            for _ in range(chance.randrange(1, 6)):
                place = chance.randrange(len(data))
                data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            if chance.random() < 0.2:
                del data[chance.randrange(len(data)) :]
            for item in found(bytes(data)):
                if isinstance(item, Stored):
                    with contextlib.suppress(DcbError):
                        item.read()
                        assert len(item.head.data) <= 256 * 1024


@pytest.mark.parametrize("case", cases("archive", "tree"), ids=lambda case: case["name"])
def test_hostile_archives_and_trees(case: dict[str, Any]) -> None:
    path = pack() / case["name"]
    before = digest(path.parent)
    text, errors = b"", []
    for item in open_inputs(path):
        if isinstance(item, DcbError):
            errors.append(item)
        elif isinstance(item, Stored):
            try:
                with item.open() as stream:
                    while piece := stream.read(1 << 20):
                        text += piece if len(text) < 1 << 24 else b""
            except DcbError as error:
                errors.append(error)
    assert all(error.path for error in errors)
    if "ok-with-report" not in (case["expect"], case.get("also")):
        assert errors
    if case["expect"] == "ok-with-report":
        assert all(mark.encode() in text for mark in case.get("survive", []))
        assert all(mark.encode() in text for mark in case.get("should", []))
    assert not any(mark.encode() in text for mark in case.get("never", []))
    assert not any(Path(name).exists() for name in case.get("no_path", []))
    if case.get("where"):
        assert any(case["where"] in str(error) for error in errors)
    assert digest(path.parent) == before
