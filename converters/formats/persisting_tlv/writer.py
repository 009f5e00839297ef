"""Sessions into ``persisting:1.0`` documents (generation G2).

A session that came from a TLV document gets its headers back (``x-dcb.native``), with the
fields that say something else now replaced. Every body is read again as it will be read, so
that the account names what the format cannot hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from converters.errors import UsageError
from converters.formats.persisting_tlv.body import (
    Part,
    Result,
    add_footers,
    cut_footers,
    footers_of,
    join,
)
from converters.formats.persisting_tlv.frame import Document, new_block, serialize
from converters.formats.persisting_tlv.front import front_values, timestamp
from converters.formats.persisting_tlv.frontmatter import write_frontmatter
from converters.formats.persisting_tlv.items import message_parts
from converters.formats.persisting_tlv.meaning import (
    Requests,
    as_1_0,
    is_newer_header,
    text_of,
    time_of,
    usage_of,
)
from converters.formats.persisting_tlv.plan import (
    Planned,
    plan_blocks,
    plan_result,
    plan_step,
    same,
    settle,
)
from converters.ir import Usage, prompt_of
from converters.shapes.account import Account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.formats.persisting_tlv.frame import Block
    from converters.ir import Extra, Session, Step, ToolResult, Turn
    from converters.types import Context, Sink

__all__ = ["write"]

SOURCE: Final = "dcb"
_TOKENS: Final = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "input_tokens",
    "output_tokens",
)


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write the session as one document; a second one is refused (:class:`UsageError`)."""
    for index, session in enumerate(sessions):
        if index:
            raise UsageError(
                "a TLV document holds one session", hint="give a folder to write several"
            )
        native = tlv_of(session.extra)
        account = Account(ctx.ledger, session, own=native is not None)
        sink.write(_Writing(session, account).document())
        account.close()


def tlv_of(extra: Extra | None) -> dict[str, Any] | None:
    """Give what the reader of this format kept in an ``x-dcb``, ``None`` otherwise."""
    native = extra.get("native") if extra else None
    found = native.get("tlv") if isinstance(native, dict) else None
    return found if isinstance(found, dict) else None


@dataclass(slots=True)
class _Message:
    """A block to write: its role, parts and what goes into the header."""

    role: str
    planned: list[Planned]
    native: dict[str, Any]
    time: int | None = None
    model: str | None = None
    usage: Usage | None = None
    draft: bool | None = None
    call_id: str | None = None
    kind: str | None = None
    more: dict[str, Any] = field(default_factory=dict)


