"""Reads rows of ``from`` and ``value`` into turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.images import data_url
from converters.ir import Reasoning, Text, ToolCallBlock
from converters.ledger import Ledger
from converters.shapes import branches, envelope, rows
from converters.shapes.attachments import image_or_file
from converters.shapes.openai_chat import argument_text, rest
from converters.shapes.talk import Given, Talk
from converters.types import Context, Head, Input, Match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Block, Extra, Session
    from converters.ledger import Place
    from converters.shapes.rows import Row

__all__ = ["ANSWER", "CALL", "COLUMNS", "ID", "IMAGE", "ROLES", "THINK", "probe", "read"]

ID: Final = "sharegpt"
COLUMNS: Final = ("conversations", "conversation", "dialog", "dialogue", "items")
ROLES: Final = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model", "bot"), "assistant"),
    "system": "system",
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(("observation", "tool", "function_response", "tool_response"), "result"),
}
_DEFAULT: Final = {"user": "human", "assistant": "gpt", "call": "gpt", "result": "tool"}
_KNOWN: Final = frozenset({"from", "value"})
IMAGE: Final = "<image>"
THINK: Final = ("<think>", "</think>")
CALL: Final = ("<tool_call>", "</tool_call>")
ANSWER: Final = ("<tool_response>", "</tool_response>")


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("from"), str) and "value" in value


def _column(value: dict[str, Any]) -> str | None:
    for name in COLUMNS:
        found = value.get(name)
        if isinstance(found, list) and any(_is_message(item) for item in found[:20]):
            return name
    return COLUMNS[0] if value.get(COLUMNS[0]) == [] else None


def _is_document(value: dict[str, Any]) -> bool:
    return _column(value) is not None


_SHAPE: Final = rows.Shape(_is_document, _is_message)


def probe(head: Head) -> Match | None:
    """Recognise messages of ``from`` and ``value``."""
    for value in head.samples:
        if isinstance(value, list):
            if any(_is_message(item) for item in value[:20]):
                return Match(85, "lists of from and value")
        elif (name := _column(value)) is not None and value.get(name):
            return Match(92, f"{name} of from and value")
        elif _is_message(value) and str(value["from"]).strip().lower() in ROLES:
            return Match(80, "messages of from and value")
    return None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of each row."""
    for row in rows.rows(source, ctx.ledger, _SHAPE):
        yield from rows.sessions_of(row, _row(row, ctx), ctx.ledger)


def _row(row: Row, ctx: Context) -> Iterator[Session]:
    """Read a row: the conversation, and each answer that is asked for."""
    value, ledger = row.value, ctx.ledger
    if isinstance(value, list):
        if not row.counted:
            ledger.seen(len(value))
        if not branches.left_out(ctx, row.place, len(value)):
            talk = _Reader(ledger, [])
            talk.add(value, row.place, row.places)
            yield talk.session(row.identity, ID, {})
        return
    messages = value[_column(value) or COLUMNS[0]]
    answers = branches.answers(value, messages, _is_message, _said)
    count = len(messages) + sum(len(answer.messages) for answer in answers)
    ledger.seen(count)
    if branches.left_out(ctx, row.place, count, len(answers)):
        return
    chosen = branches.chosen(ctx.options, len(answers))
    identity = envelope.identity_of(value, row)
    others = []
    for number, answer in enumerate(answers):
        if number not in chosen:
            others.append({"id": branches.branch_id(identity, number), "messages": answer.messages})
            for pointer in answer.places:
                ledger.aside("branch-collapsed", f"{row.place}{pointer}")
    for number in chosen:
        first = number == chosen[0]
        session = _session(row, answers, number, ledger if first else Ledger())
        session.meta.id = branches.branch_id(identity, number)
        if not first:
            ledger.mapped(len(answers[number].messages))
        if first and others:
            session.extra = {**(session.extra or {}), "branches": others}
        yield session


def _said(text: str) -> dict[str, Any]:
    return {"from": _DEFAULT["assistant"], "value": text}


def _session(row: Row, answers: list[branches.Answer], number: int, ledger: Ledger) -> Session:
    """Read the conversation of a row with one of its answers, if it has any."""
    value = row.value
    native: dict[str, Any] = {}
    column = _column(value) or COLUMNS[0]
    messages = value[column]
    images = value.get("images")
    talk = _Reader(ledger, images if isinstance(images, list) else [])
    taken = {column}
    if isinstance(value.get("system"), str) and value["system"]:
        talk.system_text(value["system"], None, f"{row.place}/system")
        ledger.note("system-prompt-aside", f"{row.place}/system")
        native["systemColumn"] = True
        taken.add("system")
    answer = answers[number] if answers else None
    start = len(messages) if answer is None else answer.start
    talk.add(messages[:start], f"{row.place}/{column}")
    if answer is not None:
        talk.add(answer.messages, "", [f"{row.place}{pointer}" for pointer in answer.places])
        taken |= {other.column for other in answers}
    if messages[start:]:
        native["rest"] = messages[start:]
        for index in range(start, len(messages)):
            ledger.aside("record-aside", f"{row.place}/{column}/{index}")
    if 0 < talk.used < len(talk.images):
        ledger.note("attachment-skipped", f"{row.place}/images", len(talk.images) - talk.used)
    if talk.used:
        taken.add("images")
    around = {name: item for name, item in value.items() if name not in taken}
    if around:
        native["envelope"] = around
    if column != COLUMNS[0]:
        native["column"] = column
    session = talk.session("", ID, native)
    session.title = envelope.title_of(value)
    session.model = rows.text_of(value.get("model"))
    return session


class _Reader(Talk):
    """Reads the messages of a row; every message gets its fate here."""

    __slots__ = ("images", "used")

    def __init__(self, ledger: Ledger, images: list[Any]) -> None:
        super().__init__(ledger)
        self.images = images
        self.used = 0

    def add(self, messages: list[Any], base: Place, places: list[int | str] | None = None) -> None:
        """Read messages; ``places`` are theirs, else they are elements of ``base``."""
        for message, place in self.placed(messages, base, places):
            if not isinstance(message.get("from"), str):
                self.ledger.skipped("malformed-record", place, kind="dict")
                continue
            name = message["from"].strip().lower()
            role = ROLES.get(name)
            value = message.get("value")
            if value is not None and not isinstance(value, str):
                value = jsonio.dumps(value).decode()
            if role is None:
                self.ledger.skipped("role-unknown", place, kind=name[:40])
                passed = len(self.passed(value))
                if passed:
                    self.ledger.note("attachment-skipped", place, passed)
            elif not value:
                self.ledger.skipped("empty-message", place, kind=name)
            else:
                self._message(role, value, message, place)

    def _message(self, role: str, value: str, message: dict[str, Any], place: Place) -> None:
        native = rest(message, _KNOWN)
        if message["from"] != _DEFAULT.get(role, role):
            native["from"] = message["from"]
        extra: Extra | None = {"native": native} if native else None
        if role == "system":
            self.system_text(value, native or None, place)
            self.ledger.aside("system-prompt-aside", place)
            return
        if role == "result":
            results = [
                given._replace(content=self._with_images(given.content, place))
                for given in _results(value, extra)
            ]
            attached, rules = self.attach(results, place)
            self.fate(rules, place, kept=bool(attached), kind=role)
            return
        if role == "user":
            self.builder.prompt(self._with_images([Text(value)], place), extra=extra)
        else:
            found = _call_value(value, self.ledger, place) if role == "call" else _answer(value)
            found = self._with_images(found, place)
            self.name_calls(found, place)
            self.builder.step(found, extra=extra)
        self.ledger.mapped()

    def system_text(self, text: str, message: dict[str, Any] | None, place: Place) -> None:
        """Keep a system prompt, and beside it the images that its tokens stand for."""
        self.add_system(text, message)
        images = self.passed(text)
        if images:
            self.notes[-1]["images"] = images
            self.ledger.note("attachment-aside", place, len(images))

    def passed(self, text: Any) -> list[Any]:
        """Give the images of the tokens in a text that has no place for them; they are used."""
        count = text.count(IMAGE) if isinstance(text, str) else 0
        found = self.images[self.used : self.used + count]
        self.used += len(found)
        return found

    def _with_images(self, found: list[Block], place: Place) -> list[Block]:
        """Put the row's images where the tokens stand."""
        if self.used >= len(self.images):
            return found
        out: list[Block] = []
        for block in found:
            if not isinstance(block, Text) or IMAGE not in block.text:
                out.append(block)
                continue
            pieces = block.text.split(IMAGE)
            for number, piece in enumerate(pieces):
                if piece and number and isinstance(out[-1], Text) and out[-1].extra is None:
                    out[-1] = Text(out[-1].text + piece)
                elif piece:
                    out.append(Text(piece))
                if number == len(pieces) - 1:
                    break
                if self.used < len(self.images):
                    out.append(self._image(place))
                elif out and isinstance(out[-1], Text):
                    out[-1] = Text(out[-1].text + IMAGE)
                else:
                    out.append(Text(IMAGE))
        return out

    def _image(self, place: Place) -> Block:
        value = self.images[self.used]
        self.used += 1
        holder = value if isinstance(value, dict) else {"url": value}
        url = holder.get("url") or holder.get("path")
        name = None if isinstance(url, str) and data_url(url) else url
        return image_or_file(self.ledger, place, url=url, data=holder.get("bytes"), name=name)


