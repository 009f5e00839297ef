"""User messages that carry tool results: the results, and the human's words among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.formats.cline.human import (
    cwd_of,
    is_result,
    result_of,
    without_environment,
    words_in,
)
from converters.ir import Block, Image, Text, ToolResult
from converters.shapes import anthropic

if TYPE_CHECKING:
    from converters.ledger import Ledger
    from converters.shapes.talk import Given
    from converters.turns import TurnBuilder

__all__ = ["Carrier", "carries", "heads_result"]


def heads_result(content: Any) -> bool:
    """Whether a content holds a text that heads a result, ``[read_file for 'x'] Result:``."""
    return any(
        isinstance(text := part.get("text") if isinstance(part, dict) else part, str)
        and is_result(text)
        for part in _parts(content)
    )


def carries(content: Any, *, classic: bool) -> bool:
    """Whether a user message is a carrier; results that are texts are of the classic history."""
    return (classic and heads_result(content)) or any(
        isinstance(part, dict)
        and (
            (kind := part.get("type")) == "tool_result"
            or (isinstance(kind, str) and kind.endswith("_tool_result") and "tool_use_id" in part)
        )
        for part in _parts(content)
    )


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


class Carrier:
    """One carrier on its way: results go to their calls, ``human`` is what opens a turn.

    Texts behind a header are the content of its result, up to the next header or the
    environment. A picture belongs to the result before it, or to the human's words where they
    stand between. ``<feedback>`` and the like are also found in the content of a result, which
    stays as it is.
    """

    def __init__(
        self, turns: TurnBuilder, ledger: Ledger, place: str, time: int | None, *, classic: bool
    ) -> None:
        self.human: list[Block] = []
        self.injected = 0
        self.cwd: str | None = None
        self._turns = turns
        self._ledger = ledger
        self._place = place
        self._time = time
        self._classic = classic
        self._results: list[list[Block]] = []
        self._spoken = False
        # The tool whose header was met, while texts go to its result.
        self._open: str | None = None

    def take(self, content: Any) -> None:
        """Take the parts of the message in their order."""
        for part in _parts(content):
            found = anthropic.parts([part], self._ledger, self._place)
            for given in found.results:
                self._native(given)
            for block in found.blocks:
                if isinstance(block, Text) and not _is_file(block):
                    self._text(block)
                else:
                    self._media(block)
        if self._results and not any(map(_is_words, self.human)):
            # Pictures before the first result: no words claim them.
            self._results[0].extend(self.human)
            self.human = []

    def _text(self, block: Text) -> None:
        self.cwd = self.cwd or cwd_of(block.text)
        if self._classic and is_result(block.text):
            self._open, text = result_of(block.text)
            self._result(self._call_of(self._open), [])
            self._ledger.note("tool-result-text-fallback", self._place)
            self._content(Text(text, block.extra), self._open)
        elif self._open is not None:
            self._content(block, self._open)
        else:
            words = words_in(block.text)
            self._say(words)
            self.injected += not words

    def _content(self, block: Text, tool: str) -> None:
        """Add a text to the result that is open; the environment closes it."""
        text, environment = without_environment(block.text)
        self.injected += environment
        if text.strip():
            self._results[-1].append(Text(text, block.extra))
            self._say(words_in(text, tool))
        if environment:
            self._open = None

    def _say(self, words: list[str]) -> None:
        self.human += map(Text, words)
        self._spoken = bool(words)

    def _media(self, block: Block) -> None:
        if not isinstance(block, Text | Image):
            self._ledger.note("unknown-block", self._place, kind=type(block).__name__)
        elif self._results and not self._spoken:
            self._results[-1].append(block)
        else:
            self.human.append(block)

    def _native(self, given: Given) -> None:
        known = given.call_id if isinstance(given.call_id, str) and given.call_id else None
        known = known or self._turns.unanswered()
        self._result(known, given.content, is_error=given.is_error)
        self._open = None
        for block in list(given.content):
            if isinstance(block, Text) and not _is_file(block):
                self._say(words_in(block.text, self._tool(known)))

    def _result(self, call: str | None, content: list[Block], *, is_error: bool = False) -> None:
        """Give a result to its call; what follows may still add to ``content``."""
        self._results.append(content)
        self._spoken = False
        if call is None:
            self._ledger.note("orphan-tool-result", self._place)
        else:
            self._turns.result(ToolResult(call, content, is_error, self._time), self._place)

    def _call_of(self, tool: str) -> str | None:
        """Give the call that a header answers: one of the last step, else an older one by name."""
        step = self._turns.current
        if step is not None:
            answered = {result.tool_call_id for result in step.tool_results}
            waiting = [call for call in step.tool_calls if call.id not in answered]
            for call in waiting:
                if call.name == tool:
                    return call.id
            if waiting:
                return waiting[0].id
        return self._turns.unanswered(tool)

    def _tool(self, call: str | None) -> str:
        step = self._turns.step_of(call) if call is not None else None
        calls = step.tool_calls if step is not None else []
        return next((found.name for found in calls if found.id == call), "")


def _is_file(block: Text) -> bool:
    """Whether a text stands for a file or a picture whose bytes are not in the block."""
    extra = block.extra
    return extra is not None and ("attachments" in extra or "image" in extra)


def _is_words(block: Block) -> bool:
    return isinstance(block, Text) and not _is_file(block)
