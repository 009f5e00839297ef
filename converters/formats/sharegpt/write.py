"""Turns as a row of ``from`` and ``value``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters import jsonio
from converters.formats.sharegpt.read import ANSWER, CALL, COLUMNS, ID, IMAGE, ROLES, THINK
from converters.ir import Image, Reasoning, Text, ToolCall, prompt_of
from converters.shapes import envelope, rows
from converters.shapes.account import Account
from converters.shapes.answers import settled
from converters.shapes.attachments import as_data_url
from converters.shapes.talk import system_places
from converters.shapes.walk import Walk, in_order, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from converters.ir import Block, Session, Step, ToolResult, Turn
    from converters.types import Context, Sink

__all__ = ["write"]

_MARKS = (IMAGE, CALL[0], THINK[0])
_WRAP = len(CALL[0]) + len(CALL[1]) + 2


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write one row, or an array of rows."""
    rows.write_rows(sink, (_Writer(session, ctx).row() for session in sessions), lines=False)


class _Writer:
    """Walks the turns of one session and gives its row."""

    def __init__(self, session: Session, ctx: Context) -> None:
        self.session = session
        self.account = Account(ctx.ledger, session, own=session.provider == ID)
        self.out: list[dict[str, Any]] = []
        self.images: list[tuple[int, Any]] = []
        """The images, each with the number of the message whose text it is in."""

    def row(self) -> dict[str, Any]:
        """Give the whole row."""
        account = self.account
        session = settled(self.session, account)
        native = account.native(session.extra)
        around = dict(envelope.around_of(native))
        standing = []
        aside: dict[int, list[Any]] = {}
        for index, (text, note) in enumerate(system_places(session, native)):
            images = note.get("images")
            images = images if isinstance(images, list) and account.own else []
            if text.count(IMAGE) > len(images):
                account.note("text-changed", "text that looks like an element")
            if index == 0 and native.get("systemColumn"):
                around["system"] = text
                self.images += [(-1, image) for image in images]
                continue
            more = note.get("message")
            message = {"from": "system", "value": text, **(more if isinstance(more, dict) else {})}
            standing.append((place_of(note), message))
            aside[id(message)] = images
        walk = Walk(session, account, standing, self.out)
        for turn in walk.turns():
            self.prompt(turn)
            for step in walk.steps(turn):
                self.step(step)
        column = native.get("column")
        row = {**around, column if isinstance(column, str) else COLUMNS[0]: self.out}
        for number, message in enumerate(self.out):
            self.images += [(number, image) for image in aside.get(id(message), ())]
        if self.images:
            self.images.sort(key=lambda placed: placed[0])
            row["images"] = [image for _, image in self.images]
        account.fields(
            session,
            title=row.get("title") == session.title,
            model=row.get("model") == session.model,
        )
        account.members(session.extra, "system")
        account.close()
        return row

    def prompt(self, turn: Turn) -> None:
        account = self.account
        summary = account.compaction(turn)
        if summary is not None:
            self.out.append({"from": "system", "value": summary})
        account.time(turn.time)
        account.turn_state(turn)
        blocks = prompt_of(turn)
        text = self.text(blocks)
        if blocks:
            account.kept("prompt")
        if not text:
            account.no_prompt(turn, first=account.turn == 0)
            account.all_lost(turn.extra)
            return
        self.out.append({"from": "human", "value": text, **account.native(turn.extra)})
        account.members(turn.extra)

    def text(self, blocks: list[Block], marks: tuple[str, ...] = _MARKS) -> str:
        """Give texts and image tokens as one text; ``marks`` are elements when read again."""
        account, text, open_text = self.account, "", False
        for block in blocks:
            if isinstance(block, Image) and block.data is not None:
                account.kept("block.image")
                account.members(block.extra)
                self.images.append((len(self.out), as_data_url(block.media_type, block.data)))
                text, open_text = text + IMAGE, False
            elif isinstance(block, Text):
                account.kept("block.text")
                image = block.extra.get("image") if block.extra else None
                if isinstance(image, dict) and isinstance(image.get("url"), str):
                    self.images.append((len(self.out), image["url"]))
                    account.members(block.extra, "image")
                    text, open_text = text + IMAGE, False
                    continue
                account.members(block.extra)
                if open_text:
                    account.note("text-changed", "texts joined")
                if any(mark in block.text for mark in marks):
                    account.note("text-changed", "text that looks like an element")
                text = f"{text}\n{block.text}" if open_text else text + block.text
                open_text = True
            elif isinstance(block, Image):
                account.lost("image-text", "block.image")
                account.members(block.extra)
                text, open_text = f"{text}[image]", False
            else:
                account.foreign(block)
        return text

    def step(self, step: Step) -> None:
        account = self.account
        account.time(step.time)
        account.model(step.model)
        account.usage(step.usage)
        native = account.native(step.extra)
        thoughts = [block for block in step.content if isinstance(block, Reasoning)]
        value, run = self.thoughts(thoughts, step), list[Any]()
        closed = True
        for item in in_order(step, account):
            if isinstance(item, ToolCall):
                value, closed = self.call(item, value, self.text(run), closed=closed)
                run = []
            elif not isinstance(item, Reasoning):
                run.append(item)
        tail = self.text(run)
        if tail:
            value += tail if closed else f"\n{tail}"
        name = native.get("from")
        is_other = isinstance(name, str) and ROLES.get(name.strip().lower()) != "assistant"
        if is_other and step.tool_calls:
            # The name belongs to a message that is a bare call; others would read as one.
            bare = value.removeprefix(f"{CALL[0]}\n").removesuffix(f"\n{CALL[1]}")
            if (
                len(step.tool_calls) == 1
                and len(bare) == len(value) - _WRAP
                and CALL[0] not in bare
            ):
                value = bare
            else:
                native = {k: v for k, v in native.items() if k != "from"}
                account.note("text-changed", "role name")
        if value:
            self.out.append({"from": "gpt", "value": value, **native})
            account.members(step.extra)
        else:
            account.all_lost(step.extra)
            if not step.tool_results:
                account.note("empty-message", "gpt")
        made = {call.id: call for call in step.tool_calls}
        for result in step.tool_results:
            self.result(result, made.get(result.tool_call_id))

    def thoughts(self, found: list[Reasoning], step: Step) -> str:
        account = self.account
        account.kept("block.reasoning", len(found))
        for block in found:
            account.members(block.extra)
        if len(found) > 1:
            account.note("text-changed", "reasoning joined", len(found) - 1)
        if found and any(
            block is not mine for block, mine in zip(step.content, found, strict=False)
        ):
            account.note("order-changed")
        text = "\n\n".join(block.text for block in found)
        if THINK[1] in text:
            account.note("text-changed", "text that looks like an element")
        return f"{THINK[0]}\n{text}\n{THINK[1]}\n\n" if text else ""

    def call(self, call: ToolCall, value: str, text: str, *, closed: bool) -> tuple[str, bool]:
        """Add text and a call to an answer; gives it and whether the next text needs no break."""
        account = self.account
        account.kept("call")
        native = account.native(call.extra)
        own = account.own and bool(call.extra) and (call.extra or {}).get("minted") is True
        account.members(call.extra, *(("id", "minted") if account.own else ()))
        arguments: Any = call.arguments
        if not native.get("text"):
            try:
                arguments = jsonio.loads_exact(call.arguments)
            except (ValueError, RecursionError):
                arguments = call.arguments
        body: dict[str, Any] = {} if own else {"id": call.id}
        body |= {"name": call.name, "arguments": arguments}
        body |= {k: v for k, v in native.items() if k != "text"}
        data = jsonio.dumps(body).decode()
        if CALL[1] in data:
            account.note("text-changed", "text that looks like an element")
        if text:
            value += text if closed else f"\n{text}"
            closed = False
        break_before = "" if closed else "\n"
        return f"{value}{break_before}{CALL[0]}\n{data}\n{CALL[1]}", False

    def result(self, result: ToolResult, call: ToolCall | None) -> None:
        account = self.account
        account.kept("result")
        account.time(result.time)
        if result.is_error:
            account.lost("error-mark-dropped", "error")
        minted = account.own and call is not None and (call.extra or {}).get("minted") is True
        body: dict[str, Any] = {} if minted else {"tool_call_id": result.tool_call_id}
        if call is not None:
            body["name"] = call.name
        body["content"] = self.text(result.content, (IMAGE,))
        more = result.extra.get("response") if result.extra and account.own else None
        if isinstance(more, dict):
            body |= {name: value for name, value in more.items() if name not in body}
        data = jsonio.dumps(body).decode()
        if ANSWER[1] in data:
            account.note("text-changed", "text that looks like an element")
        value = f"{ANSWER[0]}\n{data}\n{ANSWER[1]}"
        self.out.append({"from": "tool", "value": value, **account.native(result.extra)})
        account.members(result.extra, *(("response",) if isinstance(more, dict) else ()))
