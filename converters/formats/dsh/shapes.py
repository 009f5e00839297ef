"""What differs between the generations 3 and 4 of the DSH session log, as data and small functions.

Source: Interchange v1, section 9.6; the producer table is that of the host's own
migration from format 3 to 4, as documented by dsh-chat-import (lib/host-session.mjs).
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "COMPACT_KINDS",
    "Generation",
    "expand",
    "generation_of",
    "is_checkpoint",
    "replace_op",
    "result_message",
    "source_kind",
    "source_of",
]

Generation: TypeAlias = Literal[3, 4]

_SYSTEM: Final = "@deepseek-ai/dsh-system-prompt"
_RENAMED: Final = {
    "compact": "compact-checkpoint",
    "tools-code-mode": "ptc-mode",
    "tools-ptc": "ptc-mode",
    "dsh-compaction-basic": "compact-basic",
    _SYSTEM: "runtime-context",
}
_SAME: Final = frozenset(
    {
        "agent-instructions", "session-reference", "team-message", "goal", "skill-invocation",
        "skill-catalog", "coordinator", "subagent-report", "subagent-settled", "webhook",
        "agent-message", "model-selection", "plan-mode", "time-context", "tmux-context",
        "user-approval", "repeat-tool-reminder", "tool-cordis", "cordis-host-runner", "tool-goal",
        "tool-jobs", "hooks-codex", "hooks-claude-code", "schedule", "dsh-session-title-llm",
    }
)  # fmt: skip

COMPACT_KINDS: Final = frozenset({"compact", "compact-checkpoint"})


def source_of(plugin: str, role: str, generation: Generation) -> dict[str, Any]:
    """Give the ``source`` of a message that a plugin wrote."""
    if generation < 4:
        return {"kind": "plugin", "plugin": plugin}
    if plugin == _SYSTEM and role == "system":
        return {"kind": "system-prompt"}
    if plugin in _RENAMED:
        return {"kind": _RENAMED[plugin]}
    return {"kind": plugin if plugin in _SAME else f"plugin:{plugin}"}


def source_kind(source: Any) -> str:
    """Give who wrote a message: ``user`` (also when it does not say), else the producer's name."""
    if not isinstance(source, dict):
        return "user"
    kind = source.get("kind")
    if kind == "plugin":
        plugin = source.get("plugin")
        return plugin if isinstance(plugin, str) else "plugin"
    return kind if isinstance(kind, str) else "user"


def is_checkpoint(source: Any) -> bool:
    """Whether a user message is the text that a compaction put in place of what it covers."""
    return source_kind(source) in COMPACT_KINDS


def result_message(
    identity: str,
    call_id: str,
    content: list[dict[str, Any]],
    *,
    is_error: bool,
    generation: Generation,
) -> dict[str, Any]:
    """Give the message of a ``tool/result`` event; ``isError`` appears only when true."""
    source = {"kind": "tool", "callId": call_id}
    if generation < 4:
        block: dict[str, Any] = {"type": "tool-result", "toolCallId": call_id, "content": content}
        if is_error:
            block["isError"] = True
        return {"id": identity, "role": "user", "content": [block], "source": source}
    message: dict[str, Any] = {
        "id": identity,
        "role": "tool",
        "content": content,
        "source": source,
        "toolCallId": call_id,
    }
    if is_error:
        message["isError"] = True
    return message


def replace_op(start: int, end: int, generation: Generation) -> dict[str, Any]:
    """Give the ``surfaceOp`` that puts an event in place of a range of surface events."""
    if generation < 4:
        return {"op": "replace", "start": start, "end": end}
    return {"op": "replace", "startSeq": start, "endSeq": end}


def generation_of(events: list[dict[str, Any]]) -> Generation:
    """Tell the generation of a log without ``version`` from the shapes of its messages."""
    for event in events:
        data = event.get("data")
        data = data if isinstance(data, dict) else {}
        message = data.get("message", data)
        if not isinstance(message, dict):
            continue
        source = message.get("source")
        if message.get("role") == "tool":
            return 4
        if isinstance(source, dict):
            kind = source.get("kind")
            if kind == "plugin":
                return 3
            if kind in ("system-prompt", "compact-checkpoint") or str(kind).startswith("plugin:"):
                return 4
        content = message.get("content")
        first = content[0] if isinstance(content, list) and content else None
        if isinstance(first, dict):
            if first.get("type") == "tool-result":
                return 3
            if first.get("type") == "image" and "attachment" in first:
                return 4
    return 3


def expand(seqs: list[Any]) -> list[int]:
    """Give a list of seqs with pairs ``[a, b]`` as ranges (below a million), without repetitions.

    Rule: Interchange v1, section 9.5.
    """
    found: dict[int, None] = {}
    for item in seqs:
        if isinstance(item, int) and not isinstance(item, bool):
            found[item] = None
        elif (
            isinstance(item, list)
            and len(item) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) for n in item)
            and item[0] <= item[1] < item[0] + 1_000_000
            and len(found) < 10_000_000
        ):
            found.update(dict.fromkeys(range(item[0], item[1] + 1)))
    return list(found)
