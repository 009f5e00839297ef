"""One pass over the lines of a transcript: what is conversation, and what becomes of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from converters import jsonio
from converters.formats.claude.content import release, rich
from converters.formats.claude.human import scan
from converters.formats.claude.records import (
    DECODE,
    AgentRef,
    Odd,
    Record,
    ResultBlock,
    lenient,
)
from converters.ir import Text
from converters.text import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from converters import ir
    from converters.formats.claude.records import Message
    from converters.ledger import Ledger
    from converters.types import Context, Input

__all__ = ["Again", "Entry", "Log", "Said", "joined", "load"]

Entry: TypeAlias = tuple[int, Record]
"""A line number and the record there that belongs to the conversation."""


class Again(Exception):
    """The log has forks or repeated records: it must be read into a list first."""


class Said(NamedTuple):
    """What a person said in a user record; no blocks: nothing, but the model was stopped."""

    blocks: list[ir.Block]
    interrupted: bool = False
    kept: dict[str, Any] | None = None


class Log:
    """Everything that one file says.

    ``order`` has the uuids of the conversation, ``passed`` those of other records with their
    parents, both in file order; ``said`` has the human part of user records by line number;
    ``sides`` the records of subagents by agent.
    """

    def __init__(self, source: Input, ctx: Context, ledger: Ledger) -> None:
        self.source = source
        self.ledger = ledger
        self.tz = ctx.options.tz
        self.entries: list[Entry] = []
        self.order: list[str] = []
        self.passed: list[tuple[str, str | None]] = []
        self.said: dict[int, Said] = {}
        self.sides: dict[str, list[Entry]] = {}
        self.side_parents: dict[str, str] = {}
        self.side_session: str | None = None
        self.agents: dict[str, str] = {}
        self.session_ids: dict[str, None] = {}
        self.cwd: str | None = None
        self.branch: str | None = None
        self.version: str | None = None
        self.titles: list[tuple[str, int, str]] = []
        self.system: list[str] = []
        self.aside: list[dict[str, Any]] = []
        self._skips: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._uuids: set[str] = set()
        self._seen = (0, 0)
        self._known: dict[str, Entry] = {}
        self._indexed: dict[int, int] = {}

    def skip(self, kind: str, place: int, n: int = 1) -> None:
        """Count known records that are not conversation; told to the ledger at the end."""
        self._first.setdefault(kind, place)
        self._skips[kind] = self._skips.get(kind, 0) + n

    def close(self) -> None:
        """Tell the ledger what was counted on the way."""
        for kind, n in self._skips.items():
            self.ledger.skipped("record-skipped", self._first[kind], n, kind)

    def facts(self, record: Record) -> None:
        """Take what the envelope says of the session; the first line that says it counts."""
        if record.session_id is not None and not record.is_sidechain:
            self.session_ids.setdefault(record.session_id)
        self.cwd = self.cwd or record.cwd
        self.branch = self.branch or record.git_branch
        self.version = self.version or record.version

    def parents(self) -> dict[str, str | None]:
        """Give the parent of every record of the main chain that was kept."""
        links = dict(self.passed)
        for _, record in self.entries:
            if record.uuid is not None:
                links.setdefault(record.uuid, record.parent_uuid or record.logical_parent_uuid)
        return links

    def keep(self, place: int, record: Record) -> None:
        """Put a record into the list of the main conversation."""
        release(record, self.ledger, place)
        self.entries.append((place, record))

    def holds(self, uuid: str) -> bool:
        """Whether a record so far has this uuid."""
        order, passed = self._seen
        self._uuids.update(self.order[order:], (name for name, _ in self.passed[passed:]))
        self._seen = len(self.order), len(self.passed)
        return uuid in self._uuids

    def repeats(self, place: int, record: Record, entries: list[Entry]) -> bool:
        """Whether a record with a known uuid says nothing new: then it is counted as skipped."""
        if not self._repeated(record, entries):
            return False
        self.ledger.skipped("duplicate-record", place)
        self.said.pop(place, None)
        return True

    def _repeated(self, record: Record, entries: list[Entry]) -> bool:
        """Compare with the record of the same uuid; the larger usage wins."""
        for known in entries[self._indexed.get(id(entries), 0) :]:
            if known[1].uuid is not None:
                self._known.setdefault(known[1].uuid, known)
        self._indexed[id(entries)] = len(entries)
        old = self._known.get(record.uuid or "", (0, None))[1]
        if old is None or old.type != record.type or old.subtype != record.subtype:
            return False
        new, message = record.message, old.message
        if new is None or message is None:
            return new is message
        if new.content != message.content:
            return False
        if new.usage is not None and (
            message.usage is None or new.usage.output_tokens > message.usage.output_tokens
        ):
            message.usage = new.usage
        return True


def load(log: Log, take: Callable[[int, Record], object], *, once: bool) -> None:
    """Read all records of a file; ``take`` gets those of the main conversation.

    ``once``: what is taken cannot be taken back, and who takes finds what is repeated.
    Otherwise ``take`` is :meth:`Log.keep`.
    """
    ledger, order, passed = log.ledger, log.order, log.passed
    known: set[str] = set()
    session: str | None = None
    progress = 0
    bare = branchless = True
    keep: bool
    with log.source.open() as stream:
        for place, record in jsonio.records(stream, ledger, decode=DECODE, ahead=True):
            if type(record) is dict:
                record = _odd(log, record, place)
                if record is None:
                    continue
            # The ordinary lines of each kind need no second look.
            kind, message = record.type, record.message
            if kind == "assistant":
                keep = (
                    message is not None and bool(message.content) and message.usage is not None
                ) or _assistant(log, record, place)
            elif kind == "progress":
                keep = False
                data = record.data
                if data is not None and data.agent_id is not None:
                    _caller(log, data.agent_id, record.parent_tool_use_id)
                if not progress:
                    log.skip(kind, place, 0)
                progress += 1
            elif kind == "user":
                keep = _user(log, record, place)
            else:
                keep = _other(log, record, place)
            if record.is_sidechain:
                _side(log, place, record, keep=keep)
                continue
            uuid = record.uuid
            if keep and uuid is not None:
                if not once:
                    if uuid in known and log.repeats(place, record, log.entries):
                        continue
                    known.add(uuid)
                order.append(uuid)
            if record.session_id != session or bare or (branchless and record.git_branch):
                session = record.session_id
                log.facts(record)
                # Outside of a repository no line has a branch.
                bare, branchless = not (log.cwd and log.version), not log.branch
            if keep:
                take(place, record)
            elif uuid is not None:
                passed.append((uuid, record.parent_uuid or record.logical_parent_uuid))
    if progress:
        log.skip("progress", 0, progress)
    log.close()


def _caller(log: Log, agent: str, call: str | None) -> None:
    if call:
        log.agents.setdefault(agent, call)


def _odd(log: Log, value: dict[str, Any], place: int) -> Record | None:
    """Take a record that the types refused; one of another tool's type is kept aside."""
    record = lenient(value, place)
    if record is None:
        kind = value.get("type")
        name = kind[:80] if isinstance(kind, str) else "no type" if kind is None else "bad type"
        log.ledger.aside("unknown-record", place, kind=name)
        log.aside.append(value)
        _pass(log, value)
        return None
    if (time := value.get("timestamp")) is not None:
        found = parse_time(time, log.tz)
        if found is None:
            log.ledger.note("timestamp-invalid", place)
        else:
            record.ms = found.ms
            if found.assumed:
                log.ledger.note("tz-assumed", place)
    return record


