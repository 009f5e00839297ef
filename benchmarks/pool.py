"""Texts, tool calls and times that the generated transcripts are made of."""

from __future__ import annotations

import base64
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["TOOLS", "Clock", "Pool", "arguments"]

_START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_VOCABULARY = """
the file returns a list of parsed records and the writer keeps every field it knows while tests
cover cache queue index token stream buffer session branch commit merge config path error handler
module import class function argument value result request response server client thread socket
timeout retry budget check build deploy version release change review
"""
_WORDS = _VOCABULARY.split()
_FOREIGN = (
    "这个函数读取配置并返回结果，请检查边界情况。",
    "Größe und Übergabe prüfen, danach naïve Fälle ergänzen.",
    "Проверь обработку ошибок в этом модуле. ",
    "tests passed ✅ — 12 checks, 0 failures 🎉 ",
    "├── src\n│   ├── main.py\n│   └── util.py\n└── tests\n",
)
_CODE = (
    "def load(path: str) -> dict[str, int]:\n    return json.loads(path.read_text())\n",
    'if (value === null) {\n\tthrow new Error("missing value");\n}\n',
    '    logger.info("done in %s", elapsed)\n    return {"status": "ok", "count": len(rows)}\n',
    "fn parse(input: &str) -> Result<Vec<Token>, ParseError> {\n    let mut out = vec![];\n",
    "drwxr-xr-x  4 dev dev  4096 Mar  2 08:14 src\n-rw-r--r--  1 dev dev 18231 README.md\n",
    "src/app.py:120:5: E501 line too long (113 > 100 characters)\n",
)


class Pool:
    """Texts of many lengths, made once and then drawn from.

    ``numbered``: some tool outputs have line numbers with an arrow, as file views do.
    """

    def __init__(self, seed: int, *, numbered: bool = False) -> None:
        self.rng = random.Random(seed)
        self.prose = [self._prose(n) for n in (40, 90, 180, 400, 900) for _ in range(60)]
        self.code = [
            self._code(n, numbered=numbered and n == 3000)
            for n in (200, 700, 1500, 3000, 7000)
            for _ in range(40)
        ]
        self.secret = [self._opaque(n) for n in (300, 800, 1600) for _ in range(30)]
        self.sealed = [self._opaque(n) for n in (600, 1500, 3500) for _ in range(30)]

    def _prose(self, length: int) -> str:
        rng = self.rng
        if rng.random() < 1 / 12:
            return (rng.choice(_FOREIGN) * (length // 20 + 1))[:length]
        words: list[str] = []
        size = 0
        while size < length:
            word = rng.choice(_WORDS)
            words.append(word)
            size += len(word) + 1
        text = " ".join(words).capitalize() + "."
        return text.replace(" and ", ' and "quoted" ').replace(" while ", "\n\n- while ")

    def _code(self, length: int, *, numbered: bool) -> str:
        rng = self.rng
        parts: list[str] = []
        size = 0
        foreign = rng.random() < 1 / 12
        while size < length:
            part = rng.choice(_CODE)
            if foreign and rng.random() < 1 / 20:
                part = rng.choice(_FOREIGN)
            parts.append(f"{len(parts) + 1:6}\u2192{part}" if numbered else part)
            size += len(parts[-1])
        return "".join(parts)

    def _opaque(self, length: int) -> str:
        return base64.b64encode(self.rng.randbytes(length)).decode()

    def text(self) -> str:
        """Give one piece of prose."""
        return self.rng.choice(self.prose)

    def block(self) -> str:
        """Give one piece of code or tool output."""
        return self.rng.choice(self.code)

    def opaque(self) -> str:
        """Give base64 text, as signatures are."""
        return self.rng.choice(self.secret)

    def encrypted(self) -> str:
        """Give base64 text, as encrypted reasoning is."""
        return self.rng.choice(self.sealed)

    def id(self) -> str:
        """Give a UUID."""
        return str(uuid.UUID(bytes=self.rng.randbytes(16), version=4))


class Clock:
    """Times that go forward by a few seconds."""

    def __init__(self, rng: random.Random) -> None:
        self.now = _START
        self.rng = rng

    def tick(self) -> str:
        """Give the next time as ISO text with milliseconds."""
        self.now += timedelta(milliseconds=self.rng.randrange(200, 9000))
        return self.now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.now.microsecond // 1000:03}Z"

    @property
    def ms(self) -> int:
        """The time in milliseconds since the epoch."""
        return int(self.now.timestamp() * 1000)


TOOLS = ("Read", "Bash", "Edit", "Grep", "Glob", "Write")


def arguments(pool: Pool, tool: str) -> dict[str, Any]:
    """Give the arguments of a call to a tool."""
    path = f"/home/dev/project/src/module_{pool.rng.randrange(90)}.py"
    if tool == "Edit":
        return {
            "file_path": path,
            "old_string": pool.block()[:600],
            "new_string": pool.block()[:700],
        }
    if tool == "Write":
        return {"file_path": path, "content": pool.block()}
    if tool == "Bash":
        return {"command": "pytest -x -q tests/ 2>&1 | tail -40", "description": pool.text()[:60]}
    return {"file_path": path} if tool == "Read" else {"pattern": "def \\w+", "path": path}
