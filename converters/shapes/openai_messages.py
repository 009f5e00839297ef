"""Lists of OpenAI chat messages -> turns: roles, tool pairing, system prompts kept aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from converters import jsonio
from converters.ir import Text, ToolCallBlock, ToolResult
from converters.shapes import openai_chat as chat
from converters.shapes.attachments import file_block
from converters.shapes.openai_chat import identified, rest
from converters.shapes.rows import text_of
from converters.shapes.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from converters.ir import Block, Extra
    from converters.ledger import Ledger, Place
    from converters.types import Context

__all__ = ["ROLES", "TIMES", "Conversation"]

ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
TIMES: Final = ("timestamp", "created_at", "createdAt", "created", "time")
"""Members that dumps add to a message for its time."""

_ASSISTANT: Final = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "function_call",
        "refusal",
        "reasoning_content",
        "reasoning",
        "thinking",
        "audio",
        "id",
    }
)
_NONE: Final = object()
_SIMPLE: Final = frozenset({"role", "content", "id"})
_TOOL: Final = frozenset({"role", "content", "tool_call_id", "id"})
_CALL: Final = frozenset({"id", "type", "function", "custom", "index"})


class Conversation(Talk):
    """Reads lists of chat messages into turns; every message gets its fate here.

    The caller counts the messages as seen.
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx.ledger)
        self._ctx = ctx

    def add(
        self, messages: list[Any], base: Place = "", places: list[int | str] | None = None
    ) -> None:
        """Read messages; ``places`` are theirs, else they are elements of ``base``."""
        self.pairing.expect(lambda: _call_ids(messages))
        builder = self.builder
        prompt, answer = builder.plain_prompt, builder.plain_step
        step, result = builder.step, builder.result
        take = self.pairing.take
        plain = 0
        for index, message in enumerate(messages):
            if type(message) is dict:
                # The shapes that make up nearly all of a file, without a further look.
                role, text, size = message.get("role"), message.get("content"), len(message)
                if role == "user":
                    if size == 2 and type(text) is str and text:
                        prompt(text)
                        plain += 1
                        continue
                elif role == "assistant":
                    if size == 2 and type(text) is str and text:
                        answer(text)
                        plain += 1
                        continue
                    if size == 3 and (found := self._plain_calls(message)) is not None:
                        step(found)
                        plain += 1
                        continue
                elif role == "tool" and size == 3 and type(text) is str and text:
                    native = message.get("tool_call_id")
                    if type(native) is str and take(native):
                        result(ToolResult(native, [Text(text)]))
                        plain += 1
                        continue
            self._message(message, places[index] if places else f"{base}/{index}")
        self.ledger.mapped(plain)

    def _plain_calls(self, message: dict[str, Any]) -> list[Block] | None:
        """Give the blocks of a message of calls in plain form; ``None`` when it needs a look.

        Nothing is declared before all calls are known to be plain and new.
        """
        text, calls = message.get("content", _NONE), message.get("tool_calls")
        # Without ``content`` the third member is one that is not known here.
        if type(calls) is not list or not calls or not (text is None or type(text) is str):
            return None
        found: list[Block] = [Text(text)] if text else []
        for call in calls:
            if type(call) is not dict or len(call) != 3 or call.get("type") != "function":
                return None
            function, native = call.get("function"), call.get("id")
            if type(function) is not dict or len(function) != 2 or type(native) is not str:
                return None
            name, arguments = function.get("name"), function.get("arguments")
            if type(name) is not str or type(arguments) is not str or not name:
                return None
            if arguments[:1] != "{" or arguments[-1:] != "}":
                return None
            found.append(ToolCallBlock(native, name, arguments))
        return found if self.pairing.declare(found) else None

    def _message(self, message: Any, place: Place) -> None:
        if not isinstance(message, dict):
            self.ledger.skipped("malformed-record", place, kind=type(message).__name__)
            return
        role = message.get("role")
        role = role.strip().lower() if isinstance(role, str) else ""
        if role == "assistant":
            self._assistant(message, place)
        elif role in ("tool", "function"):
            self._tool(message, place)
        elif role == "user":
            found = chat.blocks(message.get("content"), self.ledger, place)
            if not found:
                self.ledger.skipped("empty-message", place, kind="user")
                return
            self.builder.prompt(
                found, time=self._time(message, place), extra=identified(message, _SIMPLE)
            )
            self.ledger.mapped()
        elif role in ("system", "developer"):
            self._system(message, role, place)
        elif role:
            self.ledger.skipped("role-unknown", place, kind=role[:40])
        else:
            self.ledger.skipped("malformed-record", place, kind="message without role")

    def _time(self, message: dict[str, Any], place: Place) -> int | None:
        for name in TIMES:
            if name in message:
                return self._ctx.ms(message[name], place)
        return None

    def _system(self, message: dict[str, Any], role: str, place: Place) -> None:
        found = chat.blocks(message.get("content"), self.ledger, place)
        text = "\n".join(block.text for block in found if isinstance(block, Text))
        if not text:
            self.ledger.skipped("empty-message", place, kind=role)
            return
        about: dict[str, Any] | None = None
        if len(message) > 2 or role != "system" or not isinstance(message["content"], str):
            about = {**message, "role": role}
            if isinstance(message["content"], str):
                del about["content"]
        self.add_system(text, about)
        self.ledger.aside("system-prompt-aside", place)

    def _assistant(self, message: dict[str, Any], place: Place) -> None:
        text = message.get("content")
        found: list[Block] = []
        if type(text) is str:
            if text:
                found.append(Text(text))
        elif text is not None:
            found = chat.blocks(text, self.ledger, place)
        if len(message) > 2 or "content" not in message:
            self._full_assistant(message, found, place)
            return
        if found:
            self.builder.step(found)
            self.ledger.mapped()
            return
        self.ledger.skipped("empty-message", place, kind="assistant")

    def _full_assistant(self, message: dict[str, Any], found: list[Block], place: Place) -> None:
        """Read an assistant message with reasoning, refusal, audio or members of its own."""
        ledger = self.ledger
        thoughts = chat.reasoning(message, ledger, place)
        found = thoughts + found
        refusal = text_of(message.get("refusal"))
        if refusal is not None:
            found.append(Text(refusal, {"refusal": True, "native": {"member": "refusal"}}))
        audio = message.get("audio")
        if isinstance(audio, dict):
            found.append(_audio(audio, ledger, place))
        found += self._calls(message.get("tool_calls"), place)
        legacy = message.get("function_call")
        if legacy is not None:
            found += self._legacy(legacy, place)
        extra = identified(message, _ASSISTANT - chat.repeated(message, thoughts))
        model = time = counts = None
        if extra is not None:
            model = text_of(message.get("model"))
            time = self._time(message, place)
            if message.get("usage") is not None:
                counts = chat.usage(message["usage"])
                if counts is None:
                    ledger.note("usage-invalid", place)
        if not found and counts is None:
            ledger.skipped("empty-message", place, kind="assistant")
            return
        self.builder.step(found, time=time, model=model, usage=counts, extra=extra)
        ledger.mapped()

    def _calls(self, calls: Any, place: Place) -> list[Block]:
        if not isinstance(calls, list):
            if calls is not None:
                self.ledger.note("malformed-block", place, kind="tool_calls")
            return []
        found: list[Block] = []
        for call in calls:
            block = self._call(call, place)
            if block is not None:
                found.append(block)
        return found

    def _legacy(self, call: Any, place: Place) -> list[Block]:
        name = text_of(call.get("name")) if isinstance(call, dict) else None
        if name is None:
            self.ledger.note("malformed-block", place, kind="function_call")
            return []
        text = chat.argument_text(call.get("arguments"), self.ledger, place)
        call_id = self.pairing.call(None, name, place)
        return [ToolCallBlock(call_id, name, text, {"native": {"member": "function_call"}})]

    def _call(self, call: Any, place: Place) -> ToolCallBlock | None:
        if not isinstance(call, dict):
            self.ledger.note("malformed-block", place, kind="tool_call")
            return None
        is_custom = call.get("function") is None
        holder = call.get("custom" if is_custom else "function")
        name = text_of(holder.get("name")) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or name is None:
            self.ledger.note("malformed-block", place, kind="tool_call")
            return None
        native_id = _call_id(call)
        call_id = self.pairing.call(native_id, name, place)
        extra: Extra = {}
        if call_id != native_id and isinstance(native_id, str) and native_id:
            extra["id"] = native_id
        if len(call) > 3 or call.get("type") != "function" or len(holder) > 2:
            native = rest(call, _CALL)
            more = rest(holder, ("name", "arguments", "input"))
            if more:
                native["function"] = more
            if is_custom:
                native["type"] = "custom"
            if native:
                extra["native"] = native
        if is_custom:
            value = holder.get("input")
            text = value if isinstance(value, str) else jsonio.dumps(value).decode("utf-8")
        else:
            text = chat.argument_text(holder.get("arguments"), self.ledger, place)
        return ToolCallBlock(call_id, name, text, extra or None)

    def _tool(self, message: dict[str, Any], place: Place) -> None:
        native_id = message.get("tool_call_id")
        if native_id is None:
            native_id = message.get("call_id")
        call_id, rule = self.pairing.answer(native_id, message.get("name"))
        if call_id is None:
            self.ledger.skipped(rule or "orphan-tool-result", place)
            return
        if rule is not None and message.get("role") != "function":
            self.ledger.note(rule, place)
        extra = identified(message, _TOOL) if len(message) > 3 or rule else None
        if extra and message.get("role") == "function":
            extra["native"] = {**extra.get("native", {}), "role": "function"}
        value = message.get("content")
        found: list[Block]
        if type(value) is str:
            found = [Text(value)] if value else []
        else:
            found = chat.blocks(value, self.ledger, place)
        self.builder.result(
            ToolResult(call_id, found, False, self._time(message, place), extra),
            place,
        )
        self.ledger.mapped()


def _call_ids(messages: list[Any]) -> Iterator[str]:
    """Give the ids of all calls of the messages."""
    for message in messages:
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and isinstance(call_id := _call_id(call), str):
                yield call_id


def _call_id(call: dict[str, Any]) -> Any:
    native = call.get("id")
    return native if native is not None else call.get("call_id")


def _audio(audio: dict[str, Any], ledger: Ledger, place: Place) -> Block:
    block = file_block(
        ledger,
        place,
        kind="audio",
        data=audio.get("data"),
        text=audio.get("transcript"),
        identity=audio.get("id"),
        native={"member": "audio", "audio": audio},
    )
    transcript = text_of(audio.get("transcript"))
    return Text(transcript, block.extra) if transcript else block
