"""What the tests of the Codex reader and writer share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from converters.formats.codex import FORMAT
from tests.converters.formats.vectors import table
from tests.reading import counts, lines, read

if TYPE_CHECKING:
    from converters.ir import Session

DEVIATIONS = table("deviations_codex.json")
SID = "019e3b4a-1111-7222-aaaa-bbbbccccdddd"
START = 1772438400000


class Rollout:
    """Makes lines one second apart."""

    def __init__(self, **meta: Any) -> None:
        self.seconds = 0
        self.lines: list[Any] = []
        self.add(
            "session_meta", id=SID, cwd="/srv/demo", timestamp="2026-03-02T08:00:00.000Z", **meta
        )

    def add(self, kind: str, **payload: Any) -> Rollout:
        stamp = f"2026-03-02T08:{self.seconds // 60:02}:{self.seconds % 60:02}.000Z"
        self.lines.append({"timestamp": stamp, "type": kind, "payload": payload})
        self.seconds += 1
        return self

    def item(self, kind: str, **payload: Any) -> Rollout:
        return self.add("response_item", type=kind, **payload)

    def event(self, kind: str, **payload: Any) -> Rollout:
        return self.add("event_msg", type=kind, **payload)

    def user(self, *texts: str) -> Rollout:
        content = [{"type": "input_text", "text": text} for text in texts]
        return self.item("message", role="user", content=content)

    def says(self, text: str, **more: Any) -> Rollout:
        content = [{"type": "output_text", "text": text}]
        return self.item("message", role="assistant", content=content, **more)

    def call(self, identity: str, name: str = "shell", arguments: Any = "{}") -> Rollout:
        return self.item("function_call", call_id=identity, name=name, arguments=arguments)

    def output(self, identity: str, output: Any) -> Rollout:
        return self.item("function_call_output", call_id=identity, output=output)

    def model(self, name: str) -> Rollout:
        return self.add("turn_context", cwd="/srv/demo", model=name)

    def tokens(self, total: int, **last: int) -> Rollout:
        info = {"total_token_usage": {"input_tokens": total}, "last_token_usage": last}
        return self.event("token_count", info=info)

    def read(self, **options: Any) -> tuple[Session, dict[str, int]]:
        sessions, report = read(FORMAT, lines(*self.lines), **options)
        assert len(sessions) == 1
        return sessions[0], counts(report)
