"""The check of JSON documents against the schemas."""

import json
from typing import Any

import msgspec
import pytest

from converters.formats.dsh_bundle import document as bundle
from converters.ir import Meta, Session, Turn
from converters.ledger import Ledger, RunReport
from converters.types import Head
from dcb.checking import check_json, kind_of
from dcb.snapshot.document import write
from tests.dcb.snapshot.test_document_published import SMALL


def interchange() -> dict[str, Any]:
    session = Session(meta=Meta("s"), provider="test", turns=[Turn("hi")])
    value: dict[str, Any] = json.loads(msgspec.json.encode(session))
    return value


def problems(value: Any, kind: Any) -> list[tuple[str, str | None]]:
    return [(p.code, p.pointer) for p in check_json(json.dumps(value).encode(), kind)]


def test_kinds() -> None:
    report = json.loads(msgspec.json.encode(RunReport([], Ledger().report())))
    held = json.loads(msgspec.json.encode(write(SMALL).snapshot))
    made = bundle.make("{}\n", exported_at=1, source_session_id="s")
    for kind, value in (
        ("interchange", interchange()),
        ("report", report),
        ("object", held),
        ("bundle", made),
    ):
        assert kind_of(json.dumps(value).encode(), value) == kind
        assert problems(value, kind) == []
    assert kind_of(write(SMALL).text.encode(), None) == "snapshot"
    assert kind_of(b"\xef\xbb\xbf---\ndcb_schema: 1.0", None) == "snapshot"
    assert kind_of(b"{}", {}) is None
    assert kind_of(b"# notes", None) is None


MARK = "<!-- dcb:layer:summary -->"
DOCUMENT = write(SMALL).text
BODY = DOCUMENT[DOCUMENT.index("\n---\n") + 5 :]


@pytest.mark.parametrize(
    "text",
    [
        f"# The format\n\nThe summary follows `{MARK}` in a document.\n",
        f"# The format\n\n- a\n  {MARK} in a line\n",
        f"Only a marker:\n\n{MARK}\n",
        f"# An example\n\n```\n{DOCUMENT}```\n",
        f"# An example\n\n~~~~ markdown\n{DOCUMENT}~~~~\n",
        f"---\ntitle: The format\nlayout: page\n---\n\n~~~~\n{DOCUMENT}~~~~\n",
        f"---\ntitle: The format\n---\n\ndcb_schema: is a name\n\n{MARK}\n",
    ],
)
def test_a_text_about_the_format_is_no_snapshot(text: str) -> None:
    assert kind_of(text.encode(), None) is None


@pytest.mark.parametrize(
    "text",
    [
        DOCUMENT,
        DOCUMENT.replace("\n", "\r\n"),
        "\ufeff" + DOCUMENT,
        DOCUMENT.replace("---", "[--", 1),
        DOCUMENT.replace("dcb_schema", "dcb_skema"),
        DOCUMENT.replace("\n---\n", "\n-\n"),
        DOCUMENT.replace("<!-- dcb:layer:verbatim -->", ""),
        BODY,
    ],
)
def test_a_damaged_snapshot_is_still_one(text: str) -> None:
    values = Head(text.encode()).values
    assert kind_of(text.encode(), values[0] if values else None) == "snapshot"


def test_json_is_judged_by_its_root() -> None:
    value = interchange()
    value["turns"][0]["prompt"] = f"What does {MARK} mean?"
    assert kind_of(json.dumps(value).encode(), value) == "interchange"
    talk = {"messages": [{"role": "user", "content": DOCUMENT}]}
    assert kind_of(json.dumps(talk).encode(), talk) is None


def test_every_problem_has_its_path() -> None:
    value = interchange()
    value["turns"].append({"prompt": 5, "steps": "none"})
    value["meta"] = {"id": None}
    del value["provider"]
    found = problems(value, "interchange")
    assert ("schema", "/meta/id") in found
    assert ("schema", "/turns/1/prompt") in found
    assert ("schema", "/turns/1/steps") in found
    assert ("schema", "") in found


def test_no_value_is_repeated_in_a_message() -> None:
    value = interchange()
    value["turns"][0]["prompt"] = {"secret": "hunter2hunter2"}
    told = check_json(json.dumps(value).encode(), "interchange")
    assert told
    assert "hunter2" not in "".join(p.message for p in told)


def test_lines_and_arrays() -> None:
    good, bad = interchange(), {**interchange(), "turns": 1}
    lines = "\n".join(json.dumps(value) for value in (good, bad))
    assert [(p.line, p.pointer) for p in check_json(lines.encode(), "interchange")] == [
        (2, "/turns")
    ]
    assert problems([good, bad], "interchange") == [("schema", "/1/turns")]


@pytest.mark.parametrize("data", [b"{", b"{}\n{", b"[1,", b'{"interchange": NaN}', b"\xff\xfe"])
def test_what_is_not_json(data: bytes) -> None:
    assert [p.code for p in check_json(data, "interchange")] == ["unreadable"]


def test_deep_nesting_is_told() -> None:
    data = b'{"interchange":"dsh-chat-import","turns":' + b"[" * 3000 + b"]" * 3000 + b"}"
    assert check_json(data, "interchange")


def test_a_changed_bundle() -> None:
    made = bundle.make("{}\n", exported_at=1, source_session_id="s")
    assert problems({**made, "log": "{}\n\n"}, "bundle") == [
        ("session-fingerprint-mismatch", "/sha256/session"),
        ("bundle-fingerprint-mismatch", "/sha256/bundle"),
    ]
    assert ("schema", "/version") in problems({**made, "version": 2}, "bundle")
