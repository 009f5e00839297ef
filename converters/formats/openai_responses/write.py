"""Turns as items of the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.formats.openai_responses.read import ID
from converters.ir import Reasoning, ToolCallBlock
from converters.shapes import envelope, rows
from converters.shapes import openai_responses as items
from converters.shapes.account import Account
from converters.shapes.answers import settled
from converters.shapes.openai_chat import with_rest
from converters.shapes.walk import Walk, system_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Block, Session, Step, ToolCall, ToolResult, Turn
    from converters.types import Context, Sink

__all__ = ["write"]


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write one document, or an array of them."""
    rows.write_rows(sink, (_written(session, ctx) for session in sessions), lines=False)


def _written(session: Session, ctx: Context) -> dict[str, Any]:
    account = Account(ctx.ledger, session, own=session.provider == ID)
    session = settled(session, account, lambda call: "item" not in account.native(call.extra))
    native = account.native(session.extra)
    paths = envelope.paths_of(native)
    at = native.get("outputAt")
    steps = session.turns[-1].steps if session.turns else []
    last = steps[-1] if steps else None
    places = [[len(session.turns), number] for number in range(len(steps))]
    answer = last if paths.response is not None and at in places else None
    writer = _Writer(session, account, answer, at if answer and isinstance(at, list) else None)
    writer.run(native)
    document = _document(session, native, writer, answer)
    shown = answer is not None and answer.time == session.meta.created_at
    account.finish(session, document, time=shown)
    return document


def _document(
    session: Session, native: dict[str, Any], writer: _Writer, answer: Step | None
) -> dict[str, Any]:
    around = envelope.around_of(native)
    paths = envelope.paths_of(native)
    given, made = writer.out, []
    if answer is not None and paths.response is not None and writer.split is not None:
        given, made = given[: writer.split], given[writer.split :]
        members: dict[str, Any] = {}
        if answer.time is not None:
            members["created_at"] = answer.time // 1000
        members["output"] = made
        if answer.usage is not None:
            raw = answer.extra.get("usage") if answer.extra else None
            members["usage"] = raw or items.usage_object(answer.usage)
        around = envelope.fill(around, paths.response, members)
        if paths.request is None and not given:
            model = session.model if session.model is not None else around.get("model")
            system = writer.instructions(native)
            more = {"instructions": system} if system is not None else {}
            return envelope.fill(around, paths.response, {"model": model, **more})
    request: dict[str, Any] = {}
    if session.model is not None:
        request["model"] = session.model
    system = writer.instructions(native)
    if system is not None:
        request["instructions"] = system
    request["input"] = given
    return envelope.fill(around, paths.request or (), request)


