"""The README says what is: its matrix is generated, its library example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from converters.registry import all_formats
from dcb.cli.formats import matrix
from tests.paths import ROOT

README = ROOT / "README.md"


def section(name: str) -> str:
    text = README.read_text(encoding="utf-8")
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    return text[text.index(start) + len(start) : text.index(end)].strip()


def test_matrix_is_fresh() -> None:
    """Write it anew with ``python -m tests.test_readme``."""
    assert section("matrix") == matrix(all_formats())


def test_library_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "examples").mkdir()
    hello = ROOT / "examples" / "hello.json"
    (tmp_path / "examples" / "hello.json").write_bytes(hello.read_bytes())
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        check=False, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "openai-chat" in done.stdout


def test_commands_named_in_the_readme_exist() -> None:
    from dcb.cli import _COMMANDS, _exists

    text = README.read_text(encoding="utf-8")
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    for name in set(re.findall(r"(?:^|[/ ])dcb ([a-z]+)", commands, re.MULTILINE)):
        assert name in _COMMANDS
        assert _exists(name), name


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    head, rest = text.split("<!-- matrix -->\n", 1)
    tail = rest[rest.index("<!-- /matrix -->") :]
    made = f"{head}<!-- matrix -->\n{matrix(all_formats())}\n{tail}"
    README.write_text(made, encoding="utf-8")
