"""Lines of a rollout, in order, as turns."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from converters.formats.codex.human import scan
from converters.formats.codex.records import Part, Payload, Tokens
from converters.formats.codex.script import plain_object
from converters.formats.codex.usage import added, difference
from converters.ir import Image, Reasoning, Step, Text, ToolCallBlock, ToolResult
from converters.ledger import PLACES
from converters.shapes.attachments import file_block, image_or_file
from converters.shapes.raw_json import raw_text
from converters.turns import TurnBuilder

if TYPE_CHECKING:
    from converters.formats.codex.mirrors import Mirrors
    from converters.ir import Block, Turn
    from converters.ledger import Ledger

__all__ = ["PROVIDER", "Walk", "enveloped"]

PROVIDER: Final = "codex"
_TEXT_PARTS: Final = frozenset(
    {"input_text", "output_text", "text", "summary_text", "reasoning_text"}
)
_NO_TOKENS: Final = Tokens()
_SHELL: Final = "local_shell"
_SEARCH: Final = "web_search"


class Branch(NamedTuple):
    """Turns that were rolled back: where they stood, what stood before them, their records."""

    start: int
    shared: list[Turn]
    turns: list[Turn]
    records: int


class Walk:
    """Takes records one by one and gives turns.

    Reasoning comes before the message or call that it belongs to and is held until then;
    what only the provider can read goes to ``x-dcb.sealed`` of the step, flat: the index in
    the content, the text, and so on (a session has thousands of them).
    ``total`` is the number of records mapped into the turns that are left; ``whole`` asks for
    the turns before each branch too.
    """

    def __init__(self, ledger: Ledger, mirrors: Mirrors, *, whole: bool = False) -> None:
        self.ledger = ledger
        self.mirrors = mirrors
        self.builder = TurnBuilder(ledger)
        self.model: str | None = None
        self.first_model: str | None = None
        self.system: list[str] = []
        self.aside: list[Any] = []
        self.total = 0
        self._starts: dict[int, int] = {}
        self._quiet: dict[tuple[str, str], list[int]] = {}
        self.branches: list[Branch] = []
        self._whole = whole
        self._held: list[Block] = []
        self._sealed: list[int | str] = []
        self._external: deque[str] = deque()
        self._answered = False
        self._total: Tokens | None = None

    def finish(self) -> list[Turn]:
        """Give the turns."""
        self._release()
        return self.builder.finish(drop_retries=True)

    def close(self) -> None:
        """Tell the ledger what was counted on the way."""
        for (rule, kind), places in self._quiet.items():
            add = self.ledger.aside if rule == "reasoning-encrypted" else self.ledger.skipped
            for place in places[1:]:
                add(rule, place, 1, kind)
            if places[0] >= len(places):
                add(rule, None, places[0] - len(places) + 1, kind)

    def quiet(self, rule: str, place: int, kind: str = "") -> None:
        """Count a frequent record without a place of its own in the turns."""
        places = self._quiet.setdefault((rule, kind), [0])
        places[0] += 1
        if len(places) <= PLACES:
            places.append(place)

    def mapped(self) -> None:
        """Count a record whose content is in the turns; :attr:`total` goes to the ledger later."""
        self.total += 1

    # items

    def message(self, item: Payload, place: int, time: int | None) -> None:
        """Take a message of any role."""
        role = item.role
        if role == "user":
            self._user(item, place, time)
        elif role == "assistant":
            self._assistant(item, place, time)
        elif role in ("developer", "system"):
            text = _joined(item.content)
            if text:
                self.system.append(text)
                self.ledger.aside("system-prompt-aside", place)
            else:
                self.ledger.skipped("empty-message", place, kind=role)
        elif role in ("function", "tool"):
            self._old_result(item, place, time)
        else:
            self.ledger.skipped("role-unknown", place, kind=role or "no role")

    def _user(self, item: Payload, place: int, time: int | None) -> None:
        blocks: list[Block] = []
        texts: list[str] = []
        injected = aborted = False
        for part in _as_parts(item.content):
            if part.kind in _TEXT_PARTS and part.text is not None:
                human = scan(part.text)
                injected |= human.injected
                aborted |= human.aborted
                if human.text:
                    blocks.append(Text(human.text))
                    texts.append(human.text)
            else:
                self._other_part(part, blocks, place)
        if aborted:
            self.builder.abort()
        images = sum(isinstance(block, Image) for block in blocks)
        # A prompt of nothing but files is known by what stands for them.
        self.mirrors.item("user", texts or [b.text for b in blocks if isinstance(b, Text)], images)
        if blocks:
            if injected:
                self.ledger.note("injection-skipped", place)
            self._prompt(blocks, time)
        elif injected:
            self.ledger.skipped("injection-skipped", place)
        else:
            self.ledger.skipped("empty-message", place, kind="user")

    def _prompt(self, blocks: list[Block], time: int | None) -> None:
        self._release()
        turn = self.builder.prompt(blocks, time=time)
        self._starts[id(turn)] = self.total
        self._answered = False
        self.mapped()

    def _assistant(self, item: Payload, place: int, time: int | None) -> None:
        blocks: list[Block] = []
        for part in _as_parts(item.content):
            if part.kind in _TEXT_PARTS and part.text is not None:
                if part.text:
                    blocks.append(Text(part.text))
            elif part.kind == "refusal" and part.refusal:
                blocks.append(Text(part.refusal, {"native": {"type": "refusal"}}))
            else:
                self._other_part(part, blocks, place)
        self.mirrors.item("assistant", [b.text for b in blocks if isinstance(b, Text)])
        call = item.function_call
        if not blocks and call is None:
            self.ledger.skipped("empty-message", place, kind="assistant")
            return
        step = self._open(time, item.id)
        for block in blocks:
            self.builder.block(block, step, place)
        if call is not None:
            self.ledger.note("id-minted", place, kind="function_call")
            self.builder.block(ToolCallBlock(f"minted-{place}", call.name, call.arguments), step)
        self.mapped()

    def assistant_pieces(
        self, pieces: list[tuple[str, str, str]], place: Any, time: int | None
    ) -> None:
        """Take an assistant text that was cut into texts, calls and results of another agent."""
        step: Step | None = None
        for number, (kind, name, body) in enumerate(pieces):
            if kind == "text":
                step = self._open(time, None)
                self.builder.block(Text(body), step)
            elif kind == "call":
                step = step or self.builder.current or self._open(time, None)
                identity = f"external-{place}-{number}"
                self.ledger.note("id-minted", place, kind="external")
                block = ToolCallBlock(identity, name or "tool", _json_or_quoted(body))
                self.builder.block(block, step)
                self._external.append(identity)
            elif self._external:
                found = self._external.popleft()
                blocks: list[Block] = [Text(body)] if body else []
                self.builder.result(ToolResult(found, blocks, name == "error", time), place)
            else:
                self.ledger.note("orphan-tool-result", place)
        self.mapped()

    def _other_part(self, part: Part, blocks: list[Block], place: int) -> None:
        if part.kind == "input_image":
            blocks.append(image_or_file(self.ledger, place, url=part.image_url))
        elif part.kind == "input_file":
            blocks.append(
                file_block(
                    self.ledger,
                    place,
                    name=part.filename,
                    data=part.file_data,
                    identity=part.file_id,
                )
            )
        elif part.kind == "malformed" or part.kind in _TEXT_PARTS:
            self.ledger.note("malformed-block", place, kind=part.kind)
        else:
            self.ledger.note("unknown-block", place, kind=part.kind or "no type")

    def reasoning(self, item: Payload, place: int) -> None:
        """Hold the readable reasoning, and what only the provider can read."""
        sealed = item.encrypted_content
        if sealed and not item.summary and not item.content:
            self._sealed += (len(self._held), sealed)
            self.quiet("reasoning-encrypted", place)
            return
        texts = [part.text for part in _as_parts(item.summary) if part.text]
        body = [part.text for part in _as_parts(item.content) if part.text]
        for text in (*texts, *body):
            self.mirrors.item("reasoning", [text])
        self._held += [Reasoning(text) for text in texts]
        self._held += [Reasoning(text, {"native": {"type": "reasoning_text"}}) for text in body]
        if item.encrypted_content:
            self._sealed += (len(self._held), item.encrypted_content)
        if texts or body:
            self.mapped()
        else:
            self.ledger.skipped("empty-message", place, kind="reasoning")

    def call(self, item: Payload, place: int, time: int | None) -> None:
        """Take a call of any kind."""
        kind, name = item.kind, item.name
        native: dict[str, Any] | None = None
        if kind == "function_call" and item.arguments is not None:
            arguments = item.arguments
        else:
            arguments, native = self._arguments(item, place)
        if kind == "local_shell_call":
            name = _SHELL
        elif kind == "web_search_call":
            name = _SEARCH
        if not name:
            self.ledger.skipped("malformed-record", place, kind=f"{kind} without name")
            return
        identity = item.call_id or (item.id if kind != "function_call" else None)
        if not identity:
            identity = f"minted-{place}"
            self.ledger.note("id-minted", place, kind=kind)
        if self.builder.declared(identity):
            self.ledger.skipped("duplicate-tool-call", place)
            return
        step = self.builder.current
        held = bool(self._held or self._sealed)
        if step is None or (self._answered and held):
            step = self._open(time, None)
        elif held:
            self._release()
        extra = {"native": native} if native else None
        self.builder.declare(ToolCallBlock(identity, name, arguments, extra), step, place)
        self.mapped()

    def _arguments(self, item: Payload, place: int) -> tuple[str, dict[str, Any] | None]:
        kind = item.kind
        if kind in ("local_shell_call", "web_search_call"):
            if item.action is not None:
                text = raw_text(item.action, self.ledger, place)
            else:
                text = item.action_text or "{}"
            native: dict[str, Any] = {"type": kind}
            if item.status:
                native["status"] = item.status
            return text, native
        if kind == "custom_tool_call":
            text = item.input or ""
            found = plain_object(text)
            if found is not None:
                return found, {"type": kind, "input": text}
            return msgspec.json.encode(text).decode(), {"type": kind}
        if item.arguments is None and item.input is not None:
            return item.input, None
        return item.arguments or "{}", None

    def result(self, item: Payload, place: int, time: int | None) -> None:
        """Take the answer to a call."""
        call = item.call_id
        if not call:
            self.ledger.skipped("orphan-tool-result", place)
            return
        blocks, error = self._output(item, place)
        self.builder.result(ToolResult(call, blocks, error, time), place)
        self._answered = True
        self.mapped()

    def _output(self, item: Payload, place: int) -> tuple[list[Block], bool]:
        output = item.output
        blocks: list[Block] = []
        error = item.success is False
        if isinstance(output, str):
            if output.startswith("{") and '"output"' in output:
                text, failed = enveloped(output)
                output, error = text, error or failed
            if output:
                blocks.append(Text(output))
            return blocks, error
        for part in output or ():
            if part.kind in _TEXT_PARTS and part.text is not None:
                blocks.append(Text(part.text))
            else:
                self._other_part(part, blocks, place)
        return blocks, error

    def _old_result(self, item: Payload, place: int, time: int | None) -> None:
        call = item.call_id or self.builder.unanswered(item.name)
        if call is None:
            self.ledger.skipped("orphan-tool-result", place)
            return
        if not item.call_id:
            self.ledger.note("tool-result-text-fallback", place)
        text = _joined(item.content)
        blocks: list[Block] = [Text(text)] if text else []
        self.builder.result(ToolResult(call, blocks, time=time), place)
        self._answered = True
        self.mapped()

    # events

    def said(
        self, kind: str, text: str | None, item: Payload, place: int, time: int | None
    ) -> None:
        """Take an event that mirrors a message, unless an item says the same."""
        if not text and not item.images:
            self.ledger.skipped("empty-message", place, kind=item.kind)
            return
        text = text or ""
        if kind == "user":
            human = scan(text)
            if human.text is None and not item.images:
                self.ledger.skipped("injection-skipped", place)
                return
            text = human.text or ""
        if self.mirrors.repeats(kind, text, len(item.images or ())):
            self.quiet("duplicate-record", place, item.kind)
        elif kind == "user":
            blocks: list[Block] = [Text(text)] if text else []
            blocks += [image_or_file(self.ledger, place, url=url) for url in item.images or ()]
            self._prompt(blocks, time)
        elif kind == "assistant":
            self.builder.block(Text(text), self._open(time, None))
            self.mapped()
        else:
            self._held.append(Reasoning(text))
            self.mapped()

    def tokens(self, item: Payload, place: int) -> None:
        """Give the usage of the last response to its step; several of one step add up."""
        info, step = item.info, self.builder.current
        last: Tokens | None = None
        repeated = False
        if info is not None:
            last, total = info.last_token_usage, info.total_token_usage
            if total is not None:
                if last is None:
                    last = difference(total, self._total)
                repeated = total == self._total
                self._total = total
        elif item.input_tokens is not None and item.output_tokens is not None:
            last = Tokens(item.input_tokens, 0, item.output_tokens)
        if last is None or repeated or last == _NO_TOKENS:
            self.quiet("record-skipped", place, "token_count")
            return
        if step is None:
            if not self._held and not self._sealed:
                self.quiet("record-skipped", place, "token_count")
                return
            # A response of nothing but reasoning and calls that are kept aside.
            step = self._open(None, None)
        step.usage = added(step.usage, last)
        self.mapped()

    def rolled_back(self, count: int | None, place: int) -> None:
        """Take the last turns out of the conversation; they become a branch."""
        self._release()
        removed = self.builder.roll_back(count or 0)
        if not removed:
            self.ledger.skipped("record-skipped", place, kind="thread_rolled_back")
            return
        lost = self.total - self._starts.get(id(removed[0]), 0)
        self.total -= lost
        shared = list(self.builder.turns) if self._whole else []
        self.branches.append(Branch(len(self.builder.turns), shared, removed, lost))
        self.mapped()

    def compacted(self, summary: str | None, place: int, time: int | None) -> None:
        """Take a compaction; without readable text it is a boundary only."""
        self._release()
        self.builder.compaction(
            summary or "", provider=PROVIDER, model=self.model, time=time, place=place
        )
        self.mapped()

    # steps

    def _open(self, time: int | None, identity: str | None) -> Step:
        model = self.model
        if self.first_model is None:
            self.first_model = model
        step = Step([], [], [], time, model, None, {"id": identity} if identity else None)
        self.builder.add(step)
        self._answered = False
        if self._held or self._sealed:
            self._place(step)
        return step

    def _release(self) -> None:
        """Put the held reasoning into the open step."""
        if self._held or self._sealed:
            self._place(self.builder.current or self.builder.step(None, model=self.model))

    def _place(self, step: Step) -> None:
        content, sealed = step.content, self._sealed
        if sealed:
            shift = len(content)
            if shift:
                sealed = [x + shift if isinstance(x, int) else x for x in sealed]
            if step.extra is None:
                step.extra = {"sealed": sealed}
            else:
                step.extra.setdefault("sealed", []).extend(sealed)
            self._sealed = []
        if self._held:
            content += self._held
            self._held = []


def _as_parts(content: str | list[Part] | None) -> list[Part]:
    if isinstance(content, str):
        return [Part("text", content)]
    return content or []


def _joined(content: str | list[Part] | None) -> str:
    return "\n".join(part.text for part in _as_parts(content) if part.text)


def _json_or_quoted(text: str) -> str:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return msgspec.json.encode(text).decode()
    return text


class _Metadata(msgspec.Struct, gc=False):
    exit_code: int | None = None


class _Envelope(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    output: str
    metadata: _Metadata | None = None


_envelope: Final = msgspec.json.Decoder(_Envelope).decode


def enveloped(text: str) -> tuple[str, bool]:
    """Unwrap ``{"output": ..., "metadata": {"exit_code": ...}}``; give whether it failed."""
    try:
        value = _envelope(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return text, False
    return value.output, value.metadata is not None and bool(value.metadata.exit_code)