class _Writing:
    """The state of one document."""

    def __init__(self, session: Session, account: Account) -> None:
        self.session = session
        self.account = account
        self.blocks: list[Block] = []
        self.requests = Requests()
        self.known: set[str] = set()
        self.answered: set[str] = set()
        self.calls = {
            call.id for turn in session.turns for s in turn.steps for call in s.tool_calls
        }
        self.steps = 0
        self.turn_written = False
        self.held: list[ToolResult] = []
        self.asides = self._asides()

    def native(self, extra: Extra | None) -> dict[str, Any]:
        """Give the kept header of an item, empty when the session is not our own."""
        return (tlv_of(extra) or {}) if self.account.own else {}

    def document(self) -> bytes:
        self._opening()
        turns = self.session.turns
        for index, turn in enumerate(turns):
            self.account.turn = index
            following = turns[index + 1] if index + 1 < len(turns) else None
            self.turn(turn, following)
        self.account.turn = None
        self._flush(None)
        values = front_values(self.session, self.account, self.blocks)
        return serialize(Document(write_frontmatter(values), tuple(self.blocks)))

    def _asides(self) -> list[tuple[int, dict[str, Any]]]:
        """Give the notes that the reader kept, in their order; account for the list."""
        extra = self.session.extra or {}
        records = extra.get("records")
        if not self.account.own or not isinstance(records, list):
            return []
        found = []
        for record in records:
            kept = record.get("tlv") if isinstance(record, dict) else None
            if isinstance(kept, dict) and isinstance(kept.get("header"), dict):
                n = kept.get("n")
                found.append((n if type(n) is int else 1 << 60, kept))
        return sorted(found, key=lambda pair: pair[0]) if len(found) == len(records) else []

    def _opening(self) -> None:
        """Account for the session's ``x-dcb``; write system prompts that have no place yet."""
        extra = self.session.extra or {}
        written = []
        prompts = extra.get("system")
        if isinstance(prompts, list) and all(isinstance(prompt, str) for prompt in prompts):
            written.append("system")
            placed = {kept.get("system") for _, kept in self.asides if "system" in kept}
            for index, prompt in enumerate(prompts):
                if index not in placed:
                    self._plain("system", prompt, {}, "system")
        if self.asides or extra.get("records") == []:
            written.append("records")
        if self.account.own and "parent" in extra:
            written.append("parent")
        self.account.members(extra, *written)
        self.account.members(self.session.meta.extra)

    def _flush(self, before: int | None) -> None:
        """Write the notes that stood before the block of this number (all of them)."""
        while self.asides and (before is None or self.asides[0][0] < before):
            _, kept = self.asides.pop(0)
            body = kept.get("body")
            prompts = (self.session.extra or {}).get("system")
            index = kept.get("system")
            if isinstance(prompts, list) and type(index) is int and 0 <= index < len(prompts):
                body = prompts[index]
            role = text_of(kept["header"], "role") or text_of(kept, "role") or "note"
            self._plain(role, body if isinstance(body, str) else "", kept, None)

    def _plain(self, role: str, body: str, native: dict[str, Any], kind: str | None) -> None:
        fields = self._fields(_Message(role, [], native, kind=kind), aside=True)
        self._append(fields, body, native)

    def turn(self, turn: Turn, following: Turn | None) -> None:
        """Write one turn: a compaction as a note, the prompt, the steps with their results."""
        account = self.account
        account.members(turn.extra)
        native = self.native(turn.extra)
        if turn.compaction is not None:
            self._compaction(turn)
        if turn.shadowed:
            account.lost("state-dropped", "state")
        plans = []
        for index, step in enumerate(turn.steps):
            account.step = index
            plans.append((step, *plan_step(step, account, self.known)))
        account.step = None
        live = [plan for plan in plans if plan[1] or plan[0].usage is not None]
        self._prompt(turn, native, live=bool(live))
        for index, (step, planned, ids) in enumerate(plans):
            account.step = index
            if not planned and step.usage is None:
                account.members(step.extra)
                account.time(step.time)
                account.model(step.model)
                account.note("empty-message", "step")
                self.results(step, None, ids)
                continue
            last = step is live[-1][0]
            self.step(step, planned, ids, aborted=turn.aborted if last else None)
            self.results(step, following if last else None, ids)
        account.step = None
        if turn.aborted and not live:
            account.lost("state-dropped", "state")

    def _compaction(self, turn: Turn) -> None:
        compaction = turn.compaction
        if compaction is None:
            return
        self.account.members(compaction.extra)
        self.account.lost("compaction-text", "compaction")
        self.account.lost("compaction-text", "time", int(compaction.time is not None))
        self.account.lost("compaction-text", "model", int(compaction.model is not None))
        message = _Message("note", [], {}, compaction.time, compaction.model, kind="note")
        self._append(self._fields(message, aside=True), compaction.summary, {})

    def _prompt(self, turn: Turn, native: dict[str, Any], *, live: bool) -> None:
        """Write the user block; an empty one where only that keeps the turn apart."""
        account = self.account
        planned = plan_blocks(prompt_of(turn), account)
        held, self.held = self.held, []
        results = [plan_result(result, account) for result in held]
        if not planned and not results:
            if not live:
                account.note("empty-message", "turn")
            if not live or not (self.turn_written or turn.time is not None or native):
                self.turn_written = self.turn_written or live
                account.time(turn.time)
                self._said_prompt(turn, [])
                return
            account.note("prompt-missing")
        self.turn_written = True
        call_id = f"call-{self.steps + 1}"
        model = turn.steps[0].model if turn.steps else None
        message = _Message(
            "user", results + planned, native, turn.time, model=model, call_id=call_id
        )
        got = self.emit(message)
        self._said_prompt(turn, [part for part in got if not isinstance(part, Result)])

    def _said_prompt(self, turn: Turn, got: list[Part]) -> None:
        """Account for the text projection of the prompt."""
        if not turn.prompt and not turn.prompt_blocks:
            return
        if "\n".join(getattr(part, "text", "") for part in got) == turn.prompt:
            self.account.kept("prompt")
        else:
            self.account.lost("text-changed", "prompt")

    def step(
        self, step: Step, planned: list[Planned], ids: list[str], *, aborted: bool | None
    ) -> None:
        """Write the assistant block of a step; ``aborted`` is that of the turn it ends."""
        account = self.account
        self.steps += 1
        account.members(step.extra)
        native = self.native(step.extra)
        header = native.get("header")
        was_draft = isinstance(header, dict) and header.get("draft") is True
        draft = was_draft if aborted is None else aborted and (was_draft or step.usage is None)
        if aborted and draft:
            account.kept("state")
        elif aborted:
            account.lost("state-dropped", "state")
        if step.model is not None:
            account.kept("model")
        if step.usage is not None:
            account.members(step.usage.extra)
            if _plain_usage(step.usage) == _bare(step.usage):
                account.kept("usage")
            else:
                account.lost("usage-reduced", "usage")
        message = _Message(
            "assistant",
            planned,
            native,
            step.time,
            step.model,
            step.usage,
            draft,
            f"call-{self.steps}",
        )
        answers = [r.tool_call_id for r in step.tool_results]
        told = header.get("tool_call_ids") if isinstance(header, dict) else None
        if ids and (ids == told or ids != answers or (len(ids) > 1 and not native)):
            message.more["tool_call_ids"] = ids
        self.emit(message)

    def results(self, step: Step, following: Turn | None, ids: list[str]) -> None:
        """Write the results of a step, one user block for those of one block or time."""
        account = self.account
        groups: list[tuple[Any, list[ToolResult]]] = []
        for result in step.tool_results:
            call_id = result.tool_call_id
            if call_id not in self.calls or call_id in self.answered:
                rule = "duplicate-tool-result" if call_id in self.answered else "orphan-tool-result"
                self._drop(result, rule)
                continue
            self.answered.add(call_id)
            native = self.native(result.extra)
            key = ("n", native["n"]) if "n" in native else ("time", result.time)
            if not groups or groups[-1][0] != key or call_id not in ids:
                groups.append((key, []))
            groups[-1][1].append(result)
        following_n = self.native(following.extra).get("n") if following else None
        for key, group in groups:
            natives = [self.native(result.extra) for result in group]
            if following_n is not None and key == ("n", following_n) and group is groups[-1][1]:
                self._held_times(group, following)
                self.held = group
                continue
            native = next((found for found in natives if "header" in found), {})
            told = role_of_native(native)
            role = "tool" if told == "tool" and len(group) == 1 else "user"
            planned = [plan_result(result, account) for result in group]
            for result, item in zip(group, planned, strict=True):
                if result.tool_call_id not in ids:
                    # It will be read back into the step of its call.
                    item.counts = tuple(c for c in item.counts if c[0] != "result")
                    account.lost("text-changed", "result")
            message = _Message(role, planned, native, group[0].time)
            message.call_id = f"call-{self.steps + 1}" if group is groups[-1][1] else None
            self.emit(message)
            for result in group[1:]:
                self._time_item(result.time, group[0].time)

    def _held_times(self, group: list[ToolResult], following: Turn | None) -> None:
        for result in group:
            self._time_item(result.time, following.time if following else None)

    def _time_item(self, time: int | None, written: int | None) -> None:
        """Account for a time that shares a header with another message."""
        if time is not None and time == written and _iso(time) is not None:
            self.account.kept("time")
        else:
            self.account.time(time)

    def _drop(self, result: ToolResult, rule: str) -> None:
        account = self.account
        account.lost(rule, "result")
        account.time(result.time)
        account.members(result.extra)
        account.lost("error-mark-dropped", "error", int(result.is_error))
        for block in result.content:
            account.members(block.extra)
            tag = block.__struct_config__.tag
            if tag != "tool-call":
                account.lost("tool-result-dropped", f"block.{tag}")

    def emit(self, message: _Message) -> list[Part]:
        """Append a block for a message; gives the parts that will be read back."""
        account = self.account
        fields = self._fields(message)
        wanted = [item.part for item in message.planned]
        raw = message.native.get("body")
        body = None
        if isinstance(raw, str):
            got = self._read_back(message.role, fields, raw, wanted)
            body = raw if same(wanted, got) else None
        if body is not None:
            got = wanted
        else:
            body = add_footers(join(wanted), footers_of(fields))
            if message.role == "tool":
                body = getattr(wanted[0], "text", "")
            got = self._read_back(message.role, fields, body, wanted)
        settle(message.planned, got, account)
        self._append(fields, body, message.native)
        return got

    def _read_back(
        self, role: str, fields: dict[str, Any], body: str, wanted: list[Part]
    ) -> list[Part]:
        """Give the parts that a reader will find in a body."""
        visible, _ = cut_footers(body)
        if role == "tool":
            return [Result(part.id, visible) for part in wanted if isinstance(part, Result)]
        return message_parts(visible, role, fields, newer=False)

    def _append(self, fields: dict[str, Any], body: str, native: dict[str, Any]) -> None:
        kind = native.get("type")
        header = native.get("header")
        newer = isinstance(header, dict) and is_newer_header(header)
        block = new_block(
            fields,
            body.encode("utf-8", "replace"),
            kind=kind if isinstance(kind, str) and not newer else "markdown",
        )
        self.blocks.append(block)

    def _fields(self, message: _Message, *, aside: bool = False) -> dict[str, Any]:
        """Give the header of a message: the kept one with what changed, or a new one."""
        header = message.native.get("header")
        own = isinstance(header, dict)
        n = message.native.get("n")
        if type(n) is int and not aside:
            self._flush(n)
        fields: dict[str, Any] = {}
        if isinstance(header, dict):
            fields = as_1_0(header, newer=is_newer_header(header))
        if not own:
            fields["session_id"] = self.session.meta.id
            if message.call_id is not None:
                fields["call_id"] = message.call_id
        if own and aside:
            message.time = time_of(fields, newer=False)
        fields["role"] = message.role
        default = {"user": "llm.request", "assistant": "llm.response"}
        kind = message.kind or default.get(message.role, message.role)
        if message.draft and not own:
            kind = "llm.response.stream"
        fields.setdefault("kind", kind)
        fields.setdefault("source", SOURCE)
        fields.setdefault("seq", len(self.blocks))
        seq = fields["seq"]
        fields.setdefault("turn", seq // 2 + 1 if type(seq) is int else 1)
        fields.setdefault("v", 1)
        self._set_time(fields, message.time, aside=aside)
        if message.role == "assistant":
            self._set_answer(fields, message)
        elif message.role == "user":
            if message.model is not None and not own:
                fields["model"] = message.model
            self.requests.saw(fields, newer=False)
        elif message.model is not None and not own:
            fields["model"] = message.model
        fields |= message.more
        return fields

    def _set_time(self, fields: dict[str, Any], time: int | None, *, aside: bool) -> None:
        if time is None:
            if not aside:
                fields.pop("timestamp", None)
            return
        iso = _iso(time)
        if iso is not None and time_of(fields, newer=False) != time:
            fields["timestamp"] = iso
        if aside:
            return
        if iso is None:
            fields.pop("timestamp", None)
            self.account.time(time)
        else:
            self.account.kept("time")

    def _set_answer(self, fields: dict[str, Any], message: _Message) -> None:
        usage = message.usage
        if usage is None or usage_of(fields) != _bare(usage):
            for name in _TOKENS:
                fields.pop(name, None)
            if usage is not None:
                fields["prompt_tokens"] = usage.input_tokens
                fields["completion_tokens"] = usage.output_tokens
                fields["total_tokens"] = usage.input_tokens + usage.output_tokens
        if message.draft:
            fields["draft"] = True
        else:
            fields.pop("draft", None)
        if self.requests.model_of(fields, newer=False) != message.model:
            fields.pop("model", None)
            if message.model is not None:
                fields["model"] = message.model
        if "tool_call_ids" not in message.more:
            fields.pop("tool_call_ids", None)


def role_of_native(native: dict[str, Any]) -> str | None:
    """Give the role that a kept header names."""
    header = native.get("header")
    return text_of(header, "role") if isinstance(header, dict) else None


def _iso(time: int) -> str | None:
    return timestamp(time, "Z")


def _bare(usage: Usage) -> Usage:
    """Give the two counts that the format has fields for."""
    return Usage(usage.input_tokens, usage.output_tokens)


def _plain_usage(usage: Usage) -> Usage:
    """Give a usage without its ``x-dcb``."""
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )
