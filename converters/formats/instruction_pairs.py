"""Instruction and question/answer rows of data sets (Alpaca and its relatives).

Read, by the columns of a row: ``instruction``, ``input``, ``output`` with ``system`` and
``history`` (Alpaca); ``instruction``/``response``; ``prompt``/``completion``;
``prompt``/``response``; ``question``/``answer``; ``query``/``response``;
``prompt``/``chosen``/``rejected`` (preference). ``prompt``, ``completion``, ``chosen`` and
``rejected`` may be chat messages. One row, arrays and objects of rows, JSONL.

A record is a row, and each chat message inside one. The prompt is instruction, blank line,
input. ``history`` gives earlier turns. A rejected answer is a branch. Kept in ``x-dcb``:
system prompts, the input, all other columns.

Written: one Alpaca row, or an array of rows; earlier turns go to ``history``; a single turn
that came from other columns goes back to them. Lost: reasoning, tool calls, results,
images, times, usage, models, title. Sources: the Alpaca data set, TRL's dataset formats;
``specs/chat/sharegpt-alpaca``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from converters.ir import Image, Reasoning, Text, ToolCallBlock, prompt_of
from converters.ledger import Ledger
from converters.shapes import branches, envelope, rows
from converters.shapes.account import Account
from converters.shapes.openai_messages import ROLES, Conversation
from converters.shapes.talk import Talk, system_places
from converters.types import Capabilities, Context, Format, Head, Input, Match

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from converters.ir import Block, Session, Turn
    from converters.shapes.rows import Row
    from converters.types import Sink

__all__ = ["FORMAT"]

_ID: Final = "instruction-pairs"
_PAIRS: Final = (
    ("instruction", "output", 85),
    ("instruction", "response", 80),
    ("prompt", "chosen", 85),
    ("prompt", "completion", 80),
    ("prompt", "response", 70),
    ("question", "answer", 70),
    ("query", "response", 65),
)
_ALPACA: Final = ("instruction", "output")


def _is_side(value: Any) -> bool:
    """Whether a column can be one side of a pair: text, or chat messages."""
    return isinstance(value, str) or _is_chat(value)


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and item.get("role") in ROLES for item in value[:20])
    )


def _columns(value: dict[str, Any]) -> tuple[str, str, int] | None:
    for question, answer, score in _PAIRS:
        if _is_side(value.get(question)) and _is_side(value.get(answer)):
            return question, answer, score
    return None


def _is_document(value: dict[str, Any]) -> bool:
    return _columns(value) is not None


def _never(_: dict[str, Any]) -> bool:
    return False


_SHAPE: Final = rows.Shape(_is_document, _never)


def probe(head: Head) -> Match | None:
    """Recognise the pairs of columns; a row with messages of its own is no pair."""
    for value in head.samples:
        if isinstance(value, list) or "messages" in value or "conversations" in value:
            continue
        found = _columns(value)
        if found is not None:
            score = found[2] + (5 if "rejected" in value or "history" in value else 0)
            return Match(score, f"columns {found[0]} and {found[1]}")
    return None


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of each row."""
    for row in rows.rows(source, ctx.ledger, _SHAPE):
        if not row.record:
            ctx.ledger.seen()
            row = row._replace(record=True)
        yield from rows.sessions_of(row, _row(row, ctx), ctx.ledger)


def _row(row: Row, ctx: Context) -> Iterator[Session]:
    value = row.value
    found = _columns(value)
    if found is None:
        return
    question, answer, _ = found
    rejected = value.get("rejected") if answer == "chosen" else None
    has_branch = _is_side(rejected) and bool(rejected)
    chosen = branches.chosen(ctx.options, 2 if has_branch else 1)
    if not chosen:
        ctx.ledger.note("branch-collapsed", row.place)
    identity = envelope.identity_of(value, row)
    for place, number in enumerate(chosen):
        branch_ctx = ctx if place == 0 else replace(ctx, ledger=Ledger())
        side = rejected if number else value[answer]
        name = "rejected" if number else answer
        session = _session(row, (question, name), side, branch_ctx)
        session.meta.id = branches.branch_id(identity, number)
        if has_branch and place == 0 and len(chosen) == 1:
            other = value[answer] if number else rejected
            branch = {"id": branches.branch_id(identity, 1 - number), "output": other}
            session.extra = {**(session.extra or {}), "branches": [branch]}
            ctx.ledger.note("branch-collapsed", row.place)
        yield session


