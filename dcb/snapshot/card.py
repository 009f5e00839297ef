"""Cards: a snapshot, or a list of them, as plain text for a chat window.

Source: program 0.2.0, cards (section 14 of its description).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dcb.snapshot.values import MAX_DATE, date_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["action_rows", "card", "flag", "key_values", "snapshot_card", "snapshot_rows"]

_RULE: Final = "\u2500" * 22
_NONE: Final = "（无）"
_NO_SNAPSHOT: Final = "（无快照）"


def card(
    title: str,
    body: str = "",
    *,
    icon: str = "",
    subtitle: str = "",
    footer: str = "",
) -> str:
    """Give a card: title, rule, body, and a footer below a second rule."""
    lines = [f"{icon} {title}" if icon else title]
    if subtitle:
        lines.append(f"  {subtitle}")
    if body:
        lines += [_RULE, body]
    if footer:
        lines += ["", _RULE, footer]
    return "\n".join(lines)


def key_values(pairs: Iterable[tuple[str, str]]) -> str:
    """Give a line for each pair."""
    return "\n".join(f"· {key}  {value}" for key, value in pairs) or _NONE


def snapshot_rows(rows: Iterable[tuple[str, str, int, str]]) -> str:
    """Give two lines for each snapshot: id; title, tokens and state (``—`` when empty)."""
    return (
        "\n".join(
            f"▸ {name}\n    {title} · {tokens} tokens · {state or '—'}"
            for name, title, tokens, state in rows
        )
        or _NO_SNAPSHOT
    )


def action_rows(actions: Iterable[tuple[str, str]]) -> str:
    """Give a line for each thing to do and its command."""
    return "\n".join(f"▸ {label}  →  {command}" for label, command in actions)


def flag(value: bool) -> str:  # noqa: FBT001 - a flag is what it shows
    """Give on or off."""
    return "🟢 开" if value else "⚪ 关"


def snapshot_card(
    snapshot_id: str,
    title: str,
    *,
    tokens: int,
    created_at: int,
    tags: Sequence[str] = (),
    sealed: bool = False,
    conversation: str = "",
) -> str:
    """Give the card of one snapshot. ``created_at`` in ms, 0 when it is not known."""
    known = 0 < created_at <= MAX_DATE
    facts = [
        ("快照", snapshot_id),
        ("来源对话", conversation or "—"),
        ("创建时间", date_text(created_at) if known else "未知"),
        ("token", str(tokens)),
        ("标签", ", ".join(tags) or "—"),
        ("加密", flag(sealed)),
    ]
    actions = [
        ("查看", f"dcb store show {snapshot_id}"),
        ("导入", f"dcb brief store:{snapshot_id}"),
    ]
    return card(title or "未命名快照", key_values(facts), icon="📦", footer=action_rows(actions))
