"""The command line at its edges: closed streams, full disks, names that are no text."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.pack import dcb
from tests.paths import ROOT

HELLO = ROOT / "examples" / "hello.json"
RUN = f"exec {sys.executable} -c 'from dcb.__main__ import main; main()'"
FULL = Path("/dev/full")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="shell redirections of POSIX")


def shell(line: str, *, unbuffered: bool = False) -> tuple[int, str, str]:
    """Run ``dcb`` with a shell's redirections; gives the code and both texts."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    if unbuffered:
        environment["PYTHONUNBUFFERED"] = "1"
    done = subprocess.run(
        ["/bin/sh", "-c", f"{RUN} {line}"],
        capture_output=True, cwd=ROOT, env=environment, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_closed_standard_input() -> None:
    code, out, err = shell(f"convert {HELLO} --to openai-chat <&-")
    assert (code, "Traceback" in err) == (0, False), err
    assert json.loads(out)["messages"]
    code, _, err = shell("convert - --to openai-chat <&-")
    assert (code, err.partition("\n")[0]) == (1, "error: -: the file is empty")


@pytest.mark.parametrize(
    "line", [f"convert {HELLO} --to openai-chat", f"detect {HELLO}", f"detect --json {HELLO}"]
)
def test_closed_standard_output_is_an_error(line: str) -> None:
    code, _, err = shell(f"{line} >&-")
    assert code == 1
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_closed_standard_output_does_no_harm_without_results(tmp_path: Path) -> None:
    code, _, err = shell(f"convert {HELLO} --to openai-chat -o {tmp_path / 'a.json'} >&-")
    assert code == 0, err
    assert json.loads((tmp_path / "a.json").read_bytes())["messages"]


def test_messages_stay_out_of_the_results_when_stderr_is_closed() -> None:
    code, out, _ = shell("convert nothing.json --to openai-chat 2>&-")
    assert (code, out) == (1, "")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        f"convert {HELLO} --to openai-chat",
        f"detect {HELLO}",
        f"detect --json {HELLO}",
        f"show {HELLO}",
        "formats",
        "scan --help",
    ],
)
def test_a_full_disk_behind_standard_output(line: str, *, unbuffered: bool) -> None:
    code, _, err = shell(f"{line} >{FULL}", unbuffered=unbuffered)
    assert code == 1
    assert "error: cannot write: No space left on device" in err
    assert "Traceback" not in err
    assert "ignored" not in err


def test_a_pipe_closed_before_the_first_line() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from dcb.__main__ import main; main()", "formats"],
            stdout=writer, stderr=subprocess.PIPE, cwd=ROOT, env=environment, timeout=120,
            check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_names_that_are_no_text(tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"bad\xff.json")
    source.write_bytes(HELLO.read_bytes())
    target = tmp_path / os.fsdecode(b"out\xfe.json")
    shown = f"{tmp_path}/bad\\xff.json"
    done = dcb("convert", str(source), "--to", "openai-chat", "--json", "-o", str(target))
    assert done.code == 0, done.err
    first = json.loads(done.out.split("\n")[0])
    assert (first["source"], first["output"]) == (shown, f"{tmp_path}/out\\xfe.json")
    assert target.exists()
    done = dcb("detect", "--json", str(source))
    assert done.code == 0, done.err
    assert json.loads(done.out)["path"] == shown


def test_a_report_never_takes_the_place_of_an_input_or_an_output(tmp_path: Path) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_bytes(HELLO.read_bytes())
    done = dcb(
        "convert", str(source), "--to", "openai-chat", "-o", str(target), "--report", str(source),
        "--force",
    )  # fmt: skip
    assert done.code == 1
    assert "the output is an input" in done.err
    assert source.read_bytes() == HELLO.read_bytes()
    assert not target.exists()
    for spelled in (target, tmp_path / "." / ".." / tmp_path.name / "out.json"):
        done = dcb(
            "convert", str(source), "--to", "openai-chat", "-o", str(target), "--report",
            str(spelled), "--force",
        )  # fmt: skip
        assert done.code == 2, done
        assert not target.exists()


