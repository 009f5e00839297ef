"""What kind of document a file is, and the check of JSON documents against the schemas.

Every problem of a JSON document comes with its JSON pointer.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import orjson

from converters import jsonio
from converters.ir import MARKER
from dcb.snapshot.header import DIGEST, NAMES
from dcb.snapshot.lexing import MARKERS, js_lines, trim
from dcb.snapshot.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

__all__ = ["Kind", "check_json", "kind_of"]

Kind: TypeAlias = Literal["snapshot", "interchange", "bundle", "report", "object"]
"""``snapshot`` is a document, ``object`` the JSON object of one; the rest are JSON documents."""

_SCHEMAS: Final = {
    "interchange": "interchange",
    "bundle": "bundle",
    "report": "report",
    "object": "snapshot",
}
_MOST: Final = 200
"""How many problems of one document are worth telling."""

_FEW_NAMES: Final = 2
"""Lines of a header that no other text has by chance."""

_FENCES: Final = ("```", "~~~")


def kind_of(head: bytes, root: Any) -> Kind | None:
    """Say what a file is by its first bytes and its first JSON value; ``None``: nothing of ours."""
    if _is_snapshot(head, root):
        return "snapshot"
    if isinstance(root, list) and root:
        root = root[0]
    if not isinstance(root, dict):
        return None
    if root.get("bundle") == MARKER:
        return "bundle"
    if "interchange" in root:
        return "interchange"
    if "reports" in root and "total" in root:
        return "report"
    if "meta" in root and "verbatim" in root and "preferences" in root:
        return "object"
    return None


def _is_snapshot(head: bytes, root: Any) -> bool:
    """Say whether a text is a snapshot document, be it a damaged one.

    Front matter with ``dcb_schema`` makes one. Where the front matter is damaged, it takes a
    layer marker besides, where none of it is left, all three: as whole lines outside of
    fences and in order, so that a text about the format is no snapshot.
    """
    if b"dcb_schema" not in head and b"<!-- dcb:layer:" not in head:
        return False
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip("\r\n")
    if isinstance(root, dict | list) and trim(text[:64]).startswith(("{", "[")):
        return False  # JSON, which its root judges
    lines = [trim(line) for line in js_lines(text)]
    names = _front_names(lines)
    if text.startswith("---") and "dcb_schema" in names:
        return True
    return _markers(lines) >= (1 if len(names) >= _FEW_NAMES else len(MARKERS))


def _front_names(lines: list[str]) -> set[str]:
    """Give the names of the format in the lines before the header's end, a fence or a marker."""
    found = set()
    for number, line in enumerate(lines):
        if (line == "---" and number) or line in MARKERS or line.startswith(_FENCES):
            break
        found.add(trim(line.partition(":")[0]))
    return found & {*NAMES, DIGEST}


def _markers(lines: list[str]) -> int:
    """Count the layer markers that are whole lines outside of Markdown's fences, in order."""
    count, fence = 0, ""
    for line in lines:
        run = line[: len(line) - len(line.lstrip(line[:1]))] if line.startswith(_FENCES) else ""
        if fence:
            fence = "" if line == run and run.startswith(fence) else fence
        elif run:
            fence = run
        elif count < len(MARKERS) and line == MARKERS[count]:
            count += 1
    return count


def check_json(data: bytes, kind: Kind) -> list[Problem]:
    """Give every problem of a JSON document, one per place; bundles are verified too.

    Also of a JSON array of documents, and of documents one per line.
    """
    try:
        values = [(1, _load(data))]
    except ValueError as error:
        lines = [(n, line) for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]
        try:
            values = [(number, _load(line)) for number, line in lines]
        except ValueError:
            return [Problem("error", "unreadable", 1, f"not JSON: {error}"[:200])]
        if len(values) < 2:
            return [Problem("error", "unreadable", 1, f"not JSON: {error}"[:200])]
    return [problem for line, value in values for problem in _check(value, kind, line)]


def _load(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except ValueError:
        try:
            return jsonio.loads_exact(data)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


def _check(value: Any, kind: Kind, line: int) -> Iterator[Problem]:
    many = isinstance(value, list)
    for index, one in enumerate(value if many else [value]):
        prefix = f"/{index}" if many else ""
        for problem in _one(one, kind):
            yield problem._replace(line=line, pointer=prefix + (problem.pointer or ""))


def _one(value: Any, kind: Kind) -> Iterator[Problem]:
    yield from _against(value, _SCHEMAS[kind])
    if kind == "bundle":
        yield from _bundle(value)


def _against(value: Any, name: str) -> Iterator[Problem]:
    try:
        found = list(_validator(name).iter_errors(value))
    except RecursionError:
        yield Problem("error", "schema", 1, "nested too deep to be checked", "")
        return
    found.sort(key=lambda error: list(map(str, error.absolute_path)))
    for error in found[:_MOST]:
        best = _deepest(error)
        yield Problem("error", "schema", 1, _short(best), _pointer(best))
    if len(found) > _MOST:
        yield Problem("error", "schema", 1, f"and {len(found) - _MOST} more problems", "")


@cache
def _validator(name: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    import schemas

    return Draft202012Validator(schemas.load(name))


def _deepest(error: ValidationError) -> ValidationError:
    """Give the error of the alternative that fits best, where there are alternatives."""
    from jsonschema.exceptions import best_match

    return best_match([error]) or error


def _pointer(error: ValidationError) -> str:
    return "".join(
        "/" + str(part).replace("~", "~0").replace("/", "~1") for part in error.absolute_path
    )


def _short(error: ValidationError) -> str:
    """Say what is wrong without the value, which may be long or private."""
    wanted: Any = error.validator_value
    value: Any = error.instance
    if error.validator == "required":
        missing = [name for name in wanted if name not in value]
        return f"member {missing[0]!r} is missing"
    if error.validator == "type":
        kinds = wanted if isinstance(wanted, str) else " or ".join(map(str, wanted))
        return f"must be {kinds}, is {_type(value)}"
    if error.validator in ("const", "enum"):
        choices = wanted if isinstance(wanted, list) else [wanted]
        return f"must be one of {', '.join(map(repr, choices))}"[:200]
    return f"does not meet {error.validator} {str(wanted)[:60]}"


def _type(value: Any) -> str:
    for kind, name in (
        (bool, "boolean"),
        (str, "string"),
        (int, "integer"),
        (float, "number"),
        (dict, "object"),
        (list, "array"),
    ):
        if isinstance(value, kind):
            return name
    return "null"


def _bundle(value: Any) -> Iterator[Problem]:
    from converters.formats.dsh_bundle import document

    places = {
        "session-fingerprint-mismatch": ("/sha256/session", "the log was changed"),
        "bundle-fingerprint-mismatch": ("/sha256/bundle", "the document was changed"),
        "log-missing": ("/log", "no log"),
    }
    for code in document.verify(value):
        if code in places:
            pointer, what = places[code]
            yield Problem("error", code, 1, what, pointer)
