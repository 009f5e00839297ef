"""Settings: names, bounds, and which file wins."""

from __future__ import annotations

from typing import Any

import pytest

from converters.errors import UsageError
from dcb.settings import Settings, combine, parse


def read(text: str, *, personal: bool = True) -> dict[str, Any]:
    return parse(text.encode(), "/etc/x/dcb.toml", personal=personal)


def test_defaults_are_those_of_the_program() -> None:
    found = combine()
    assert found == Settings()
    assert (found.max_tokens, found.bullets, found.max_messages, found.policy, found.limit) == (
        4096,
        6,
        400,
        "newWins",
        10,
    )
    assert found.history
    assert not found.index_plaintext


def test_the_working_folder_wins_over_the_personal_file() -> None:
    work = read("max-tokens = 1000\nhistory = false", personal=False)
    mine = read("max_tokens = 2000\nbullets = 3\nllm-base-url = 'http://localhost:1'")
    found = combine(work, mine)
    assert (found.max_tokens, found.bullets, found.history) == (1000, 3, False)
    assert found.llm_base_url == "http://localhost:1"


def test_a_folder_cannot_unseal_what_a_person_seals() -> None:
    mine = read("seal = true\nindex-plaintext = false")
    work = read("seal = false\nindex-plaintext = true\nseal-metadata = true", personal=False)
    found = combine(work, mine)
    assert (found.seal, found.index_plaintext, found.seal_metadata) == (True, False, True)
    assert combine(work).index_plaintext
    assert not combine(work).seal


def test_home_is_relative_to_its_file() -> None:
    assert combine(read('home = "store"')).home == "/etc/x/store"
    assert combine(read('home = "/abs"')).home == "/abs"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max-tokens = 10", "256"),
        ("max-tokens = '4096'", "int"),
        ("polcy = 'newWins'", "polcy"),
        ("policy = 'mine'", "mine"),
        ("limit = 51", "50"),
        ("llm-temperature = 1.5", "1.0"),
        ("history = 'no'", "bool"),
        ("[store]\nhistory = false", "store"),
        ("x", "not TOML"),
        ("a = " + "[" * 5000, "not TOML"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        read(text)
    assert error.value.path == "/etc/x/dcb.toml"


def test_not_text() -> None:
    with pytest.raises(UsageError):
        parse(b"\xff\xfe", "dcb.toml", personal=True)


@pytest.mark.parametrize("text", ["llm-base-url = 'http://evil'", "summary = 'llm'"])
def test_a_cloned_folder_cannot_send_texts_away(text: str) -> None:
    with pytest.raises(UsageError, match="working folder"):
        read(text, personal=False)
    assert read(text)
