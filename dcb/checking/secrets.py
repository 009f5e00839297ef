"""Finds credentials in transcripts and documents. No part of a value leaves this module.

Classes: keys with a form of their own (AWS, GitHub, GitLab, Anthropic, OpenAI, Google,
Slack, Stripe, npm, PyPI, Hugging Face, JSON web tokens), private keys, passwords in
addresses, and values that a name such as ``password`` or ``api_key`` is set to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from converters.ir import Reasoning, Text, prompt_of
from converters.ledger import Ledger
from converters.reading import Unit, read_unit
from converters.types import Context
from dcb.snapshot.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.ir import Block, Session
    from converters.types import Input

__all__ = ["KINDS", "Labels", "Secret", "find", "in_lines", "in_sessions"]

_ASSIGNED: Final = (
    r"(?i:(?<![a-z0-9])(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?token"
    r"|auth[_-]?token|client[_-]?secret))[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?"
    r"(?P<value>[^\s\"'`,;<>{}()\[\]\\]{8,200})"
)
_RULES: Final = (
    ("private-key", r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY-----[^-]{0,200}"),
    ("aws-access-key", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("github-token", r"(?<![A-Za-z0-9])(?:gh[pousr]_[0-9A-Za-z]{36,255}|github_pat_\w{22,255})"),
    ("gitlab-token", r"(?<![A-Za-z0-9])glpat-[0-9A-Za-z_-]{20,255}"),
    ("anthropic-key", r"(?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_-]{20,255}"),
    ("openai-key", r"(?<![A-Za-z0-9])sk-(?!ant-)(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,255}"),
    ("google-api-key", r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{35}"),
    ("slack-token", r"(?<![A-Za-z0-9])xox[abeoprs]-[0-9A-Za-z-]{10,255}"),
    ("stripe-key", r"(?<![A-Za-z0-9])[rs]k_(?:live|test)_[0-9A-Za-z]{16,255}"),
    ("npm-token", r"(?<![A-Za-z0-9])npm_[0-9A-Za-z]{36}"),
    ("pypi-token", r"(?<![A-Za-z0-9])pypi-AgE[0-9A-Za-z_-]{50,255}"),
    ("huggingface-token", r"(?<![A-Za-z0-9])hf_[0-9A-Za-z]{30,255}"),
    (
        "json-web-token",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,}",
    ),
    ("url-password", r"://[^\s:/@\"'<>]{1,100}:(?P<value>[^\s:/@\"'<>]{3,100})@[A-Za-z0-9\[]"),
    ("password", _ASSIGNED),
)
KINDS: Final = tuple(name for name, _ in _RULES)
_PATTERNS: Final = tuple((name, re.compile(pattern, re.ASCII)) for name, pattern in _RULES)
_PLACEHOLDER: Final = re.compile(
    r"\$|%\(|\*{3}|x{4,}|\.{3}|(?:your|my|the|example|changeme|placeholder|redacted|none|null"
    r"|undefined|process\.env|os\.(?:environ|getenv)|getenv|env\.|config\.|self\.|settings\.)",
    re.ASCII | re.IGNORECASE,
)
_JSON_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SHORT: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class Secret(NamedTuple):
    """A credential in a text: its class, its place, and the value (keep it to yourself)."""

    kind: str
    start: int
    value: str


def find(text: str) -> list[Secret]:
    """Give the credentials in a text by place; of two that overlap, the more telling class."""
    found: list[Secret] = []
    taken: list[tuple[int, int]] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            value = match.groupdict().get("value") or match[0]
            start, end = match.span("value") if "value" in match.groupdict() else match.span()
            if kind == "password" and _PLACEHOLDER.match(value):
                continue
            if any(start < stop and begin < end for begin, stop in taken):
                continue
            taken.append((start, end))
            found.append(Secret(kind, start, value))
    return sorted(found, key=lambda secret: secret.start)


class Labels:
    """Gives each value a label: the same value the same one, for as long as this lives."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, secret: Secret) -> str:
        """Give the label of a secret, such as ``github-token-2``."""
        key = (secret.kind, secret.value)
        if key not in self._known:
            number = self._counts[secret.kind] = self._counts.get(secret.kind, 0) + 1
            self._known[key] = f"{secret.kind}-{number}"
        return self._known[key]


def in_lines(source: Input, labels: Labels) -> Iterator[Problem]:
    """Scan an input line by line as it stands; JSON escapes in a line are undone."""
    with source.open() as stream:
        for number, raw in enumerate(stream, 1):
            line = raw.decode("utf-8", "replace")
            if "\\" in line:
                line = _JSON_ESCAPE.sub(_unescaped, line)
            yield from _problems(line, number, "", labels)


def in_sessions(unit: Unit, labels: Labels) -> Iterator[Problem]:
    """Scan what the reader of a format gives, for inputs that are no text."""
    for session in read_unit(unit, Context(Ledger(unit.input.name))):
        for place, text in _texts(session):
            yield from _problems(text, 0, f"{session.meta.id}, {place}: ", labels)


def _problems(text: str, line: int, where: str, labels: Labels) -> Iterator[Problem]:
    for secret in find(text):
        label = labels.of(secret)
        yield Problem("error", "secret", line, f"{where}{secret.kind} ({label})")


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _SHORT.get(match[2], match[2])


def _texts(session: Session) -> Iterator[tuple[str, str]]:
    for number, turn in enumerate(session.turns, 1):
        yield from ((f"turn {number}", text) for text in _blocks(prompt_of(turn)))
        for step in turn.steps:
            place = f"turn {number}, answer"
            yield from ((place, text) for text in _blocks(step.content))
            yield from ((place, call.arguments) for call in step.tool_calls)
            for result in step.tool_results:
                yield from ((place, text) for text in _blocks(result.content))


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Text | Reasoning):
            yield block.text
