"""A chat session into the IR: requests are turns, rounds or response items are steps."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.errors import BadInput, DcbError
from converters.formats.copilot_vscode.items import Asked, Items, Shown
from converters.formats.copilot_vscode.log import replay
from converters.formats.copilot_vscode.rounds import compaction_of, rounds_of
from converters.formats.copilot_vscode.subagents import Subagents
from converters.ir import Block, Extra, Meta, Session, Text
from converters.ledger import Ledger
from converters.turns import TurnBuilder, sanitize_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Usage
    from converters.types import Context, Input

__all__ = ["read"]

_TOKENS: Final = ("promptTokens", "completionTokens", "outputTokens")


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a file, of either container, and its subagents."""
    with source.open() as stream:
        start = jsonio.leading_values(stream.read(1 << 16))
    first = start[0] if start else None
    if isinstance(first, dict) and "kind" in first and "requests" not in first:
        root, counted = replay(source, ctx.ledger), True
    else:
        root = jsonio.load(source.read(), ctx.ledger, path=source.name)[0]
        counted = False
    if not isinstance(root, dict):
        raise BadInput("no chat session", path=source.name)
    yield from _sessions(root, source, ctx, counted=counted)


def _sessions(
    root: dict[str, Any], source: Input, ctx: Context, *, counted: bool
) -> Iterator[Session]:
    walk = _Walk(ctx, counted=counted)
    requests = root.get("requests")
    if counted:
        found = [
            (f"/requests/{index}", request)
            for index, request in enumerate(requests if isinstance(requests, list) else ())
            if isinstance(request, dict)
        ]
    else:
        found = list(jsonio.objects(requests, ctx.ledger, "/requests"))
    latest = {
        request["requestId"]: place
        for place, request in found
        if isinstance(request.get("requestId"), str)
    }
    for place, request in found:
        identity = request.get("requestId")
        if isinstance(identity, str) and latest[identity] != place:
            walk.fate("duplicate-record", place)
        else:
            walk.request(request, place)
    turns = walk.turns.finish()
    if not turns:
        return
    own = root.get("sessionId")
    own = own if isinstance(own, str) and own else None
    title = root.get("customTitle")
    model = next((step.model for turn in turns for step in turn.steps if step.model), None)
    meta = Meta(
        own or source.stem, ctx.ms(root.get("creationDate"), "/creationDate"), _cwd(source), own
    )
    yield Session(
        meta=meta,
        title=title if isinstance(title, str) and title else None,
        provider="copilot-vscode",
        model=model,
        turns=turns,
    )
    yield from walk.subagents.sessions(meta)


def _cwd(source: Input) -> str | None:
    """Give the folder that ``workspace.json`` beside the sessions folder names."""
    for file in source.files("../workspace.json"):
        try:
            root = jsonio.load(file.read(), Ledger(), path=file.name)[0]
        except DcbError:
            continue
        uri = root.get("folder") or root.get("workspace") if isinstance(root, dict) else None
        if isinstance(uri, str) and uri.startswith("file://"):
            path = urllib.parse.unquote(urllib.parse.urlsplit(uri).path)
            drive = len(path) > 2 and path[0] == "/" and path[2] == ":"
            return path[1:] if drive else path
    return None


