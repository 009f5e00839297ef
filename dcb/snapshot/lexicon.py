"""The word lists of the classifier and the summarizer, as data.

A lexicon is a TOML file (``lexicons/*.toml``; a user's file has the same form and
extends one): lists of patterns in the language of :mod:`dcb.snapshot.patterns`. With
``words = true`` an ASCII word matches whole only.

Source: program 0.2.0, lexicon; published snapshot architecture, section 2.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from converters.errors import BadInput
from converters.text import JS_SPACE
from dcb.snapshot.model import KINDS, SCOPES
from dcb.snapshot.patterns import Trigger, compile_any, expression

if TYPE_CHECKING:
    from dcb.snapshot.model import Scope

__all__ = ["Bucket", "Lexicon", "PreferenceRule", "VerbatimRule", "builtin", "extend"]

_TAIL: Final = f"[{JS_SPACE}!。！.~]*"
_FLAGS: Final = re.ASCII | re.IGNORECASE


class PreferenceRule(NamedTuple):
    """A preference: its key, the key that program 0.2.0 has for it, its scope, its words."""

    key: str
    plugin: str
    scope: Scope
    trigger: Trigger


class VerbatimRule(NamedTuple):
    """A kind of verbatim text, its weight among several that match, its words."""

    kind: str
    weight: int
    trigger: Trigger


class Bucket(NamedTuple):
    """A section of the summary and the words that lead there."""

    heading: str
    trigger: Trigger


class Lexicon(NamedTuple):
    """All lists; rules are tried in order, ``other`` is the section of the rest."""

    noise: re.Pattern[str]
    preferences: tuple[PreferenceRule, ...]
    verbatim: tuple[VerbatimRule, ...]
    buckets: tuple[Bucket, ...]
    other: str
    stop_words: frozenset[str]
    source: dict[str, Any]

    def plugin_keys(self) -> dict[str, str]:
        """Give the table from these keys to those of program 0.2.0."""
        return {rule.key: rule.plugin for rule in self.preferences}


@cache
def builtin(name: str) -> Lexicon:
    """Give a lexicon of the package: ``published`` or ``plugin``."""
    data = files("dcb.snapshot").joinpath("lexicons", f"{name}.toml").read_bytes()
    return _build(tomllib.loads(data.decode()))


def extend(base: Lexicon, data: bytes, path: str | None = None) -> Lexicon:
    """Give a lexicon with a user's lists added.

    The user's preferences and buckets are tried first (a bucket of a known heading
    gets more words in its place), the other lists grow. :class:`BadInput` when the
    file is no TOML or has members of another form.
    """
    try:
        text = data.decode()
        more = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"no lexicon: {error}", path=path) from error
    _check(more, path)
    old = base.source
    headings = {item["heading"]: item for item in more.get("bucket", [])}
    known = {item["heading"] for item in old["bucket"]}
    merged = {
        "words": old["words"],
        "other": more.get("other", old["other"]),
        "noise": [*old["noise"], *more.get("noise", [])],
        "stop_words": [*old["stop_words"], *more.get("stop_words", [])],
        "preference": [*more.get("preference", []), *old["preference"]],
        "verbatim": [*old["verbatim"], *more.get("verbatim", [])],
        "bucket": [
            *(item for item in more.get("bucket", []) if item["heading"] not in known),
            *(
                {**item, "any": [*item["any"], *headings.get(item["heading"], {"any": []})["any"]]}
                for item in old["bucket"]
            ),
        ],
    }
    try:
        return _build(merged)
    except BadInput as error:
        raise BadInput(error.message, path=path) from error


def _check(data: dict[str, Any], path: str | None) -> None:
    def texts(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(x, str) and x for x in value)

    def bad(what: str) -> BadInput:
        return BadInput(f"lexicon: {what}", path=path)

    for name, value in data.items():
        if name in {"noise", "stop_words"}:
            if not texts(value):
                raise bad(f"{name} must be a list of texts")
        elif name == "other":
            if not isinstance(value, str) or not value.strip():
                raise bad("other must be a text")
        elif name not in {"preference", "verbatim", "bucket"}:
            raise bad(f"unknown member {name!r}")
        elif not isinstance(value, list) or not all(
            isinstance(item, dict) and texts(item.get("any")) for item in value
        ):
            raise bad(f"each {name} needs `any`, a list of patterns")
    for item in data.get("preference", []):
        if item.get("scope") not in SCOPES or not isinstance(item.get("key"), str):
            raise bad(f"a preference needs a key and a scope of {', '.join(SCOPES)}")
        if not isinstance(item.get("plugin", ""), str):
            raise bad("plugin must be a text")
    for item in data.get("verbatim", []):
        if item.get("kind") not in KINDS or type(item.get("weight", 0)) is not int:
            raise bad(f"a verbatim rule needs a kind of {', '.join(KINDS)} and a whole weight")
    for item in data.get("bucket", []):
        if not isinstance(item.get("heading"), str) or not item["heading"].strip():
            raise bad("a bucket needs a heading")


def _build(data: dict[str, Any]) -> Lexicon:
    words = bool(data["words"])
    weights = {"directive": 40, "decision": 30, "code": 20, "parameter": 20}
    noise = "|".join(expression(pattern) for pattern in data["noise"])
    return Lexicon(
        noise=re.compile(f"(?:{noise}){_TAIL}", _FLAGS),
        preferences=tuple(
            PreferenceRule(
                item["key"],
                item.get("plugin", item["key"]),
                cast("Scope", item["scope"]),
                compile_any(item["any"], words=words),
            )
            for item in data["preference"]
        ),
        verbatim=tuple(
            VerbatimRule(
                item["kind"],
                item.get("weight", weights[item["kind"]]),
                compile_any(item["any"], words=words),
            )
            for item in data["verbatim"]
        ),
        buckets=tuple(
            Bucket(item["heading"], compile_any(item["any"], words=words))
            for item in data["bucket"]
        ),
        other=data["other"],
        stop_words=frozenset(data["stop_words"]),
        source=data,
    )
