"""The DSH event builder: the turns of a session as the event list of a DSH log.

Source: Interchange v1, sections 4.1 (monotonic clock), 5.3 (pairing), 9.2 to 9.4.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.formats.dsh.shapes import Generation, replace_op, result_message, source_of
from converters.ir import Block, Reasoning, Text, ToolCallBlock, Turn, prompt_of
from converters.text import JS_SPACE
from converters.text import estimate_tokens as estimate_text
from converters.trimming import estimate_turn as estimate

if TYPE_CHECKING:
    from converters.ir import Compaction, Session, Step, ToolCall, ToolResult, Usage

__all__ = [
    "Built",
    "Event",
    "block_object",
    "build",
    "estimate",
    "estimate_text",
    "events",
    "notice",
]

Event = dict[str, Any]

_SYSTEM: Final = "@deepseek-ai/dsh-system-prompt"
_MAX_SAFE: Final = (1 << 53) - 1


class Built(NamedTuple):
    """The events and what became of the rest.

    ``counts``: ``messages``, ``toolCalls``, ``compactions`` (transactions written),
    ``duplicateToolResults``, ``orphanToolResults`` (Interchange v1, section 2), and
    ``shadowed``: how many turns at the start a compaction transaction covers.
    ``late`` lists the kinds of times that the monotonic clock could not take;
    ``folded`` the turns whose compaction became a reasoning block.
    """

    events: list[Event]
    counts: Counter[str]
    late: int
    folded: list[Turn]


def notice(provider: str) -> str:
    """Give the text that tells the model about the change of its environment."""
    return (
        f"This conversation was imported from {provider}. Files, tools, permissions and the "
        "working directory that it mentions may differ here or be missing. Check before you "
        "rely on them."
    )


def events(
    session: Session,
    *,
    generation: Generation = 4,
    session_id: str | None = None,
    created_at: int = 0,
    title: str | None = None,
    environment: str | None = None,
) -> list[Event]:
    """Give the events of :func:`build` alone."""
    return build(
        session,
        generation=generation,
        session_id=session_id,
        created_at=created_at,
        title=title,
        environment=environment,
    ).events


def build(
    session: Session,
    *,
    generation: Generation = 4,
    session_id: str | None = None,
    created_at: int = 0,
    title: str | None = None,
    environment: str | None = None,
) -> Built:
    """Give the event log of a session.

    ``created_at`` (ms) starts the clock where the session has no time of its own;
    ``session_id`` is the id inside message ids (the session's own); ``title`` is
    pinned at the end when it is not blank; ``environment`` replaces :func:`notice`.
    Images stay pending (base64 inside) or references, see
    :func:`converters.formats.dsh.attachments.store_images`.
    """
    builder = _Builder(session, generation, session_id or session.meta.id, created_at, environment)
    for number, turn in enumerate(session.turns, 1):
        builder.turn(number, turn)
    pinned = (title or "").strip(JS_SPACE)
    if pinned:
        builder.add(
            "session/title", {"title": pinned, "messageSeqs": [], "source": {"kind": "user"}}
        )
    return Built(builder.events, +builder.counts, builder.late, builder.folded)


class _Builder:
    """The growing log of one session."""

    def __init__(
        self,
        session: Session,
        generation: Generation,
        session_id: str,
        created_at: int,
        environment: str | None,
    ) -> None:
        self.events: list[Event] = []
        self.counts: Counter[str] = Counter()
        self.late = 0
        self.folded: list[Turn] = []
        self._generation = generation
        self._provider = session.provider
        self._model = session.model or session.provider
        self._environment = environment if environment is not None else notice(session.provider)
        self._prefix = f"import:{session_id}:"
        created = session.meta.created_at
        self._clock = created if created is not None else created_at
        self._visible: list[int] = []
        self._shadowed_tokens = 0
        self._headed = False
        self._written: set[str] = set()
        self._results = self._pair(session)

    def _pair(self, session: Session) -> dict[str, ToolResult]:
        """Give the first result of each id; count repeated ones and those without a call."""
        results: dict[str, ToolResult] = {}
        calls: set[str] = set()
        for turn in session.turns:
            for step in turn.steps:
                calls.update(call.id for call in step.tool_calls)
                for result in step.tool_results:
                    if result.tool_call_id in results:
                        self.counts["duplicateToolResults"] += 1
                    else:
                        results[result.tool_call_id] = result
        self.counts["orphanToolResults"] = len(results.keys() - calls)
        return results

    def _tick(self, time: int | None) -> None:
        if time is None:
            return
        if self._clock < time <= _MAX_SAFE:
            self._clock = time
        elif time != self._clock:
            self.late += 1

    def add(self, kind: str, data: dict[str, Any]) -> int:
        """Append an event that is not on the surface; give its seq."""
        seq = len(self.events)
        self.events.append({"type": kind, "seq": seq, "time": self._clock, "data": data})
        return seq

    def _surface(
        self, kind: str, data: dict[str, Any], op: Any = "append", sources: list[int] | None = None
    ) -> int:
        seq = self.add(kind, data)
        self.events[seq]["surfaceOp"] = op
        if sources is not None:
            self.events[seq]["sourceEventSeqs"] = sources
        return seq

    def _conversation(
        self, kind: str, data: dict[str, Any], sources: list[int] | None = None
    ) -> None:
        self._visible.append(self._surface(kind, data, "append", sources))
        self.counts["messages"] += 1

    def turn(self, number: int, turn: Turn) -> None:
        compaction, steps = turn.compaction, turn.steps
        lead: list[Block] = []
        if compaction is not None:
            if self._visible:
                self._tick(compaction.time)
                self._compact(compaction)
                self.counts["shadowed"] = number - 1
            else:
                late = self.late + (compaction.time is not None)
                self._tick(compaction.time)
                self.late = late
                lead = [Reasoning(compaction.summary.strip(JS_SPACE))]
                self.folded.append(turn)
        self._tick(turn.time)
        self.add("turn/start", {"turn": number})
        prompt = not (compaction is not None and not turn.prompt.strip(JS_SPACE))
        if not steps and not lead:
            if not self._headed and prompt:
                self.add("step/start", {"turn": number, "step": 1})
                self._head(number)
                self.add("step/end", {"turn": number, "step": 1})
            if prompt:
                self._prompt(number, turn)
        for index in range(max(len(steps), bool(lead))):
            step = steps[index] if steps else None
            self.add("step/start", {"turn": number, "step": index + 1})
            if not self._headed:
                self._head(number)
            if index == 0 and prompt:
                self._prompt(number, turn)
            self._step(number, index + 1, step, lead if index == 0 else [])
            self.add("step/end", {"turn": number, "step": index + 1})
        reason: dict[str, Any] = {"kind": "completed"}
        if turn.aborted:
            reason = {"kind": "aborted", "reason": {"kind": "legacy"}}
        self.add("turn/end", {"turn": number, "reason": reason})
        if turn.shadowed:
            self._shadowed_tokens += estimate(turn)

    def _head(self, turn: int) -> None:
        """Write the system head and the environment notice: the first surface events."""
        self._headed = True
        message = {
            "id": self._prefix + "sys",
            "role": "system",
            "content": [],
            "source": source_of(_SYSTEM, "system", self._generation),
        }
        self._surface("system/message", {"turn": turn, "step": 1, "message": message})
        self._surface(
            "user/message",
            {
                "id": self._prefix + "env",
                "role": "user",
                "content": [{"type": "text", "text": self._environment}],
                "source": source_of("chat-import", "user", self._generation),
            },
        )

    def _prompt(self, number: int, turn: Turn) -> None:
        blocks = prompt_of(turn) or [Text(turn.prompt)]
        self._conversation(
            "user/message",
            {
                "id": f"{self._prefix}u{number}",
                "role": "user",
                "content": [block_object(block) for block in blocks],
                "source": {"kind": "user"},
            },
        )

    def _step(self, turn: int, number: int, step: Step | None, lead: list[Block]) -> None:
        place = {"turn": turn, "step": number}
        content = [*lead, *(step.content if step else ())]
        if step is not None:
            self._tick(step.time)
        data: dict[str, Any] = {**place, "stream": []}
        if step is not None and step.usage is not None:
            data["usage"] = usage_object(step.usage)
        model = (step.model if step else None) or self._model
        data["message"] = {
            "id": f"{self._prefix}a{turn}:{number}",
            "role": "assistant",
            "content": [block_object(block) for block in content],
            "source": {"kind": "model", "provider": self._provider, "model": model},
        }
        self._conversation("assistant/message", data)
        calls = step.tool_calls if step else []
        seqs = [self._call(place, call) for call in calls]
        for call, seq in zip(calls, seqs, strict=True):
            self._result(place, call.id, seq)

    def _call(self, place: dict[str, int], call: ToolCall) -> int:
        self.counts["toolCalls"] += 1
        return self.add(
            "tool/call",
            {**place, "callId": call.id, "name": call.name, "arguments": call.arguments},
        )

    def _result(self, place: dict[str, int], call_id: str, seq: int) -> None:
        result = self._results.get(call_id)
        if result is not None and call_id not in self._written:
            self._tick(result.time)
            self._written.add(call_id)
        message = result_message(
            f"{self._prefix}t{place['turn']}:{place['step']}:{call_id}",
            call_id,
            [block_object(block) for block in result.content] if result else [],
            is_error=result is not None and result.is_error,
            generation=self._generation,
        )
        self._conversation("tool/result", {**place, "message": message}, [seq])

    def _compact(self, compaction: Compaction) -> None:
        """Write the four events of a compaction over everything that is visible so far."""
        self.counts["compactions"] += 1
        number = self.counts["compactions"]
        identity = f"{self._prefix}c{number}"
        text = compaction.summary.strip(JS_SPACE)
        seqs = self._visible
        start, end = seqs[0], seqs[-1]
        self.add("compaction/start", {"compactionId": identity, "turn": None})
        self.add(
            "compaction/summary",
            {
                "compactionId": identity,
                "summary": [{"type": "text", "text": text}],
                "shadowedRange": {"start": start, "end": end},
                "shadowedSeqs": seqs,
                "shadowedTokenCount": self._shadowed_tokens,
                "provider": compaction.provider,
                "model": compaction.model or self._model,
                "rawOutput": [{"type": "text", "text": text}],
            },
        )
        checkpoint = {
            "id": f"{self._prefix}ck{number}",
            "role": "user",
            "content": [{"type": "text", "text": text}],
            "source": {**source_of("compact", "user", self._generation), "compactionId": identity},
        }
        op = replace_op(start, end, self._generation)
        seq = self._surface("user/message", checkpoint, op, list(seqs))
        self.add("compaction/end", {"compactionId": identity, "turn": None})
        self._visible = [seq]
        self._shadowed_tokens = estimate_text(text)


def block_object(block: Block) -> dict[str, Any]:
    """Give a block as the JSON object of an event; ``x-dcb`` stays behind."""
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Reasoning):
        return {"type": "reasoning", "text": block.text}
    if isinstance(block, ToolCallBlock):
        return {
            "type": "tool-call",
            "id": block.id,
            "name": block.name,
            "arguments": block.arguments,
        }
    if block.attachment is not None:
        return {"type": "image", "attachment": block.attachment}
    found = {"type": "image", "data": block.data, "mediaType": block.media_type, "name": block.name}
    return {name: value for name, value in found.items() if value is not None}


def usage_object(usage: Usage) -> dict[str, int]:
    """Give the known buckets of a usage, absent ones left out."""
    found = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        "reasoningTokens": usage.reasoning_tokens,
    }
    return {name: value for name, value in found.items() if value is not None}