def _session(row: Row, columns: tuple[str, str], side: Any, ctx: Context) -> Session:
    """Read one row with one of its answers."""
    value = row.value
    question, answer = columns
    native: dict[str, Any] = {}
    around = dict(value)
    for name in (question, answer, "rejected" if answer == "chosen" else answer):
        around.pop(name, None)
    talk = Conversation(ctx)
    _before(row, talk, around)
    if isinstance(value[question], str) and isinstance(side, str):
        _text_turns(row, (value[question], side), talk, around, native)
    else:
        _chat_turns(row, columns, side, talk)
    if columns != _ALPACA:
        native["columns"] = [question, answer]
    around.pop("title", None)
    if around:
        native["envelope"] = around
    session = talk.session("", _ID, native)
    session.title = envelope.title_of(value)
    return session


def _before(row: Row, talk: Talk, around: dict[str, Any]) -> None:
    """Take what columns give ahead of the pair: the system prompt, and earlier turns."""
    value = row.value
    if isinstance(value.get("system"), str) and value["system"]:
        talk.add_system(value["system"])
        talk.ledger.note("system-prompt-aside", f"{row.place}/system")
        del around["system"]
    history = value.get("history")
    if isinstance(history, list):
        around.pop("history")
        for index, texts in enumerate(history):
            texts = texts if isinstance(texts, list) else []
            if len(texts) == 2 and all(isinstance(text, str) for text in texts):
                _turn(texts[0], texts[1], talk)
            else:
                talk.ledger.note("malformed-turn", f"{row.place}/history/{index}")


def _text_turns(
    row: Row,
    pair: tuple[str, str],
    talk: Talk,
    around: dict[str, Any],
    native: dict[str, Any],
) -> None:
    value = row.value
    prompt, answer = pair
    more = value.get("input") if "instruction" in value else None
    if isinstance(more, str):
        around.pop("input")
        if more:
            native["input"] = more
            prompt = f"{prompt}\n\n{more}" if prompt else more
    _turn(prompt, answer, talk)


def _turn(question: str, answer: str, talk: Talk) -> None:
    if question or answer:
        talk.builder.prompt([Text(question)] if question else [])
    if answer:
        talk.builder.step([Text(answer)])


def _chat_turns(row: Row, columns: tuple[str, str], side: Any, found: Conversation) -> None:
    """Read a row whose prompt or answer is a list of chat messages."""
    prompt = row.value[columns[0]]
    whole = isinstance(side, list) and any(item.get("role") == "user" for item in side)
    if isinstance(prompt, list) and not (whole and side[: len(prompt)] == prompt):
        found.ledger.seen(len(prompt))
        found.add(prompt, f"{row.place}/{columns[0]}")
    elif isinstance(prompt, str) and prompt and not whole:
        found.builder.prompt([Text(prompt)])
    if isinstance(side, str):
        if side:
            found.builder.step([Text(side)])
    else:
        found.ledger.seen(len(side))
        found.add(side, f"{row.place}/{columns[1]}")


def write(sessions: Iterable[Session], sink: Sink, ctx: Context) -> None:
    """Write one row, or an array of rows."""
    rows.write_rows(sink, (_written(session, ctx) for session in sessions), lines=False)


