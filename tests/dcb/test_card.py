"""Cards: the reference vectors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dcb.snapshot import card as cards
from tests.paths import VECTORS, needs_shared


def cases() -> list[Any]:
    path = VECTORS / "dcb" / "card.json"
    if not path.is_file():
        return []
    listed = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=f"{i}-{case['name']}") for i, case in enumerate(listed)]


def render(name: str, given: Any) -> str:
    if name == "card":
        named = {"footerNote": "footer"}
        return cards.card(**{named.get(key, key): value for key, value in given.items()})
    if name == "snapshot_rows":
        rows = [(row["id"], row["title"], row["tokens"], row.get("status", "")) for row in given]
        return cards.snapshot_rows(rows)
    if name == "flag":
        return cards.flag(given)
    pairs = [(key, value) for key, value in given]
    return cards.key_values(pairs) if name == "key_values" else cards.action_rows(pairs)


@needs_shared
@pytest.mark.parametrize("case", cases())
def test_vectors(case: dict[str, Any]) -> None:
    assert render(case["name"], case["input"]) == case["output"]


def test_card_of_a_snapshot() -> None:
    text = cards.snapshot_card(
        "snap_1", "标题", tokens=42, created_at=1_772_323_200_000, tags=("a", "b"), sealed=True
    )
    assert text == (
        "📦 标题\n"
        "──────────────────────\n"
        "· 快照  snap_1\n"
        "· 来源对话  —\n"
        "· 创建时间  2026-03-01T00:00:00.000Z\n"
        "· token  42\n"
        "· 标签  a, b\n"
        "· 加密  🟢 开\n"
        "\n"
        "──────────────────────\n"
        "▸ 查看  →  dcb store show snap_1\n"
        "▸ 导入  →  dcb brief store:snap_1"
    )
    assert "未知" in cards.snapshot_card("s", "", tokens=0, created_at=0)
