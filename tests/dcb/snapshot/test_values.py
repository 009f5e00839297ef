"""Numbers and times of headers: JavaScript's loose rules and the strict ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import BadInput
from dcb.snapshot.lexing import js_lines, percent_decode
from dcb.snapshot.values import (
    MAX_DATE,
    date_text,
    integer,
    js_date,
    js_text,
    loose_number,
    plain_number,
    strict_date,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0), (" \u00a0", 0), ("12", 12), ("-1.5", -1.5), (".5", 0.5), ("5.", 5), ("1e3", 1000),
        ("0x1F", 31), ("0b101", 5), ("0o17", 15), ("Infinity", math.inf), ("-Infinity", -math.inf),
        ("0x" + "f" * 400, math.inf),
    ],
)  # fmt: skip
def test_loose_numbers(text: str, value: float) -> None:
    assert loose_number(text) == value


@pytest.mark.parametrize(
    "text", ["many", "1 2", "0x", "0xg", "1e", "--1", "1_000", "infinity", "."]
)
def test_what_is_no_number(text: str) -> None:
    assert math.isnan(loose_number(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("-7", -7), ("1.5", 1.5), ("1e-7", 1e-7), ("", None), ("+1", None),
        ("1e400", None),
        ("9" * 5000, None), ("99999999999999999", None), ("0x1", None), (" 1", None),
    ],
)  # fmt: skip
def test_plain_numbers(text: str, value: float | None) -> None:
    assert plain_number(text) == value


def test_integers() -> None:
    assert integer("12") == 12
    assert integer("12.0") is None
    assert integer("1e3") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-0.0, "0"), (1.5, "1.5"), (math.nan, "NaN"), (math.inf, "Infinity"),
     (-math.inf, "-Infinity"), (1e21, "1e+21")],
)  # fmt: skip
def test_numbers_as_text(value: float, text: str) -> None:
    assert js_text(value) == text


@given(st.integers(-MAX_DATE, MAX_DATE))
def test_dates_read_back(ms: int) -> None:
    assert strict_date(date_text(ms)) == ms == js_date(date_text(ms))


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01", 0),
        ("1970", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:30:00.000-00:30", 0),
        ("1970-01-01T24:00:00Z", 86_400_000),
        ("2024-02-29T00:00Z", 1_709_164_800_000),
        ("1970-01-01T00:00:00.0019Z", 1),
    ],
)
def test_dates(text: str, ms: int) -> None:
    assert js_date(text) == ms
    assert strict_date(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "yesterday", "2023-02-29", "2023-13-01", "2023-00-01", "2023-01-32",
        "-000000-01-01T00:00:00Z", "2023-01-01T25:00:00Z", "2023-01-01T24:00:01Z",
        "2023-01-01T00:60:00Z", "2023-01-01T00:00:60Z", "2023-01-01T00:00:00+24:00",
        "+275760-09-13T00:00:00.001Z", "2023-01-01 00:00:00",
    ],
)  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    assert math.isnan(js_date(text))
    assert strict_date(text) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, MAX_DATE + 1, -MAX_DATE - 1])
def test_times_outside_the_calendar_cannot_be_written(value: float) -> None:
    with pytest.raises(BadInput):
        date_text(value)


def test_lines_and_percent_signs() -> None:
    assert js_lines("a\r\nb\rc\r\r\nd\r") == ["a", "b\rc\r", "d\r"]
    assert percent_decode("%FF %2f 100% %E4%BD%A0") == "%FF %2f 100% 你"
