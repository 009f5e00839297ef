"""Reads a DSH session log of any generation into the turns IR.

Source: Interchange v1, sections 9.2 to 9.6; the validator of QoderAI/better-harness
for the envelope; dsh-chat-import for the generations 3 and 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, NamedTuple

from converters import jsonio
from converters.formats.dsh.blocks import Blocks, arguments_text, native_id
from converters.formats.dsh.shapes import COMPACT_KINDS, expand, source_kind
from converters.ir import Block, Extra, Meta, Session, Text, ToolCall, ToolResult, Turn
from converters.turns import TurnBuilder, sanitize_usage, title_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from converters.formats.dsh.attachments import Find
    from converters.types import Context

__all__ = ["CHUNK_ROWS", "LogReader", "read_log"]

_MAX_SAFE: Final = (1 << 53) - 1
_KEPT_ASIDE: Final = ("version", "isSeeded", "seedLength", "origin", "agentPreset")
_HEADER: Final = frozenset(
    {"type", "id", "cwd", "createdAt", "delegationDepth", "parentSession", *_KEPT_ASIDE}
)
CHUNK_ROWS: Final = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})
"""Storage form of streamed chunks: one row for many events, with ``seq0`` in place of ``seq``."""

_KNOWN: Final = frozenset(
    {
        "agent-preset/selected", "assistant/chunk", "compaction/prune", "feedback/record",
        "goal/change", "model/selection", "permission/preset", "plan/mode", "request/context",
        "request/header", "sandbox/mode", "schedule/change", "session/end-seed",
        "session/imported", "session/title-llm-request", "subagent/descriptor", "todo/write",
        "web/deepseek-search-llm-request", "workspace/changes",
    }
)  # fmt: skip
_KNOWN_GROUPS: Final = frozenset(
    {
        "agent", "approval", "command", "hook", "llm", "subagent", "team", "tool-workflow",
    }
)  # fmt: skip


def read_log(
    stream: BinaryIO, ctx: Context, *, stem: str, find: Find | None = None
) -> Session | None:
    """Give the session of a log, or ``None`` when no turn is in it or it is left out by request.

    ``find`` gives the bytes of an attachment id; without it images stay references.
    """
    reader = LogReader(ctx, find)
    for number, record in jsonio.records(stream, ctx.ledger):
        reader.record(number, record)
    return reader.finish(stem)


class _Event(NamedTuple):
    """One event: the line of the log, and what every type has."""

    line: int
    data: dict[str, Any]
    seq: float
    time: int | None


class LogReader:
    """Takes the records of one log in order; :meth:`finish` gives the session."""

    def __init__(self, ctx: Context, find: Find | None = None) -> None:
        self._ctx = ctx
        self._ledger = ctx.ledger
        self._blocks = Blocks(ctx.ledger, find)
        self._turns = TurnBuilder(ctx.ledger)
        self._header: dict[str, Any] | None = None
        self._left_out = False
        self._first_time: int | None = None
        self._title: str | None = None
        self._configured: tuple[str | None, str | None] = (None, None)
        self._used: tuple[str, str | None] | None = None
        self._system: list[str] = []
        self._number: Any = None
        self._open: Turn | None = None
        self._fresh = False
        self._surface: dict[int, Turn] = {}
        self._summaries: dict[str, tuple[dict[str, Any], int | None]] = {}
        self._silent: tuple[int, dict[str, Any]] | None = None

    def record(self, number: int, record: dict[str, Any]) -> None:
        """Take one record; it gets exactly one fate in the ledger."""
        kind = record.get("type")
        if self._silent is not None:
            self._settle(speaks=kind == "tool/call")
        if kind == "session" and "seq" not in record:
            self._take_header(number, record)
            return
        if self._left_out:
            self._ledger.skipped("subagent-skipped", number)
            return
        if not isinstance(kind, str):
            self._ledger.skipped("malformed-record", number, kind="no type")
            return
        if kind in CHUNK_ROWS:
            self._ledger.skipped("record-skipped", number, kind=kind)
            return
        seq = record.get("seq")
        if isinstance(seq, bool) or not isinstance(seq, int | float):
            self._ledger.skipped("malformed-record", number, kind="no seq")
            return
        data = record.get("data")
        data = data if isinstance(data, dict) else {}
        time = self._time(record.get("time"), number)
        if self._first_time is None:
            self._first_time = time
        handler = self._HANDLERS.get(kind)
        if handler is not None:
            handler(self, _Event(number, data, seq, time))
        elif kind in _KNOWN or kind.partition("/")[0] in _KNOWN_GROUPS or _is_tool_side(kind):
            self._ledger.skipped("record-skipped", number, kind=kind)
        else:
            self._ledger.skipped("unknown-record", number, kind=kind)

    def finish(self, stem: str) -> Session | None:
        """Give the session; an id that the log lacks comes from the file name."""
        if self._silent is not None:
            self._settle(speaks=False)
        turns = self._turns.finish()
        for data, _ in self._summaries.values():
            self._ledger.note(
                "compacted-unavailable", None, kind=str(data.get("compactionId"))[:40]
            )
        if self._left_out or not turns:
            return None
        header = self._header or {}
        identity = header.get("id")
        if not isinstance(identity, str) or not identity:
            self._ledger.note("id-minted")
            identity = stem
        cwd = header.get("cwd")
        created = self._time(header.get("createdAt"), 1)
        provider, model = self._model()
        for turn in turns:
            for step in turn.steps:
                if step.model == model:
                    step.model = None
        return Session(
            meta=Meta(
                id=identity,
                created_at=created if created is not None else self._first_time,
                cwd=cwd if isinstance(cwd, str) and cwd else None,
            ),
            title=title_of([], self._title),
            provider=provider,
            model=model,
            turns=turns,
            extra=self._extra(header) or None,
        )

    def _take_header(self, number: int, record: dict[str, Any]) -> None:
        if self._header is not None:
            self._ledger.skipped("duplicate-record", number, kind="session")
            return
        self._header = record
        if _is_nested(record) and self._ctx.options.subagents == "skip":
            self._left_out = True
            self._ledger.skipped("subagent-skipped", number)
            return
        for name in record.keys() - _HEADER:
            self._ledger.note("extra-dropped", number, kind=f"header {name}"[:60])
        self._ledger.mapped()

    def _extra(self, header: dict[str, Any]) -> Extra:
        extra: Extra = {}
        native = {name: header[name] for name in _KEPT_ASIDE if header.get(name) is not None}
        parent = header.get("parentSession")
        if _is_nested(header) and isinstance(parent, str) and parent:
            extra["parent"] = {"sessionId": parent}
        elif parent is not None:
            # The log that this one was forked from.
            native["parentSession"] = parent
        if header.get("delegationDepth"):
            native["delegationDepth"] = header["delegationDepth"]
        if native:
            extra["native"] = native
        if self._system:
            extra["system"] = self._system
        return extra

    def _model(self) -> tuple[str, str | None]:
        """Give provider and model: of the request header, else of the first answer."""
        provider, model = self._configured
        if self._used is not None:
            provider = provider or self._used[0]
            model = model or self._used[1]
        provider = provider or "dsh"
        # The event builder names the provider where the session has no model.
        return provider, model if model != provider else None

    def _time(self, value: Any, number: int) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_SAFE:
            return value
        if value is not None:
            self._ledger.note("timestamp-invalid", number)
        return None

    # -- records ---------------------------------------------------------------

    def _turn_start(self, event: _Event) -> None:
        self._number = event.data.get("turn")
        self._fresh, self._open = True, None
        self._ledger.mapped()

    def _turn_end(self, event: _Event) -> None:
        reason = event.data.get("reason")
        reason = reason if isinstance(reason, dict) else {}
        kind = reason.get("kind")
        if event.data.get("aborted") is True:
            kind = "aborted"
        turn = self._open
        if turn is not None and kind in ("aborted", "interrupted"):
            turn.aborted = True
        inner = reason.get("reason")
        plain = kind in (None, "completed") or (
            kind == "aborted" and (inner is None or inner == {"kind": "legacy"})
        )
        if turn is not None and not plain:
            extra = turn.extra or {}
            turn.extra = {**extra, "native": {**extra.get("native", {}), "end": reason}}
        self._fresh, self._open = True, None
        self._ledger.mapped()

    def _structure(self, _: _Event) -> None:
        self._ledger.mapped()

    def _user(self, event: _Event) -> None:
        kind = source_kind(event.data.get("source"))
        if kind in COMPACT_KINDS:
            self._checkpoint(event)
            return
        if kind != "user":
            self._ledger.skipped("injection-skipped", event.line, kind=kind)
            return
        blocks = self._blocks.of(event.data.get("content"), event.line)
        if not blocks:
            self._ledger.skipped("empty-message", event.line, kind="user")
            return
        extra = native_id(event.data)
        if not self._fresh and self._open is not None:
            extra["native"] = {"turn": self._number}
        self._open = self._turns.prompt(blocks, time=event.time, extra=extra or None)
        self._fresh = False
        self._place(event.seq)
        self._ledger.mapped()

    def _assistant(self, event: _Event) -> None:
        message = event.data.get("message")
        message = message if isinstance(message, dict) else {}
        source = message.get("source")
        source = source if isinstance(source, dict) else {}
        provider, model = source.get("provider"), source.get("model")
        if self._used is None and isinstance(provider, str):
            self._used = (provider, model if isinstance(model, str) else None)
        results: list[dict[str, Any]] = []
        blocks = self._blocks.of(message.get("content"), event.line, results)
        usage = sanitize_usage(event.data.get("usage"))
        if usage is None and event.data.get("usage") is not None:
            self._ledger.note("usage-invalid", event.line)
        extra = native_id(message)
        native = {name: source[name] for name in ("replayState",) if name in source}
        if event.data.get("interrupted") is True:
            native["interrupted"] = True
        if self._used is not None and isinstance(provider, str) and provider != self._used[0]:
            native["provider"] = provider
        if native:
            extra["native"] = native
        step = {
            "time": event.time,
            "model": model if isinstance(model, str) and model != provider else None,
            "usage": usage,
            "extra": extra or None,
        }
        if not blocks and usage is None and not results:
            self._silent = (event.line, step)
            return
        self._step(blocks, step)
        for wrapped in results:
            self._attach(event.line, wrapped, wrapped, None, event.time)
        self._place(event.seq)
        self._ledger.mapped()

    def _step(self, blocks: list[Block], step: dict[str, Any]) -> None:
        if self._open is None:
            # Steps without a prompt in their turn must not join the turn before.
            self._turns.prompt([], time=step["time"])
            self._fresh = False
        self._turns.step(blocks, **step)
        self._open = self._turns.turn

    def _settle(self, *, speaks: bool) -> None:
        """Decide on a message without a block: the calls that follow it make it a step."""
        if self._silent is None:
            return
        number, step = self._silent
        self._silent = None
        if speaks:
            self._step([], step)
            self._ledger.mapped()
        else:
            self._ledger.skipped("empty-message", number, kind="assistant")

    def _call(self, event: _Event) -> None:
        identity, name = event.data.get("callId"), event.data.get("name")
        if not isinstance(identity, str) or not identity or not isinstance(name, str):
            self._ledger.skipped("malformed-record", event.line, kind="tool/call")
            return
        if not self._turns.declared(identity):
            self._turns.call(
                ToolCall(identity, name, arguments_text(event.data.get("arguments"))),
                None,
                event.line,
            )
        self._ledger.mapped()

    def _result(self, event: _Event) -> None:
        message = event.data.get("message")
        message = message if isinstance(message, dict) else {}
        content = message.get("content")
        first = content[0] if isinstance(content, list) and content else None
        wrapped = first if isinstance(first, dict) and first.get("type") == "tool-result" else None
        if not self._attach(event.line, wrapped or message, message, event.data, event.time):
            self._ledger.skipped("orphan-tool-result", event.line, kind="without id")
            return
        self._place(event.seq)
        self._ledger.mapped()

    def _attach(
        self,
        number: int,
        holder: dict[str, Any],
        message: dict[str, Any],
        data: dict[str, Any] | None,
        time: int | None,
    ) -> bool:
        """Attach a result of either generation; ``False`` when it names no call."""
        source = message.get("source")
        names = [holder.get("toolCallId"), message.get("toolCallId")]
        names += [source.get("callId")] if isinstance(source, dict) else []
        identity = next((name for name in names if isinstance(name, str) and name), None)
        if identity is None:
            return False
        native = {
            name: data[name] for name in ("error", "meta") if data and data.get(name) is not None
        }
        self._turns.result(
            ToolResult(
                identity,
                self._blocks.of(holder.get("content"), number),
                holder.get("isError") is True or message.get("isError") is True,
                time,
                {"native": native} if native else None,
            ),
            number,
        )
        return True

    def _named(self, event: _Event) -> None:
        title = event.data.get("title")
        if isinstance(title, str):
            self._title = title
            self._ledger.mapped()
        else:
            self._ledger.skipped("malformed-record", event.line, kind="session/title")

    def _request(self, event: _Event) -> None:
        header = event.data.get("header")
        config = header.get("config") if isinstance(header, dict) else None
        if isinstance(config, dict):
            provider, model = config.get("provider"), config.get("model")
            self._configured = (
                self._configured[0] or (provider if isinstance(provider, str) else None),
                self._configured[1] or (model if isinstance(model, str) else None),
            )
        system = header.get("system") if isinstance(header, dict) else None
        if self._keep_system(system):
            self._ledger.aside("system-prompt-aside", event.line)
        elif isinstance(config, dict):
            self._ledger.mapped()
        else:
            self._ledger.skipped("record-skipped", event.line, kind="request/header")

    def _instruction(self, event: _Event) -> None:
        message = event.data.get("message")
        message = message if isinstance(message, dict) else event.data
        if self._keep_system(message.get("content")):
            self._ledger.aside("system-prompt-aside", event.line)
        else:
            self._ledger.skipped("record-skipped", event.line, kind="empty system prompt")

    def _keep_system(self, content: Any) -> bool:
        """Keep the texts of a system prompt; ``False`` when there is none."""
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
        text = "\n".join(text for text in texts if isinstance(text, str) and text)
        if text and text not in self._system:
            self._system.append(text)
        return bool(text)

    # -- compaction ------------------------------------------------------------

    def _summary(self, event: _Event) -> None:
        identity = event.data.get("compactionId")
        if isinstance(identity, str):
            self._summaries[identity] = (event.data, event.time)
            self._ledger.mapped()
        else:
            self._ledger.skipped("malformed-record", event.line, kind="compaction/summary")

    def _checkpoint(self, event: _Event) -> None:
        """Take the text that stands for what a compaction covers: its summary is applied here."""
        source = event.data["source"]
        found = self._summaries.pop(str(source.get("compactionId")), None)
        if found is None:
            blocks = self._blocks.of(event.data.get("content"), event.line)
            texts = [block.text for block in blocks if isinstance(block, Text)]
            self._compact("\n".join(texts), {}, None, event.line)
        else:
            self._compact(None, found[0], found[1], event.line)
        self._ledger.mapped()

    def _compaction_end(self, event: _Event) -> None:
        found = self._summaries.pop(str(event.data.get("compactionId")), None)
        if found is not None:
            self._compact(None, found[0], found[1], event.line)
        self._ledger.mapped()

    def _compact(
        self, text: str | None, data: dict[str, Any], time: int | None, number: int
    ) -> None:
        if text is None:
            blocks = self._blocks.of(data.get("summary"), number)
            text = "\n".join(block.text for block in blocks if isinstance(block, Text))
        provider, model = data.get("provider"), data.get("model")
        before = [turn.shadowed for turn in self._turns.turns]
        self._turns.compaction(
            text,
            provider=provider if isinstance(provider, str) and provider else "dsh",
            model=model if isinstance(model, str) and model and model != provider else None,
            time=time,
            place=number,
        )
        covered = _covered(data)
        if covered is not None:
            outside = {id(turn) for seq, turn in self._surface.items() if seq not in covered}
            for was, turn in zip(before, self._turns.turns, strict=False):
                turn.shadowed = was or id(turn) not in outside
        for turn in self._turns.turns:
            if turn.shadowed:
                self._surface = {s: t for s, t in self._surface.items() if not t.shadowed}
                break
        self._open = None

    def _place(self, seq: float) -> None:
        if self._turns.turn is not None:
            self._surface[int(seq)] = self._turns.turn

    _HANDLERS: ClassVar[dict[str, Callable[[LogReader, _Event], None]]] = {
        "turn/start": _turn_start,
        "turn/end": _turn_end,
        "step/start": _structure,
        "step/end": _structure,
        "user/message": _user,
        "assistant/message": _assistant,
        "tool/call": _call,
        "tool/result": _result,
        "session/title": _named,
        "request/header": _request,
        "system/message": _instruction,
        "developer/message": _instruction,
        "compaction/start": _structure,
        "compaction/summary": _summary,
        "compaction/end": _compaction_end,
    }


def _is_nested(header: dict[str, Any]) -> bool:
    depth = header.get("delegationDepth")
    return header.get("origin") == "subagent" or (isinstance(depth, int) and depth > 0)


def _is_tool_side(kind: str) -> bool:
    return kind.startswith(("tool/code-dispatch", "tool/ptc-dispatch"))


def _covered(data: dict[str, Any]) -> set[int] | range | None:
    """Give the seqs that a summary covers: its list (pairs are ranges), else its range."""
    seqs = data.get("shadowedSeqs")
    if isinstance(seqs, list) and seqs:
        return set(expand(seqs))
    bounds = data.get("shadowedRange")
    if isinstance(bounds, dict):
        start, end = bounds.get("start"), bounds.get("end")
        if isinstance(start, int) and isinstance(end, int):
            return range(start, end + 1)
    return None
