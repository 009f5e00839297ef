"""``dcb compile`` and ``dcb show`` of snapshots, from the command line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dcb.snapshot.document import read, verify
from tests.pack import Done, cases, dcb, pack
from tests.paths import needs_shared


def document(session_id: str, prompt: str) -> dict[str, Any]:
    return {
        "interchange": "dsh-chat-import",
        "version": 1,
        "meta": {"id": session_id, "createdAt": 1772323200000},
        "title": f"About {session_id}",
        "provider": "test",
        "turns": [
            {
                "prompt": prompt,
                "steps": [
                    {
                        "content": [{"type": "text", "text": "We decided on Redis."}],
                        "toolCalls": [],
                        "toolResults": [],
                    }
                ],
            }
        ],
    }


@pytest.fixture
def one(tmp_path: Path) -> Path:
    path = tmp_path / "one.json"
    path.write_bytes(json.dumps(document("s-1", "You must test. Be concise.")).encode())
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("s-1", "s-2"):
        (folder / f"{name}.json").write_bytes(json.dumps(document(name, "You must.")).encode())
    return folder


def run(*args: object, **env: str) -> Done:
    return dcb("compile", *map(str, args), seconds=120, **env)


def test_to_stdout_and_file(one: Path, tmp_path: Path) -> None:
    out = run(one)
    assert out.code == 0
    assert verify(out.out)
    target = tmp_path / "snapshot.md"
    assert run(one, "-o", target).code == 0
    assert target.read_bytes().decode() == out.out == run(one).out
    assert run(one, "-o", target).code == 1
    assert run(one, "-o", target, "--force").code == 0
    assert dcb("check", str(target)).code == 0


def test_options(one: Path) -> None:
    done = run(one, "--title", "T", "--tag", "a", "--tag", "b,c", "--description", "D")
    meta = read(done.out).snapshot.meta
    assert (meta.title, meta.tags, meta.description) == ("T", ("a", "b,c"), "D")
    assert read(run(one, "--profile", "plugin").out).dialect == "plugin"
    assert read(run(one, "--max-messages", "1").out).snapshot.preferences == ()
    for bad in (["--max-tokens", "5"], ["--bullets", "99"], ["--profile", "x"]):
        assert run(one, *bad).code == 2


def test_several_sessions(two: Path, tmp_path: Path) -> None:
    assert run(two).code == 2
    folder = tmp_path / "out"
    done = run(two, "-o", f"{folder}/", "--json")
    assert done.code == 0
    records = [json.loads(line) for line in done.out.strip().split("\n")]
    assert [record["session"] for record in records[:-1]] == ["s-1", "s-2"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "About-s-1-s-1.md",
        "About-s-2-s-2.md",
    ]
    assert dcb("check", str(folder)).code == 0
    only = run(two, "--session", "s-2")
    assert read(only.out).snapshot.meta.source_conversation_id == "s-2"


def test_a_file_that_exists_stops_no_other(two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert run(two / "s-1.json", "-o", f"{folder}/").code == 0
    done = run(two, "-o", folder)
    assert done.code == 1
    assert done.err.count("the file exists") == 1
    assert len(list(folder.iterdir())) == 2


def test_a_name_that_the_locale_lacks(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_bytes(json.dumps(document("s-1", "You must.") | {"title": "登录"}).encode())
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run(path, "-o", f"{tmp_path}/out/", **ascii_only)
    assert done.code in (0, 1)
    assert "Traceback" not in done.err
    assert done.code == 0 or "UTF-8 locale" in done.err


@pytest.mark.parametrize("command", ["show", "brief"])
def test_a_broken_snapshot_is_named_with_its_line(command: str, one: Path, tmp_path: Path) -> None:
    text = run(one).out
    broken = {
        "layers": (text.replace("dcb:layer:summary", "dcb:layer:x"), None),
        "version": (text.replace('"1.0"', '"9.9"'), 2),
        "header": (text[:150], 1),
    }
    for name, (content, line) in broken.items():
        path = tmp_path / f"{name}.md"
        path.write_bytes(content.encode())
        done = dcb(command, str(path))
        assert done.code == 1
        assert re.match(rf"error: {re.escape(str(path))}:{line or '[0-9]+'}: ", done.err), done.err


def test_dry_run(one: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.md"
    done = run(one, "--dry-run", "-o", target)
    assert done.code == 0
    assert not target.exists()
    assert "tokens: " in done.out
    assert "[v-001] directive user" in done.out
    record = json.loads(run(one, "--dry-run", "--json").out.split("\n")[0])
    assert record["object"]["verbatim"][0]["content"] == "You must test."
    assert record["budget"]["dropped"] == []


def test_a_dry_run_names_what_the_budget_drops(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    prompt = "\n".join(f"You must do thing number {n} of the list." for n in range(100))
    path.write_bytes(json.dumps(document("s", prompt)).encode())
    done = run(path, "--dry-run", "--max-tokens", "256")
    assert "dropped: verbatim v-" in done.out
    assert "does-not-fit" in done.out


def test_what_was_left_out_is_summed_up_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    texts = ["The server must support Safari 14.", "The client must support iOS 15."]
    talk = {"messages": [{"role": "user", "content": text} for text in texts]}
    path.write_text(json.dumps(talk), encoding="utf-8")
    done = run(path, "-o", tmp_path / "out.md")
    assert done.code == 0
    assert "left out: 1 replaced preferences; --dry-run lists them" in done.err
    listed = run(path, "--dry-run")
    line = (
        "passed over: preference constraint/runtime (replaced): The server must support Safari 14."
    )
    assert line in listed.out
    assert "replacedPreferences 1" in listed.out
    record = json.loads(run(path, "--dry-run", "--json").out.split("\n")[0])
    assert record["leftOut"]["replacedPreferences"] == 1
    assert record["passedOver"][0]["reason"] == "replaced"


def test_save(one: Path, two: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = run(one, "--save", DCB_HOME=str(home))
    assert done.code == 0, done
    assert "saved " in done.err
    again = run(two, "--save", "--json", DCB_HOME=str(home))
    saved = [json.loads(line) for line in again.out.strip().split("\n")]
    assert [record["state"] for record in saved if "state" in record] == ["new", "new"]


def test_settings_and_lexicon(one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config" / "dcb"
    config.mkdir(parents=True)
    (config / "dcb.toml").write_bytes(b"max_messages = 1\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert read(run(one, **env).out).snapshot.preferences == ()
    assert read(run(one, "--max-messages", "9", **env).out).snapshot.preferences
    (config / "dcb.toml").write_bytes(b"profile = 'plugin'\n")
    assert read(run(one, **env).out).dialect == "plugin"
    assert read(run(one, "--profile", "published", **env).out).dialect == "published"
    (config / "dcb.toml").write_bytes(b"max_messages = 'many'\n")
    assert run(one, **env).code == 2
    words = tmp_path / "words.toml"
    words.write_bytes(b"[[preference]]\nkey = 'db'\nscope = 'constraint'\nany = ['redis']\n")
    keys = {p.key for p in read(run(one, "--lexicon", words).out).snapshot.preferences}
    assert "db" in keys
    words.write_bytes(b"odd = 1")
    assert run(one, "--lexicon", words).code == 1


def test_a_bad_input_stops_nothing_else(one: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(b'{"interchange": "dsh-chat-import", "version": 9}')
    done = run(bad, one, "-o", f"{tmp_path}/out/")
    assert done.code == 1
    assert "error: " in done.err
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_show(one: Path, tmp_path: Path) -> None:
    target = tmp_path / "snapshot.md"
    run(one, "-o", target)
    shown = dcb("show", str(target))
    assert shown.code == 0
    assert "checksum fits" in shown.out
    held = json.loads(dcb("show", "--json", str(target)).out)
    assert held["meta"]["sourceConversationId"] == "s-1"
    changed = target.read_bytes().decode().replace("title: About", "title: Above")
    target.write_bytes(changed.encode())
    assert "THE HEADER WAS CHANGED" in dcb("show", str(target)).out


REACHED = [
    case for case in cases("jsonl") if case["format"] in ("claude", "claude-code", "codex")
]  # fmt: skip


@needs_shared
@pytest.mark.parametrize("case", REACHED, ids=lambda case: case["name"])
def test_hostile_sessions(case: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    seconds = case.get("limits", {}).get("seconds", 20) * 6
    done = dcb("compile", str(pack() / case["name"]), "-o", f"{folder}/", seconds=seconds)
    assert done.code in (0, 1)
    assert "Traceback" not in done.err
    if folder.exists() and any(folder.iterdir()):
        assert dcb("check", str(folder)).code == 0
    for path in case.get("no_path", ()):
        assert not Path(path).exists()
