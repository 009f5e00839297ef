"""A chat session into the IR: requests are turns, rounds or response items are steps."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

from converters import jsonio
from converters.errors import BadInput, DcbError
from converters.formats.copilot_vscode.items import Asked, Items, rounds_of, text_of
from converters.formats.copilot_vscode.log import replay
from converters.ir import Block, Compaction, Extra, Meta, Session, Text, Usage
from converters.ledger import Ledger
from converters.turns import TurnBuilder, sanitize_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.types import Context, Input

__all__ = ["read"]


def read(source: Input, ctx: Context) -> Iterator[Session]:
    """Give the session of a file, of either container."""
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
    session = _session(root, source, ctx, counted=counted)
    if session is not None:
        yield session


def _session(root: dict[str, Any], source: Input, ctx: Context, *, counted: bool) -> Session | None:
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
        return None
    own = root.get("sessionId")
    own = own if isinstance(own, str) and own else None
    title = root.get("customTitle")
    model = next((step.model for turn in turns for step in turn.steps if step.model), None)
    return Session(
        meta=Meta(
            own or source.stem,
            ctx.ms(root.get("creationDate"), "/creationDate"),
            _cwd(source),
            own,
        ),
        title=title if isinstance(title, str) and title else None,
        provider="copilot-vscode",
        model=model,
        turns=turns,
    )


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
        summary = self._steps(items, metadata, model, time, place)
        if summary:
            for earlier in self.turns.turns[:-1]:
                earlier.shadowed = True
            turn.compaction = Compaction(summary, "copilot-vscode")
        self._finish(request, result, metadata, place)

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

    def _steps(
        self,
        items: list[Any],
        metadata: dict[str, Any],
        model: str | None,
        time: int | None,
        place: str,
    ) -> str | None:
        """Build the steps; give the summary of a compaction, if a round carries one."""
        rounds = metadata.get("toolCallRounds")
        if isinstance(rounds, list) and any(isinstance(r, dict) for r in rounds):
            self.fate(None, place, len(items))
            last = text_of(items)
            asked = Asked(model, time, place)
            return rounds_of(self.turns, metadata, last, asked, self._ctx)
        Items(self.turns, self._ctx, self.fate).take(items, model, time, place)
        summary = metadata.get("summary")
        text = summary.get("text") if isinstance(summary, dict) else summary
        return text if isinstance(text, str) and text.strip() else None

    def _finish(
        self,
        request: dict[str, Any],
        result: dict[str, Any],
        metadata: dict[str, Any],
        place: str,
    ) -> None:
        details = result.get("errorDetails")
        code = str(details.get("code")) if isinstance(details, dict) else ""
        if request.get("isCanceled") is True or "cancel" in code.lower():
            self.turns.abort()
        step = self.turns.current
        usage = _usage(request, result, metadata)
        if usage is not None and step is not None:
            step.usage = usage
        elif isinstance(result.get("usage"), dict) and usage is None:
            self._ctx.ledger.note("usage-invalid", place)


def _usage(*holders: dict[str, Any]) -> Usage | None:
    """Give the token counts of a request, wherever the build wrote them."""
    for holder in holders:
        for value in (holder, holder.get("usage")):
            if isinstance(value, dict) and "promptTokens" in value:
                return sanitize_usage(
                    {
                        "inputTokens": value["promptTokens"],
                        "outputTokens": value.get("completionTokens", value.get("outputTokens")),
                    }
                )
    return None
