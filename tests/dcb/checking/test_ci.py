"""The hook through the real pre-commit, the action through its own shell step."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dcb.snapshot.document import serialize
from tests.dcb.checking.test_snapshots import good
from tests.paths import ROOT

HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
BIN = Path(sys.executable).parent
PRE_COMMIT = shutil.which("pre-commit", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
DCB = shutil.which("dcb", path=str(BIN))

needs_pre_commit = pytest.mark.skipif(
    PRE_COMMIT is None or DCB is None or shutil.which("git") is None,
    reason="needs git, pre-commit and an installed dcb",
)


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PRE_COMMIT"))}
    names = {
        "HOME": str(home),
        "PATH": f"{BIN}{os.pathsep}{kept.get('PATH', '')}",
        "PRE_COMMIT_HOME": str(home / "cache"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org",
    }  # fmt: skip
    return {**kept, **names, **more}


def call(*args: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        args, cwd=cwd, env=env, check=False, capture_output=True, text=True, timeout=280
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    env = environment(tmp_path)
    call("git", "init", "-q", "-b", "main", cwd=folder, env=env)
    (folder / "snapshot.md").write_bytes(serialize(good()).encode())
    (folder / "README.md").write_bytes(b"# Read me\n")
    (folder / "data.json").write_bytes(b'{"a": 1}\n')
    return folder


def configure(folder: Path, config: dict[str, Any], env: dict[str, str]) -> None:
    text = yaml.safe_dump(config)
    (folder / ".pre-commit-config.yaml").write_text(text, encoding="utf-8")
    call("git", "add", "-A", cwd=folder, env=env)
    assert call("git", "commit", "-q", "-m", "start", cwd=folder, env=env).returncode == 0


def judge(folder: Path, env: dict[str, str]) -> None:
    """Run the hook over everything: clean, then with a changed snapshot, then in a commit."""
    assert PRE_COMMIT
    done = call(PRE_COMMIT, "run", "--all-files", "dcb-check", cwd=folder, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout
    path = folder / "snapshot.md"
    path.write_bytes(path.read_bytes().replace(b"Redis", b"MySQL"))
    call("git", "add", "-A", cwd=folder, env=env)
    done = call(PRE_COMMIT, "run", "dcb-check", cwd=folder, env=env)
    assert done.returncode == 1
    assert "snapshot.md:11: checksum: " in done.stdout
    assert call(PRE_COMMIT, "install", cwd=folder, env=env).returncode == 0
    refused = call("git", "commit", "-q", "-m", "change", cwd=folder, env=env)
    assert refused.returncode == 1
    assert "snapshot.md:11: checksum: " in refused.stdout + refused.stderr


@needs_pre_commit
def test_the_hooks_of_the_manifest_run_in_pre_commit(repository: Path, tmp_path: Path) -> None:
    # As shipped but for the language: the environment of the tests stands in for a new one.
    env = environment(tmp_path)
    hooks = [{**hook, "language": "system"} for hook in HOOKS]
    configure(repository, {"repos": [{"repo": "local", "hooks": hooks}]}, env)
    secret = repository / "notes.txt"
    secret.write_bytes(b"password=" + b"hunter2hunter2\n")
    call("git", "add", "-A", cwd=repository, env=env)
    assert PRE_COMMIT
    done = call(PRE_COMMIT, "run", "--all-files", "dcb-check-secrets", cwd=repository, env=env)
    assert done.returncode == 1
    assert "notes.txt:1: secret: password (password-1)" in done.stdout
    assert "hunter2" not in done.stdout
    call("git", "commit", "-q", "--no-verify", "-m", "more", cwd=repository, env=env)
    judge(repository, env)


@needs_pre_commit
def test_pre_commit_accepts_the_manifest() -> None:
    assert PRE_COMMIT
    done = subprocess.run(
        [PRE_COMMIT, "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.clients
@needs_pre_commit
def test_the_hook_installs_from_a_repository(repository: Path, tmp_path: Path) -> None:
    """The whole way of a user: a tagged repository, an environment of its own, the hook."""
    env = environment(tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    for name in ("converters", "dcb", "schemas"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, source / name)
    readme = ROOT / "README.md"
    (source / "README.md").write_bytes(readme.read_bytes() if readme.exists() else b"dcb\n")
    for args in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "v"],
                 ["tag", "v1"]):  # fmt: skip
        assert call("git", *args, cwd=source, env=env).returncode == 0
    hooks = [{"id": "dcb-check"}]
    config = {"repos": [{"repo": str(source), "rev": "v1", "hooks": hooks}]}
    configure(repository, config, env)
    judge(repository, {**env, "PATH": f"{Path(PRE_COMMIT or '').parent}:{os.environ['PATH']}"})


def step() -> str:
    steps = ACTION["runs"]["steps"]
    found = next(one for one in steps if one.get("name") == "Check")
    assert found["shell"] == "bash"
    return str(found["run"])


def run_step(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the shell step as a runner does, with the values of its inputs in the environment."""
    given = {name: str(spec["default"]) for name, spec in ACTION["inputs"].items()} | {
        name.replace("_", "-"): value for name, value in inputs.items()
    }
    found = next(one for one in ACTION["runs"]["steps"] if one.get("name") == "Check")
    env = {
        name: given[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, value in found["env"].items()
    }
    script = folder.parent / "step.sh"
    script.write_text(step(), encoding="utf-8")
    bash = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
    return call(*bash, cwd=folder, env=environment(folder.parent, **env))


@pytest.mark.skipif(shutil.which("bash") is None or DCB is None, reason="needs bash and dcb")
def test_the_step_of_the_action(repository: Path) -> None:
    done = run_step(repository)
    assert done.returncode == 0, done.stderr
    path = repository / "snapshot.md"
    good_bytes = path.read_bytes()
    path.write_bytes(good_bytes.replace(b"Redis", b"MySQL"))
    done = run_step(repository)
    assert done.returncode == 1
    assert "::error file=./snapshot.md,line=11,title=checksum::" in done.stdout
    done = run_step(
        repository, paths="README.md\nsnapshot.md\n", format="sarif", output="out.sarif"
    )
    assert done.returncode == 1
    log = json.loads((repository / "out.sarif").read_text(encoding="utf-8"))
    assert {result["ruleId"] for result in log["runs"][0]["results"]} == {"checksum", "unreadable"}
    path.write_bytes(good_bytes)
    assert run_step(repository, max_tokens="2").returncode == 1
    (repository / "key.txt").write_bytes(b"api_key=" + b"abcdefgh12345\n")
    assert run_step(repository).returncode == 0
    assert run_step(repository, secrets="true").returncode == 1


@pytest.mark.skipif(shutil.which("bash") is None or DCB is None, reason="needs bash and dcb")
def test_inputs_of_the_action_are_never_code(repository: Path) -> None:
    for value in ("$(touch owned)", "; touch owned", "--profile"):
        run_step(repository, paths=value)
        run_step(repository, max_tokens=value)
    assert not (repository / "owned").exists()
    assert "${{" not in step()


def test_the_action_pins_what_it_uses() -> None:
    for one in ACTION["runs"]["steps"]:
        if "uses" in one:
            revision = one["uses"].partition("@")[2]
            assert len(revision) == 40
