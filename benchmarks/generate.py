"""Makes realistic transcripts of a given size; the same arguments give the same bytes.

    python benchmarks/generate.py claude 100 OUT        # about 100 MB
    python benchmarks/generate.py claude 2 DIR --files 500

Kinds: claude, codex, chatgpt, openai-chat, interchange, dsh. Sizes are in MB (10^6 bytes), for
each file. The mix of records follows what the fact sheets measured: about half of a Claude
Code log are progress and snapshot lines, results repeat themselves in ``toolUseResult``, every
line carries the whole envelope; most Codex reasoning is encrypted and every message has its
event; about one text in twelve is not ASCII.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent))

from pool import TOOLS, Clock, Pool, arguments

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator


def claude(seed: int) -> Iterator[bytes]:
    """Give the lines of a Claude Code session without end (2.1.x)."""
    pool = Pool(seed, numbered=True)
    rng, clock, session = pool.rng, Clock(pool.rng), pool.id()
    parent: str | None = None
    slug = "quiet-running-lantern"

    def line(kind: str, **members: Any) -> bytes:
        nonlocal parent
        own = pool.id()
        record = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/dev/project",
            "sessionId": session,
            "version": "2.1.87",
            "gitBranch": "main",
            "slug": slug,
        }
        head = members.pop("head", {})
        record |= {**head, "type": kind, **members, "uuid": own, "timestamp": clock.tick()}
        parent = own
        return orjson.dumps(record) + b"\n"

    def assistant(message: str, block: dict[str, Any], usage: dict[str, Any]) -> bytes:
        head = {
            "message": {
                "model": "claude-opus-4-7",
                "id": message,
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": "tool_use" if block["type"] == "tool_use" else None,
                "stop_sequence": None,
                "usage": usage,
            },
            "requestId": "req_011" + message[4:],
        }
        return line("assistant", head=head)

    yield orjson.dumps({"type": "mode", "mode": "normal", "sessionId": session}) + b"\n"
    while True:
        prompt = line(
            "user",
            message={"role": "user", "content": pool.text()},
            promptId=pool.id(),
            permissionMode="default",
        )
        yield prompt
        snapshot: dict[str, Any] = {
            "messageId": parent,
            "trackedFileBackups": {},
            "timestamp": clock.tick(),
        }
        yield (
            orjson.dumps(
                {"type": "file-history-snapshot", "messageId": parent, "snapshot": snapshot}
            )
            + b"\n"
        )
        for _ in range(rng.randrange(4, 22)):
            yield from _claude_step(pool, line, assistant)
        message = "msg_01" + pool.id().replace("-", "")[:22]
        yield assistant(
            message, {"type": "text", "text": pool.text() + pool.text()}, _usage(rng, 700)
        )
        yield line("system", subtype="turn_duration", durationMs=rng.randrange(90000), isMeta=False)


def _usage(rng: random.Random, output: int) -> dict[str, Any]:
    written = rng.randrange(4000)
    return {
        "input_tokens": rng.randrange(1, 9),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": rng.randrange(20000, 160000),
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": written},
        "output_tokens": output,
        "service_tier": "standard",
        "inference_geo": "not_available",
    }


def _claude_step(
    pool: Pool, line: Callable[..., bytes], assistant: Callable[..., bytes]
) -> Iterator[bytes]:
    rng = pool.rng
    message = "msg_01" + pool.id().replace("-", "")[:22]
    usage = _usage(rng, 2)
    last = {**usage, "output_tokens": rng.randrange(40, 1800)}
    if rng.random() < 0.4:
        thought = {"type": "thinking", "thinking": pool.text(), "signature": pool.opaque()}
        yield assistant(message, thought, usage)
    if rng.random() < 0.5:
        yield assistant(message, {"type": "text", "text": pool.text()}, usage)
    calls = []
    for _ in range(1 if rng.random() < 0.85 else 3):
        tool = rng.choice(TOOLS)
        call = "toolu_01" + pool.id().replace("-", "")[:22]
        calls.append((call, tool))
        block = {"type": "tool_use", "id": call, "name": tool, "input": arguments(pool, tool)}
        yield assistant(message, block, last)
    for call, tool in calls:
        if tool == "Bash":
            for count in range(rng.randrange(1, 9)):
                yield line(
                    "progress",
                    data={"type": "bash_progress", "output": pool.text(), "totalLines": count},
                    toolUseID=f"bash-progress-{count}",
                    parentToolUseID=call,
                )
        else:
            hook = {"type": "hook_progress", "hookEvent": "PostToolUse", "hookName": f"Post:{tool}"}
            yield line("progress", data=hook, toolUseID=call, parentToolUseID=call)
        output = pool.block()
        result = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
        yield line(
            "user",
            message={"role": "user", "content": [result]},
            toolUseResult={"stdout": output, "stderr": "", "interrupted": False, "isImage": False},
        )


def codex(seed: int) -> Iterator[bytes]:
    """Give the lines of a Codex rollout without end."""
    pool = Pool(seed)
    rng, clock = pool.rng, Clock(pool.rng)
    total = dict.fromkeys(
        ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens"), 0
    )

    def line(kind: str, payload: dict[str, Any]) -> bytes:
        return orjson.dumps({"timestamp": clock.tick(), "type": kind, "payload": payload}) + b"\n"

    def count() -> bytes:
        last = {"input_tokens": rng.randrange(20000, 90000), "cached_input_tokens": 15000}
        last |= {"output_tokens": rng.randrange(50, 900), "reasoning_output_tokens": 32}
        for name, value in last.items():
            total[name] += value
        info: dict[str, Any] = {
            "total_token_usage": _totalled(total),
            "last_token_usage": _totalled(last),
        }
        info["model_context_window"] = 272000
        limits = {
            name: {"used_percent": 12.5, "window_minutes": minutes, "resets_at": 1772440000}
            for name, minutes in (("primary", 300), ("secondary", 10080))
        }
        credit = {"has_credits": False, "unlimited": False, "balance": None}
        rates = {"limit_id": "codex", **limits, "credits": credit, "plan_type": "plus"}
        return line("event_msg", {"type": "token_count", "info": info, "rate_limits": rates})

    meta = {
        "id": pool.id(),
        "timestamp": clock.tick(),
        "cwd": "/home/dev/project",
        "originator": "codex_cli_rs",
        "cli_version": "0.171.0",
        "source": "cli",
        "model_provider": "openai",
        "base_instructions": {"text": pool.block() * 3},
        "git": {"branch": "main", "commit_hash": "0f" * 20},
    }
    yield line("session_meta", meta)
    while True:
        yield line(
            "turn_context",
            {"cwd": "/home/dev/project", "model": "gpt-5.5", "effort": "medium", "summary": "auto"},
        )
        text = pool.text()
        content = [{"type": "input_text", "text": text}]
        yield line("response_item", {"type": "message", "role": "user", "content": content})
        yield line("event_msg", {"type": "user_message", "message": text, "kind": "plain"})
        for _ in range(rng.randrange(4, 20)):
            summary = [{"type": "summary_text", "text": pool.text()}] if rng.random() < 0.15 else []
            reasoning = {"type": "reasoning", "summary": summary, "content": None}
            yield line("response_item", {**reasoning, "encrypted_content": pool.encrypted()})
            call = "call_" + pool.id().replace("-", "")[:24]
            yield line("response_item", _codex_call(pool, call))
            output = orjson.dumps({"output": pool.block(), "metadata": {"exit_code": 0}}).decode()
            answer: Any = (
                output if rng.random() < 0.3 else [{"type": "input_text", "text": pool.block()}]
            )
            yield line(
                "response_item",
                {"type": "function_call_output", "call_id": call, "output": answer},
            )
            yield count()
        text = pool.text() + pool.text()
        content = [{"type": "output_text", "text": text}]
        yield line("response_item", {"type": "message", "role": "assistant", "content": content})
        yield line("event_msg", {"type": "agent_message", "message": text})


def _totalled(counts: dict[str, int]) -> dict[str, int]:
    return {**counts, "total_tokens": counts["input_tokens"] + counts["output_tokens"]}


def _codex_call(pool: Pool, call: str) -> dict[str, Any]:
    if pool.rng.random() < 0.2:
        return {
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": call,
            "name": "apply_patch",
            "input": "*** Begin Patch\n" + pool.block()[:900] + "*** End Patch",
        }
    command = {"command": ["bash", "-lc", "sed -n 1,200p src/app.py"], "workdir": "/home/dev"}
    return {
        "type": "function_call",
        "name": "shell",
        "arguments": orjson.dumps(command).decode(),
        "call_id": call,
    }


def chatgpt(seed: int) -> Iterator[bytes]:
    """Give the conversations of a ChatGPT export without end."""
    pool = Pool(seed)
    rng, clock = pool.rng, Clock(pool.rng)
    while True:
        root = pool.id()
        mapping: dict[str, Any] = {
            root: {"id": root, "message": None, "parent": None, "children": []}
        }
        tip = root
        for turn in range(rng.randrange(2, 30)):
            for role in ("user", "assistant"):
                clock.tick()
                tip = _chatgpt_node(pool, mapping, tip, role, clock.ms / 1000)
                if turn and role == "user" and rng.random() < 0.1:
                    other = mapping[tip]["parent"]
                    _chatgpt_node(pool, mapping, other, role, clock.ms / 1000)
        conversation = {
            "title": pool.text()[:40],
            "create_time": clock.ms / 1000,
            "update_time": clock.ms / 1000,
            "mapping": mapping,
            "current_node": tip,
            "conversation_id": pool.id(),
            "default_model_slug": "gpt-5",
            "is_archived": False,
        }
        yield orjson.dumps(conversation)


def _chatgpt_node(pool: Pool, mapping: dict[str, Any], parent: str, role: str, time: float) -> str:
    node = pool.id()
    text = pool.text() if role == "user" else pool.text() + "\n\n" + pool.block()
    metadata = {} if role == "user" else {"model_slug": "gpt-5", "finish_details": {"type": "stop"}}
    mapping[node] = {
        "id": node,
        "message": {
            "id": node,
            "author": {"role": role, "name": None, "metadata": {}},
            "create_time": time,
            "update_time": None,
            "content": {"content_type": "text", "parts": [text]},
            "status": "finished_successfully",
            "end_turn": None,
            "weight": 1.0,
            "metadata": metadata,
            "recipient": "all",
        },
        "parent": parent,
        "children": [],
    }
    mapping[parent]["children"].append(node)
    return node


def openai_chat(seed: int) -> Iterator[bytes]:
    """Give chats with tool calls, one ``messages`` object per line."""
    pool = Pool(seed)
    rng = pool.rng
    while True:
        messages: list[dict[str, Any]] = [{"role": "system", "content": pool.text()}]
        for _ in range(rng.randrange(2, 14)):
            messages.append({"role": "user", "content": pool.text()})
            if rng.random() < 0.5:
                call = "call_" + pool.id().replace("-", "")[:24]
                text = orjson.dumps(arguments(pool, "Bash")).decode()
                function = {"name": "shell", "arguments": text}
                entry = {"id": call, "type": "function", "function": function}
                messages.append({"role": "assistant", "content": None, "tool_calls": [entry]})
                messages.append({"role": "tool", "tool_call_id": call, "content": pool.block()})
            messages.append({"role": "assistant", "content": pool.text() + pool.block()})
        yield orjson.dumps({"messages": messages}) + b"\n"


def interchange_turns(seed: int) -> Iterator[bytes]:
    """Give turns of an Interchange v1 document without end."""
    pool = Pool(seed)
    rng, clock = pool.rng, Clock(pool.rng)
    while True:
        steps = []
        clock.tick()
        opened = clock.ms
        for _ in range(rng.randrange(1, 12)):
            clock.tick()
            call, tool = "call_" + pool.id(), rng.choice(TOOLS)
            text = orjson.dumps(arguments(pool, tool)).decode()
            entry = {"id": call, "name": tool, "arguments": text}
            output = [{"type": "text", "text": pool.block()}]
            steps.append(
                {
                    "content": [
                        {"type": "reasoning", "text": pool.text()},
                        {"type": "text", "text": pool.text()},
                        {"type": "tool-call", **entry},
                    ],
                    "toolCalls": [entry],
                    "toolResults": [{"toolCallId": call, "content": output, "isError": False}],
                    "time": clock.ms,
                    "model": "claude-opus-4-7",
                    "usage": {"inputTokens": 12, "outputTokens": rng.randrange(900)},
                }
            )
        yield orjson.dumps({"prompt": pool.text(), "steps": steps, "time": opened})


def dsh(seed: int) -> Iterator[bytes]:
    """Give the lines of a DSH session log without end (generation 3)."""
    pool = Pool(seed)
    rng, clock, session = pool.rng, Clock(pool.rng), pool.id()
    clock.tick()
    seq, turn = 0, 0

    def event(kind: str, data: dict[str, Any], *, surface: bool = False, **more: Any) -> bytes:
        nonlocal seq
        clock.tick()
        record = {"type": kind, "seq": seq, "time": clock.ms, "data": data}
        if surface:
            record["surfaceOp"] = "append"
        seq += 1
        return orjson.dumps({**record, **more}) + b"\n"

    header = {"type": "session", "id": session, "cwd": "/home/dev/project", "createdAt": clock.ms}
    yield orjson.dumps(header) + b"\n"
    while True:
        turn += 1
        yield event("turn/start", {"turn": turn})
        for step in range(1, rng.randrange(3, 12)):
            place = {"turn": turn, "step": step}
            mark = f"{turn}:{step}"
            yield event("step/start", place)
            if step == 1:
                content = [{"type": "text", "text": pool.text()}]
                prompt = {"id": f"u{turn}", "role": "user", "content": content}
                yield event("user/message", {**prompt, "source": {"kind": "user"}}, surface=True)
            tool = rng.choice(TOOLS)
            call = {
                "id": f"c{mark}",
                "name": tool,
                "arguments": orjson.dumps(arguments(pool, tool)).decode(),
            }
            blocks = [{"type": "text", "text": pool.text()}, {"type": "tool-call", **call}]
            source = {"kind": "model", "provider": "demo", "model": "demo-1"}
            answer = {"id": f"a{mark}", "role": "assistant", "content": blocks, "source": source}
            usage = {"inputTokens": 10, "outputTokens": 80}
            data = {**place, "stream": [], "usage": usage, "message": answer}
            yield event("assistant/message", data, surface=True)
            told = seq
            named = {"callId": call["id"], "name": tool, "arguments": call["arguments"]}
            yield event("tool/call", {**place, **named})
            output = [{"type": "text", "text": pool.block()}]
            answers = [{"type": "tool-result", "toolCallId": call["id"], "content": output}]
            source = {"kind": "tool", "callId": call["id"]}
            result = {"id": f"t{mark}", "role": "user", "content": answers, "source": source}
            yield event(
                "tool/result", {**place, "message": result}, surface=True, sourceEventSeqs=[told]
            )
            yield event("step/end", place)
        yield event("turn/end", {"turn": turn, "reason": {"kind": "completed"}})


_DOCUMENT = (
    b'{"interchange":"dsh-chat-import","version":1,"meta":{"id":"made-1","createdAt":1772438400000,'
    b'"cwd":"/home/dev/project"},"title":"made","provider":"generic","model":"claude-opus-4-7",'
    b'"turns":['
)

# kind: (pieces, before, between, after, suffix)
KINDS: dict[str, tuple[Callable[[int], Iterator[bytes]], bytes, bytes, bytes, str]] = {
    "claude": (claude, b"", b"", b"", ".jsonl"),
    "codex": (codex, b"", b"", b"", ".jsonl"),
    "chatgpt": (chatgpt, b"[", b",", b"]", ".json"),
    "openai-chat": (openai_chat, b"", b"", b"", ".jsonl"),
    "interchange": (interchange_turns, _DOCUMENT, b",", b"]}\n", ".json"),
    "dsh": (dsh, b"", b"", b"", ".jsonl"),
}


def write(kind: str, megabytes: float, path: Path, seed: int = 1) -> int:
    """Write one file of a kind and about a size in MB; gives its size in bytes."""
    pieces, before, between, after, _ = KINDS[kind]
    limit = int(megabytes * 1_000_000) - len(after)
    size = 0
    with path.open("wb") as file:
        size += file.write(before)
        gap = b""
        for piece in pieces(seed):
            size += file.write(gap + piece)
            gap = between
            if size >= limit:
                break
        size += file.write(after)
    return size


def main() -> None:
    """Write the files that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("megabytes", type=float)
    parser.add_argument("out", type=Path, help="a file, or a folder with --files")
    parser.add_argument("--files", type=int, default=0, help="write so many files into OUT")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not args.files:
        print(write(args.kind, args.megabytes, args.out, args.seed), args.out)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    for number in range(args.files):
        name = f"{uuid.UUID(int=number, version=4)}{KINDS[args.kind][4]}"
        write(args.kind, args.megabytes, args.out / name, args.seed + number)
    print(args.files, "files in", args.out)


if __name__ == "__main__":
    main()
