"""Sessions as Claude Code transcripts that ``claude --resume`` opens.

Shape: Interchange v1, section 10, with the full envelope that the fact sheet ``claude`` asks for.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from converters.formats.claude.build import PROVIDER
from converters.formats.claude.human import scan
from converters.formats.claude.wire import (
    assistant_content,
    prompt_content,
    result_content,
    usage_members,
)
from converters.ir import Text, prompt_of
from converters.shapes.account import Account
from converters.text import iso_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from converters.ir import Compaction, Session, Step, ToolCall, ToolResult, Turn
    from converters.types import Context, Sink

__all__ = ["VERSION", "native_id", "slug", "write"]

VERSION: Final = "2.1.0"
"""The tool version that written lines name when the session names none."""

_NAMESPACE: Final = uuid.UUID("2a1c6d0e-51f2-5c0b-8a38-0d6d0c7b4e11")
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_BATCH: Final = 1 << 20
_INTERRUPTED: Final = "[Request interrupted by user]"


def slug(cwd: str) -> str:
    """Give the name of a project's folder: all but ASCII letters and digits become ``-``."""
    units = cwd.encode("utf-16-le", "surrogatepass")
    return "".join(
        chr(unit) if unit < 128 and chr(unit).isalnum() else "-"
        for unit in (int.from_bytes(units[n : n + 2], "little") for n in range(0, len(units), 2))
    )


def native_id(session: Session) -> str:
    """Give the UUID under which the tool finds the session; a made one where it has none."""
    identity = session.meta.id
    return identity if _UUID.fullmatch(identity) else str(uuid.uuid5(_NAMESPACE, identity))


class _Agent(NamedTuple):
    """What marks the lines of a subagent."""

    session_id: str
    agent_id: str