class _Writer:
    """Walks the turns of one session and gives its items."""

    def __init__(
        self, session: Session, account: Account, answer: Step | None, at: list[Any] | None
    ) -> None:
        self.session, self.account, self.answer = session, account, answer
        self.at = (at[0], at[1]) if at and len(at) == 2 else None
        self.out: list[dict[str, Any]] = []
        self.split: int | None = None
        self.system: list[str] = []
        self.stage = 0

    def run(self, native: dict[str, Any]) -> None:
        """Write everything; developer messages go back to where they stood."""
        self.system, standing = system_parts(self.session, native)
        walk = Walk(self.session, self.account, standing, self.out)
        for turn in walk.turns():
            self.prompt(turn)
            for step in walk.steps(turn):
                if self.at == ((self.account.turn or 0) + 1, self.account.step):
                    self.split, self.stage = len(self.out), 0
                self.step(step)

    def instructions(self, native: dict[str, Any]) -> Any:
        """Give the value of ``instructions``, if any."""
        if isinstance(native.get("instructions"), list):
            return native["instructions"]
        return "\n\n".join(self.system) if self.system else None

    def prompt(self, turn: Turn) -> None:
        """Write the prompt of a turn, and before it the summary of a compaction."""
        account = self.account
        summary = account.compaction(turn)
        if summary is not None:
            content = [{"type": "input_text", "text": summary}]
            self.out.append({"type": "message", "role": "developer", "content": content})
        blocks = account.prompt(turn)
        if not blocks:
            return
        self.message("user", items.parts(blocks, account, "input_text"), turn.extra)
        account.members(turn.extra, "id" if account.own else "")
        self.stage = 0

    def message(self, role: str, content: list[Any], extra: dict[str, Any] | None) -> None:
        """Write a message item."""
        item: dict[str, Any] = {"type": "message", "role": role, "content": content}
        if self.account.own and extra and "id" in extra:
            item["id"] = extra["id"]
        self.out.append(with_rest(item, self.account.native(extra)))

    def enter(self, stage: int, *, first: bool) -> None:
        """Go to a stage of the step as the reader does, and say where it sees another border."""
        opens = self.stage == 0 or stage < self.stage or stage == self.stage == 2
        if first and not opens:
            self.account.note("step-merged")
        elif not first and opens:
            self.account.note("order-changed")
        self.stage = stage

    def step(self, step: Step) -> None:
        """Write reasoning, text and calls of a step in their order, then the results."""
        account, before = self.account, len(self.out)
        self.encrypted(step)
        calls = {call.id: call for call in step.tool_calls}
        order = list(step.content)
        index = 0
        texted = False
        while index < len(order):
            first = len(self.out) == before
            block = order[index]
            end = index + 1
            if isinstance(block, Reasoning):
                end = self.reasoning(order, index, first=first)
            elif isinstance(block, ToolCallBlock):
                account.members(block.extra)
                if block.id in calls:
                    self.enter(3, first=first)
                    self.call(calls.pop(block.id))
            else:
                while end < len(order) and not isinstance(order[end], Reasoning | ToolCallBlock):
                    end += 1
                self.enter(2, first=first)
                content = items.parts(order[index:end], account, "output_text")
                self.message("assistant", content, None if texted else step.extra)
                texted = True
            index = end
        for call in calls.values():
            self.enter(3, first=len(self.out) == before)
            self.call(call)
        self.fields(step, written=len(self.out) > before, texted=texted)
        made = {call.id: call for call in step.tool_calls}
        for result in step.tool_results:
            self.result(result, made.get(result.tool_call_id))

    def encrypted(self, step: Step) -> None:
        """Write the reasoning items that hold nothing but ciphertext."""
        found = step.extra.get("encrypted") if step.extra and self.account.own else None
        if isinstance(found, list) and found:
            self.enter(1, first=True)
            self.out += [item for item in found if isinstance(item, dict)]

    def fields(self, step: Step, *, written: bool, texted: bool) -> None:
        account, answered = self.account, step is self.answer
        for kind, value in (("time", step.time), ("model", step.model), ("usage", step.usage)):
            if value is None:
                continue
            if answered:
                account.kept(kind)
            else:
                rule = {"time": "time-dropped", "model": "model-dropped"}.get(kind)
                account.lost(rule or "usage-dropped", kind)
        if step.usage is not None:
            account.members(step.usage.extra)
        for name in step.extra or ():
            own = account.own and (
                (name in ("id", "native") and texted)
                or (name == "encrypted" and written)
                or (name == "usage" and answered)
            )
            if own:
                account.kept("extra")
            else:
                account.lost("extra-dropped", "extra")
        if not written and not step.tool_results:
            account.note("empty-message", "assistant")

    def reasoning(self, order: list[Block], index: int, *, first: bool) -> int:
        """Write one reasoning item; give the index behind its blocks."""
        account = self.account
        head = order[index]
        native = account.native(head.extra)
        count = native.get("parts")
        end = index + 1
        limit = index + (count if type(count) is int and count > 0 else 1)
        while end < min(limit, len(order)) and isinstance(order[end], Reasoning):
            end += 1
        texts = []
        for block in order[index:end]:
            if isinstance(block, Reasoning):
                account.kept("block.reasoning")
                account.members(block.extra, *(("id", "encrypted_content") if account.own else ()))
                texts.append(block.text)
        self.enter(1, first=first)
        item: dict[str, Any] = {"type": "reasoning"}
        extra = head.extra or {}
        for name in ("id", "encrypted_content"):
            if account.own and name in extra:
                item[name] = extra[name]
        if native.get("source") == "content":
            item["summary"] = native.get("summary", [])
            item["content"] = [{"type": "reasoning_text", "text": text} for text in texts]
        else:
            item["summary"] = [{"type": "summary_text", "text": text} for text in texts]
        more = {k: v for k, v in native.items() if k not in ("parts", "source")}
        self.out.append(with_rest(item, more))
        return end

    def call(self, call: ToolCall) -> None:
        """Write the item of a call."""
        account = self.account
        account.kept("call")
        native = account.native(call.extra)
        account.members(call.extra, *(("id", "minted") if account.own else ()))
        if isinstance(native.get("item"), dict):
            self.out.append(native["item"])
            return
        kind = "custom_tool_call" if native.get("type") == "custom_tool_call" else "function_call"
        member = "input" if kind == "custom_tool_call" else "arguments"
        item = {"type": kind, "call_id": call.id, "name": call.name, member: call.arguments}
        if account.own and call.extra and isinstance(call.extra.get("id"), str):
            item["id"] = call.extra["id"]
        self.out.append(item | {k: v for k, v in native.items() if k != "type"})

    def result(self, result: ToolResult, call: ToolCall | None) -> None:
        """Write the output item of a result; a built-in call carries its own."""
        account = self.account
        account.kept("result")
        native = account.native(result.extra)
        account.members(result.extra, "id" if account.own else "")
        account.time(result.time)
        if native.get("inline") and call and "item" in account.native(call.extra):
            for block in result.content:
                account.kept("block.image" if not hasattr(block, "text") else "block.text")
                account.members(block.extra)
            if result.is_error:
                account.kept("error")
            return
        if result.is_error:
            account.lost("error-mark-dropped", "error")
        kind = native.get("type")
        item: dict[str, Any] = {
            "type": kind if isinstance(kind, str) else "function_call_output",
            "call_id": result.tool_call_id,
            "output": items.output(result.content, account),
        }
        if kind is None and call and account.native(call.extra).get("type") == "custom_tool_call":
            item["type"] = "custom_tool_call_output"
        if account.own and result.extra and isinstance(result.extra.get("id"), str):
            item["id"] = result.extra["id"]
        self.out.append(item | {k: v for k, v in native.items() if k not in ("type", "inline")})
        self.stage = 0