def _pass(log: Log, value: dict[str, Any]) -> None:
    """Note where a record of an unknown type stands: others may go on from it."""
    uuid, parent = value.get("uuid"), value.get("parentUuid") or value.get("logicalParentUuid")
    if not isinstance(uuid, str):
        return
    if value.get("isSidechain") is not True:
        log.passed.append((uuid, parent if isinstance(parent, str) else None))
    elif isinstance(parent, str) and parent in log.side_parents:
        log.side_parents.setdefault(uuid, log.side_parents[parent])


def _side(log: Log, place: int, record: Record, *, keep: bool) -> None:
    """Put a record of a subagent into the list of its agent."""
    uuid, parent = record.uuid, record.parent_uuid
    opens = keep and place in log.said and bool(log.said[place].blocks)
    if record.agent_id:
        group = record.agent_id
    elif parent is not None and parent in log.side_parents:
        group = log.side_parents[parent]
    elif log.sides and not opens:
        group = next(reversed(log.sides))
    else:
        group = f"~s{sum(name.startswith('~s') for name in log.sides) + 1}"
    if log.side_session is None:
        log.side_session = record.session_id
    log.facts(record)
    entries = log.sides.setdefault(group, [])
    if uuid is not None:
        if uuid not in log.side_parents:
            log.side_parents[uuid] = group
        elif keep and log.repeats(place, record, entries):
            return
    if keep:
        release(record, log.ledger, place)
        entries.append((place, record))


