"""Whole JSON documents: reading with repairs, cutting into elements, writing."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given

from converters import jsonio
from converters.errors import BadInput, DcbError
from converters.ledger import Ledger
from tests.converters.json_values import VALUES, rules
from tests.pack import cases, pack


class TestLoad:
    def test_several_documents(self) -> None:
        ledger = Ledger()
        assert jsonio.load(b'{"a":1}\n{"b":[2]}\n[3]', ledger) == [{"a": 1}, {"b": [2]}, [3]]
        pretty = b'{\n "a": 1\n}\n\n{\n "b": NaN\n}\n'
        assert jsonio.load(pretty, ledger) == [{"a": 1}, {"b": None}]
        assert ledger.report().entries[0].places == ["byte 13"]

    def test_places_are_bytes(self) -> None:
        ledger = Ledger()
        jsonio.load('{"a":"\u6f22\u5b57"}\n{"b":NaN}'.encode(), ledger)
        assert ledger.report().entries[0].places == ["byte 15"]

    def test_a_banner(self) -> None:
        ledger = Ledger()
        assert jsonio.load(b'[INFO] start\nready\n{"a":1}\n', ledger) == [{"a": 1}]
        assert ledger.count("text-outside-records") == 1
        assert jsonio.load(b'Copied from chat: {"a":1}', Ledger()) == [{"a": 1}]

    def test_text_behind_the_document(self) -> None:
        ledger = Ledger()
        assert jsonio.load(b'{"a":1}\nbye', ledger) == [{"a": 1}]
        assert rules(ledger) == {"text-outside-records": 1}

    def test_a_cut_document_gives_its_whole_parts(self) -> None:
        whole = json.dumps([{"id": n, "text": 'a "b" {c', "list": [1, 2]} for n in range(3)])
        for size in range(2, len(whole) - 1):
            ledger = Ledger()
            (value,) = jsonio.load(whole[:size].encode(), ledger)
            assert ledger.count("truncated-input") == 1
            assert value[:-1] == json.loads(whole)[: max(len(value) - 1, 0)]

    def test_zeros_behind_a_document(self) -> None:
        ledger = Ledger()
        assert jsonio.load(b'{"a":1}' + b"\0" * 100, ledger) == [{"a": 1}]
        assert rules(ledger) == {"truncated-input": 1}

    @pytest.mark.parametrize(
        ("data", "at"),
        [
            (b'{"a":1,}', "byte 7"),
            (b'{"a":1}}'[1:], "byte 3"),
            (b"<!DOCTYPE html><html>", "byte 0"),
            (b'{"m":[{"role":"user"},]}', "byte 22"),
            ('{"\u00e9\u00e9": oops}'.encode(), "byte 9"),
        ],
    )
    def test_what_is_no_json_says_where(self, data: bytes, at: str) -> None:
        with pytest.raises(BadInput) as caught:
            jsonio.load(data, Ledger(), path="x.json")
        assert caught.value.path == "x.json"
        assert caught.value.position == at

    @pytest.mark.parametrize("data", [b"", b" \n\t", b"\0\0\0"])
    def test_nothing_in_it(self, data: bytes) -> None:
        with pytest.raises(BadInput, match="no JSON value"):
            jsonio.load(data, Ledger())

    def test_a_damaged_document_is_not_replaced_by_a_part_of_it(self) -> None:
        with pytest.raises(BadInput):
            jsonio.load(b'{\n"a": oops,\n"b":\n{"role":"user"}\n}', Ledger())


class TestDuplicateKeys:
    def test_pointers(self) -> None:
        data = b'{"a":1,"a/b":{"~":1,"~":2},"a":[{"x":1},{"y":1,"y":1,"y":2}],"c":0,"c":1}'
        assert jsonio.duplicate_keys(data) == ["/a", "/c", "/a/1/y", "/a~1b/~0"]
        assert jsonio.duplicate_keys('{"a":{"b":1}}') == []
        assert jsonio.duplicate_keys(b"\xef\xbb\xbf" + b'{"b":1,"b":2}') == ["/b"]
        assert jsonio.duplicate_keys(b"not json") == []

    @given(VALUES)
    def test_python_objects_have_none(self, value: Any) -> None:
        assert jsonio.duplicate_keys(json.dumps(value)) == []


class TestElements:
    def test_elements_that_need_repair_do_not_hide_those_behind(self) -> None:
        data = b'[{"a":NaN},{"b":"\\ud83d"},{"c":"x\x01"},tru,{"d":1}, 5 ,"s"]'
        parts = [part for _, part in jsonio.elements(data)]
        assert [bytes(part).strip() for part in parts if part is not None] == [
            b'{"a":NaN}',
            b'{"b":"\\ud83d"}',
            b'{"c":"x\x01"}',
            b"tru",
            b'{"d":1}',
            b"5",
            b'"s"',
        ]

    def test_a_cut_array_ends_with_none(self) -> None:
        data = json.dumps([{"a": 1}, {"b": "x" * 200_000}, {"c": 3}]).encode()
        parts = list(jsonio.elements(data[:-10]))
        assert [part is None for _, part in parts] == [False, False, True]

    def test_large_elements_and_numbers_at_a_window_edge(self) -> None:
        values = ["y" * 65_533, 12345, "z" * 300_000, 678]
        data = json.dumps(values, separators=(",", ":")).encode()
        parts = [json.loads(bytes(part)) for _, part in jsonio.elements(data) if part is not None]
        assert parts == values

    def test_no_array(self) -> None:
        with pytest.raises(BadInput):
            list(jsonio.elements(b'{"a":1}'))


class TestLeadingValues:
    def test_documents_and_lines(self) -> None:
        assert jsonio.leading_values(b' {"a":1}\n') == ({"a": 1},)
        assert jsonio.leading_values(b'{"a":1}\n{"a":2}\n{"a":') == ({"a": 1}, {"a": 2})
        assert jsonio.leading_values(b'{"a":"\\ud83d"}') == ({"a": "\ud83d"},)
        assert jsonio.leading_values(b'banner\n{"a":1}\n') == ({"a": 1},)
        assert jsonio.leading_values(b"null") == ()
        assert len(jsonio.leading_values(b'{"a":1}\n' * 100)) == 20

    def test_a_document_that_is_longer_than_the_head(self) -> None:
        data = b'{"messages":[\n{"role":"user"},\n{"role":"assistant"}\n,{"ro'
        (root,) = jsonio.leading_values(data)
        assert root["messages"][:2] == [{"role": "user"}, {"role": "assistant"}]
        (root,) = jsonio.leading_values(b'{"type":"x","data":"' + b"y" * 1000)
        assert root == {"type": "x"}


class TestDumps:
    def test_what_the_fast_encoder_refuses(self) -> None:
        assert (
            jsonio.dumps({"a": 2**64, "b": [1.5, None]})
            == b'{"a":18446744073709551616,"b":[1.5,null]}'
        )
        assert json.loads(jsonio.dumps({"\ud83d": "x\udc00\ud83d\ude00"})) == {
            "\ufffd": "x\ufffd\U0001f600"
        }
        assert jsonio.dumps({1: {2.5: (1, 2)}, None: 1}) == b'{"1":{"2.5":[1,2]},"null":1}'
        assert jsonio.dumps([math.nan, -math.inf, 2**70]) == b"[null,null,1180591620717411303424]"
        assert jsonio.dumps(10**5000) == b"1" + b"0" * 5000

    def test_depth_and_cycles(self) -> None:
        for levels in (300, 1000, 20_000):
            deep: Any = 1
            for _ in range(levels):
                deep = {"a": [deep]}
            data = jsonio.dumps(deep)
            assert data == b'{"a":[' * levels + b"1" + b"]}" * levels
            if levels <= 1000:
                assert jsonio.dumps(deep, indent=True).count(b"\n") == 4 * levels
        cycle: dict[str, Any] = {"a": 1}
        cycle["self"] = cycle
        assert jsonio.dumps(cycle) == b'{"a":1,"self":null}'
        shared = [2**64]
        assert jsonio.dumps([shared, shared, "\ud800"]) == (
            b'[[18446744073709551616],[18446744073709551616],"\xef\xbf\xbd"]'
        )

    def test_objects_of_other_kinds(self) -> None:
        json.loads(jsonio.dumps({"a": object(), "b": b"bytes", "c": {1, 2}, "\udc00": object()}))


def test_loads_exact_repairs_nothing() -> None:
    assert jsonio.loads_exact(b'{"a":1,"a":18446744073709551617}') == {"a": 2**64 + 1}
    for data in (b"NaN", b'"\x01"', b"\xef\xbb\xbf1", b"\xff", b"1 2", b"", b"9" * 5000):
        with pytest.raises(ValueError):
            jsonio.loads_exact(data)


def test_objects_counts_each_element() -> None:
    ledger = Ledger()
    found = list(jsonio.objects([{"a": 1}, None, 5, {"b": 2}], ledger, "/turns"))
    assert found == [("/turns/0", {"a": 1}), ("/turns/3", {"b": 2})]
    list(jsonio.objects(None, ledger, "/x"))
    list(jsonio.objects({}, ledger, "/x"))
    records = ledger.report().records
    assert (records.total, records.skipped) == (5, 3)


@pytest.mark.parametrize("case", cases("json"), ids=lambda case: case["name"])
def test_hostile_documents(case: dict[str, Any]) -> None:
    data = (pack() / case["name"]).read_bytes()
    try:
        values = jsonio.load(data, Ledger(), path=case["name"])
    except DcbError as error:
        assert "clean-error" in (case["expect"], case.get("also"))
        assert error.path == case["name"]
        assert error.position is not None
    else:
        out = jsonio.dumps(values).decode()
        assert all(text in out for text in case.get("survive", []))
