"""JSON Lines and what both ways of reading must hold for any bytes."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from converters import jsonio, jsonrepair
from converters.errors import DcbError, LimitReached
from converters.ledger import Ledger
from tests.converters.json_values import VALUES, rules
from tests.pack import cases, pack

JSONISH = st.lists(
    st.sampled_from(
        [
            *b'{}[]":,0123456789-.eE\\u d8dcnulltrue \t\r\x00\x01\xff\xed\xa0\xbd\xb8\x80',
            b'{"a":1}',
            b'{"type":"user","text":"',
            b'"a":',
            b"\\ud83d",
            b"\\u0000",
            b"NaN",
            b"1e400",
            b"\xef\xbb\xbf",
            b"\n",
            b"[" * 600,
            b"9" * 4400,
        ]
    ),
    max_size=40,
).map(lambda parts: b"".join(p if isinstance(p, bytes) else bytes([p]) for p in parts))
BYTES = st.binary(max_size=200) | JSONISH


def lines(data: bytes, *, objects: bool = True) -> tuple[list[tuple[int, Any]], Ledger]:
    ledger = Ledger()
    found = list(jsonio.records(io.BytesIO(data), ledger, objects=objects))
    return found, ledger


def accounted(found: list[tuple[int, Any]], ledger: Ledger) -> bool:
    records = ledger.report().records
    return records.total == len(found) + records.skipped


class TestProperties:
    @given(VALUES)
    def test_both_paths_agree_with_json(self, value: Any) -> None:
        for text in (
            json.dumps(value),
            json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode(),
        ):
            expected = json.loads(text)
            slow, end = jsonrepair.Parser().parse(text, 0)
            assert (slow, end) == (expected, len(text))
            assert jsonio.load(text.encode(), Ledger()) == [expected]
            found, _ = lines(text.encode() + b"\n", objects=False)
            assert found == [(1, expected)]

    @given(BYTES)
    @example(b"-0")
    @example(b'{"a":1,"a":{"b":2}}')
    @example(b'"\\ud83d\\ude00"')
    @example(b"123456789012345678901234567890")
    @example(b"1.7976931348623157e308")
    def test_what_the_fast_path_takes_the_slow_path_takes_alike(self, data: bytes) -> None:
        try:
            fast = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return
        if jsonrepair.deep_value(fast):
            return
        text = data.decode().strip(" \t\r\n")
        slow, end = jsonrepair.Parser().parse(text, 0)
        assert end == len(text)
        assert repr(slow) == repr(fast)

    @given(BYTES)
    @example(b'{"a":"x{"a":1}\n')
    @example(b'{"a":1}{"a":2}')
    @example(b"\x00\x00")
    def test_nothing_but_our_error_leaves(self, data: bytes) -> None:
        found, ledger = lines(data, objects=False)
        assert accounted(found, ledger)
        found, ledger = lines(data)
        assert accounted(found, ledger)
        assert all(type(value) is dict for _, value in found)
        for _, value in found:
            jsonio.dumps(value).decode()
        with contextlib.suppress(DcbError):
            for value in jsonio.load(data, Ledger()):
                jsonio.dumps(value).decode()
        jsonio.leading_values(data)
        jsonio.sniff_text(data)
        jsonio.duplicate_keys(data)
        with contextlib.suppress(DcbError):
            assert all(part is None or len(part) for _, part in jsonio.elements(data))
        with contextlib.suppress(ValueError):
            jsonio.loads_exact(data)

    @given(st.lists(VALUES, max_size=6))
    def test_elements_cut_an_array_at_its_elements(self, values: list[Any]) -> None:
        for data in (json.dumps(values).encode(), json.dumps(values, indent=2).encode()):
            parts = list(jsonio.elements(data))
            assert [json.loads(bytes(part)) for _, part in parts if part is not None] == values
            for offset, part in parts:
                assert part is not None
                assert data[offset : offset + len(part)] == bytes(part)

    @given(VALUES)
    def test_dumps_gives_what_json_reads(self, value: Any) -> None:
        for indent in (False, True):
            assert json.loads(jsonio.dumps(value, indent=indent)) == value

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner),
            max_leaves=10,
        )
    )
    def test_the_fallback_writes_what_the_fast_encoder_writes(self, value: Any) -> None:
        from converters.jsonwrite import _pieces

        assert b"".join(_pieces(value, indent=False)) == orjson.dumps(value)
        pretty = orjson.dumps(value, option=orjson.OPT_INDENT_2)
        assert b"".join(_pieces(value, indent=True)) == pretty

    @given(st.text(alphabet='ab{"[:,]}\\', max_size=60), st.integers(0, 60))
    def test_a_cut_document_closes_to_json(self, text: str, cut: int) -> None:
        data = json.dumps([{"key": text, "n": [1, {"deep": [text]}]}, text]).encode()[: cut + 1]
        closed = jsonrepair.close_cut(data)
        assert closed is None or isinstance(json.loads(closed), list)


class TestRecords:
    def test_a_line_ends_at_a_newline_only(self) -> None:
        text = '{"a":"x\u2028y\u2029z\u0085w\v\f"}'.replace("\v\f", "\\u000b\\u000c")
        found, ledger = lines(f'{text}\r\n\r\n \n{{"b":1}}'.encode())
        assert [number for number, _ in found] == [1, 4]
        assert found[0][1]["a"] == "x\u2028y\u2029z\u0085w\v\f"
        assert rules(ledger) == {}

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
    def test_byte_order_marks(self, encoding: str) -> None:
        text = '{"a":"caf\u00e9 \U0001f600"}\n{"a":2}\n'
        data = text.encode(encoding)
        if encoding == "utf-16-be":
            data = b"\xfe\xff" + data
        for source in (io.BytesIO(data), io.BufferedReader(io.BytesIO(data))):
            ledger = Ledger("f")
            found = list(jsonio.records(source, ledger))
            assert found == [(1, {"a": "caf\u00e9 \U0001f600"}), (2, {"a": 2})]
            assert ledger.report().entries[0].places == ["f:1"]
            assert rules(ledger) == {"encoding-repaired": 1}
        assert jsonio.leading_values(data) == ({"a": "caf\u00e9 \U0001f600"}, {"a": 2})
        assert jsonio.sniff_text(data) == text

    def test_a_mark_in_the_middle_where_files_were_joined(self) -> None:
        found, ledger = lines(b'{"a":1}\n\xef\xbb\xbf{"a":2}\n')
        assert [value["a"] for _, value in found] == [1, 2]
        assert rules(ledger) == {"encoding-repaired": 1}

    def test_invalid_bytes_harm_their_own_string_only(self) -> None:
        found, ledger = lines(b'{"a":1}\n{"a":"x\xb2\xffy","b":"\xc3\xa9"}\n{"a":3}\n')
        assert found[1] == (2, {"a": "x\ufffd\ufffdy", "b": "\u00e9"})
        assert ledger.report().entries[0].places == ["2"]
        assert rules(ledger) == {"encoding-repaired": 1}

    def test_surrogates(self) -> None:
        raw = (
            b'{"pair":"\\ud83d\\ude00","high":"\\ud83d!","low":"\\udcb2",'
            b'"cesu":"\xed\xa0\xbd\xed\xb8\x80","half":"\xed\xa0\xbd.","\\udc00":[["\\udc01"]]}\n'
        )
        found, ledger = lines(raw)
        assert found[0][1] == {
            "pair": "\U0001f600",
            "high": "\ufffd!",
            "low": "\ufffd",
            "cesu": "\U0001f600",
            "half": "\ufffd.",
            "\ufffd": [["\ufffd"]],
        }
        assert list(found[0][1])[-1] == "\ufffd"
        assert rules(ledger) == {"encoding-repaired": 1, "lone-surrogate": 5}

    def test_two_names_that_become_one_are_reported(self) -> None:
        found, ledger = lines(b'{"\\ud800":1,"\\ud801":2}\n')
        assert found == [(1, {"\ufffd": 2})]
        assert rules(ledger) == {"lone-surrogate": 2, "duplicate-key": 1}

    def test_numbers(self) -> None:
        digits = "9" * 5000
        found, ledger = lines(
            b'{"big":18446744073709551616,"low":-9223372036854775809}\n'
            b'{"nan":NaN,"inf":[-Infinity],"past":1e400}\n'
            b'{"long":' + digits.encode() + b"}\n"
        )
        assert found[0][1] == {"big": 2**64, "low": -(2**63) - 1}
        assert found[1][1] == {"nan": None, "inf": [None], "past": None}
        assert found[2][1] == {"long": digits}
        assert rules(ledger) == {"lossy-number": 4}
        assert ledger.report().entries[0].places == ["2", "3"]

    def test_control_characters_and_duplicates_on_the_slow_path(self) -> None:
        found, ledger = lines(b'{"a":1,"a":"x\x01\ty","b":"\x1b[31m"}\n{"a":1,"a":2}\n')
        assert found == [(1, {"a": "x\x01\ty", "b": "\x1b[31m"}), (2, {"a": 2})]
        assert rules(ledger) == {"encoding-repaired": 2, "duplicate-key": 1}

    @pytest.mark.parametrize(
        "tail", [b'{"a":"half', b'{"a":{"b":1}', b'{"a":"\xe6\xbc', b"{", b'{"a":1,"b":{"a":2}']
    )
    def test_a_torn_tail(self, tail: bytes) -> None:
        found, ledger = lines(b'{"a":1}\n' + tail)
        assert found == [(1, {"a": 1})]
        assert ledger.count("truncated-input") == 1
        assert ledger.count("malformed-record") == 0
        assert accounted(found, ledger)

    def test_the_same_inside_the_file_is_malformed(self) -> None:
        found, ledger = lines(b'{"a":"half\n{"a":1}\n')
        assert found == [(2, {"a": 1})]
        assert rules(ledger) == {"malformed-record": 1}

    @pytest.mark.parametrize("zeros", [b"\0" * 4096, b"\0" * 10 + b"\n", b" \0 \0"])
    def test_zeros_are_one_loss(self, zeros: bytes) -> None:
        found, ledger = lines(b'{"a":1}\n' + zeros)
        assert len(found) == 1
        assert rules(ledger) == {"truncated-input": 1}

    def test_zeros_around_what_is_left(self) -> None:
        found, ledger = lines(b'{"a":1}\n\0\0\0{"a":2}\n{"a":3}\0\0\n{"a":"x\0\0')
        assert [value["a"] for _, value in found] == [1, 2, 3]
        assert rules(ledger) == {"truncated-input": 3}
        assert accounted(found, ledger)

    @pytest.mark.parametrize("cut", range(1, 75))
    def test_torn_then_glued(self, cut: int) -> None:
        record = b'{"type":"user","id":"u1","parts":[{"type":"text","text":"\\u00e9\\\\"}],"n":12}'
        after = b'{"type":"user","id":"u2","parts":[{"type":"text","text":"b"}],"n":1}'
        data = record + b"\n" + record[:cut] + after + b"\n" + record + b"\n"
        found, ledger = lines(data)
        assert [value["id"] for _, value in found] == ["u1", "u2", "u1"]
        assert ledger.count("malformed-record") == 1
        assert ledger.report().entries[0].places == ["2"]
        assert accounted(found, ledger)

    def test_torn_then_two_glued_records(self) -> None:
        found, ledger = lines(b'{"id":"1","t":"x{"id":"2","t":"y"}{"id":"3","t":"z"}\n')
        assert [value["id"] for _, value in found] == ["2", "3"]
        assert accounted(found, ledger)

    def test_a_part_of_a_fragment_is_no_record(self) -> None:
        good = b'{"type":"user","id":"1","message":{"role":"user","content":"x"}}\n'
        torn = b'{"type":"user","id":"2","message":{"role":"user","content":[{"type":"text","x":1}'
        found, ledger = lines(good + torn + b"\n" + good)
        assert len(found) == 2
        assert rules(ledger) == {"malformed-record": 1}

    def test_several_values_on_one_line(self) -> None:
        found, ledger = lines(b'{"a":1}{"a":2} {"a":3}\n{"a":4}\n')
        assert [value["a"] for _, value in found] == [1, 2, 3, 4]
        assert {number for number, _ in found} == {1, 2}
        assert ledger.report().entries[0].kinds == {"glued": 2}

    def test_a_banner_before_the_first_record(self) -> None:
        found, ledger = lines(b'Tool v1.2 (ready)\n> log: {"a":1}\n{"a":2}\n[INFO] bye\n')
        assert [value["a"] for _, value in found] == [1, 2]
        assert ledger.count("text-outside-records") == 2
        assert ledger.count("malformed-record") == 1
        assert accounted(found, ledger)

    def test_values_that_are_no_objects(self) -> None:
        found, ledger = lines(b'null\n42\n"text"\n[]\ntrue\n{"a":1}\n')
        assert len(found) == 1
        assert ledger.report().entries[0].kinds == {
            "null": 1,
            "number": 1,
            "string": 1,
            "array": 1,
            "boolean": 1,
        }
        assert len(lines(b'null\n42\n"text"\n[]\n', objects=False)[0]) == 4

    def test_a_typed_decoder_falls_back_to_an_untyped_record(self) -> None:
        class Row(msgspec.Struct):
            a: int

        ledger = Ledger()
        decode = msgspec.json.Decoder(Row).decode
        data = io.BytesIO(b'{"a":1}\n{"a":"x"}\n{"a":NaN}\n')
        found = [value for _, value in jsonio.records(data, ledger, decode=decode)]
        assert found == [Row(1), {"a": "x"}, {"a": None}]
        assert rules(ledger) == {"lossy-number": 1}

    def test_an_abandoned_reader_counts_what_it_gave(self) -> None:
        ledger = Ledger()
        found = jsonio.records(io.BytesIO(b'{"a":1}\n' * 5), ledger)
        next(found)
        next(found)
        found.close()  # type: ignore[attr-defined]
        assert ledger.report().records.total == 2

    @pytest.mark.parametrize("levels", [513, 700, 990, 5000, 100_000])
    @pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
    def test_depth(self, levels: int, opening: bytes, closing: bytes) -> None:
        deep = b'{"x":' + opening * (levels - 1) + b"1" + closing * (levels - 1) + b"}"
        found, ledger = lines(b'{"a":1}\n' + deep + b'\n{"a":2}\n')
        assert [value for _, value in found] == [{"a": 1}, {"a": 2}]
        assert ledger.report().entries[0].kinds == {"too deep": 1}
        with pytest.raises(LimitReached):
            jsonio.load(deep, Ledger())
        with pytest.raises(ValueError, match="too deep"):
            jsonio.loads_exact(deep)
        jsonio.leading_values(deep)

    def test_512_levels_are_read(self) -> None:
        deep = b'{"a":' * 512 + b"1" + b"}" * 512
        found, ledger = lines(deep + b"\n" + deep.replace(b"1", b"NaN") + b"\n")
        assert len(found) == 2
        assert rules(ledger) == {"lossy-number": 1}
        assert len(jsonio.load(deep, Ledger())) == 1
        wide = b'{"a":[' + b"[[]]," * 5000 + b'"[[[[[["]}'
        assert len(lines(wide + b"\n")[0]) == 1

    @pytest.mark.parametrize(
        "line",
        [
            b'{"' * 3_000_000,
            b"[" * 6_000_000,
            b'"' * 6_000_000,
            b'"\\' * 3_000_000,
            b'{"a":1,' * 800_000,
            b'{"a":{"a":' * 600_000,
            b'{"a":"x" ' * 600_000,
            b"{}" * 50_000 + b"x",
            b" " * 6_000_000 + b"x",
            b"\xff" * 3_000_000,
            b"[[]]," * 1_000_000,
            (b'{"a":' * 400 + b"1" + b"}" * 400 + b"x") * 300,
        ],
        ids=lambda line: repr(line[:12]),
    )
    def test_hostile_lines_end(self, line: bytes) -> None:
        for end in (b"", b"\n"):
            found, ledger = lines(line + end, objects=False)
            assert accounted(found, ledger)
        with contextlib.suppress(DcbError):
            jsonio.load(line, Ledger())
        jsonio.duplicate_keys(line)
        jsonio.leading_values(line[: 256 * 1024])


@pytest.mark.parametrize("case", cases("jsonl"), ids=lambda case: case["name"])
def test_hostile_lines(case: dict[str, Any]) -> None:
    ledger = Ledger("f")
    with (pack() / case["name"]).open("rb") as stream:
        found = list(jsonio.records(stream, ledger))
    assert accounted(found, ledger)
    out = b"".join(jsonio.dumps(value) for _, value in found).decode()
    wanted = case.get("survive", []) + case.get("should", [])
    if case["name"] != "jsonl/deep-900-tool-input.jsonl":  # past the limit of depth: reported
        assert all(text in out for text in wanted)
    where = case.get("where", "")
    places = [place for entry in ledger.report().entries for place in entry.places]
    if places and where.startswith("line "):
        assert f"f:{where[5:]}" in places


class Typed(msgspec.Struct):
    """A record of a typed reader."""

    a: int
    text: str = ""


LINES = st.lists(
    st.sampled_from(
        [
            b'{"a":1}\n',
            b'{"a":2,"text":"' + b"x" * 30_000 + b'"}\n',
            b'{"a":"no number"}\n',
            b'{"a":3}{"a":4}\n',
            b'{"a":5,"text":"torn\n',
            b"[1]\n",
            b"banner\n",
            b"\n",
            b" \r\n",
            b'{"a":6}',
        ]
    ),
    max_size=30,
).map(b"".join)


class TestAhead:
    """Decoding some lines at once changes nothing but the time."""

    @staticmethod
    def read(data: bytes, most: int | None = None, **how: Any) -> tuple[list[Any], Any]:
        ledger = Ledger()
        decode = msgspec.json.Decoder(Typed).decode
        found = jsonio.records(io.BytesIO(data), ledger, decode=decode, **how)
        if most is None:
            return list(found), ledger.report()
        given = [value for value, _ in zip(found, range(most), strict=False)]
        found.close()  # type: ignore[attr-defined]
        return given, ledger.report()

    @given(LINES)
    def test_same_records_and_account(self, data: bytes) -> None:
        assert self.read(data, ahead=True) == self.read(data)

    @given(st.lists(st.just(b'{"a":1}\n'), max_size=9).map(b"".join), st.integers(1, 10))
    def test_only_what_was_taken_counts(self, data: bytes, most: int) -> None:
        assert self.read(data, most, ahead=True) == self.read(data, most)
