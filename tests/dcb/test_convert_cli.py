"""``dcb convert`` as a new user meets it: real files, wrong paths, pipes, kills."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pack import dcb
from tests.paths import ROOT

HELLO = ROOT / "examples" / "hello.json"


def document(name: str, turns: int = 1) -> dict[str, Any]:
    step = {"content": [{"type": "text", "text": "yes"}], "toolCalls": [], "toolResults": []}
    return {
        "interchange": "dsh-chat-import",
        "version": 1,
        "meta": {"id": name},
        "title": f"About {name}",
        "provider": "demo",
        "turns": [{"prompt": f"question {n}", "steps": [step]} for n in range(turns)],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "in"
    source.mkdir()
    for name in ("one", "two", "three"):
        (source / f"{name}.json").write_text(json.dumps(document(name)), encoding="utf-8")
    return source


def test_example_to_stdout() -> None:
    done = dcb("convert", str(HELLO), "--to", "interchange")
    assert done.code == 0
    session = json.loads(done.out)
    assert [turn["prompt"] for turn in session["turns"]][1].startswith("Always answer")
    assert "system-prompt-aside 1" in done.err


def test_group_name_and_strict(tmp_path: Path) -> None:
    done = dcb("convert", str(HELLO), "--to", "chat-json", "-o", str(tmp_path / "a.json"))
    assert done.code == 0, done
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["messages"]
    assert dcb("convert", str(HELLO), "--to", "interchange", "--strict").code == 3


def test_the_report_of_one_file_names_what_writing_lost(tmp_path: Path) -> None:
    source, report = tmp_path / "a.json", tmp_path / "r.json"
    session = document("a")
    session["turns"][0]["steps"][0]["time"] = 1767225600000
    session["meta"]["cwd"] = "/home/user/demo"
    source.write_text(json.dumps(session), encoding="utf-8")
    target = tmp_path / "o.json"
    done = dcb(
        "convert", str(source), "--to", "sharegpt", "-o", str(target), "--report", str(report),
        "--json",
    )  # fmt: skip
    assert done.code == 0, done
    total = json.loads(report.read_text(encoding="utf-8"))["total"]
    assert total["items"]["cwd"] == {"total": 1, "kept": 0, "reported": 1}
    assert {"cwd-dropped", "time-dropped"} <= {entry["rule"] for entry in total["entries"]}
    lines = [json.loads(line) for line in done.out.split("\n") if line]
    assert lines[0]["output"] == str(target)
    assert lines[-1]["report"]["items"] == total["items"]
    strict = dcb("convert", str(source), "--to", "sharegpt", "--strict")
    assert strict.code == 3


def test_many_inputs_into_one_file_keep_their_own_accounts(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    out = tmp_path / "all.jsonl"
    done = dcb(
        "convert", str(folder), "--to", "openai-chat", "-o", str(out), "--report", str(report)
    )
    assert done.code == 0, done
    assert out.read_bytes().count(b"\n") == 3
    reports = json.loads(report.read_text(encoding="utf-8"))["reports"]
    assert [one["items"]["prompt"]["kept"] for one in reports] == [1, 1, 1]
    for one in reports:
        for item in one["items"].values():
            assert item["total"] == item["kept"] + item["reported"]


def test_the_account_of_a_failed_input_adds_up(tmp_path: Path) -> None:
    case = next(iter((ROOT / "golden" / "claude" / "branches").glob("input*")))
    report = tmp_path / "r.json"
    done = dcb(
        "convert", str(case), "--to", "interchange", "--branch", "99", "-o", f"{tmp_path}/o/",
        "--report", str(report),
    )  # fmt: skip
    assert done.code == 1
    assert "no branch 99" in done.err
    records = json.loads(report.read_text(encoding="utf-8"))["total"]["records"]
    assert records["total"] > 0
    assert records["total"] == records["mapped"] + records["aside"] + records["skipped"]


def test_folder_into_folder_by_jobs(folder: Path, tmp_path: Path) -> None:
    for jobs in ("1", "2"):
        out = tmp_path / f"out{jobs}"
        done = dcb("convert", str(folder), "--to", "interchange", "-o", str(out), "-j", jobs)
        assert done.code == 0, done
    listed = [sorted(p.name for p in (tmp_path / f"out{n}").iterdir()) for n in (1, 2)]
    assert listed[0] == listed[1] == ["About-one-one.json", "About-three-three.json",
                                      "About-two-two.json"]  # fmt: skip
    for name in listed[0]:
        assert (tmp_path / "out1" / name).read_bytes() == (tmp_path / "out2" / name).read_bytes()


def test_several_into_one_file_of_lines(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.jsonl"
    done = dcb("convert", str(folder), "--to", "interchange", "-o", str(out))
    assert done.code == 0, done
    lines = out.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["title"] for line in lines if line] == [
        "About one",
        "About three",
        "About two",
    ]
    again = dcb("convert", str(out), "--to", "interchange")
    assert again.out == out.read_text(encoding="utf-8")


def test_same_name_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(document("same")), encoding="utf-8")
    out = tmp_path / "out"
    sources = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert dcb("convert", *sources, "--to", "interchange", "-o", f"{out}/").code == 0
    assert sorted(p.name for p in out.iterdir()) == [
        "About-same-same-2.json",
        "About-same-same.json",
    ]
    again = dcb("convert", *sources, "--to", "interchange", "-o", f"{out}/")
    assert again.code == 1
    assert "exists" in again.err
    assert dcb("convert", *sources, "--to", "interchange", "-o", f"{out}/", "--force").code == 0


def test_good_and_bad_inputs_together(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.json").write_text('{"interchange":"dsh-chat-import","version":9}')
    out = tmp_path / "out"
    report = tmp_path / "report.json"
    done = dcb(
        "convert", str(folder), "missing.json", "--to", "interchange", "-o", f"{out}/",
        "--report", str(report), "--json",
    )  # fmt: skip
    assert done.code == 1
    assert len(list(out.iterdir())) == 3
    assert "broken.json:/version: interchange version" in done.err
    assert "error: missing.json: no such file" in done.err
    lines = [json.loads(line) for line in done.out.split("\n") if line]
    assert lines[-1]["failed"] == 2
    assert sum("output" in line for line in lines) == 3
    assert json.loads(report.read_text(encoding="utf-8"))["total"]["sessions"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["convert", "nope.json", "--to", "interchange"], 1, "error: nope.json: no such file"),
        (["convert", str(HELLO), "--to", "interchang"], 2, "did you mean 'interchange'?"),
        (["convert", str(HELLO), "--to", "interchange", "-O", "x=1"], 2, "has no option 'x'"),
        (["convert", str(HELLO), "--to", "interchange", "--branch", "x"], 2, "--branch"),
        (["convert", str(HELLO), "--to", "interchange", "--tz", "Mars/One"], 2, "Mars/One"),
        (["convert", str(HELLO)], 2, "--to"),
        (["nonsense"], 2, "nonsense"),
        (["convert", str(HELLO), "--to", "interchange", "-o", "/nowhere/x.json"], 1, "/nowhere"),
    ],
)
def test_errors(arguments: list[str], code: int, message: str) -> None:
    done = dcb(*arguments)
    assert done.code == code, done
    assert message in done.err
    assert "Traceback" not in done.err
    assert not done.out


def test_output_is_an_input(tmp_path: Path) -> None:
    source = tmp_path / "a.json"
    source.write_text(json.dumps(document("a")), encoding="utf-8")
    (tmp_path / "hard").hardlink_to(source)
    (tmp_path / "soft").symlink_to(source)
    for name in ("a.json", "./a.json", "hard", "soft"):
        target = f"{tmp_path}/{name}"
        done = dcb("convert", str(source), "--to", "openai-chat", "-o", target, "--force")
        assert done.code == 1
        assert "the output is an input" in done.err
    assert json.loads(source.read_text(encoding="utf-8"))["meta"]["id"] == "a"


def test_pipe_in_and_closed_pipe_out() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = f"{sys.executable} -c 'from dcb.__main__ import main; main()'"
    text = json.dumps(document("a", 20_000))
    done = subprocess.run(
        f"{run} convert - --to interchange | head -c 10",
        shell=True, check=False, input=text.encode(), capture_output=True, env=env,
    )  # fmt: skip
    assert done.stdout == b'{"intercha'
    assert b"Traceback" not in done.stderr


def test_narrow_encodings() -> None:
    done = dcb("show", str(HELLO), PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert "42" in done.out


def test_no_escape_sequences_without_a_terminal() -> None:
    for arguments in (["formats"], ["show", str(HELLO)], ["--help"], ["convert", "--help"]):
        assert "\x1b" not in dcb(*arguments, NO_COLOR="1").out


def test_killed_at_any_moment(tmp_path: Path) -> None:
    source = tmp_path / "big.json"
    source.write_text(json.dumps(document("big", 60_000)), encoding="utf-8")
    target = tmp_path / "out.json"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-c",
        "from dcb.__main__ import main; main()",
        "convert",
        str(source),
    ]
    command += ["--to", "interchange", "-o", str(target), "--force"]
    start = time.monotonic()
    subprocess.run(command, check=True, env=env)
    span = time.monotonic() - start
    whole = target.read_bytes()
    target.write_bytes(b"old")
    dice = random.Random(7)
    for _ in range(50):
        process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
        time.sleep(span * dice.random() * 1.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert target.read_bytes() in (b"old", whole)
    left = [p.name for p in tmp_path.iterdir() if p.name not in ("big.json", "out.json")]
    assert all(name.startswith(".out.json.") and name.endswith(".tmp") for name in left)
    subprocess.run(command, check=True, env=env)
    assert target.read_bytes() == whole


# A shell lets the commands that it runs in the background ignore interrupts.
INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from dcb.__main__ import main; main()"
)


def loaded(process: subprocess.Popen[bytes]) -> None:
    """Wait until a child is past the start of Python, where an interrupt is fatal."""
    maps = Path(f"/proc/{process.pid}/maps")
    while process.poll() is None and maps.exists() and "msgspec" not in maps.read_text():
        time.sleep(0.01)


def test_terminated(tmp_path: Path) -> None:
    source = tmp_path / "big.json"
    source.write_text(json.dumps(document("big", 60_000)), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", INTERRUPTIBLE, "convert", str(source)]
    command += ["--to", "interchange", "-o", str(tmp_path / "out.json")]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE)
        loaded(process)
        time.sleep(0.3)
        process.send_signal(number)
        _, err = process.communicate()
        assert process.returncode in (code, 0, -number)
        assert b"Traceback" not in err or process.returncode == -number
        assert not list(tmp_path.glob("*.tmp"))
        (tmp_path / "out.json").unlink(missing_ok=True)


@pytest.mark.skipif(sys.platform != "linux", reason="finds worker processes in /proc")
@pytest.mark.parametrize("struck", ["all", "worker"])
def test_worker_processes_leave_nothing_behind(tmp_path: Path, struck: str) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for number in range(1500):
        text = json.dumps(document(f"s{number}", 4))
        (source / f"{number}.json").write_text(text, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "convert", str(source),
         "--to", "openai-chat", "-o", f"{out}/", "--jobs", "2"],
        stderr=subprocess.PIPE, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and not (out.is_dir() and len(list(out.iterdir())) > 20):
        time.sleep(0.01)
    assert process.poll() is None, "over before the test began"
    if struck == "all":
        os.killpg(process.pid, signal.SIGINT)
    else:
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert b"Traceback" not in err
    left = [path.name for path in out.iterdir() if path.suffix != ".jsonl"]
    if struck == "all":
        assert (process.returncode, err) == (130, b"interrupted\n")
        assert left == []
    else:
        assert process.returncode == 1
        assert err.startswith(b"error: a worker process was ended from outside\nhint: ")


def test_files_are_named_as_the_tool_looks_for_them(tmp_path: Path) -> None:
    source = str(ROOT / "examples" / "hello.json")
    for name in ("claude", "codex"):
        done = dcb("convert", source, "--to", name, "-o", f"{tmp_path}/{name}/")
        assert done.code == 0, done.err
    uuid = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    (claude,) = (tmp_path / "claude").iterdir()
    assert re.fullmatch(rf"{uuid}\.jsonl", claude.name)
    (codex,) = (tmp_path / "codex").iterdir()
    assert re.fullmatch(rf"rollout-\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d-{uuid}\.jsonl", codex.name)


def test_an_output_that_is_a_stream(tmp_path: Path) -> None:
    source = str(ROOT / "examples" / "hello.json")
    done = dcb("convert", source, "--to", "interchange", "-o", "/dev/stdout")
    assert done.code == 0, done.err
    assert json.loads(done.out)["version"] == 1
    assert dcb("convert", source, "--to", "interchange", "-o", "/dev/null").code == 0


def test_detect_names_what_lies_beside_transcripts(tmp_path: Path) -> None:
    case = ROOT / "golden" / "chatgpt" / "zip" / "input.zip"
    done = dcb("detect", str(case))
    assert done.code == 0, done.err
    assert "chatgpt" in done.out
    assert "skipped: " in done.err
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    done = dcb("detect", str(tmp_path))
    assert done.code == 1
    assert "nothing in it has a known format" in done.err
    assert dcb("detect", str(tmp_path / "a.txt")).code == 1


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("claude/branches", "no branch 99"),
        ("codex/branches", "no branch 99"),
        ("gemini/branches", "no branch 99"),
        ("chatgpt/branches", "no branch 99"),
        ("openai-chat/plain", "no branch 99"),
        ("anthropic-messages/plain", "no branch 99: anthropic-messages has no branches"),
        ("sharegpt/plain", "no branch 99"),
        ("interchange/plain", "no branch 99: a document is one conversation"),
    ],
)
def test_a_branch_that_is_not_there_is_an_error(tmp_path: Path, case: str, message: str) -> None:
    (source,) = (ROOT / "golden" / case).glob("input*")
    done = dcb(
        "convert", str(source), "--branch", "99", "--to", "interchange", "-o", f"{tmp_path}/o"
    )
    assert done.code == 1
    assert message in done.err
    assert not (tmp_path / "o").exists()
