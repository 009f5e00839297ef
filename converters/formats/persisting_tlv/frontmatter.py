"""The YAML frontmatter: session data as text, numbers, lists and objects.

Read with a safe loader by the rules of YAML 1.2 (times stay text, ``no`` is a word, ``12:30``
is no number), because the writer of the format follows them. Anchors are refused.
"""

from __future__ import annotations

import codecs
import math
import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from converters.formats.persisting_tlv.frame import dashes, line_end, opens_frontmatter

if TYPE_CHECKING:
    from converters.ledger import Ledger

__all__ = ["FORMAT_NAME", "LAYOUT", "ORDER", "read_frontmatter", "write_frontmatter"]

FORMAT_NAME: Final = "persisting:1.0"
LAYOUT: Final = "<!-- persisting:block:{speaker} {json} -->\n\nmessage body\n\n"
ORDER: Final = (
    "format",
    "block",
    "session",
    "agent",
    "model",
    "provider",
    "started",
    "duration",
    "turns",
    "total_tokens",
    "estimated_cost_usd",
    "subagents",
    "client",
)
"""The keys of a live 1.0 document in the order of its writer (specification, section 3)."""

_LIMIT: Final = 256 * 1024
_CLIENT: Final = frozenset({"peer", "peer_port", "pid", "command", "machine_fp"})
_LINE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*+):[ \t]*+(.*)")
_BREAKS: Final = re.compile("[\n\r\x85\u2028\u2029]")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?", re.ASCII)


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("anchors are not read")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,400})", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]{1,400}|[0-9]{1,400}(?:\.[0-9]{0,400})?)(?:[eE][-+]?[0-9]{1,3})?",
        "-+.0123456789",
    ),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z", re.ASCII), list(_first)
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


# Times are plain text; every other word that a YAML 1.1 reader takes for a value is quoted.
_Dumper.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeDumper.yaml_implicit_resolvers.items()
}


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # A line of dashes inside a folded text would end the frontmatter.
    style = '"' if _BREAKS.search(value) else None
    if value == LAYOUT:
        style = "|"
    if style is None and any(
        pattern.match(value) for _, pattern in _Loader.yaml_implicit_resolvers.get(value[:1], ())
    ):
        style = "'"  # a number by YAML 1.2 that YAML 1.1 takes for text
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)


_Dumper.add_representer(str, _text)


def read_frontmatter(preamble: bytes, ledger: Ledger | None = None) -> dict[str, Any] | None:
    """Give the frontmatter that stands before the first block, ``None`` without one.

    YAML that cannot be read (as an early writer left it) is read line by line and noted.
    """
    start = len(codecs.BOM_UTF8) if preamble.startswith(codecs.BOM_UTF8) else 0
    while start < len(preamble) and preamble[start : start + 1] in b"#\r\n":
        start = line_end(preamble, start)
    if not opens_frontmatter(preamble, start):
        return None
    begin = line_end(preamble, start)
    closing = dashes(preamble, begin)
    raw = preamble[begin : closing[0] if closing else len(preamble)]
    text = raw.decode("utf-8", "replace")
    value: Any = None
    if len(text) <= _LIMIT:
        try:
            value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader with fewer types
        except (yaml.YAMLError, RecursionError, ValueError, TypeError, AttributeError):
            value = None
    if isinstance(value, dict):
        return {str(key): _plain(item, 1) for key, item in value.items()}
    if value is None and not text.strip():
        return {}
    if ledger is not None:
        ledger.note("malformed-record", 1, kind="bad_frontmatter")
    return _by_lines(text)


def _plain(value: Any, depth: int) -> Any:
    """Keep what JSON can hold; anything else becomes text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, dict) and depth < 64:
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list) and depth < 64:
        return [_plain(item, depth + 1) for item in value]
    return str(value)[:1000]


def _by_lines(text: str) -> dict[str, Any]:
    """Read ``key: value`` lines; the keys of ``client`` go into it."""
    found: dict[str, Any] = {}
    for line in text.split("\n"):
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            continue
        key, value = match[1], _scalar(match[2])
        if key in _CLIENT:
            client = found.setdefault("client", {})
            if isinstance(client, dict):
                client[key] = value
        elif key not in found and match[2] not in ("", "|+", "|", ">"):
            found[key] = value
    return found


def _scalar(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def write_frontmatter(values: dict[str, Any]) -> bytes:
    """Write a 1.0 frontmatter with the blank line behind it; unknown keys come last."""
    ordered: dict[str, Any] = {"format": FORMAT_NAME, "block": LAYOUT}
    for key in (*ORDER[2:], *values):
        if key in values and key not in ordered:
            ordered[key] = values[key]
    text = yaml.dump(
        ordered,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=1 << 30,
    )
    # PyYAML ends an open literal at the end of the text with a document mark.
    text = text.removesuffix("...\n")
    return f"---\n{text}---\n\n".encode("utf-8", "replace")
