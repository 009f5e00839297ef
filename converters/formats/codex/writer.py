"""Sessions as Codex rollouts that ``codex resume`` reads.

Shape: Interchange v1, section 10, with the events that the tool's own list needs. Reasoning of
other tools is written as events only: the API refuses replayed reasoning that it did not make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from converters.formats.codex.human import scan
from converters.formats.codex.naming import native_id
from converters.formats.codex.records import Tokens
from converters.formats.codex.walk import PROVIDER, enveloped
from converters.formats.codex.wire import message_parts
from converters.ir import Image, Reasoning, Text, ToolCallBlock, prompt_of
from converters.shapes.account import Account
from converters.text import iso_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Block, Session, Step, ToolCall, ToolResult, Turn
    from converters.types import Context, Sink

__all__ = ["VERSION", "write"]

VERSION: Final = "0.171.0"
"""The tool version that written rollouts name when the session names none."""

_BATCH: Final = 1 << 20
_OUTPUTS: Final = {"custom_tool_call": "custom_tool_call_output"}


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write the first session as the file, any others as companions."""
    for number, session in enumerate(sessions):
        account = Account(ctx.ledger, session, own=session.provider == PROVIDER)
        walk = _Writer(session, account, ctx.now_ms)
        if number:
            walk.all()
            sink.beside(f"rollout-{native_id(session)}.jsonl", b"".join(walk.lines))
        else:
            for _ in walk.batches():
                sink.write(b"".join(walk.lines))
                walk.lines.clear()
        account.close()


