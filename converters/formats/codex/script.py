"""Calls that newer builds write as a line of JavaScript: ``tools.exec_command({...})``.

Only a single call with one plain object literal is converted; anything else stays text.
Source: fact sheet ``codex``, "Tool pairing". Own lexer, linear in the text.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec

__all__ = ["plain_object"]

_CALL: Final = re.compile(r"\s*+\(?\s*+(?:await\s++)?tools\.[A-Za-z_]\w*+\(\s*+")
_TOKEN: Final = re.compile(
    r"""\s*+(?:
        (?P<mark>[{}\[\]:,])
      | (?P<word>[A-Za-z_$][\w$]*+)
      | (?P<number>-?(?:\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+))
      | "(?P<double>(?:[^"\\\n]|\\.)*+)"
      | '(?P<single>(?:[^'\\\n]|\\.)*+)'
    )""",
    re.VERBOSE | re.ASCII,
)
_BRACE: Final = re.compile(r"\s*+\{")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SIMPLE: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_WORDS: Final = {"true": True, "false": False, "null": None}
_DEPTH: Final = 64
_LONGEST: Final = 1 << 16
_DIGITS: Final = 300


class _NotPlain(ValueError):
    pass


def plain_object(text: str) -> str | None:
    """Give the object literal of a call as JSON text, or ``None`` when it is not plainly one."""
    if len(text) > _LONGEST:
        return None
    call = _CALL.match(text)
    start = call.end() if call else 0
    if _BRACE.match(text, start) is None:
        return None
    try:
        value, end = _value(text, start, 0)
    except _NotPlain:
        return None
    rest = text[end:].strip().rstrip(";").strip()
    closing = {")", "))"} if call else {""}
    if rest not in closing or not isinstance(value, dict):
        return None
    return msgspec.json.encode(value).decode()


def _next(text: str, position: int) -> re.Match[str]:
    found = _TOKEN.match(text, position)
    if found is None:
        raise _NotPlain
    return found


def _value(text: str, position: int, depth: int) -> tuple[Any, int]:
    if depth > _DEPTH:
        raise _NotPlain
    token = _next(text, position)
    if token["mark"] == "{":
        return _object(text, token.end(), depth)
    if token["mark"] == "[":
        return _array(text, token.end(), depth)
    return _scalar(token), token.end()


def _scalar(token: re.Match[str]) -> Any:
    if token["number"] is not None:
        return _number(token["number"])
    if token["word"] is not None and token["word"] in _WORDS:
        return _WORDS[token["word"]]
    quoted = token["double"] if token["double"] is not None else token["single"]
    if quoted is None:
        raise _NotPlain
    return _unquote(quoted)


def _number(text: str) -> int | float:
    """Give a number that JSON holds as it stands; others are not plain."""
    if len(text) > _DIGITS:
        raise _NotPlain
    if "." not in text and "e" not in text.lower():
        return int(text)
    value = float(text)
    if math.isinf(value):
        raise _NotPlain
    return value


def _unquote(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        mark = found[1]
        if len(mark) > 1:
            code = int(mark[1:], 16)
            if 0xD800 <= code <= 0xDFFF:
                raise _NotPlain
            return chr(code)
        return _SIMPLE.get(mark, mark)

    return _ESCAPE.sub(one, text)


def _object(text: str, position: int, depth: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    token = _next(text, position)
    while token["mark"] != "}":
        if token["word"] is not None:
            name: Any = token["word"]
        else:
            name = _scalar(token)
        if not isinstance(name, str):
            raise _NotPlain
        colon = _next(text, token.end())
        if colon["mark"] != ":":
            raise _NotPlain
        members[name], position = _value(text, colon.end(), depth + 1)
        token = _next(text, position)
        if token["mark"] == ",":
            token = _next(text, token.end())
        elif token["mark"] != "}":
            raise _NotPlain
    return members, token.end()


def _array(text: str, position: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    token = _next(text, position)
    while token["mark"] != "]":
        item, position = _value(text, token.start(), depth + 1)
        items.append(item)
        token = _next(text, position)
        if token["mark"] == ",":
            token = _next(text, token.end())
        elif token["mark"] != "]":
            raise _NotPlain
    return items, token.end()
