"""What the tests of the two session formats share: reading in memory, the projection of vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st

from converters.ir import Image, Reasoning, Session, Step, Text, ToolCall, ToolCallBlock, ToolResult
from converters.ir import Meta as SessionMeta
from converters.ir import Turn as SessionTurn
from converters.ledger import Ledger
from tests.paths import VECTORS
from tests.reading import counts, read
from tests.sinks import written

if TYPE_CHECKING:
    from converters.types import Format

HERE = Path(__file__).parent


def vectors(*parts: str) -> list[dict[str, Any]]:
    path = VECTORS.joinpath("interchange", *parts)
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def table(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((HERE / name).read_text(encoding="utf-8"))
    return value


def file_name(arguments: dict[str, Any]) -> str:
    """Give the name under which the reference read the text of a vector."""
    path = arguments.get("sourcePath") or ""
    stem = arguments.get("fileStem") or path.replace("\\", "/").rpartition("/")[2]
    return f"{stem.removesuffix('.jsonl')}.jsonl" if stem else "-"


def projection(turns: list[SessionTurn]) -> list[dict[str, Any]]:
    """Give turns as the August release writes them: no times, models, usage, compactions."""
    found: list[dict[str, Any]] = msgspec.to_builtins(turns)
    for turn in found:
        for member in ("time", "aborted", "shadowed", "compaction", "promptBlocks", "x-dcb"):
            turn.pop(member, None)
        for step in turn["steps"]:
            for member in ("time", "model", "usage", "x-dcb"):
                step.pop(member, None)
            for result in step["toolResults"]:
                result.pop("time", None)
                result.pop("x-dcb", None)
            for item in [*step["content"], *step["toolCalls"]]:
                item.pop("x-dcb", None)
    return found


def expected(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for turn in turns:
        for step in turn["steps"]:
            for call in step["toolCalls"]:
                call.pop("type", None)
    return turns


def check_converted(record: Format, vector: dict[str, Any], deviations: dict[str, Any]) -> None:
    """Check what a log gives against the reference; ``deviations`` name the fields that differ."""
    sessions, _ = read(record, vector["inputs"][0].encode(), file_name(vector["args"]))
    result = vector["result"]
    turns = projection(sessions[0].turns) if sessions else []
    found = {"turns": turns == expected(result["turns"])}
    found["title"] = (sessions[0].title if sessions else "") == (result["title"] or "")
    known = deviations.get(vector["case"], {"fields": []})
    assert [name for name, same in found.items() if not same] == known["fields"]
    if sessions and result["meta"]:
        assert sessions[0].meta.id == result["meta"]["sourceId"]
        assert sessions[0].meta.cwd == result["meta"].get("cwd")


def exports(suffix: str) -> list[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Give the exporters' vectors: case, events, records of the reference."""
    found = []
    for path in sorted((VECTORS / "interchange" / "exports").glob(f"*.{suffix}.jsonl")):
        case = path.name.partition(".")[0]
        events = json.loads(path.with_name(f"{case}.events.json").read_text(encoding="utf-8"))
        found.append((case, events, records_of(path.read_text(encoding="utf-8"))))
    return found


def records_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


def _blocks(content: Any) -> list[Any]:
    found: list[Any] = []
    for block in content:
        if block["type"] == "text":
            found.append(Text(block["text"]))
        elif block["type"] == "reasoning":
            found.append(Reasoning(block["text"]))
        elif block["type"] == "tool-call":
            found.append(ToolCallBlock(block["id"], block["name"], block["arguments"]))
        elif block["type"] == "image" and "data" in block:
            found.append(Image(block["data"], block["mediaType"]))
        elif block["type"] == "image" and "attachment" in block:
            found.append(Image(attachment=block["attachment"]))
    return found


def session_of(value: dict[str, Any], cwd: str | None, identity: str) -> Session:
    """Make the session whose event log a vector of the exporters holds."""
    created = value["meta"].get("createdAt")
    session = Session(meta=SessionMeta(identity, created, cwd), provider="dsh")
    steps: dict[str, Step] = {}
    for event in value["events"]:
        data, time = event["data"], event.get("time")
        if event["type"] == "user/message" and data["source"]["kind"] == "user":
            blocks = _blocks(data["content"])
            single = len(blocks) == 1 and isinstance(blocks[0], Text)
            prompt = "\n".join(block.text for block in blocks if isinstance(block, Text))
            session.turns.append(SessionTurn(prompt, None if single else blocks, [], time))
        elif event["type"] == "assistant/message":
            message = data.get("message") or {"content": []}
            if not session.turns:
                session.turns.append(SessionTurn(""))
            model = (message.get("source") or {}).get("model")
            step = Step(_blocks(message["content"]), time=time, model=model)
            session.turns[-1].steps.append(step)
        elif event["type"] == "tool/call":
            step = session.turns[-1].steps[-1]
            step.tool_calls.append(ToolCall(data["callId"], data["name"], data["arguments"]))
            steps[data["callId"]] = step
        elif event["type"] == "tool/result":
            _result(session, steps, data["message"], time)
        elif event["type"] == "session/title":
            session.title = data["title"]
    return session


def _result(
    session: Session, steps: dict[str, Step], message: dict[str, Any], time: int | None
) -> None:
    wrapped = [block for block in message["content"] if block["type"] == "tool-result"]
    for block in wrapped or [{**message, "toolCallId": message.get("toolCallId")}]:
        call = block.get("toolCallId") or message["source"]["callId"]
        result = ToolResult(call, _blocks(block["content"]), block.get("isError") is True, time)
        if session.turns and session.turns[-1].steps:
            steps.get(call, session.turns[-1].steps[-1]).tool_results.append(result)


def scrub(value: Any, members: set[str]) -> None:
    """Take members out of an encoded session; of ids only that of the session itself."""
    if isinstance(value, dict):
        for member in members:
            if member != "id" or "cwd" in value or "createdAt" in value:
                value.pop(member, None)
        for child in value.values():
            scrub(child, members)
    elif isinstance(value, list):
        for child in value:
            scrub(child, members)


def spoken(time: int, *models: str) -> st.SearchStrategy[list[SessionTurn]]:
    """Give turns of nothing but texts, said at one time."""
    texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
    steps = st.builds(
        lambda words, model: Step([Text(w) for w in words], time=time, model=model),
        st.lists(texts, min_size=1, max_size=3),
        st.sampled_from(models),
    )
    turns = st.builds(
        lambda prompt, steps: SessionTurn(prompt, None, steps, time),
        texts,
        st.lists(steps, max_size=3),
    )
    return st.lists(turns, min_size=1, max_size=4)


def check_spoken(record: Format, session: Session, name: str) -> None:
    """Check that prompts and answers come back, unless the report says that texts changed."""
    ledger = Ledger()
    data = written(record, [session], ledger)
    assert ledger.report().balanced
    if "text-changed" in counts(ledger.report()):
        return
    (back,), _ = read(record, data, name)
    assert [turn.prompt for turn in back.turns] == [turn.prompt for turn in session.turns]
    assert [[s.content for s in turn.steps] for turn in back.turns] == [
        [s.content for s in turn.steps] for turn in session.turns
    ]