def _segments(text: str, marks: tuple[str, str]) -> list[tuple[bool, str]]:
    """Cut a text at elements; the line break on either side belongs to the element."""
    found: list[tuple[bool, str]] = []
    position = 0
    while True:
        start = text.find(marks[0], position)
        end = text.find(marks[1], start) if start >= 0 else -1
        if end < 0:
            break
        before = text[position:start]
        if before:
            found.append((False, before.removesuffix("\n")))
        found.append((True, text[start + len(marks[0]) : end]))
        position = end + len(marks[1])
        position += text.startswith("\n", position)
    if text[position:]:
        found.append((False, text[position:]))
    return found


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = jsonio.loads_exact(text.strip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _answer(value: str) -> list[Block]:
    """Give the blocks of an answer: reasoning in front, calls where they stand."""
    found: list[Block] = []
    if value.startswith(THINK[0]):
        end = value.find(THINK[1])
        if end >= 0:
            thought = value[len(THINK[0]) : end].removeprefix("\n").removesuffix("\n")
            if thought:
                found.append(Reasoning(thought))
            value = value[end + len(THINK[1]) :].removeprefix("\n").removeprefix("\n")
    for is_call, piece in _segments(value, CALL):
        call = _call_block(_object(piece)) if is_call else None
        if call is not None:
            found.append(call)
        elif is_call:
            found.append(Text(f"{CALL[0]}{piece}{CALL[1]}"))
        elif piece:
            found.append(Text(piece))
    return found or [Text(value)]


def _call_block(value: dict[str, Any] | None) -> ToolCallBlock | None:
    name = rows.text_of(value.get("name")) if value else None
    if value is None or name is None:
        return None
    arguments = value.get("arguments", value.get("parameters"))
    text = arguments if isinstance(arguments, str) else jsonio.dumps(arguments or {}).decode()
    native = rest(value, ("id", "name", "arguments", "parameters"))
    if isinstance(arguments, str):
        native["text"] = True
    return ToolCallBlock(
        rows.text_of(value.get("id")) or "", name, text, {"native": native} if native else None
    )


def _call_value(value: str, ledger: Ledger, place: Place) -> list[Block]:
    """Give the calls of a ``function_call`` message; text where it is no call."""
    try:
        parsed = jsonio.loads_exact(value)
    except (ValueError, RecursionError):
        parsed = None
    items = parsed if isinstance(parsed, list) else [parsed]
    found: list[Block] = []
    for item in items:
        call = _call_block(item if isinstance(item, dict) else None)
        if call is not None:
            argument_text(call.arguments, ledger, place)
            found.append(call)
    if not found or len(found) < len(items):
        ledger.note("malformed-block", place, kind="function_call")
    return found or [Text(value)]


def _results(value: str, extra: Extra | None) -> list[Given]:
    """Give the results of a message: each ``<tool_response>``, or the whole text.

    Text around an element belongs to its result: before the first one, else behind one.
    """
    found: list[Given] = []
    before: list[Block] = []
    for is_answer, piece in _segments(value, ANSWER):
        if is_answer:
            given = _response(piece, extra)
            given.content[:0] = before
            before = []
            found.append(given)
        elif piece.strip():
            (found[-1].content if found else before).append(Text(piece))
    return found or [Given(None, None, [Text(value)], False, extra)]


def _response(piece: str, extra: Extra | None) -> Given:
    """Read what an element holds: an object with ``content``, or text."""
    body = _object(piece)
    if body is None or "content" not in body:
        text = piece.removeprefix("\n").removesuffix("\n")
        return Given(None, None, [Text(text)] if text else [], False, extra)
    content = body["content"]
    text = content if isinstance(content, str) else jsonio.dumps(content).decode()
    call_id, name = rows.text_of(body.get("tool_call_id")), rows.text_of(body.get("name"))
    taken = {"content": content, "tool_call_id": call_id, "name": name}
    more = {member: inner for member, inner in body.items() if inner != taken.get(member, body)}
    if more:
        extra = {**(extra or {}), "response": more}
    return Given(call_id, name, [Text(text)] if text else [], False, extra)