class _Out:
    """The lines of one session: chain of uuids, clock, envelope."""

    def __init__(self, session: Session, account: Account, now: int, agent: _Agent | None) -> None:
        self.account = account
        self.session_id = agent.session_id if agent else native_id(session)
        self.seed = f"{self.session_id}:{agent.agent_id}" if agent else self.session_id
        self.lines: list[bytes] = []
        self.size = 0
        self.parent: str | None = None
        self.used: set[str] = set()
        self.clock = session.meta.created_at if session.meta.created_at is not None else now
        self.count = 0
        native = account.native(session.extra)
        version = native.get("version")
        self.envelope: dict[str, Any] = {
            "isSidechain": agent is not None,
            "userType": "external",
            "entrypoint": "cli",
            **({"cwd": session.meta.cwd} if session.meta.cwd is not None else {}),
            "sessionId": self.session_id,
            "version": version if isinstance(version, str) else VERSION,
        }
        branch = (session.extra or {}).get("git")
        branch = branch.get("branch") if isinstance(branch, dict) else None
        if isinstance(branch, str):
            self.envelope["gitBranch"] = branch
        if agent:
            self.envelope["agentId"] = agent.agent_id

    def bare(self, record: dict[str, Any]) -> None:
        """Add a line outside the chain."""
        data = msgspec.json.encode(record) + b"\n"
        self.lines.append(data)
        self.size += len(data)

    def chained(
        self,
        record: dict[str, Any],
        time: int | None,
        *,
        own: Any = None,
        parent: str | None = None,
        made: bool = False,
    ) -> str:
        """Add a line of the chain; gives its uuid. ``own`` is the uuid that the source had.

        ``made``: the session has no such message, so its time is no item of it.
        """
        self.count += 1
        identity = own if isinstance(own, str) and own and self.account.own else None
        if identity is None or identity in self.used:
            identity = str(uuid.uuid5(_NAMESPACE, f"{self.seed}:{self.count}"))
        self.used.add(identity)
        self.bare(
            {
                "parentUuid": parent or self.parent,
                **record,
                "uuid": identity,
                "timestamp": iso_ms(self.clock) if made else self.stamp(time),
                **self.envelope,
            }
        )
        self.parent = identity
        return identity

    def stamp(self, time: int | None) -> str:
        """Give a time as the tool writes it; the last one stands in for a missing one."""
        if time is not None:
            try:
                text = iso_ms(time)
            except ValueError:
                self.account.lost("time-dropped", "time")
            else:
                self.account.kept("time")
                self.clock = time
                return text
        else:
            self.account.note("time-filled")
        return iso_ms(self.clock)


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write the first session as the file, its subagents and any others as companions."""
    first: Session | None = None
    for session in sessions:
        account = Account(ctx.ledger, session, own=session.provider == PROVIDER)
        if first is None:
            first = session
            _session(session, _Out(session, account, ctx.now_ms, None), sink.write)
        else:
            _beside(session, first, account, sink, ctx)
        account.close()


def _beside(session: Session, first: Session, account: Account, sink: Sink, ctx: Context) -> None:
    parent = (session.extra or {}).get("parent")
    own = isinstance(parent, dict) and parent.get("sessionId") == first.meta.id
    agent = _Agent(native_id(first), session.meta.id) if own else None
    out = _Out(session, account, ctx.now_ms, agent)
    data = bytearray()
    _session(session, out, data.extend)
    name = f"{agent.session_id}/subagents/agent-{agent.agent_id}" if agent else native_id(session)
    sink.beside(f"{name}.jsonl", bytes(data))


def _session(session: Session, out: _Out, write: Callable[[bytes], object]) -> None:
    account = out.account
    if out.session_id != session.meta.id and "agentId" not in out.envelope:
        account.note("id-minted", "session")
    if "agentId" not in out.envelope:
        out.bare({"type": "mode", "mode": "normal", "sessionId": out.session_id})
        mode = {"type": "permission-mode", "permissionMode": "default"}
        out.bare({**mode, "sessionId": out.session_id})
    created = session.meta.created_at
    _account_meta(session, out)
    walk = _Walk(session, out)
    for number, turn in enumerate(session.turns):
        account.turn = number
        walk.turn(turn)
        if out.size > _BATCH:
            write(b"".join(out.lines))
            out.lines.clear()
            out.size = 0
    account.turn = account.step = None
    if not walk.titled:
        walk.title()
    if created is not None:
        same = walk.first in (created, None)
        account.kept("time") if same else account.lost("meta-dropped", "time")
    if session.model is not None:
        same = walk.model == session.model
        account.kept("model") if same else account.lost("model-dropped", "model")
    write(b"".join(out.lines))


def _account_meta(session: Session, out: _Out) -> None:
    account = out.account
    if session.meta.cwd is not None:
        account.kept("cwd")
    else:
        account.note("cwd-missing")
    written = ["git"] if "gitBranch" in out.envelope else []
    parent = (session.extra or {}).get("parent")
    if "agentId" in out.envelope and isinstance(parent, dict) and parent.keys() <= {"sessionId"}:
        # The call that started it stands in the parent's file only.
        written.append("parent")
    account.members(session.extra, *written)
    account.members(session.meta.extra)


class _Walk:
    """Writes the turns of one session in order.

    ``answers`` has the first result of each call, wherever it stands.
    """

    def __init__(self, session: Session, out: _Out) -> None:
        self.session = session
        self.out = out
        self.account = out.account
        steps = [step for turn in session.turns for step in turn.steps]
        self.calls = {call.id for step in steps for call in step.tool_calls}
        self.answers: dict[str, ToolResult] = {}
        for step in steps:
            for result in step.tool_results:
                self.answers.setdefault(result.tool_call_id, result)
        self.declared: dict[str, str] = {}
        self.messages: set[str] = set()
        self.titled = False
        self.opened = False
        self.first: int | None = None
        self.model: str | None = None
        self.last_compaction = max(
            (n for n, turn in enumerate(session.turns) if turn.compaction is not None), default=-1
        )

    def title(self) -> None:
        """Write the title record, once."""
        self.titled = True
        if self.session.title is not None:
            self.account.kept("title")
            members = {"customTitle": self.session.title, "sessionId": self.out.session_id}
            self.out.bare({"type": "custom-title", **members})

    def turn(self, turn: Turn) -> None:
        """Write one turn: compaction, prompt, steps, and how it ended."""
        account = self.account
        if turn.compaction is not None:
            self._compaction(turn.compaction)
        blocks = prompt_of(turn)
        if blocks:
            self._prompt(turn)
        else:
            account.members(turn.extra)
            if turn.time is not None:
                same = turn.compaction is not None and turn.time == turn.compaction.time
                account.kept("time") if same else account.lost("time-dropped", "time")
            if self.opened and turn.compaction is None:
                account.note("prompt-missing")
        self.opened = True
        for number, step in enumerate(turn.steps):
            account.step = number
            self._step(step)
        account.step = None
        covered = account.turn is not None and account.turn < self.last_compaction
        if turn.shadowed:
            account.kept("state") if covered else account.lost("state-dropped", "state")
        elif covered:
            account.note("state-dropped", "covered by a later compaction")
        if turn.aborted and not (blocks or turn.steps):
            # The notice would be taken for one about the turn before.
            account.lost("state-dropped", "state")
        elif turn.aborted:
            account.kept("state")
            message = {"role": "user", "content": [{"type": "text", "text": _INTERRUPTED}]}
            self.out.chained({"type": "user", "message": message}, None, made=True)

    def _compaction(self, compaction: Compaction) -> None:
        account, out = self.account, self.out
        account.kept("compaction")
        account.members(compaction.extra)
        if compaction.model is not None:
            same = compaction.model == self.model
            account.kept("model") if same else account.lost("model-dropped", "model")
        # The boundary starts a chain of its own; the old one stays reachable.
        boundary: dict[str, Any] = {"type": "system", "subtype": "compact_boundary"}
        boundary["content"] = "Conversation compacted"
        logical, out.parent = out.parent, None
        boundary |= {"isMeta": False, "logicalParentUuid": logical, "level": "info"}
        out.chained(boundary, None, made=True)
        message = {"role": "user", "content": compaction.summary}
        flags = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        out.chained({"type": "user", "message": message, **flags}, compaction.time)

    def _prompt(self, turn: Turn) -> None:
        account = self.account
        blocks = prompt_of(turn)
        account.kept("prompt")
        account.members(turn.extra, *(("uuid",) if account.own else ()))
        for block in blocks:
            if isinstance(block, Text) and scan(block.text).text != block.text:
                account.note("text-changed", "reads as injected text")
        record: dict[str, Any] = {
            "type": "user",
            "message": {"role": "user", "content": prompt_content(blocks, account)},
            "permissionMode": "default",
            "origin": {"kind": "human"},
            "promptSource": "typed",
        }
        self._first(turn.time)
        self.out.chained(record, turn.time, own=(turn.extra or {}).get("uuid"))
        if not self.titled:
            self.title()

    def _first(self, time: int | None) -> None:
        if self.first is None:
            self.first = time if time is not None else self.out.clock

    def _step(self, step: Step) -> None:
        account = self.account
        calls = self._calls(step)
        extra = step.extra or {}
        own = tuple(name for name in ("id", "uuid") if account.own and name in extra)
        if not (step.content or calls or step.usage) and not account.native(step.extra):
            account.time(step.time)
            account.model(step.model)
            account.members(step.extra)
        else:
            account.members(step.extra, *own)
            if step.model is not None:
                account.kept("model")
            self._first(step.time)
            record = {"type": "assistant", "message": self._message(step, calls, extra)}
            identity = self.out.chained(record, step.time, own=extra.get("uuid"))
            for call in calls:
                self.declared[call.id] = identity
        self._results(step, calls)

    def _calls(self, step: Step) -> list[ToolCall]:
        """Give the calls to write; the tool refuses an id that comes twice."""
        fresh: list[ToolCall] = []
        for call in step.tool_calls:
            if call.id in self.declared or any(call.id == other.id for other in fresh):
                self.account.lost("duplicate-tool-call", "call")
                self.account.members(call.extra)
            else:
                fresh.append(call)
        return fresh

    def _message(self, step: Step, calls: list[ToolCall], extra: dict[str, Any]) -> dict[str, Any]:
        account = self.account
        identity = extra.get("id") if account.own else None
        if not isinstance(identity, str) or not identity or identity in self.messages:
            import hashlib  # loads OpenSSL

            at = f"{(account.turn or 0) + 1}:{(account.step or 0) + 1}"
            seed = f"import:{self.session.meta.id}:a{at}"
            digest = hashlib.sha1(seed.encode("utf-8", "replace"), usedforsecurity=False)
            identity = f"msg_{digest.hexdigest()[:24]}"
        self.messages.add(identity)
        model = step.model or self.session.model
        self.model = self.model or model
        if step.usage is None:
            account.note("usage-unknown")
            usage: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0}
        else:
            usage = usage_members(step.usage, account)
        return {
            "type": "message",
            "id": identity,
            "role": "assistant",
            "content": assistant_content(step, calls, account),
            "model": model or "unknown",
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }

    def _results(self, step: Step, calls: list[ToolCall]) -> None:
        """Write the results of a step's calls behind them, wherever the session has them.

        A result further down would cut what stands between out of the chain, as its parent is
        the message of its call. Rule: Interchange v1, section 5.3.
        """
        account = self.account
        own = {id(result) for result in step.tool_results}
        for call in calls:
            result = self.answers.get(call.id)
            if result is None:
                account.note("tool-result-missing")
                self._answer(call.id, [], None, made=True)
                continue
            if id(result) not in own:
                account.note("order-changed", "result in another step than its call")
            account.kept("result")
            account.members(result.extra)
            if result.is_error:
                account.kept("error")
            content = result_content(result, account)
            self._answer(call.id, content, result.time, error=result.is_error)
        for result in step.tool_results:
            if result.tool_call_id not in self.calls:
                self._lose("orphan-tool-result", result)
            elif self.answers[result.tool_call_id] is not result:
                self._lose("duplicate-tool-result", result)

    def _lose(self, rule: str, result: ToolResult) -> None:
        account = self.account
        account.lost(rule, "result")
        account.lost(rule, "error", int(result.is_error))
        account.lost(rule, "time", int(result.time is not None))
        account.lost(rule, "extra", len(result.extra or ()))
        for block in result.content:
            tag = block.__struct_config__.tag
            if tag != "tool-call":
                account.lost(rule, f"block.{tag}")
            account.members(block.extra)

    def _answer(
        self,
        call: str,
        content: str | list[dict[str, Any]],
        time: int | None,
        *,
        error: bool = False,
        made: bool = False,
    ) -> None:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": content}
        if error:
            block["is_error"] = True
        record: dict[str, Any] = {"type": "user", "message": {"role": "user", "content": [block]}}
        source = self.declared.get(call)
        if source is not None:
            record["sourceToolAssistantUUID"] = source
        self.out.chained(record, time, parent=source, made=made)
