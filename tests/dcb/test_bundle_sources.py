"""Sources with many sessions in one file: parts, families, databases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from converters.errors import BadInput
from converters.formats.dsh_bundle import document as bundle
from converters.formats.dsh_bundle import unpack
from converters.ir import Meta, Session, Step, Text, Turn
from converters.ledger import Ledger
from converters.opening import Memory
from converters.reading import Unit
from converters.types import Context, Format, Input, Match, Options
from dcb.bundle import rows
from dcb.bundle.drafts import Draft, Job, drafts
from dcb.bundle.native import Recorder, file_entry
from dcb.bundle.reopen import reopen
from dcb.bundle.slices import parts, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JOB = Job(1_786_000_000_000, "0.0.1", Options())


def conversation(identity: str, text: str, **extra: Any) -> Session:
    turn = Turn("q", None, [Step([Text(text)])])
    return Session(meta=Meta(identity, 1), provider="fake", turns=[turn], extra=extra or None)


def fake(read: Callable[[Input], Iterator[Session]]) -> Format:
    def reader(source: Input, ctx: Context) -> Iterator[Session]:
        ctx.ledger.seen()
        ctx.ledger.mapped()
        yield from read(source)

    kinds: Any = frozenset({"json"})
    return Format("fake", "Fake", kinds, lambda _: Match(1, "never"), reader)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[[Format], Format]:
    """Make a format known to the registry for one test."""
    from converters import registry

    real = registry.lookup

    def add(record: Format) -> Format:
        monkeypatch.setattr(
            registry, "lookup", lambda name: (record,) if name == "fake" else real(name)
        )
        return record

    return add


def made(source: Input, record: Format) -> list[Draft]:
    return [draft for draft, _ in drafts(Unit(source, record), JOB, Ledger())]


def native(draft: Draft) -> dict[str, Any]:
    found: dict[str, Any] = draft.document["x-dcb"]["native"]
    return found


def back(draft: Draft) -> Session:
    found, ledger = reopen(draft.document, "b")
    assert found is not None
    report = ledger.report()
    assert report.balanced
    assert report.sessions == 1
    return found


# -- parts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'[{"a":1}, {"b":2}]', [("object", "/0", '[{"a":1}]'), ("object", "/1", '[{"b":2}]')]),
        (b' \n[1,"x"]', [("object", "/0", "[1]"), ("object", "/1", '["x"]')]),
        (b'{"v":1,"l":[],"big":[{"a":1}]}', [("object", "/big/0", '{"big":[{"a":1}]}')]),
        (b'{"a":1}\n\n{"b":2}\n', [("line", "1", '{"a":1}\n'), ("line", "3", '{"b":2}\n')]),
        (b'{"a":1}', []),
    ],
)
def test_parts(text: bytes, expected: list[tuple[str, str, str]]) -> None:
    found = [(p.kind, p.pointer, wrapped(p).decode()) for p in parts(Memory(text))]
    assert found == expected


def lines_of(source: Input) -> Iterator[Session]:
    for number, line in enumerate(source.read().split(b"\n")):
        if line:
            value = json.loads(line)
            yield conversation(value.get("id") or f"minted-{number}", value["text"])


def test_lines_travel_alone(known: Callable[[Format], Format]) -> None:
    text = b'{"id":"a","text":"1"}\n{"text":"2"}\n{"id":"c","text":"3"}\n'
    found = made(Memory(text, "x.jsonl"), known(fake(lines_of)))
    assert [draft.session_id for draft in found] == ["a", "minted-1", "c"]
    assert [native(draft)["kind"] for draft in found] == ["line"] * 3
    assert unpack(native(found[1])["files"][0]) == b'{"text":"2"}'
    assert [back(draft) for draft in found] == list(lines_of(Memory(text)))


def test_a_session_that_its_part_does_not_give_takes_the_whole_file(
    known: Callable[[Format], Format],
) -> None:
    def read(source: Input) -> Iterator[Session]:
        values = [json.loads(line) for line in source.read().split(b"\n") if line]
        for value in values:
            # Each session says how long its file is: no line alone gives the same.
            yield conversation(value["id"], f"{value['id']} of {len(values)}")

    text = b'{"id":"a"}\n{"id":"b"}\n'
    first, second = made(Memory(text, "x.jsonl"), known(fake(read)))
    assert native(first)["kind"] == "files"
    assert unpack(native(first)["files"][0]) == text
    assert native(second)["kind"] == "part"
    assert native(second)["of"] == "a"
    assert [back(first), back(second)] == list(read(Memory(text)))


# -- families and companions -------------------------------------------------------------------


def test_the_root_carries_the_files_of_its_family(known: Callable[[Format], Format]) -> None:
    def read(source: Input) -> Iterator[Session]:
        yield conversation("main", source.read().decode())
        for companion in source.files("{stem}/*.txt"):
            child = companion.read().decode()
            yield conversation(f"main~s{child}", child, parent={"sessionId": "main"})
        source.files("{stem}/unused/*")

    around = {"x/1.txt": b"1", "x/2.txt": b"2", "x/unused/3": b"3", "y.txt": b"4"}
    source = Memory(b"body", "x.json", around)
    main, one, two = made(source, known(fake(read)))
    entries = native(main)["files"]
    assert {entry["name"]: unpack(entry) for entry in entries} == {
        "x.json": b"body",
        "x/1.txt": b"1",
        "x/2.txt": b"2",
    }
    assert native(one)["kind"] == native(two)["kind"] == "part"
    assert native(two)["of"] == "main"
    assert [back(draft) for draft in (main, one, two)] == list(read(source))


def declared(read: Callable[[Input], Iterator[Session]], *patterns: str, **more: Any) -> Format:
    return msgspec.structs.replace(fake(read), companions=patterns, **more)


def test_declared_companions_travel_though_the_reader_needs_none(
    known: Callable[[Format], Format],
) -> None:
    def read(source: Input) -> Iterator[Session]:
        yield conversation("s", source.read().decode())

    around = {"x.json.zst": b"body", "ui.json": b"1", "../all/list.json": b"2", "y.txt": b"3"}
    source = Memory(b"body", "x.json", around, nested=True)
    record = declared(read, "ui.json", "../all/*", "./ui.json", "{name}.zst", "{stem}.json")
    ledger = Ledger()
    ((draft, digest),) = drafts(Unit(source, known(record)), JOB, ledger)
    held = {entry["name"].rpartition("/")[2]: unpack(entry) for entry in native(draft)["files"]}
    # The input once more, compressed, is the same file.
    assert held == {"x.json": b"body", "ui.json": b"1", "list.json": b"2"}
    assert native(draft)["nested"] is True
    assert [entry.rule for entry in ledger.report().entries] == ["time-filled"]
    assert back(draft) == conversation("s", "body")
    around["ui.json"] = b"changed"
    ((_, other),) = drafts(Unit(Memory(b"body", "x.json", around), record), JOB, Ledger())
    assert digest != other


def test_the_companions_of_an_export_are_named_and_stay_out(
    known: Callable[[Format], Format],
) -> None:
    record = known(declared(lines_of, "part-*.json", "page.html", series=("part-*.json",)))
    around = {"part-1.json": b'{"id":"a","text":"1"}', "part-2.json": b"", "page.html": b"all"}

    def dropped(name: str, text: bytes) -> list[tuple[str, int]]:
        ledger = Ledger()
        source = Memory(text, name, around)
        found = [draft for draft, _ in drafts(Unit(source, record), JOB, ledger)]
        assert len(native(found[0])["files"]) == 1
        entries = ledger.report().entries
        return [(entry.rule, entry.count) for entry in entries if "companion" in entry.rule]

    one = around["part-1.json"]
    assert dropped("part-1.json", one) == [("companion-dropped", 1)]
    assert dropped("part-1.json", one + b'\n{"id":"b","text":"2"}') == [("companion-dropped", 1)]
    assert dropped("talk.json", one) == []


def test_subagents_that_are_not_wanted_stay_out(known: Callable[[Format], Format]) -> None:
    def read(source: Input) -> Iterator[Session]:
        yield conversation("s", source.read().decode())

    source = Memory(b"body", "x.json", {"x/sub.json": b"{}", "x/notes.txt": b"text"})
    record = msgspec.structs.replace(
        declared(read, "{stem}/*"),
        probe=lambda head: Match(90, "an object") if head.data.startswith(b"{") else None,
    )
    job = JOB._replace(options=Options(subagents="skip"))
    ((draft, _),) = drafts(Unit(source, known(record)), job, Ledger())
    assert [entry["name"] for entry in native(draft)["files"]] == ["x.json", "x/notes.txt"]


def test_a_change_in_a_companion_changes_the_digest() -> None:
    digests = set()
    for text in (b"1", b"2"):
        recorder = Recorder(Memory(b"body", "x.json", {"x/1.txt": text}))
        recorder.read()
        (companion,) = recorder.files("{stem}/*")
        companion.read()
        digests.add(recorder.opened.digest())
    assert len(digests) == 2


def test_a_folder_comes_back_as_a_folder(known: Callable[[Format], Format]) -> None:
    def read(source: Input) -> Iterator[Session]:
        (body,) = source.files("*.json")
        yield conversation("s", body.read().decode())

    source = Memory(b"", "task", {"a.json": b"x", "skipped.bin": b"y"})
    (draft,) = made(source, known(fake(read)))
    assert native(draft)["folder"] == "task"
    assert [entry["name"] for entry in native(draft)["files"]] == ["a.json"]
    assert back(draft) == conversation("s", "x")


# -- databases ---------------------------------------------------------------------------------


def database(sessions: int = 2) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            """
            CREATE TABLE project (id TEXT PRIMARY KEY, path TEXT);
            CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, title TEXT);
            CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, body TEXT, n INTEGER);
            CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, data BLOB);
            CREATE TABLE kv (key TEXT, value TEXT);
            CREATE VIEW v AS SELECT * FROM session;
            """
        )
        for n in range(sessions):
            connection.execute("INSERT INTO project VALUES (?, ?)", (f"project-{n}", "/p"))
            session = (f"session-{n:04}", f"project-{n}", "T")
            connection.execute("INSERT INTO session VALUES (?, ?, ?)", session)
            for k in range(2):
                row = (f"message-{n}-{k}", f"session-{n:04}", f"text {n} {k}", k)
                connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
                part = (f"part-{n}-{k}", f"message-{n}-{k}", bytes([0, 255, n]))
                connection.execute("INSERT INTO part VALUES (?, ?, ?)", part)
            entry = (f"meta:session-{n:04}:x", '{"about": 1}')
            connection.execute("INSERT INTO kv VALUES (?, ?)", entry)
        connection.commit()
        return bytes(connection.serialize())


QUERY = """
    SELECT s.id, group_concat(m.body || ':' || hex(p.data) || ':' || pr.path || ':' || kv.value)
    FROM session s
    JOIN message m ON m.session_id = s.id
    JOIN part p ON p.message_id = m.id
    JOIN project pr ON pr.id = s.project_id
    JOIN kv ON kv.key = 'meta:' || s.id || ':x'
    GROUP BY s.id ORDER BY s.id
