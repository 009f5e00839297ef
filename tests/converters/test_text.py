"""Times in milliseconds: one rule for decoded datetimes and for texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from converters.text import datetime_ms, iso_ms, parse_time

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = 253_402_300_799_999_999  # 9999, in microseconds


@given(st.integers(0, LAST))
def test_microseconds_are_cut(micros: int) -> None:
    assert datetime_ms(EPOCH + timedelta(microseconds=micros)) == micros // 1000


@given(st.integers(-62_135_596_800_000, LAST // 1000))
def test_the_text_of_a_time_gives_it_back(ms: int) -> None:
    assert datetime_ms(EPOCH + timedelta(milliseconds=ms)) == ms
    found = parse_time(iso_ms(ms))
    assert found is not None
    assert found.ms == ms


@given(st.integers(-62_135_596_800_000_000, LAST))
def test_both_ways_agree(micros: int) -> None:
    time = EPOCH + timedelta(microseconds=micros)
    found = parse_time(time.isoformat())
    assert found is not None
    assert found.ms == datetime_ms(time)


@given(st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fullmatch=True))
def test_the_usual_form_is_read_like_any_other(text: str) -> None:
    assert parse_time(text) == parse_time(text.replace(".", ","))


@given(
    st.datetimes(timezones=st.just(UTC)).map(lambda t: t.isoformat(timespec="milliseconds")[:-6])
)
def test_the_usual_form_of_real_times(text: str) -> None:
    found = parse_time(f"{text}Z")
    assert found is not None
    assert found == parse_time(f"{text.replace('.', ',')}Z")
