"""The LLM summarizer against a real HTTP server on the loopback interface."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from converters.errors import UsageError
from dcb import llm
from dcb.llm import LlmError, parse_answer, prompt_of, summarizer
from dcb.snapshot.lexicon import builtin
from dcb.snapshot.model import SummarySection
from dcb.snapshot.profile import PUBLISHED
from dcb.snapshot.summarize import Candidate, extractive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ANSWER = "### 背景与目标\n- 目标是零丢失。\n* second\n· third\n"
CANDIDATES = [
    Candidate("user", "我们的目标是零丢失地迁移上下文。"),
    Candidate("assistant", "下一步补充测试\n和文档。"),
]
EXTRACTIVE = extractive(builtin("published"), PUBLISHED.compiling.extracting)


class Server(ThreadingHTTPServer):
    """Answers each request with the next reply; keeps what was asked."""

    daemon_threads = True
    replies: list[Callable[[BaseHTTPRequestHandler], None]]
    requests: list[dict[str, Any]]
    headers: list[dict[str, str]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.requests.append(json.loads(self.rfile.read(length)))
        self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
        self.server.replies.pop(0)(self)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the method's
        """Stay quiet."""


@contextmanager
def serving(*replies: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.replies, server.requests, server.headers = list(replies), [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(
    body: bytes, status: int = 200, kind: str = "application/json", **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def completion(text: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    message = {"role": "assistant", "content": text}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }
    return send(json.dumps(body).encode())


def run(server: Server, **options: Any) -> tuple[list[SummarySection], list[str]]:
    pytest.importorskip("openai")
    reasons: list[str] = []
    given: dict[str, Any] = {"key": "sk-secret", "timeout": 5.0} | options
    ask = llm.connect(server.url, "some-model", **given)
    found = summarizer(ask, EXTRACTIVE, reasons.append)(CANDIDATES, 2)
    return list(found), reasons


FALLEN_BACK = list(EXTRACTIVE(CANDIDATES, 2))


def test_the_fallback_would_find_something() -> None:
    assert FALLEN_BACK


def test_a_good_answer() -> None:
    with serving(completion(ANSWER)) as server:
        found, reasons = run(server)
    assert found == [SummarySection(heading="背景与目标", bullets=("目标是零丢失。", "second"))]
    assert reasons == []
    (asked,) = server.requests
    assert (asked["model"], asked["max_tokens"], asked["temperature"]) == ("some-model", 1024, 0.2)
    system, user = asked["messages"]
    assert "at most 2 bullets" in system["content"]
    assert user["content"] == (
        "[user] 我们的目标是零丢失地迁移上下文。\n[assistant] 下一步补充测试 和文档。"
    )
    assert server.headers[0]["authorization"] == "Bearer sk-secret"


def test_a_rate_limit_is_waited_out() -> None:
    limited = send(b'{"error": {"message": "slow down"}}', 429, Retry_After="0")
    with serving(limited, limited, completion(ANSWER)) as server:
        found, reasons = run(server)
    assert found[0].heading == "背景与目标"
    assert reasons == []
    assert len(server.requests) == 3


def test_a_rate_limit_without_end_falls_back() -> None:
    limited = send(b'{"error": {"message": "slow down sk-secret"}}', 429, retry_after_ms="1")
    with serving(limited, limited, limited) as server:
        found, reasons = run(server)
    assert found == FALLEN_BACK
    assert reasons == ["the endpoint answered 429"]


def test_a_timeout_falls_back() -> None:
    done = threading.Event()

    def sleep(handler: BaseHTTPRequestHandler) -> None:
        done.wait(20)

    with serving(sleep) as server:
        start = time.monotonic()
        found, reasons = run(server, timeout=0.3, retries=0)
        took = time.monotonic() - start
        done.set()
    assert found == FALLEN_BACK
    assert reasons == ["no answer within 0.3 s"]
    assert took < 15


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
    handler.close_connection = True


@pytest.mark.parametrize(
    "reply",
    [
        send(b"<html>proxy</html>", kind="text/html"),
        send(b"{not json"),
        send(b"[]"),
        send(b"{}"),
        send(b"null"),
        send(b'{"choices": []}'),
        send(b'{"choices": [{}]}'),
        send(b'{"choices": [{"message": null}]}'),
        send(b'{"choices": "x"}'),
        send(b'"text"'),
        send(b"\xff\xfe\x00"),
        send(b"", 500),
        send(b"", 401),
        send(b"{}", 404),
        completion(None),
        completion(42),
        completion(["- a"]),
        completion(""),
        completion("I am sorry, I cannot do that."),
        completion("### only\n### headings"),
        hang_up,
    ],
)
def test_garbage_falls_back_with_a_reason(
    reply: Callable[[BaseHTTPRequestHandler], None],
) -> None:
    with serving(reply) as server:
        found, reasons = run(server, retries=0)
    assert found == FALLEN_BACK
    assert len(reasons) == 1
    assert "sk-secret" not in reasons[0]


def test_nobody_listens() -> None:
    with serving() as server:
        url = server.url
    pytest.importorskip("openai")
    ask = llm.connect(url, "m", key=None, retries=0, timeout=5)
    with pytest.raises(LlmError, match="cannot be asked"):
        ask("s", "p")


def test_without_candidates_nothing_is_asked() -> None:
    def never(system: str, prompt: str, /) -> str:
        raise AssertionError("asked")

    assert list(summarizer(never, EXTRACTIVE)([], 6)) == []


def test_the_package_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(UsageError, match="openai") as error:
        llm.connect(None, "m", key=None)
    assert error.value.hint == "pip install 'dcb[llm]'"


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("- a\n- b\n- c", [("其他上下文", ("a", "b"))]),
        ("# one\n- a\n###### six\n* b", [("one", ("a",)), ("six", ("b",))]),
        ("####### seven\n- a", [("其他上下文", ("a",))]),
        ("## h\r\n-   a  \r\n-b\n-\n- ", [("h", ("a",))]),
        ("## h\n- a\n## empty\n## h\n- c", [("h", ("a", "c"))]),
        ("  ## h\n   - nested", [("h", ("nested",))]),
        ("#h\ntext\n1. one", []),
        ("", []),
    ],
)
def test_answers_are_read_line_by_line(
    answer: str, wanted: list[tuple[str, tuple[str, ...]]]
) -> None:
    assert [(s.heading, s.bullets) for s in parse_answer(answer, 2)] == wanted


def test_a_long_conversation_keeps_its_end() -> None:
    candidates = [Candidate("user", f"{i} " + "x" * 1000) for i in range(1000)]
    prompt = prompt_of(candidates)
    assert len(prompt) <= llm.MAX_PROMPT
    assert prompt.endswith(prompt_of(candidates[-1:]))
    assert "[user] 0 x" not in prompt