class _Writer:
    """Writes the lines of one session in order."""

    def __init__(self, session: Session, account: Account, now: int) -> None:
        self.session = session
        self.account = account
        self.lines: list[bytes] = []
        self.size = 0
        self.clock = session.meta.created_at if session.meta.created_at is not None else now
        self.model: str | None = None
        self.first_model: str | None = None
        # No step is open for the reader; and the one that is open has a result.
        self.fresh = True
        self.replied_here = False
        self.total = Tokens()
        self.declared: dict[str, str] = {}
        self.replied: set[str] = set()
        self.calls = {c.id for turn in session.turns for s in turn.steps for c in s.tool_calls}
        self.answered = {
            r.tool_call_id for turn in session.turns for s in turn.steps for r in s.tool_results
        }
        self.last_compaction = max(
            (n for n, turn in enumerate(session.turns) if turn.compaction is not None), default=-1
        )

    def all(self) -> None:
        """Write everything."""
        for _ in self.batches():
            pass

    def batches(self) -> Iterable[None]:
        """Write everything, and stop after about each MiB."""
        self._head()
        for number, turn in enumerate(self.session.turns):
            self.account.turn = number
            self._turn(turn)
            if self.size > _BATCH:
                self.size = 0
                yield
        self.account.turn = self.account.step = None
        if self.session.model is not None:
            same = self.first_model == self.session.model
            if not same and self.first_model is None:
                self._context(self.session.model)
                same = True
            if same:
                self.account.kept("model")
            else:
                self.account.lost("model-dropped", "model")
        yield

    def line(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a line at the present time."""
        record = {"timestamp": iso_ms(self.clock), "type": kind, "payload": payload}
        data = msgspec.json.encode(record) + b"\n"
        self.lines.append(data)
        self.size += len(data)

    def at(self, time: int | None) -> None:
        """Set the present time; the last one stands in for a missing one."""
        if time is None:
            self.account.note("time-filled")
            return
        try:
            iso_ms(time)
        except ValueError:
            self.account.lost("time-dropped", "time")
        else:
            self.account.kept("time")
            self.clock = time

    def _head(self) -> None:
        session, account = self.session, self.account
        native = account.native(session.extra)
        identity = native_id(session)
        if identity != session.meta.id:
            account.note("id-minted", "session")
        if session.meta.created_at is not None:
            self.at(session.meta.created_at)
        meta: dict[str, Any] = {
            "id": identity,
            "session_id": identity,
            "timestamp": iso_ms(self.clock),
            "originator": "dcb",
            "cli_version": VERSION,
            "source": "cli",
            "thread_source": "user",
            "model_provider": "openai",
            **native,
        }
        if session.meta.cwd is not None:
            meta["cwd"] = session.meta.cwd
            account.kept("cwd")
        else:
            account.note("cwd-missing")
        written = []
        git = (session.extra or {}).get("git")
        if isinstance(git, dict):
            names = (("branch", "branch"), ("commit", "commit_hash"), ("url", "repository_url"))
            meta["git"] = {member: git[name] for name, member in names if name in git}
            written.append("git")
        parent = (session.extra or {}).get("parent")
        if isinstance(parent, dict) and isinstance(parent.get("sessionId"), str):
            spawn = {"parent_thread_id": parent["sessionId"], "depth": 1}
            meta["source"] = {"subagent": {"thread_spawn": spawn}}
            meta["thread_source"] = "subagent"
            written.append("parent")
        account.members(session.extra, *written)
        account.members(session.meta.extra)
        self.line("session_meta", meta)
        if session.title is not None:
            account.kept("title")
            self.line("event_msg", {"type": "thread_name_updated", "thread_name": session.title})

    def _context(self, model: str) -> None:
        self.model = model
        self.first_model = self.first_model or model
        self.line(
            "turn_context",
            {
                "cwd": self.session.meta.cwd or "/",
                "approval_policy": "on-request",
                "sandbox_policy": {"type": "read-only"},
                "model": model,
                "summary": "auto",
            },
        )

    def _turn(self, turn: Turn) -> None:
        account = self.account
        if turn.compaction is not None:
            self._compaction(turn)
        blocks = prompt_of(turn)
        account.members(turn.extra)
        if blocks:
            self._prompt(blocks, turn)
        else:
            if turn.time is not None:
                same = turn.compaction is not None and turn.time == turn.compaction.time
                if same:
                    account.kept("time")
                else:
                    account.lost("time-dropped", "time")
            if account.turn and turn.compaction is None:
                account.note("prompt-missing")
        for number, step in enumerate(turn.steps):
            account.step = number
            self._step(step, last=number == len(turn.steps) - 1)
        account.step = None
        covered = account.turn is not None and account.turn < self.last_compaction
        if turn.shadowed and covered:
            account.kept("state")
        elif turn.shadowed:
            account.lost("state-dropped", "state")
        elif covered:
            account.note("state-dropped", "covered by a later compaction")
        if turn.aborted:
            account.kept("state")
            self.line("event_msg", {"type": "turn_aborted", "reason": "interrupted"})

    def _compaction(self, turn: Turn) -> None:
        account, found = self.account, turn.compaction
        if found is None:
            return
        account.kept("compaction")
        account.members(found.extra)
        if found.model is not None:
            if found.model == self.model:
                account.kept("model")
            else:
                account.lost("model-dropped", "model")
        self.at(found.time)
        self.line("compacted", {"message": found.summary})
        self._close()

    def _prompt(self, blocks: list[Block], turn: Turn) -> None:
        account = self.account
        account.kept("prompt")
        model = next((step.model for step in turn.steps if step.model), None)
        self.at(turn.time)
        if model is not None and model != self.model:
            self._context(model)
        for block in blocks:
            if isinstance(block, Text) and scan(block.text).text != block.text:
                account.note("text-changed", "reads as injected text")
        content = message_parts(blocks, "input_text", account)
        said = [part["text"] for part in content if part["type"] == "input_text"]
        texts = [text for text in said if text.strip()]
        if not texts:
            texts = [block.text for block in blocks if isinstance(block, Text)]
        images = [part["image_url"] for part in content if part["type"] == "input_image"]
        self.line("response_item", {"type": "message", "role": "user", "content": content})
        event: dict[str, Any] = {"type": "user_message", "message": "\n".join(texts)}
        if images:
            event["images"] = images
        self.line("event_msg", {**event, "kind": "plain"})
        self._close()

    def _close(self) -> None:
        self.fresh, self.replied_here = True, False

    def _step(self, step: Step, *, last: bool) -> None:
        account = self.account
        calls = self._fresh_calls(step)
        texts = [block for block in step.content if isinstance(block, Text | Image)]
        own = (("id",) if texts else ()) + ("sealed",)
        account.members(step.extra, *(own if account.own else ()))
        if step.model is not None:
            account.kept("model")
            if step.model != self.model:
                self._context(step.model)
        if step.time is not None or step.content or calls:
            self.at(step.time)
        sealed = _sealed(step) if account.own else {}
        if not texts and not (self.fresh and calls):
            # The reader opens a step all the same for reasoning after a result, and its call.
            if calls and self.replied_here and (_thinks(step.content[:1]) or 0 in sealed):
                self.replied_here = False
            else:
                account.note("text-changed", "step without text joined to the one before")
        closing = _thinks(step.content[-1:]) or len(step.content) in sealed
        if closing and not last and (texts or calls):
            account.note("order-changed", "reasoning at the end of a step")
        self._content(step, calls, texts, sealed)
        if step.usage is not None:
            self._usage(step)
        self._results(step, calls)

    def _fresh_calls(self, step: Step) -> dict[str, ToolCall]:
        fresh: dict[str, ToolCall] = {}
        for call in step.tool_calls:
            if call.id in self.declared or call.id in fresh:
                self.account.lost("duplicate-tool-call", "call")
                self.account.members(call.extra)
            else:
                fresh[call.id] = call
        return fresh

    def _content(
        self,
        step: Step,
        calls: dict[str, ToolCall],
        texts: list[Text | Image],
        sealed: dict[int, list[Any]],
    ) -> None:
        """Write reasoning, then the message, then calls, as the tool orders them."""
        account = self.account
        thoughts: list[Reasoning] = []
        left = dict(calls)
        said = called = False
        for index, block in enumerate([*step.content, None]):
            if index in sealed:
                for text in sealed[index]:
                    self._reasoning(thoughts, text)
                    thoughts = []
            elif not isinstance(block, Reasoning):
                self._thoughts(thoughts)
                thoughts = []
            if isinstance(block, Reasoning):
                thoughts.append(block)
            elif isinstance(block, ToolCallBlock):
                account.members(block.extra)
                call = left.pop(block.id, None)
                if texts and not said:
                    # The tool opens a new step at each message, so the message comes first.
                    said = True
                    account.note("text-changed", "text after a call")
                    self._message(step, texts)
                if call is not None:
                    called = True
                    self._call(call)
            elif block is not None:
                if called and said:
                    account.note("text-changed", "text after a call")
                if not said:
                    said = True
                    self._message(step, texts)
        for call in left.values():
            account.note("text-changed", "call without a block")
            self._call(call)

    def _message(self, step: Step, texts: list[Text | Image]) -> None:
        content = message_parts(texts, "output_text", self.account)
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
        identity = (step.extra or {}).get("id")
        if self.account.own and isinstance(identity, str):
            message["id"] = identity
        self.line("response_item", message)
        said = [part.get("text") or part.get("refusal") or "" for part in content]
        if any(isinstance(block, Text) and not block.text for block in texts):
            self.account.note("text-changed", "empty text in a message")
        text = "\n".join(filter(None, said))
        if text.strip():
            self.line("event_msg", {"type": "agent_message", "message": text})
        self.fresh = self.replied_here = False

    def _reasoning(self, thoughts: list[Reasoning], encrypted: Any) -> None:
        summary = []
        for block in thoughts:
            self.account.kept("block.reasoning")
            self.account.members(block.extra)
            summary.append({"type": "summary_text", "text": block.text})
        item = {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}
        self.line("response_item", item)

    def _thoughts(self, thoughts: list[Reasoning]) -> None:
        for block in thoughts:
            self.account.members(block.extra)
            if block.text:
                self.account.kept("block.reasoning")
                self.line("event_msg", {"type": "agent_reasoning", "text": block.text})
            else:
                self.account.lost("reasoning-dropped", "block.reasoning")

    def _call(self, call: ToolCall) -> None:
        account = self.account
        account.kept("call")
        native = account.native(call.extra)
        account.members(call.extra)
        kind = native.get("type")
        item: dict[str, Any] = {"type": "function_call", "name": call.name, "call_id": call.id}
        value = _json(call.arguments)
        if kind == "custom_tool_call" and isinstance(native.get("input", value), str):
            status = {"status": "completed"}
            item |= {"type": kind, "input": native.get("input", value), **status}
        elif kind in ("local_shell_call", "web_search_call") and isinstance(value, dict):
            action = msgspec.Raw(call.arguments.encode())
            item = {"type": kind, "status": native.get("status", "completed"), "action": action}
            item["call_id" if kind == "local_shell_call" else "id"] = call.id
        else:
            kind = "function_call"
            item["arguments"] = call.arguments
        self.declared[call.id] = str(kind)
        self.line("response_item", item)
        self.fresh = False

    def _usage(self, step: Step) -> None:
        account, usage = self.account, step.usage
        if usage is None:
            return
        account.kept("usage")
        account.members(usage.extra)
        if usage.cache_write_tokens is not None:
            account.note("usage-dropped", "cacheWriteTokens")
        cached = usage.cache_read_tokens or 0
        last = Tokens(
            usage.input_tokens + cached + (usage.cache_write_tokens or 0),
            cached,
            usage.output_tokens,
            usage.reasoning_tokens or 0,
        )
        self.total = Tokens(
            *(getattr(self.total, name) + getattr(last, name) for name in Tokens.__struct_fields__)
        )
        info = {"total_token_usage": _counts(self.total), "last_token_usage": _counts(last)}
        self.line("event_msg", {"type": "token_count", "info": info, "rate_limits": None})

    def _results(self, step: Step, calls: dict[str, ToolCall]) -> None:
        account = self.account
        for result in step.tool_results:
            if result.tool_call_id not in self.calls:
                self._lose("orphan-tool-result", result)
            elif result.tool_call_id in self.replied:
                self._lose("duplicate-tool-result", result)
            else:
                self._result(result)
        for identity in calls:
            if identity not in self.answered:
                account.note("tool-result-missing")
                if self.declared[identity] != "web_search_call":
                    self._output(identity, "")

    def _result(self, result: ToolResult) -> None:
        account = self.account
        self.replied.add(result.tool_call_id)
        self.replied_here = True
        account.kept("result")
        account.members(result.extra)
        self.at(result.time)
        blocks = result.content
        plain = all(isinstance(block, Text) and not block.extra for block in blocks)
        texts = [block.text for block in blocks if isinstance(block, Text)]
        if result.is_error and plain:
            account.kept("error")
            account.kept("block.text", len(texts))
            if len(texts) > 1 or texts == [""]:
                account.note("text-changed", "texts of an error joined")
            body = {"output": "\n".join(texts), "metadata": {"exit_code": 1}}
            self._output(result.tool_call_id, msgspec.json.encode(body).decode())
            return
        account.lost("error-mark-dropped", "error", int(result.is_error))
        if not blocks:
            self._output(result.tool_call_id, "")
        elif plain and len(texts) == 1 and texts[0] and enveloped(texts[0])[0] is texts[0]:
            account.kept("block.text")
            self._output(result.tool_call_id, texts[0])
        else:
            self._output(result.tool_call_id, message_parts(blocks, "input_text", account))

    def _output(self, call: str, output: str | list[dict[str, Any]]) -> None:
        kind = _OUTPUTS.get(self.declared.get(call, ""), "function_call_output")
        self.line("response_item", {"type": kind, "call_id": call, "output": output})

    def _lose(self, rule: str, result: ToolResult) -> None:
        account = self.account
        account.lost(rule, "result")
        account.lost(rule, "error", int(result.is_error))
        account.lost(rule, "time", int(result.time is not None))
        account.lost(rule, "extra", len(result.extra or ()))
        for block in result.content:
            if not isinstance(block, ToolCallBlock):
                account.lost(rule, f"block.{block.__struct_config__.tag}")
            account.all_lost(block.extra)


def _sealed(step: Step) -> dict[int, list[Any]]:
    """Give the encrypted reasoning of a step by the index in its content; several may share one."""
    kept = (step.extra or {}).get("sealed")
    found: dict[int, list[Any]] = {}
    if isinstance(kept, list):
        for index, text in zip(kept[::2], kept[1::2], strict=False):
            if isinstance(index, int):
                found.setdefault(index, []).append(text)
    return found


def _thinks(blocks: list[Block]) -> bool:
    return bool(blocks) and isinstance(blocks[0], Reasoning)


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _counts(tokens: Tokens) -> dict[str, int]:
    members = {name: getattr(tokens, name) for name in Tokens.__struct_fields__}
    return {**members, "total_tokens": tokens.input_tokens + tokens.output_tokens}
