"""TLV documents for tests: the vectors, made ones, and how they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st

from converters.formats.persisting_tlv import (
    FORMAT,
    Document,
    new_block,
    parse,
    serialize,
)
from converters.formats.persisting_tlv.frontmatter import write_frontmatter
from converters.ledger import Ledger, Report, count_items
from tests import reading
from tests.sinks import written

if TYPE_CHECKING:
    from pathlib import Path

    from converters.ir import Session


def named(path: Path) -> str:
    return path.parent.name if path.name == "input.md" else path.name.partition(".expected")[0]


def read(data: bytes, name: str = "x.md", **options: Any) -> tuple[list[Session], Report]:
    return reading.read(FORMAT, data, name, **options)


def kinds(report: Report) -> dict[str, int]:
    return {f"{e.rule}/{kind}": n for e in report.entries for kind, n in e.kinds.items()}


def one(data: bytes, **options: Any) -> Session:
    (session,) = read(data, **options)[0]
    return session


snippets = st.sampled_from(
    [
        *("\n", "\n\n", "\r\n", " ", "\u00a0", "---\n", "# h\n", "```", "{", "}", "-->", "文"),
        '<!-- persisting:block:user {"type":"markdown","length":3,"role":"user"} -->\n\nabc\n\n',
        *("<!-- persisting:subagent-self a.md -->", "[image: url:u]", "```tool:x\n{}\n```"),
        *("```tool_result:y\n", "<!-- persisting:block", "format: persisting:1.0\n"),
    ]
)


texts = st.lists(snippets | st.text(st.characters(exclude_categories=["Cs"])), max_size=8).map(
    "".join
)


# reading


def doc(*blocks: tuple[dict[str, Any], str], front: dict[str, Any] | None = None) -> bytes:
    made = tuple(new_block(fields, body.encode()) for fields, body in blocks)
    return serialize(Document(write_frontmatter({"session": "s"} | (front or {})), made))


USER = {"role": "user", "kind": "llm.request"}
REPLY = {"role": "assistant", "kind": "llm.response"}


# writing


def bare(session: Session) -> Any:
    """Give a session without what only the other side needs: headers and kept notes."""
    value = msgspec.to_builtins(session)
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += item
        elif isinstance(item, dict):
            extra = item.get("x-dcb")
            if isinstance(extra, dict):
                for name in ("native", "records"):
                    extra.pop(name, None)
                if not extra:
                    del item["x-dcb"]
            stack += item.values()
    return value


def check(session: Session) -> tuple[bytes, Report]:
    """Write a session; the account must cover every item."""
    ledger = Ledger("out")
    data = written(FORMAT, [session], ledger)
    report = ledger.report()
    totals = {kind: item.total for kind, item in report.items.items() if item.total}
    assert totals == dict(count_items(session))
    for kind, item in report.items.items():
        assert item.kept + item.reported == item.total, (kind, item)
    check_frame(data)
    return data, report


def check_frame(data: bytes) -> None:
    """What is written keeps the frame: every length ends at a boundary."""
    ledger = Ledger()
    document = parse(data, ledger)
    assert not ledger.report().entries
    assert all(block.gap == b"\n\n" for block in document.blocks)
