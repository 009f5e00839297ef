"""Instruction pairs: what stands beside the columns of a pair."""

from __future__ import annotations

import json

from converters.registry import lookup
from tests.converters.formats.chat_sessions import essence, load, save
from tests.reading import counts

(PAIRS,) = lookup("instruction-pairs")


def test_columns_ahead_of_chat_messages_are_read_too() -> None:
    row = {
        "system": "Be brief.",
        "history": [["earlier", "yes"]],
        "prompt": [{"role": "user", "content": "q"}],
        "completion": [{"role": "assistant", "content": "a"}],
    }
    sessions, report = load(PAIRS, json.dumps(row).encode())
    (session,) = sessions
    assert essence(session) == [["earlier", [[["yes"], [], []]]], ["q", [[["a"], [], []]]]]
    assert session.extra is not None
    assert session.extra["system"] == ["Be brief."]
    assert "envelope" not in session.extra["native"]
    assert counts(report) == {"system-prompt-aside": 1}
    written = json.loads(save(PAIRS, sessions)[0])
    assert (written["system"], written["history"]) == (row["system"], row["history"])