"""


def rows_of(source: Input) -> Iterator[Session]:
    with closing(source.database()) as connection:
        for identity, text in connection.execute(QUERY).fetchall():
            yield conversation(identity.decode(), text.decode())


@pytest.mark.parametrize("sessions", [1, 2, 3])
def test_a_database_gives_each_session_its_rows(
    known: Callable[[Format], Format], sessions: int
) -> None:
    source = Memory(database(sessions), "store.db")
    found = made(source, known(fake(rows_of)))
    assert len(found) == sessions
    for n, draft in enumerate(found):
        assert native(draft)["kind"] == "rows"
        (entry,) = native(draft)["files"]
        assert entry["name"] == "store.db.rows.json"
        tables = {table["name"]: table for table in json.loads(unpack(entry))}
        assert {name: len(table["rows"]) for name, table in tables.items()} == {
            "kv": 1,
            "message": 2,
            "part": 2,
            "project": 1,
            "session": 1,
        }
        assert tables["session"]["rows"] == [[f"session-{n:04}", f"project-{n}", "T"]]
        assert tables["part"]["rows"][0][2] == {
            "base64": "AP8" + "ABC"[n : n + 1].replace("A", "A")
        }
    assert [back(draft) for draft in found] == list(rows_of(source))


def test_rows_that_do_not_suffice_give_way_to_all(known: Callable[[Format], Format]) -> None:
    def read(source: Input) -> Iterator[Session]:
        with closing(source.database()) as connection:
            (count,) = connection.execute("SELECT count(*) FROM session").fetchone()
            for (identity,) in connection.execute("SELECT id FROM session").fetchall():
                yield conversation(identity.decode(), f"one of {count}")

    source = Memory(database(2), "store.db")
    found = made(source, known(fake(read)))
    assert [back(draft) for draft in found] == list(read(source))


def test_a_database_is_rebuilt_value_by_value() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (id, v)")
        values = [None, 1, 2**62, 1.5, "text", b"\x00blob", ""]
        connection.executemany("INSERT INTO t VALUES (?, ?)", enumerate(values))
        connection.execute("INSERT INTO t VALUES (9, CAST(x'ff41' AS TEXT))")
        connection.commit()
        data = bytes(connection.serialize())
    with closing(Memory(data, "d").database()) as connection:
        before = rows.dump(connection)
    with closing(Memory(rows.rebuild(before), "d").database()) as connection:
        after = rows.dump(connection)
    assert before[0].rows[:-1] == after[0].rows[:-1]
    assert before[0].rows[-1] == [9, {"text": "/0E="}]


ENDLESS = (
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) AS x FROM c"
)


@pytest.mark.parametrize(
    "table",
    [
        rows.Table("t", "DROP TABLE x", ["a"], []),
        rows.Table("t", "CREATE TABLE t (", ["a"], []),
        rows.Table("t", f"CREATE TABLE t AS {ENDLESS}", ["x"], []),
        rows.Table("t", f"CREATE TABLE IF NOT EXISTS t AS {ENDLESS}", ["x"], []),
        rows.Table("t", "CREATE TABLE t AS SELECT 1 AS a", ["a"], []),
        rows.Table("t", "CREATE TABLE t AS VALUES (1)", ["column1"], []),
        rows.Table("t", "CREATE TABLE temp.t (a)", ["a"], []),
        rows.Table("t", "CREATE TABLE t (a); ATTACH 'x' AS y", ["a"], []),
        rows.Table("t", "CREATE VIEW t AS SELECT 1 AS a", ["a"], []),
        rows.Table("t", "CREATE VIRTUAL TABLE t USING fts5(a)", ["a"], []),
        rows.Table("t", "PRAGMA user_version=1", [], []),
        rows.Table("t", "CREATE TABLE t (a, b AS (a || a) STORED)", ["a"], [["x"]]),
        rows.Table("t", "CREATE TABLE t (a, b AS (a || a) UNIQUE)", ["a"], [["x"]]),
        rows.Table("t", "CREATE TABLE t (a, b DEFAULT (hex(randomblob(9))))", ["a"], [["x"]]),
        rows.Table("sqlite_master", "CREATE TABLE t (a)", ["sql"], [["x"]]),
        rows.Table("t", "CREATE TABLE t (a)", ["b"], [[1]]),
        rows.Table("t", "CREATE TABLE t (a)", ["a"], [[1, 2]]),
        rows.Table("t", "CREATE TABLE t (a)", ["a"], [[{"base64": "!"}]]),
        rows.Table("t", "CREATE TABLE t (a)", ["a"], [[{}]]),
        rows.Table("t", "CREATE TABLE t (a)", ["a"], [[2**70]]),
        rows.Table("t", "CREATE TABLE t (a)", ["a"], [[[1]]]),
    ],
)
def test_rows_from_elsewhere_are_not_trusted(table: rows.Table) -> None:
    with pytest.raises(BadInput):
        rows.rebuild([table])


@pytest.mark.parametrize(
    "definition",
    [
        "create table t (a INTEGER PRIMARY KEY AUTOINCREMENT, b TEXT UNIQUE)",
        "CREATE TABLE t (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID",
        "CREATE TABLE t (a INTEGER, b TEXT) STRICT",
        "CREATE TABLE t (a CHECK (length(a) > 9), b DEFAULT (datetime('now')) REFERENCES x (y))",
        "CREATE TABLE t (a CHECK (a IN (7, 8)), b COLLATE NOCASE, CHECK (b LIKE '%q%'))",
    ],
)
def test_a_plain_table_comes_back_whatever_it_says_of_its_columns(definition: str) -> None:
    table = rows.Table("t", definition, ["a", "b"], [[1, "x"], [2, "y"]])
    with closing(Memory(rows.rebuild([table]), "d").database()) as connection:
        (found,) = rows.dump(connection)
    assert found.rows == table.rows


def test_the_log_stands_in_for_rows_that_would_run_for_ever() -> None:
    table = {"name": "t", "sql": f"CREATE TABLE t AS {ENDLESS}", "columns": ["x"], "rows": []}
    held = [file_entry("x.rows.json", json.dumps([table]).encode())]
    extra = {"native": {"format": "crush", "kind": "rows", "path": "crush.db", "files": held}}
    log = '{"type":"user/message","seq":0,"data":{"content":"hello"}}\n'
    made = bundle.make(log, exported_at=1, source_session_id="s", extra=extra)
    found, _ = reopen(made, "b")
    assert found is not None
    assert [turn.prompt for turn in found.turns] == ["hello"]


def test_the_log_stands_in_where_native_bytes_do_not_read(
    known: Callable[[Format], Format],
) -> None:
    source = Memory(b'{"id":"a","text":"1"}\n', "x.jsonl")
    (draft,) = made(source, known(fake(lines_of)))
    document = json.loads(json.dumps(draft.document))
    document["x-dcb"]["native"]["files"][0]["data"] = "AAAA"
    found, _ = reopen(bundle.seal(document), "b")
    assert found is not None
    assert found.meta.id == "a"
    assert found.turns[0].steps[0].content == [Text("1")]
