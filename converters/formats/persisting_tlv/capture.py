"""Compaction: a TLV document as the capture records of the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters.formats.persisting_tlv.frame import SPACE, Block, FrameError, parse_strict

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["compact", "strip_footers"]

_TEXTS: Final = (
    "timestamp",
    "session_id",
    "agent_id",
    "parent_uuid",
    "trace_id",
    "call_id",
    "subagent_id",
    "parent_agent_id",
)
_USAGE: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
_RESPONSES: Final = frozenset({"llm.response", "llm.response.stream"})
_FOOTER: Final = "<!-- persisting:subagent-"


def strip_footers(body: str) -> str:
    """Drop footer lines anywhere, turn line ends into LF and trim the end.

    Rule: specification, section 6; also without any footer in it.
    """
    lines = [line.removesuffix("\r") for line in body.split("\n")]
    if _FOOTER in body:
        lines = [line for line in lines if not _is_footer(line)]
    return "\n".join(lines).rstrip(SPACE)


def _is_footer(line: str) -> bool:
    text = line.strip(SPACE)
    return text.startswith(_FOOTER) and text.endswith("-->")


def compact(document: bytes) -> list[dict[str, Any]]:
    """Give one capture record per block, by the rules of the 1.0 reader.

    The header goes whole into ``payload._tlv``. Raises :class:`FrameError` when the
    document breaks the grammar or a body is no UTF-8 (``body_not_utf8``): repair it
    first by reading and writing it. Rule: specification, section 8.
    """
    return list(_records(document))


def _records(document: bytes) -> Iterator[dict[str, Any]]:
    for block in parse_strict(document).blocks:
        try:
            content = strip_footers(block.body.decode("utf-8"))
        except UnicodeDecodeError:
            raise FrameError("body_not_utf8", block.start) from None
        yield _record(block, content)


def _record(block: Block, content: str) -> dict[str, Any]:
    fields = block.fields
    seq = fields.get("seq")
    kind = fields.get("kind")
    source = fields.get("source")
    record: dict[str, Any] = {
        "seq": seq if type(seq) is int and seq >= 0 else 0,
        "source": source if isinstance(source, str) else "markdown",
        "kind": kind if isinstance(kind, str) else "markdown",
    }
    record |= {name: fields[name] for name in _TEXTS if isinstance(fields.get(name), str)}
    role = fields.get("role")
    role = role if isinstance(role, str) else None
    payload = _payload(record["kind"], fields, role or "note", content)
    payload["_tlv"] = {"role": role, "block_fields": fields}
    record["payload"] = payload
    return record


def _payload(kind: str, fields: dict[str, Any], role: str, content: str) -> dict[str, Any]:
    if kind == "llm.request":
        payload: dict[str, Any] = {"body": {"messages": [{"role": role, "content": content}]}}
        payload |= {name: fields[name] for name in ("model", "path") if name in fields}
        return payload
    if kind in _RESPONSES:
        status = fields.get("status")
        answer: dict[str, Any] = {
            "choices": [{"message": {"role": "assistant", "content": content}}]
        }
        usage = {name: fields[name] for name in _USAGE if type(fields.get(name)) is int}
        if usage:
            answer["usage"] = usage
        return {"status": status if type(status) is int else 200, "body": answer}
    return {"role": role, "content": content}
