"""JSON that a typed decoder passed through unread, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from converters import jsonio

if TYPE_CHECKING:
    from converters.ledger import Ledger, Place

__all__ = ["raw_text"]


def raw_text(raw: msgspec.Raw, ledger: Ledger, place: Place | None) -> str:
    """Give the text of a raw value, compact as the tools write it.

    The decoder only skipped it: bytes that are not UTF-8 and halves of surrogate pairs are
    mended and counted here.
    """
    try:
        text = str(raw, "utf-8")
    except UnicodeDecodeError:
        ledger.note("encoding-repaired", place)
        text = str(raw, "utf-8", "replace")
    if "\\u" in text and _broken(text):
        scratch = type(ledger)(itemize=False)
        text = jsonio.dumps(jsonio.load(text.encode(), scratch)[0]).decode()
        ledger.note("lone-surrogate", place, max(1, scratch.count("lone-surrogate")))
    if text.startswith(" ", text.find('":') + 2):
        # Only foreign writers put blanks there.
        return msgspec.json.format(text, indent=-1)
    return text


def _broken(text: str) -> bool:
    """Whether an escape names half of a surrogate pair: the decoder refuses that."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return True
    return False