def test_a_report_that_cannot_be_written_is_known_first(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    done = dcb(
        "convert", str(HELLO), "--to", "openai-chat", "-o", str(target), "--report",
        str(tmp_path / "no" / "r.json"),
    )  # fmt: skip
    assert done.code == 1
    assert "the folder does not exist" in done.err
    assert not target.exists()


def test_an_empty_output_name_is_no_folder(tmp_path: Path) -> None:
    done = dcb("convert", str(HELLO), "--to", "openai-chat", "-o", "")
    assert done.code == 2
    assert "error: -o" in done.err


def test_show_says_when_there_is_nothing(tmp_path: Path) -> None:
    done = dcb("show", str(tmp_path))
    assert (done.code, done.err) == (1, "error: no session found\n")


def test_show_goes_on_after_a_bad_entry(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"interchange": "dsh-chat-import", "version": 7}')
    (tmp_path / "b.json").write_bytes(HELLO.read_bytes())
    done = dcb("show", str(tmp_path))
    assert done.code == 1
    assert "error: " in done.err
    assert "notes.txt" in done.out


def test_an_input_found_by_a_pattern_is_not_overwritten(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(HELLO.read_bytes())
    for target in ("a.json", "b.json"):
        done = dcb(
            "convert", f"{tmp_path}/*.json", "--to", "sharegpt", "--force", "-o",
            str(tmp_path / target),
        )  # fmt: skip
        assert done.code == 1
        assert "the output is an input" in done.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("a.json", "b.json"), HELLO.read_bytes()
    )


PLUGIN = """
from converters.types import Format, Match
def probe(head):
    {probe}
def read(source, ctx):
    raise KeyError("gone")
FORMAT = Format(id="odd", title="Odd", kinds=frozenset({{"json"}}), probe=probe, read=read)
"""


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("import nowhere", 0, "warning: format plugin 'odd' left out: No module named 'nowhere'\n"),
        (PLUGIN.format(probe="1 / 0"), 0, "warning: format plugin 'odd' failed to look: ZeroDiv"),
        (
            PLUGIN.format(probe="return Match(100, 'mine')"),
            1,
            f"error: {HELLO}: format plugin 'odd' failed: KeyError('gone')\nhint: --no-plugins",
        ),
    ],
)
def test_a_broken_plugin(tmp_path: Path, body: str, code: int, message: str) -> None:
    (tmp_path / "oddplugin.py").write_text(body, encoding="utf-8")
    info = tmp_path / "oddplugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: oddplugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[dcb.formats]\nodd = oddplugin:FORMAT\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = dcb("convert", str(HELLO), "--to", "interchange", PYTHONPATH=path)
    assert done.code == code, done.err
    assert done.err.startswith(message)
    assert "Traceback" not in done.err
    without = dcb("--no-plugins", "convert", str(HELLO), "--to", "interchange", PYTHONPATH=path)
    assert (without.code, "plugin" in without.err) == (0, False)


def test_an_interrupt_while_the_program_loads() -> None:
    """Loading takes a tenth of a second: long enough to be met by Ctrl-C."""
    script = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from dcb.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 130
    assert done.stderr == b""


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dcb", "--version"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"dcb ")


def test_the_quick_end_still_cleans_up(tmp_path: Path) -> None:
    """Private copies of live databases are removed when the process ends."""
    database, private = tmp_path / "live.db", tmp_path / "private"
    private.mkdir()
    writer = sqlite3.connect(database)
    with closing(writer):
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (x)")
        writer.commit()
        done = subprocess.run(
            [sys.executable, "-m", "dcb", "detect", str(database)],
            capture_output=True, cwd=ROOT, env={**os.environ, "TMPDIR": str(private)},
            timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert list(private.iterdir()) == []


def test_a_profiler_gets_its_ordinary_end() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cProfile", "-m", "dcb", "--version"],
        capture_output=True, cwd=ROOT, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "function calls" in done.stdout
