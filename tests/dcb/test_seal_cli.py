"""``dcb seal`` and ``dcb open``: passphrases, outputs, and the absence of outputs."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dcb import envelope
from dcb.cli import _passphrase, app
from dcb.envelope import is_envelope, open_envelope, seal
from tests import pack
from tests.paths import SHARED, VECTORS, needs_shared

PASS = "correct horse battery"  # noqa: S105 - of the vectors


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DCB_PASSPHRASE", raising=False)
    path = tmp_path / "secret"
    path.write_text(PASS + "\n", encoding="utf-8")
    return path


def run(*args: str | Path, stdin: bytes | None = None, **env: str) -> Result:
    return CliRunner().invoke(app, list(map(str, args)), input=stdin, env=env)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", "---\n快照 🚀\r\n".encode()),
        ("b.dshbundle.json", b"{}"),
        ("c.bin", bytes(range(256))),
        ("empty", b""),
    ],
)
def test_any_file_comes_back(tmp_path: Path, secret: Path, name: str, data: bytes) -> None:
    source, sealed, opened = tmp_path / name, tmp_path / "sealed", tmp_path / "opened"
    source.write_bytes(data)
    done = run("seal", source, "-o", sealed, "--passphrase-file", secret)
    assert (done.exit_code, done.stdout) == (0, "")
    assert is_envelope(sealed.read_bytes())
    assert open_envelope(sealed.read_bytes(), PASS) == data
    assert run("open", sealed, "-o", opened, "--passphrase-file", secret).exit_code == 0
    assert opened.read_bytes() == data
    assert opened.stat().st_mode & 0o077 == 0
    assert sealed.stat().st_mode & 0o077 == 0


def test_stdin_and_stdout(secret: Path) -> None:
    sealed = run("seal", "-", "--passphrase-file", secret, stdin=b"\x00text\n")
    assert sealed.exit_code == 0
    assert "\n" not in sealed.stdout
    opened = run("open", "-", stdin=sealed.stdout_bytes + b"\n", DCB_PASSPHRASE=PASS)
    assert opened.stdout_bytes == b"\x00text\n"


def test_folders_and_names(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.md").write_bytes(b"a")
    (tmp_path / "in" / "deep" / "b.md").write_bytes(b"b")
    out, back = tmp_path / "out", tmp_path / "back"
    done = run("seal", tmp_path / "in", "-o", f"{out}/", "--passphrase-file", secret, "--json")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.strip().split("\n")) == 2
    assert (out / "deep" / "b.md.sealed").exists()
    assert run("open", out, "-o", f"{back}/", "--passphrase-file", secret).exit_code == 0
    found = {p.relative_to(back).as_posix(): p.read_bytes() for p in back.rglob("*.*")}
    assert found == {"a.md": b"a", "deep/b.md": b"b"}
    assert run("seal", tmp_path / "in", "--passphrase-file", secret).exit_code == 2


def test_files_of_one_name_do_not_replace_each_other(tmp_path: Path, secret: Path) -> None:
    out, back = tmp_path / "out", tmp_path / "back"
    sources = [tmp_path / "a" / "x.md", tmp_path / "b" / "X.md", tmp_path / "c" / "x-2.md"]
    for path in sources:
        path.parent.mkdir()
        path.write_text(path.parent.name, encoding="ascii")
    done = run("seal", *sources, "-o", f"{out}/", "--force", "--passphrase-file", secret)
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {
        "x.md.sealed",
        "X-2.md.sealed",
        "x-2-2.md.sealed",
    }
    done = run("open", out, "-o", f"{back}/", "--passphrase-file", secret)
    assert {path.read_text() for path in back.iterdir()} == {"a", "b", "c"}
    twice = [out / "x.md.sealed", tmp_path / "d" / "x.md.sealed"]
    twice[1].parent.mkdir()
    twice[1].write_bytes((out / "X-2.md.sealed").read_bytes())
    done = run("open", *twice, "-o", f"{back}/", "--force", "--passphrase-file", secret)
    assert done.exit_code == 0, done.output
    assert (back / "x.md").read_text() == "a"
    assert (back / "x-2.md").read_text() == "b"


def test_what_is_no_file_of_a_folder_is_named(tmp_path: Path, secret: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "a.md").write_bytes(b"a")
    (source / "link.md").symlink_to("deep/a.md")
    (source / "folder").symlink_to("deep")
    done = run("seal", source, "-o", f"{out}/", "--passphrase-file", secret)
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        f"skipped: {source}/folder: symbolic link",
        f"skipped: {source}/link.md: symbolic link",
    ]
    assert [path.name for path in out.rglob("*.sealed")] == ["a.md.sealed"]


def test_globs(tmp_path: Path, secret: Path) -> None:
    for name in ("a.md", "b.md", "[c].md"):
        (tmp_path / name).write_bytes(name.encode())
    out = tmp_path / "out"
    done = run("seal", tmp_path / "?.md", "-o", f"{out}/", "--passphrase-file", secret)
    assert (done.exit_code, done.output) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == ["a.md.sealed", "b.md.sealed"]
    named = run("seal", tmp_path / "[c].md", "-o", f"{out}/", "--passphrase-file", secret)
    assert named.exit_code == 0
    assert (out / "[c].md.sealed").exists()
    none = run("seal", tmp_path / "*.txt", "-o", f"{out}/", "--passphrase-file", secret)
    assert none.exit_code == 1
    assert none.stderr == f"error: {tmp_path}/*.txt: no file matches\n"


def test_json_on_stdout(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "a").write_bytes("快照".encode())
    (tmp_path / "b").write_bytes(b"\xff\0")
    names = [tmp_path / "a", tmp_path / "b"]
    done = run("seal", *names, "--json", "--passphrase-file", secret)
    assert done.exit_code == 0
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["source"] for record in records] == list(map(str, names))
    for record, name in zip(records, names, strict=True):
        assert record["encoding"] == "utf-8"
        assert open_envelope(record["content"].encode(), PASS) == name.read_bytes()
        name.with_suffix(".sealed").write_text(record["content"], encoding="ascii")
    sealed = [name.with_suffix(".sealed") for name in names]
    done = run("open", *sealed, "--json", "--passphrase-file", secret)
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["content"], first["encoding"]) == ("快照", "utf-8")
    assert (second["content"], second["encoding"]) == ("/wA=", "base64")
    assert second["bytes"] == 2


@pytest.mark.parametrize("bad", ["wrong", "flipped", "cut", "no envelope", "newer", "empty"])
def test_what_cannot_be_opened_leaves_nothing(tmp_path: Path, secret: Path, bad: str) -> None:
    text = seal(b"some content", PASS, salt=bytes(16), iv=bytes(12))
    source, target = tmp_path / "x.sealed", tmp_path / "x"
    given = {
        "wrong": text,
        "flipped": text[:-2] + ("AA" if text[-2:] != "AA" else "BB"),
        "cut": text[:-8],
        "no envelope": "hello",
        "newer": text.replace("dcb1", "dcb2"),
        "empty": "",
    }[bad]
    source.write_text(given, encoding="ascii")
    if bad == "wrong":
        secret.write_text("not this one", encoding="ascii")
    before = sorted(tmp_path.iterdir())
    done = run("open", source, "-o", target, "--passphrase-file", secret)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {source}: ")
    assert done.stderr.count("error:") == 1
    assert done.stdout == ""
    assert sorted(tmp_path.iterdir()) == before
    if bad in ("wrong", "flipped", "cut"):
        assert "wrong passphrase, or the envelope was changed" in done.stderr


def test_one_bad_file_stops_no_other(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "good.sealed").write_text(seal(b"x", PASS, salt=bytes(16), iv=bytes(12)))
    (tmp_path / "bad.sealed").write_text("dcb1.a.b.c.d")
    inputs = [tmp_path / "bad.sealed", tmp_path / "good.sealed", tmp_path / "missing"]
    done = run("open", *inputs, "-o", f"{tmp_path}/out/", "--passphrase-file", secret, "--json")
    assert done.exit_code == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good"]
    records = [json.loads(line) for line in done.stdout.strip().split("\n")]
    assert [record.get("code", "ok") for record in records] == ["bad-envelope", "ok", "bad-input"]


def test_nothing_is_overwritten(tmp_path: Path, secret: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"a")
    target.write_bytes(b"b")
    assert run("seal", source, "-o", target, "--passphrase-file", secret).exit_code == 1
    assert target.read_bytes() == b"b"
    same = run("seal", source, "-o", source, "--force", "--passphrase-file", secret)
    assert same.exit_code != 0
    assert source.read_bytes() == b"a"
    assert run("seal", source, "-o", target, "--force", "--passphrase-file", secret).exit_code == 0
    assert is_envelope(target.read_bytes())


def test_limit(tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "MAX_BYTES", 10)
    source = tmp_path / "a"
    source.write_bytes(bytes(11))
    done = run("seal", source, "-o", tmp_path / "b", "--passphrase-file", secret)
    assert done.exit_code == 1
    assert not (tmp_path / "b").exists()


# --------------------------------------------------------------- passphrases


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"eight888", "eight888"),
        (b"eight888\n", "eight888"),
        (b"eight888\r\n", "eight888"),
        (b"eight888\n\n", "eight888\n"),
        (b" eight888 \n", " eight888 "),
        ("口令口令口令口令".encode(), "口令口令口令口令"),
    ],
)
def test_one_line_break_is_taken_off(tmp_path: Path, content: bytes, wanted: str) -> None:
    path = tmp_path / "p"
    path.write_bytes(content)
    assert _passphrase.passphrase(path) == wanted


def test_file_wins_over_environment_over_prompt(
    secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_passphrase, "_somebody", lambda: True)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: "typed by hand")
    assert _passphrase.passphrase(None) == "typed by hand"
    monkeypatch.setenv("DCB_PASSPHRASE", "of the environment")
    assert _passphrase.passphrase(None) == "of the environment"
    assert _passphrase.passphrase(secret) == PASS


def test_a_typed_passphrase_is_asked_twice_for_sealing(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_passphrase, "_somebody", lambda: True)
    answers = iter(["first passphrase", "second passphrase"])
    monkeypatch.setattr(getpass, "getpass", lambda prompt: next(answers))
    (tmp_path / "a").write_bytes(b"a")
    done = run("seal", tmp_path / "a", "-o", tmp_path / "b")
    assert done.exit_code == 2
    assert "differ" in done.stderr
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("text", ["", "\n", "1234567\n", "口令口令", "🔑🔑🔑"])
def test_weak_passphrases_do_not_seal(tmp_path: Path, secret: Path, text: str) -> None:
    secret.write_text(text, encoding="utf-8")
    (tmp_path / "a").write_bytes(b"a")
    done = run("seal", tmp_path / "a", "-o", tmp_path / "b", "--passphrase-file", secret)
    assert done.exit_code in (1, 2)
    assert not (tmp_path / "b").exists()
    assert not text.strip() or text.strip() not in done.output


@pytest.mark.parametrize("content", [b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe", b"x" * 100_000, None])
def test_unfit_passphrase_files(tmp_path: Path, secret: Path, content: bytes | None) -> None:
    if content is None:
        secret.unlink()
    else:
        secret.write_bytes(content)
    (tmp_path / "a").write_bytes(b"a")
    done = run("seal", tmp_path / "a", "-o", tmp_path / "b", "--passphrase-file", secret)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {secret}: ")


def test_no_terminal_no_passphrase(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    done = pack.dcb("seal", str(tmp_path / "a"), DCB_PASSPHRASE="")
    if "Passphrase" in done.err:
        pytest.skip("this run has a terminal")
    assert done.code == 2
    assert "--passphrase-file" in done.err


def test_there_is_no_option_for_the_passphrase_itself() -> None:
    for command in ("seal", "open"):
        assert run(command, "x", "--passphrase", "secret words").exit_code == 2


# ---------------------------------------------------------- vectors and pack


def vectors() -> list[Any]:
    path = VECTORS / "dcb" / "envelope.json"
    if not path.is_file():
        return []
    listed = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["name"]) for case in listed if "plaintext" in case["input"]]


@needs_shared
@pytest.mark.parametrize("case", vectors())
def test_reference_envelopes_open(tmp_path: Path, secret: Path, case: dict[str, Any]) -> None:
    secret.write_text(case["input"]["passphrase"], encoding="utf-8")
    sealed = tmp_path / "x"
    sealed.write_text(case["output"]["envelope"], encoding="ascii")
    done = run("open", sealed, "--passphrase-file", secret)
    assert done.stdout_bytes.decode() == case["input"]["plaintext"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared pack is not beside the checkout")
def test_hostile_pack(tmp_path: Path, secret: Path) -> None:
    cases = pack.cases("envelope")
    assert len(cases) >= 9
    for case in cases:
        secret.write_text(case.get("passphrase", PASS), encoding="utf-8")
        source = pack.pack() / case["name"]
        done = run("open", source, "-o", tmp_path / "out", "--passphrase-file", secret)
        assert done.exit_code == 1, case["name"]
        assert done.stderr.startswith(f"error: {source}: ")
        assert case.get("where", "") in done.stderr
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_one_line_break_at_the_end_of_an_envelope(end: bytes, tmp_path: Path, secret: Path) -> None:
    path = tmp_path / "a.sealed"
    path.write_bytes(seal(b"text", PASS, salt=bytes(16), iv=bytes(12)).encode() + end)
    assert run("open", path, "--passphrase-file", secret).stdout == "text"


@pytest.mark.parametrize("command", ["brief", "merge"])
def test_a_wrong_passphrase_names_the_file(command: str, tmp_path: Path, secret: Path) -> None:
    path = tmp_path / "a.sealed"
    path.write_bytes(seal(b"text", PASS, salt=bytes(16), iv=bytes(12)).encode())
    secret.write_text("another passphrase", encoding="utf-8")
    names = [path] if command == "brief" else [path, path]
    done = run(command, *names, "--passphrase-file", secret)
    assert done.exit_code == 1
    assert f"error: {path}: wrong passphrase" in done.stderr
