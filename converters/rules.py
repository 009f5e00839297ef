"""The rules by which something is lost, changed or repaired: one table, ids are stable.

The ten rules of Interchange v1 (section 7.1) keep their ids, counter names, capabilities and
strategies; the rest are dcb's own.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["INTERCHANGE_RULES", "RULES", "Rule", "Strategy"]

Strategy: TypeAlias = Literal["lossless", "text-fallback", "skip-placeholder"]


class Rule(NamedTuple):
    """One way to lose or change something. ``kind`` is the counter key of Interchange v1."""

    id: str
    kind: str
    capability: str | None
    strategy: Strategy
    text: str


_LOSSLESS: Strategy = "lossless"
_TEXT: Strategy = "text-fallback"
_SKIP: Strategy = "skip-placeholder"

INTERCHANGE_RULES = (
    Rule("tool-result-missing", "toolResultFallback", "toolResults", _SKIP, "call without result"),
    Rule(
        "tool-result-text-fallback",
        "toolMessageTextFallback",
        "toolResults",
        _TEXT,
        "tool message without ids, attached by place",
    ),
    Rule("reasoning-encrypted", "reasoningUnavailable", "reasoning", _SKIP, "unreadable reasoning"),
    Rule("cwd-missing", "cwdMissing", "cwd", _TEXT, "no working directory"),
    Rule("branch-collapsed", "branchCollapsed", "branches", _TEXT, "branch off the active path"),
    Rule(
        "attachment-skipped", "attachmentSkipped", "attachments", _SKIP, "attachment has no bytes"
    ),
    Rule(
        "compacted-unavailable",
        "compactionUnavailable",
        "compacted",
        _TEXT,
        "compaction without a readable summary",
    ),
    Rule("injection-skipped", "injectionSkipped", None, _SKIP, "message not written by a human"),
    Rule("orphan-tool-result", "orphanToolResult", "toolResults", _SKIP, "result without a call"),
    Rule("usage-unknown", "usageUnknown", None, _TEXT, "the target needs usage, none is known"),
)

_OWN = (
    # bytes and JSON
    ("encoding-repaired", None, _TEXT, "BOM, UTF-16, bad UTF-8 or raw control characters repaired"),
    ("lone-surrogate", None, _TEXT, "half of a surrogate pair became U+FFFD"),
    ("lossy-number", None, _TEXT, "number that no target can hold exactly"),
    ("duplicate-key", None, _SKIP, "member repeated in an object; the last one counts"),
    ("malformed-record", None, _SKIP, "record that cannot be read"),
    ("truncated-input", None, _SKIP, "the input ends inside a record"),
    ("record-abandoned", None, _SKIP, "record of an input that failed before its end"),
    ("text-outside-records", None, _SKIP, "text before, after or between records"),
    # records
    ("unknown-record", None, _SKIP, "record type that the reader does not know"),
    ("unknown-block", None, _SKIP, "content block that the reader does not know"),
    ("malformed-block", None, _SKIP, "content block with missing or ill-typed members"),
    ("record-skipped", None, _SKIP, "known record that is not conversation"),
    ("duplicate-record", None, _SKIP, "record repeated by the source"),
    ("empty-message", None, _SKIP, "message with no block and no usage"),
    ("empty-session", None, _SKIP, "file or entry without a conversation"),
    ("command-skipped", None, _SKIP, "slash command without arguments"),
    ("subagent-skipped", None, _SKIP, "subagent left out by request"),
    ("role-unknown", None, _SKIP, "message of a role that the reader does not know"),
    ("message-discarded", None, _SKIP, "message that the source itself marks as withdrawn"),
    # values
    ("timestamp-invalid", "timestamps", _SKIP, "time that cannot be read"),
    ("tz-assumed", "timestamps", _TEXT, "time without a zone, taken as UTC or --tz"),
    ("usage-invalid", "usage", _SKIP, "token counts that are no counts"),
    ("tool-args-unparsed", "toolResults", _LOSSLESS, "arguments that are not JSON, kept as text"),
    ("duplicate-tool-call", "toolResults", _SKIP, "call id declared twice"),
    ("duplicate-tool-result", "toolResults", _SKIP, "second result of one call"),
    ("id-minted", None, _TEXT, "the source has no id, one was made"),
    ("retry-dropped", None, _SKIP, "dead retry: calls repeated by the next step"),
    ("history-truncated", None, _TEXT, "the source refers to earlier history it does not hold"),
    ("history-joined", None, _LOSSLESS, "earlier page of the history read first (experimental)"),
    ("citation-aside", None, _TEXT, "citations kept in x-dcb"),
    # aside
    ("system-prompt-aside", None, _TEXT, "system prompt kept in x-dcb.system"),
    ("attachment-aside", "attachments", _TEXT, "file kept in x-dcb.attachments"),
    ("record-aside", None, _TEXT, "record kept whole in x-dcb"),
    # interchange documents
    ("malformed-turn", None, _SKIP, "turn that is no object or has no content"),
    ("malformed-step", None, _SKIP, "step that is no object"),
    ("malformed-call", "toolResults", _SKIP, "entry of toolCalls without id or name"),
    ("malformed-result", "toolResults", _SKIP, "entry of toolResults without toolCallId"),
    ("malformed-member", None, _SKIP, "member of another type than the format says"),
    # block documents
    ("draft-open", None, _TEXT, "answer that was still being streamed"),
    ("header-conflict", None, _LOSSLESS, "block header and what stands beside it disagree"),
    ("fence-ambiguous", "toolResults", _TEXT, "tool fence whose end is not certain"),
    # writing
    ("reasoning-dropped", "reasoning", _SKIP, "the target has no place for reasoning"),
    ("tool-call-dropped", "toolResults", _SKIP, "the target has no place for tool calls"),
    ("tool-call-text", "toolResults", _TEXT, "tool call written as text"),
    ("tool-result-dropped", "toolResults", _SKIP, "the target has no place for tool results"),
    ("tool-result-text", "toolResults", _TEXT, "tool result written as text"),
    ("image-dropped", "images", _SKIP, "the target has no place for the image"),
    ("image-text", "images", _TEXT, "image written as a placeholder"),
    ("block-dropped", None, _SKIP, "the target has no place for the block"),
    ("time-dropped", "timestamps", _SKIP, "the target has no place for times"),
    ("time-rounded", "timestamps", _TEXT, "the target holds times in a coarser unit"),
    ("time-filled", "timestamps", _TEXT, "the target needs a time; the one before was taken"),
    ("usage-dropped", "usage", _SKIP, "the target has no place for usage"),
    ("usage-reduced", "usage", _TEXT, "token buckets that the target has no place for"),
    ("model-dropped", None, _SKIP, "the target has no place for the model of a step"),
    ("cwd-dropped", "cwd", _SKIP, "the target has no place for the working directory"),
    ("title-dropped", None, _SKIP, "the target has no place for the title"),
    ("meta-dropped", None, _SKIP, "the target has no place for ids and session times"),
    ("compaction-dropped", "compacted", _SKIP, "the target has no place for compactions"),
    ("compaction-text", "compacted", _TEXT, "compaction summary written as text"),
    ("state-dropped", None, _SKIP, "aborted or shadowed mark without a place in the target"),
    ("error-mark-dropped", "toolResults", _SKIP, "the target cannot mark a result as an error"),
    ("extra-dropped", None, _SKIP, "x-dcb member without a place in the target"),
    ("text-changed", None, _TEXT, "text changed because the target cannot hold it as it is"),
    ("companion-dropped", None, _SKIP, "a companion file without a place in the output"),
    ("order-changed", None, _TEXT, "blocks moved because the target has fixed places for them"),
    ("step-merged", None, _TEXT, "step joined to the one before, the target has no border there"),
    ("turn-merged", None, _TEXT, "turn without a prompt, joined to the one before"),
    ("prompt-missing", None, _TEXT, "turn without a prompt; the target got an empty one"),
    # trimming to a token budget
    ("budget-cropped", None, _TEXT, "middle of a long text cut out to fit a budget"),
    ("budget-turn-dropped", None, _SKIP, "turn left out to fit a budget"),
    ("budget-step-dropped", None, _SKIP, "message of over half a budget left out"),
    ("budget-result-dropped", "toolResults", _SKIP, "result left out to fit a budget"),
    ("budget-item-dropped", None, _SKIP, "item of what was left out to fit a budget"),
    ("budget-notice", None, _TEXT, "reasoning put in that says what was left out"),
    ("budget-exceeded", None, _TEXT, "session still over its budget: one turn is left"),
    # condensed conversations (biscuit): what the tool itself or the sieve left out
    ("biscuit-question-flattened", None, _TEXT, "line breaks of a question became blanks"),
    ("biscuit-answer-flattened", None, _TEXT, "white space and code layout of an answer are gone"),
    ("biscuit-attachment-dropped", "attachments", _SKIP, "attached file or picture of a question"),
    ("biscuit-guide-dropped", None, _SKIP, "guide or restart message without a line of its own"),
    ("biscuit-tool-args-reduced", "toolResults", _SKIP, "all arguments of a call but one"),
    ("biscuit-tool-args-truncated", "toolResults", _SKIP, "end or middle of a long argument"),
    ("biscuit-tool-result-missing", "toolResults", _TEXT, "output became a summary"),
    ("biscuit-box-capped", "toolResults", _SKIP, "middle of an output over 4096 units"),
    ("biscuit-box-stripped", "toolResults", _SKIP, "kept output removed to save tokens"),
    ("biscuit-box-damaged", "toolResults", _TEXT, "kept output without an end mark"),
    ("biscuit-reasoning-missing", "reasoning", _SKIP, "a dump holds no reasoning"),
    ("biscuit-ids-missing", "toolResults", _TEXT, "a dump holds no call ids"),
    ("biscuit-status-unreliable", "toolResults", _TEXT, "outcome of a call is not certain"),
    ("biscuit-time-coarse", "timestamps", _TEXT, "one time per floor, in seconds, zone declared"),
    ("biscuit-floor-missing", None, _SKIP, "floor number that does not occur"),
    ("biscuit-actions-filtered", "toolResults", _SKIP, "only edits were kept of the actions"),
    ("biscuit-usage-missing", "usage", _SKIP, "a dump holds no model, cost or tokens"),
    ("biscuit-rules-missing", None, _SKIP, "a dump holds no system prompt or project rules"),
    ("biscuit-path-shortened", None, _SKIP, "the project folder is cut off paths"),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in INTERCHANGE_RULES} | {
    name: Rule(name, name, capability, strategy, text) for name, capability, strategy, text in _OWN
}
