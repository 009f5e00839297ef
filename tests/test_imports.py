"""The house rules that a machine can check: who imports whom, and what is banned where."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCES = sorted((ROOT / "converters").rglob("*.py")) + sorted((ROOT / "dcb").rglob("*.py"))
EDGE = ("dcb.cli",)
WRITERS = {"dcb.files", "converters.sqlitedb"}  # the latter writes private copies
OPENERS = ("converters.opening", "converters.sqlitedb", "dcb.files")


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, *, runtime: bool = False) -> Iterator[str]:
    """Give imported modules; with ``runtime`` not those under TYPE_CHECKING."""
    typing_only: set[ast.AST] = set()
    if runtime:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                typing_only.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parsed() -> list[tuple[str, ast.Module]]:
    return [(module_of(p), ast.parse(p.read_text(encoding="utf-8"))) for p in SOURCES]


MODULES = parsed()


def under(module: str, *packages: str) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


def test_converters_know_nothing_of_dcb() -> None:
    for name, tree in MODULES:
        if under(name, "converters"):
            assert not [m for m in imports(tree) if under(m, "dcb", "typer", "rich")], name


def test_nothing_below_the_cli_imports_it() -> None:
    for name, tree in MODULES:
        # The start of the program is above the command line.
        if not under(name, "dcb.cli", "dcb.__main__"):
            assert not [m for m in imports(tree) if under(m, "dcb.cli", "typer", "rich")], name


def test_formats_import_only_their_parent() -> None:
    from converters.registry import all_formats

    parents = {f.id.replace("-", "_"): (f.parent or "").replace("-", "_") for f in all_formats()}
    for name, tree in MODULES:
        if not under(name, "converters.formats") or name == "converters.formats":
            continue
        own = name.split(".")[2]
        others = {m.split(".")[2] for m in imports(tree) if m.startswith("converters.formats.")} - {
            own
        }
        assert others <= {parents.get(own, "")}, name


def test_formats_do_no_io() -> None:
    banned = ("os", "pathlib", "random", "socket", "urllib.request", "http", "logging", "tempfile",
              "secrets", "subprocess", "uuid.uuid4", "uuid.uuid1")  # fmt: skip
    for name, tree in MODULES:
        if under(name, "converters.formats", "converters.shapes"):
            found = [m for m in imports(tree, runtime=True) if under(m, *banned)]
            assert not found, (name, found)


BANNED_CALLS = {
    "print": EDGE,
    "input": EDGE,
}
BANNED_ATTRIBUTES = {
    "splitlines": (),
    "uuid4": EDGE,
    "urandom": ("dcb.envelope", "dcb.files", *EDGE),
    "environ": EDGE,
    "getenv": EDGE,
    "utcnow": (),
}


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_banned_calls() -> None:
    for name, tree in MODULES:
        for call in calls(tree):
            if isinstance(call.func, ast.Name) and call.func.id in BANNED_CALLS:
                assert under(name, *BANNED_CALLS[call.func.id]), (name, call.lineno)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in BANNED_ATTRIBUTES:
                allowed = BANNED_ATTRIBUTES[node.attr]
                assert allowed, (name, node.lineno, node.attr)
                assert under(name, *allowed), (name, node.lineno, node.attr)


def test_the_clock_is_read_at_the_edge_only() -> None:
    clocks = {("datetime", "now"), ("date", "today"), ("time", "time"), ("time", "time_ns")}
    for name, tree in MODULES:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                read = (node.value.id, node.attr) in clocks
                assert not read or under(name, *EDGE), (name, node.lineno)


def test_only_files_writes_files() -> None:
    for name, tree in MODULES:
        for call in calls(tree):
            func = call.func
            attribute = func.attr if isinstance(func, ast.Attribute) else ""
            if attribute in ("write_text", "write_bytes", "touch"):
                assert name in WRITERS, (name, call.lineno)
            if isinstance(func, ast.Name) and func.id == "open":
                modes = [a.value for a in call.args[1:2] if isinstance(a, ast.Constant)]
                writes = any(set(str(mode)) & set("wax+") for mode in modes)
                assert not writes or name in WRITERS, (name, call.lineno)


def test_public_modules_have_docstrings_and_stay_short() -> None:
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), path
        assert text.count("\n") <= 520, path


@pytest.mark.parametrize(
    "heavy", ["typer", "rich", "cryptography", "converters.formats.interchange"]
)
def test_importing_converters_is_light(heavy: str) -> None:
    code = f"import converters, sys; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


def test_help_loads_no_format() -> None:
    code = (
        "import sys; sys.argv = ['dcb', '--help']\n"
        "from dcb.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "bad = [m for m in sys.modules if m.startswith('converters.formats.') "
        "or m.split('.')[0] in ('cryptography', 'jsonschema')]\n"
        "sys.exit(bool(bad))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    assert done.returncode == 0