def _assistant(log: Log, record: Record, place: int) -> bool:
    """Judge an assistant line that lacks something; a message of no block and no usage is empty."""
    message = record.message
    if message is None:
        log.ledger.skipped("malformed-record", place, kind="assistant without message")
        return False
    if message.odd and not _mended(log, message, place):
        return False
    content: Any = message.content
    if message.usage is not None or (content and any(type(block) is not Odd for block in content)):
        return True
    for block in content or ():
        rich(block, log.ledger, place)
    log.ledger.skipped("empty-message", place, kind="assistant")
    return False


def _mended(log: Log, message: Message, place: int) -> bool:
    """Count what the message lost when it was read leniently; ``False`` when nothing is left."""
    if message.odd == "malformed-record":
        log.ledger.skipped("malformed-record", place, kind="content of another type")
        return False
    log.ledger.note(message.odd, place)
    return True


def _user(log: Log, record: Record, place: int) -> bool:
    message = record.message
    if message is None:
        log.ledger.skipped("malformed-record", place, kind="user without message")
        return False
    content: Any = message.content
    if type(content) is list and len(content) == 1 and type(content[0]) is ResultBlock:
        # Nearly every user line is the answer to one call.
        agent = record.tool_use_result
        if type(agent) is AgentRef and agent.agent_id is not None:
            _caller(log, agent.agent_id, content[0].tool_use_id)
        return True
    if message.odd and not _mended(log, message, place):
        return False
    if record.is_compact_summary:
        return True
    if type(content) is str:
        if record.is_meta:
            log.ledger.skipped("injection-skipped", place, kind="isMeta")
            return False
        content = [content]
    return _said(log, record, content or [], place)


def _said(log: Log, record: Record, content: list[Any], place: int) -> bool:
    """Take the human part of a user record; ``False``: it holds nothing for the conversation."""
    ledger = log.ledger
    blocks: list[ir.Block] = []
    odd: list[Any] = []
    injected = results = 0
    interrupted = command = False
    for block in content:
        kind = type(block)
        if kind is ResultBlock:
            results += 1
        elif record.is_meta:
            injected += 1
        elif kind is Text or kind is str:
            human = scan(block.text if kind is Text else block)
            injected += human.injected
            interrupted |= human.interrupted
            command |= human.command
            if human.text is not None:
                blocks.append(Text(human.text))
        else:
            found = rich(block, ledger, place)
            if found is not None:
                blocks.append(found)
            elif kind is Odd:
                odd.append(block.value)
    if blocks or results or interrupted:
        if injected:
            ledger.note("injection-skipped", place, injected, "interrupted" if interrupted else "")
        if command:
            ledger.note("command-skipped", place)
        if blocks or interrupted:
            kept = {"blocks": odd} if odd else None
            log.said[place] = Said(blocks, interrupted, kept)
        return True
    if command:
        ledger.skipped("command-skipped", place)
    elif injected:
        ledger.skipped("injection-skipped", place, kind="isMeta" if record.is_meta else "")
    else:
        ledger.skipped("empty-message", place, kind="user")
    return False


def joined(content: str | list[Any] | None) -> str:
    """Give the texts of a message as one."""
    if isinstance(content, str):
        return content
    return "\n".join(
        block if isinstance(block, str) else block.text
        for block in content or ()
        if isinstance(block, str | Text)
    )


def _other(log: Log, record: Record, place: int) -> bool:
    """Judge a record that is neither a user's nor an assistant's."""
    kind = record.type
    if kind == "system":
        if record.subtype == "compact_boundary":
            return True
        text = joined(record.message.content) if record.message is not None else ""
        if text:
            log.system.append(text)
            log.ledger.aside("system-prompt-aside", place)
        else:
            log.skip(f"system/{record.subtype}" if record.subtype else "system", place)
        return False
    if kind == "summary" and (record.summary or record.title):
        return True
    title = record.custom_title if kind == "custom-title" else record.ai_title
    if kind in ("custom-title", "ai-title") and title and not title.isspace():
        log.titles.append((kind, place, title))
    else:
        log.skip(kind, place)
    return False