def _written(session: Session, ctx: Context) -> dict[str, Any]:
    account = Account(ctx.ledger, session, own=session.provider == _ID)
    native = account.native(session.extra)
    pairs: list[tuple[str, str]] = []
    system = [text for text, _ in system_places(session, native)]
    for number, turn in enumerate(session.turns):
        account.turn, account.step = number, None
        summary = account.compaction(turn)
        if summary is not None:
            system.append(summary)
        pairs.append(_pair(turn, account))
    row = _columns_of(pairs, native)
    if len(system) > 1:
        account.note("text-changed", "system prompts joined", len(system) - 1)
    if system:
        row["system"] = "\n\n".join(system)
    if len(pairs) > 1:
        row["history"] = [list(pair) for pair in pairs[:-1]]
    row = {**row, **envelope.around_of(native)}
    others = session.extra.get("branches") if session.extra else None
    with_branch = "chosen" in row and isinstance(others, list) and len(others) == 1
    if with_branch and isinstance(others, list) and isinstance(others[0], dict):
        row["rejected"] = others[0].get("output")
    if session.title is not None and account.own:
        row["title"] = session.title
    account.fields(session, title=account.own)
    account.members(session.extra, "system", "branches" if with_branch else "")
    account.close()
    return row


def _columns_of(pairs: list[tuple[str, str]], native: dict[str, Any]) -> dict[str, Any]:
    """Give the columns of the last pair: those it came from, else Alpaca's."""
    question, answer = pairs[-1] if pairs else ("", "")
    columns = native.get("columns")
    known = [[first, second] for first, second, _ in _PAIRS]
    if columns in known and isinstance(columns, list):
        if columns[0] != "instruction":
            return {columns[0]: question, columns[1]: answer}
    else:
        columns = list(_ALPACA)
    more = native.get("input")
    if isinstance(more, str) and more and question.endswith(more):
        rest = question[: -len(more)]
        if not rest or rest.endswith("\n\n"):
            return {columns[0]: rest.removesuffix("\n\n"), "input": more, columns[1]: answer}
    return {columns[0]: question, "input": "", columns[1]: answer}


def _pair(turn: Turn, account: Account) -> tuple[str, str]:
    account.time(turn.time)
    account.turn_state(turn)
    account.all_lost(turn.extra)
    blocks = prompt_of(turn)
    if blocks:
        account.kept("prompt")
    else:
        account.note("prompt-missing" if turn.steps else "empty-message", "turn")
    question = _texts(blocks, account)
    answers = []
    for index, step in enumerate(turn.steps):
        account.step = index
        account.time(step.time)
        account.model(step.model)
        account.usage(step.usage)
        account.all_lost(step.extra)
        text = _texts(step.content, account)
        if text:
            answers.append(text)
        if not (step.content or step.tool_calls or step.tool_results):
            account.note("empty-message", "step")
        account.lost("tool-call-dropped", "call", len(step.tool_calls))
        for call in step.tool_calls:
            account.all_lost(call.extra)
        for result in step.tool_results:
            account.lost("tool-result-dropped", "result")
            account.lost("tool-result-dropped", "error", int(result.is_error))
            account.time(result.time)
            account.all_lost(result.extra)
            for block in result.content:
                if not isinstance(block, ToolCallBlock):
                    kind = {Image: "image", Reasoning: "reasoning"}.get(type(block), "text")
                    account.lost("tool-result-dropped", f"block.{kind}")
                account.all_lost(block.extra)
    if len(answers) > 1:
        account.note("step-merged", n=len(answers) - 1)
    account.step = None
    return question, "\n\n".join(answers)


def _texts(blocks: list[Block], account: Account) -> str:
    """Give the texts among blocks, and account for all of them."""
    texts = []
    for block in blocks:
        if isinstance(block, Text):
            account.kept("block.text")
            texts.append(block.text)
        elif isinstance(block, Image):
            account.lost("image-text", "block.image")
            texts.append("[image]")
        elif isinstance(block, Reasoning):
            account.lost("reasoning-dropped", "block.reasoning")
        account.all_lost(block.extra)
    if len(texts) > 1:
        account.note("text-changed", "texts joined", len(texts) - 1)
    return "\n".join(texts)


FORMAT = Format(
    id=_ID,
    title="Instruction and question/answer rows",
    kinds=frozenset({"json", "jsonl"}),
    probe=probe,
    read=read,
    write=write,
    evidence="B",
    suffix=".json",
    many=True,
    group="chat-json",
    aliases=("alpaca",),
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        branches=True,
        notes={
            "tool_results": "where a column holds chat messages",
            "reasoning": "where a column holds chat messages",
            "images": "where a column holds chat messages",
            "branches": "rejected answers",
        },
    ),
)
