"""Turns as chat messages, one conversation per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.formats.openai_chat.read import ID
from converters.ir import Image, Reasoning, Session, Text, ToolCallBlock, prompt_of
from converters.shapes import envelope, rows
from converters.shapes import openai_chat as chat
from converters.shapes.account import Account
from converters.shapes.answers import settled
from converters.shapes.openai_messages import TIMES
from converters.shapes.talk import system_places
from converters.shapes.walk import Walk, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Block, Extra, Step, ToolCall, ToolResult, Turn
    from converters.types import Context, Sink

__all__ = ["write"]


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write one conversation per line."""
    rows.write_rows(sink, (_written(session, ctx) for session in sessions), lines=True)


def _written(session: Session, ctx: Context) -> dict[str, Any]:
    account = Account(ctx.ledger, session, own=session.provider == ID)
    session = settled(session, account)
    native = account.native(session.extra)
    paths = envelope.paths_of(native)
    last = envelope.answer_of(session)
    as_response = paths.response is not None and last is not None and not last.tool_results
    messages = _Writer(session, account, last if as_response else None).messages()
    model = session.model
    document = envelope.around_of(native)
    if as_response and paths.response is not None and last is not None:
        answer = messages.pop()
        choice = native.get("choice")
        choice = choice if isinstance(choice, dict) else {"index": 0, "finish_reason": None}
        members: dict[str, Any] = {"choices": [{**choice, "message": answer}]}
        if last.model is not None:
            members = {"model": last.model, **members}
        if last.time is not None:
            members = {"created": last.time // 1000, **members}
        if last.usage is not None:
            raw = last.extra.get("usage") if last.extra else None
            members["usage"] = raw if raw is not None else chat.usage_object(last.usage)
        document = envelope.fill(document, paths.response, members)
        if paths.request is None and messages:
            paths = envelope.Exchange((), paths.response)
    request = paths.request if paths.request is not None else None if as_response else ()
    if request is not None:
        column = native.get("column")
        members = {column if isinstance(column, str) else "messages": messages}
        if model is not None:
            members = {"model": model, **members}
        document = envelope.fill(document, request, members)
    account.finish(session, document, time=as_response)
    return document


class _Writer:
    """Walks the turns of one session and gives its messages."""

    def __init__(self, session: Session, account: Account, response: Step | None) -> None:
        self.session, self.account, self.response = session, account, response
        self.out: list[dict[str, Any]] = []
        # What the short ways wrote: plain texts, calls and results.
        self.texts = self.calls = self.results = 0

    def messages(self) -> list[dict[str, Any]]:
        """Give all messages; system prompts go back to where they stood."""
        walk = Walk(self.session, self.account, _system(self.session, self.account), self.out)
        for turn in walk.turns():
            self.put_turn(turn, walk)
        for kind, n in (("block.text", self.texts), ("call", self.calls), ("result", self.results)):
            self.account.kept(kind, n)
        return self.out

    def put_turn(self, turn: Turn, walk: Walk) -> None:
        """Write a prompt, in front of it the summary of a compaction, and the steps."""
        account, out = self.account, self.out
        if turn.compaction is not None:
            out.append({"role": "system", "content": account.compaction(turn)})
        blocks = prompt_of(turn)
        if turn.prompt_blocks is None and turn.prompt and turn.extra is None:
            out.append({"role": "user", "content": turn.prompt})
            account.kept("prompt")
            self.texts += 1
            account.time(turn.time)
        elif blocks:
            account.kept("prompt")
            message: dict[str, Any] = {"role": "user", "content": chat.content(blocks, account)}
            native = account.native(turn.extra)
            _member_id(message, turn.extra, account)
            message.update(native)
            out.append(message)
            self.time(turn.time, native)
        else:
            account.no_prompt(turn, first=account.turn == 0)
            account.time(turn.time)
        if turn.aborted or turn.shadowed:
            account.turn_state(turn)
        if turn.extra and blocks:
            account.members(turn.extra, "id" if account.own else "")
        elif turn.extra:
            account.all_lost(turn.extra)
        # The loop of Walk.steps, flat: most steps of a file take the short way below.
        for index, step in enumerate(turn.steps):
            account.step = index
            if walk.standing:
                walk.before_step(index)
            if step.extra is None and step.content and step is not self.response:
                short = self.plain(step)
                if short is not None:
                    out.append(short)
                    self.lose_fields(step)
                    self.put_results(step)
                    continue
            self.put_step(step)

    def plain(self, step: Step) -> dict[str, Any] | None:
        """Give the message of a step of one text and calls, all without anything aside."""
        first, calls = step.content[0], step.tool_calls
        text: str | None = None
        rest = step.content
        if type(first) is Text:
            if first.extra is not None or not first.text:
                return None
            text, rest = first.text, rest[1:]
        if len(rest) != len(calls):
            return None
        written = []
        for block, call in zip(rest, calls, strict=True):
            if type(block) is not ToolCallBlock or block.id != call.id:
                return None
            if call.extra is not None or block.extra is not None:
                return None
            function = {"name": call.name, "arguments": call.arguments}
            written.append({"id": call.id, "type": "function", "function": function})
        self.texts += text is not None
        if not written:
            return {"role": "assistant", "content": text}
        self.calls += len(written)
        return {"role": "assistant", "content": text, "tool_calls": written}

    def lose_fields(self, step: Step) -> None:
        """Count what a message has no place for."""
        if step.time is not None or step.model is not None:
            self.account.time(step.time)
            self.account.model(step.model)
        if step.usage is not None:
            self.account.usage(step.usage)

    def put_results(self, step: Step) -> None:
        """Write the results of a step."""
        calls: dict[str, ToolCall] | None = None
        for result in step.tool_results:
            found = result.content
            if result.extra is None and len(found) == 1:
                only = found[0]
                if type(only) is Text and only.extra is None and only.text:
                    if calls is None:
                        calls = {call.id: call for call in step.tool_calls if call.extra}
                    if result.tool_call_id not in calls:
                        self.results += 1
                        self.texts += 1
                        self.out.append(
                            {
                                "role": "tool",
                                "tool_call_id": result.tool_call_id,
                                "content": only.text,
                            }
                        )
                        if result.is_error:
                            self.account.lost("error-mark-dropped", "error")
                        self.account.time(result.time)
                        continue
            made = {call.id: call for call in step.tool_calls}
            self.out.append(_result(result, made.get(result.tool_call_id), self.account))

    def time(self, value: int | None, native: dict[str, Any]) -> None:
        if value is not None and any(name in native for name in TIMES):
            self.account.kept("time")
        else:
            self.account.time(value)

    def put_step(self, step: Step) -> None:
        account = self.account
        native = account.native(step.extra)
        message = _assistant(step, account, native)
        answered = step is self.response
        if message is not None or answered:
            self.out.append(message or {"role": "assistant", "content": None})
        elif not step.tool_results:
            account.note("empty-message", "assistant")
        if answered:
            for kind, value in (("time", step.time), ("model", step.model), ("usage", step.usage)):
                if value is not None:
                    account.kept(kind)
        else:
            self.time(step.time, native)
            if step.model is not None and native.get("model") == step.model:
                account.kept("model")
            else:
                account.model(step.model)
            if step.usage is not None and "usage" in native:
                account.kept("usage")
            elif step.usage is not None:
                account.lost("usage-dropped", "usage")
        if step.usage is not None:
            account.members(step.usage.extra)
        if step.extra and (message is not None or answered):
            written = ("id" if account.own else "", "usage" if answered else "")
            account.members(step.extra, *written)
        elif step.extra:
            account.all_lost(step.extra)
        self.put_results(step)


def _system(session: Session, account: Account) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """Give the system messages with the place (turns, steps) before which they stood."""
    found = []
    for text, note in system_places(session, account.native(session.extra)):
        native = note.get("message")
        message: dict[str, Any] = {"role": "system", "content": text}
        if isinstance(native, dict):
            message |= native
        found.append((place_of(note), message))
    return sorted(found, key=lambda item: item[0])


def _member_id(message: dict[str, Any], extra: Extra | None, account: Account) -> None:
    if account.own and extra and isinstance(extra.get("id"), str):
        message["id"] = extra["id"]


def _assistant(step: Step, account: Account, native: dict[str, Any]) -> dict[str, Any] | None:
    """Give the assistant message of a step; reasoning, content and calls have fixed places."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    text: list[Block] = []
    thoughts: list[Reasoning] = []
    rank = 0
    calls = {call.id: call for call in step.tool_calls}
    order: list[ToolCall] = []
    for block in step.content:
        now = 0 if isinstance(block, Reasoning) else 2 if isinstance(block, ToolCallBlock) else 1
        if now < rank:
            account.note("order-changed")
        rank = max(rank, now)
        if isinstance(block, ToolCallBlock):
            account.members(block.extra)
            if block.id in calls:
                order.append(calls.pop(block.id))
        elif isinstance(block, Reasoning):
            thoughts.append(block)
        elif not _aside(block, message, account):
            text.append(block)
    order += calls.values()
    if thoughts:
        _reasoning(thoughts, message, account, native)
    message["content"] = chat.content(text, account)
    if order:
        _calls(order, message, account)
    _member_id(message, step.extra, account)
    message.update(native)
    return message if len(message) > 2 or message["content"] is not None else None


def _aside(block: Text | Image, message: dict[str, Any], account: Account) -> bool:
    """Put a refusal or an audio answer back into the member that it came from."""
    native = account.native(block.extra)
    member = native.get("member")
    if not isinstance(block, Text) or member not in ("refusal", "audio"):
        return False
    message[member] = block.text if member == "refusal" else native.get("audio")
    account.kept("block.text")
    account.members(block.extra, "refusal", "attachments")
    return True


def _reasoning(
    thoughts: list[Reasoning], message: dict[str, Any], account: Account, native: dict[str, Any]
) -> None:
    account.kept("block.reasoning", len(thoughts))
    texts: dict[str, list[str]] = {}
    for thought in thoughts:
        account.members(thought.extra)
        member = account.native(thought.extra).get("member")
        if member == "reasoning_details" and "reasoning_details" in native:
            continue
        name = member if member in ("reasoning", "thinking") else "reasoning_content"
        texts.setdefault(name, []).append(thought.text)
    for name, found in texts.items():
        if len(found) > 1:
            account.note("text-changed", "reasoning joined", len(found) - 1)
        message[name] = "\n\n".join(found)


def _calls(order: list[ToolCall], message: dict[str, Any], account: Account) -> None:
    account.kept("call", len(order))
    written = []
    for call in order:
        native = account.native(call.extra) if call.extra else {}
        if native.get("member") == "function_call":
            message["function_call"] = {"name": call.name, "arguments": call.arguments}
        elif native.get("type") == "custom":
            custom = {"name": call.name, "input": call.arguments}
            written.append({"id": call.id, "type": "custom", "custom": custom})
        else:
            function: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
            if isinstance(native.get("function"), dict):
                function |= native["function"]
            more = {k: v for k, v in native.items() if k not in ("function", "type", "member")}
            written.append({"id": call.id, "type": "function", "function": function, **more})
        if call.extra:
            account.members(call.extra)
    if written:
        message["tool_calls"] = written


def _result(result: ToolResult, call: ToolCall | None, account: Account) -> dict[str, Any]:
    account.kept("result")
    if result.is_error:
        account.lost("error-mark-dropped", "error")
    native = account.native(result.extra)
    found = [block for block in result.content if not isinstance(block, ToolCallBlock)]
    for block in result.content:
        if isinstance(block, ToolCallBlock):
            account.members(block.extra)
    text = chat.content(list(found), account)
    legacy = account.native(call.extra).get("member") == "function_call" if call else False
    message: dict[str, Any]
    if legacy and call is not None:
        message = {"role": "function", "name": call.name, "content": text or ""}
    else:
        content = text if text is not None else ""
        message = {"role": "tool", "tool_call_id": result.tool_call_id, "content": content}
    _member_id(message, result.extra, account)
    message.update({k: v for k, v in native.items() if k != "role"})
    if result.time is not None and any(name in native for name in TIMES):
        account.kept("time")
    else:
        account.time(result.time)
    if result.extra:
        account.members(result.extra, "id" if account.own else "")
    return message