class _Walk:
    """The requests of one session on their way into turns.

    ``counted``: the records of the account are lines and have their fate already.
    """

    def __init__(self, ctx: Context, *, counted: bool) -> None:
        self.turns = TurnBuilder(ctx.ledger)
        self.subagents = Subagents(ctx, self.fate)
        self._ctx = ctx
        self._counted = counted

    def fate(self, rule: str | None, place: str, n: int = 1, kind: str = "") -> None:
        """Give records their fate; where lines are the records, only count what was lost."""
        ledger = self._ctx.ledger
        if self._counted:
            if rule is not None:
                ledger.note(rule, place, n, kind)
        elif rule is None:
            ledger.mapped(n)
        else:
            ledger.skipped(rule, place, n, kind)

    def request(self, request: dict[str, Any], place: str) -> None:
        """Take one request with its response."""
        response = request.get("response")
        items = response if isinstance(response, list) else []
        if not self._counted:
            self._ctx.ledger.seen(len(items))
        if request.get("isHidden") is True or request.get("shouldBeRemovedOnSend"):
            self.fate("message-discarded", place, 1 + len(items), "request")
            return
        blocks = self._prompt(request, place)
        if not blocks and not items:
            self.fate("empty-message", place, kind="request")
            return
        self.fate(None, place)
        identity = request.get("requestId")
        time = self._ctx.ms(request.get("timestamp"), place)
        extra: Extra | None = {"id": identity} if isinstance(identity, str) else None
        turn = self.turns.prompt(blocks, time=time, extra=extra)
        model = request.get("modelId")
        model = model if isinstance(model, str) and model else None
        result = request.get("result")
        result = result if isinstance(result, dict) else {}
        metadata = result.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        asked = Asked(model, time, place)
        shown = [Shown(f"{place}/response/{index}", item) for index, item in enumerate(items)]
        self._steps(self.subagents.take(shown, time), metadata, asked)
        compaction = compaction_of(metadata, asked, self._ctx)
        if compaction is not None:
            for earlier in self.turns.turns[:-1]:
                earlier.shadowed = True
            turn.compaction = compaction
        self._finish(request, result, metadata, asked)

    def _prompt(self, request: dict[str, Any], place: str) -> list[Block]:
        message = request.get("message")
        text = message.get("text") if isinstance(message, dict) else message
        command = request.get("slashCommand")
        name = command.get("name") if isinstance(command, dict) else None
        if not isinstance(text, str) or not text:
            text = f"/{name}" if isinstance(name, str) and name else ""
        blocks: list[Block] = [Text(text)] if text else []
        data = request.get("variableData")
        variables = data.get("variables") if isinstance(data, dict) else None
        for variable in variables if isinstance(variables, list) else ():
            if isinstance(variable, dict) and isinstance(variable.get("name"), str):
                blocks.append(Text(f"[file: {variable['name']}]"))
                self._ctx.ledger.note("attachment-skipped", place, kind="variable")
        return blocks

    def _steps(self, items: list[Shown], metadata: dict[str, Any], asked: Asked) -> None:
        """Build the steps: of the rounds where there are any, else of what the panel shows."""
        rounds = metadata.get("toolCallRounds")
        if isinstance(rounds, list) and any(isinstance(r, dict) for r in rounds):
            rounds_of(self.turns, metadata, items, asked, ctx=self._ctx, fate=self.fate)
        else:
            Items(self.turns, self._ctx, self.fate).take(items, asked.model, asked.time)

    def _finish(
        self,
        request: dict[str, Any],
        result: dict[str, Any],
        metadata: dict[str, Any],
        asked: Asked,
    ) -> None:
        details = result.get("errorDetails")
        code = str(details.get("code")) if isinstance(details, dict) else ""
        if request.get("isCanceled") is True or "cancel" in code.lower():
            self.turns.abort()
        self._count_tokens(asked, request, result, metadata)

    def _count_tokens(self, asked: Asked, *holders: dict[str, Any]) -> None:
        """Put the token counts of a request on its last step; a request without one gets one."""
        found, unread = _counts(holders)
        usage = next((usage for _, usage in found if usage is not None), None)
        step = self.turns.current
        if usage is not None:
            if step is not None:
                step.usage = usage
            elif usage.input_tokens or usage.output_tokens:
                self.turns.step(time=asked.time, model=asked.model, usage=usage)
        elif found:
            step = step or self.turns.step(time=asked.time, model=asked.model)
            step.extra = {**(step.extra or {}), "usage": found[0][0]}
        if (found or unread) and usage is None:
            self._ctx.ledger.note("usage-invalid", asked.place)


def _counts(
    holders: tuple[dict[str, Any], ...],
) -> tuple[list[tuple[dict[str, Any], Usage | None]], bool]:
    """Give the token counts that a request states, wherever the build wrote them, as they stand.

    With each what it says in the words of the IR, or ``None`` where it is no usage; and whether
    there is a ``usage`` that names no counts.
    """
    found = []
    unread = False
    for holder in holders:
        for value in (holder, holder.get("usage")):
            own = value if isinstance(value, dict) else {}
            counts = {name: own[name] for name in _TOKENS if own.get(name) is not None}
            if counts:
                output = counts.get("completionTokens", counts.get("outputTokens"))
                both = {"inputTokens": counts.get("promptTokens"), "outputTokens": output}
                found.append((counts, sanitize_usage(both)))
            elif value and value is not holder:
                unread = True
    return found, unread
