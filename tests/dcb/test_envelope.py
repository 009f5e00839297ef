"""The envelope: reference vectors, strict form, and what damage leads to."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import unicodedata
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.errors import DcbError, LimitReached, UnsupportedVersion
from dcb import envelope
from dcb.envelope import (
    BadEnvelope,
    OpenFailed,
    WeakPassphrase,
    is_envelope,
    open_envelope,
    seal,
    seal_fresh,
)
from tests.paths import SHARED, VECTORS, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

PASS = "correct horse battery"  # noqa: S105 - of the vectors
SALT = bytes(range(16))
IV = bytes(range(16, 28))
CODES: dict[str, type[DcbError] | tuple[type[DcbError], ...]] = {
    "DCB_CRYPTO_AUTH_FAILED": OpenFailed,
    "DCB_CRYPTO_BAD_ENVELOPE": (BadEnvelope, UnsupportedVersion),
    "DCB_CRYPTO_WEAK_PASSPHRASE": WeakPassphrase,
}
# What only the lenient decoder of the reference takes.
REFUSED = {
    "open-padded-base64url",
    "open-trailing-newline",
    "open-truncated-tag-12-bytes",
    "open-truncated-tag-4-bytes",
}


def cases() -> list[Any]:
    path = VECTORS / "dcb" / "envelope.json"
    if not path.is_file():
        return []
    listed = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=f"{i}-{case['name']}") for i, case in enumerate(listed)]


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace scrypt where its cost is not what is tested."""

    def derive(passphrase: bytes, salt: bytes) -> bytes:
        return sha256(passphrase + salt).digest()

    monkeypatch.setattr(envelope, "_derive", derive)


@needs_shared
@pytest.mark.parametrize("case", cases())
def test_vectors(case: dict[str, Any]) -> None:
    given_, wanted = case["input"], case["output"]
    if "seal" in wanted:
        if wanted["seal"] == "ok":
            assert (
                open_envelope(seal_fresh(b"x", given_["passphrase"]), given_["passphrase"]) == b"x"
            )
        else:
            with pytest.raises(CODES[wanted["seal"]]):
                seal_fresh(b"x", given_["passphrase"])
        return
    if "plaintext" in given_:
        sealed = seal(
            given_["plaintext"].encode(),
            given_["passphrase"],
            salt=bytes.fromhex(given_["salt_hex"]),
            iv=bytes.fromhex(given_["iv_hex"]),
        )
        assert sealed == wanted["envelope"]
        assert open_envelope(sealed, given_["passphrase"]).decode() == given_["plaintext"]
        return
    assert is_envelope(given_["envelope"]) is wanted["is_encrypted"]
    if case["name"] in REFUSED:
        with pytest.raises(BadEnvelope):
            open_envelope(given_["envelope"], given_["passphrase"])
    elif "error" in wanted:
        with pytest.raises(CODES[wanted["error"]]):
            open_envelope(given_["envelope"], given_["passphrase"])
    else:
        opened = open_envelope(given_["envelope"], given_["passphrase"])
        assert opened.decode() == wanted["plaintext"]


@pytest.mark.usefixtures("cheap")
@given(data=st.binary(max_size=200), passphrase=st.text(min_size=8, max_size=20))
@settings(deadline=None)
def test_round_trip(data: bytes, passphrase: str) -> None:
    try:
        sealed = seal_fresh(data, passphrase)
    except WeakPassphrase:
        return  # NFC made it shorter
    assert is_envelope(sealed)
    assert open_envelope(sealed, passphrase) == data
    assert open_envelope(sealed.encode(), passphrase) == data


@pytest.mark.usefixtures("cheap")
def test_any_changed_character_fails() -> None:
    sealed = seal(b"some text to keep", PASS, salt=SALT, iv=IV)
    for i, old in enumerate(sealed):
        for new in {"A", "_", ".", "=", "\n"} - {old}:
            with pytest.raises(DcbError):
                open_envelope(sealed[:i] + new + sealed[i + 1 :], PASS)
    for i in range(len(sealed)):
        with pytest.raises(DcbError):
            open_envelope(sealed[:i], PASS)
        with pytest.raises(DcbError):
            open_envelope(sealed[:i] + "A" + sealed[i:], PASS)


@pytest.mark.usefixtures("cheap")
def test_swapped_parts_fail() -> None:
    name, salt, iv, tag, text = seal(b"0123456789abcdef", PASS, salt=SALT, iv=IV).split(".")
    for parts in ((tag, iv, salt, text), (salt, iv, text, tag)):
        with pytest.raises(DcbError):
            open_envelope(".".join((name, *parts)), PASS)


def test_stray_bits_are_not_canonical() -> None:
    name, salt, iv, tag, _ = seal(b"", PASS, salt=SALT, iv=IV).split(".")
    assert salt.endswith("w")  # the last sextet holds two bits, so x, y and z decode alike
    alike = salt[:-1] + "x"
    assert base64.urlsafe_b64decode(alike + "==") == SALT
    with pytest.raises(BadEnvelope, match="stray bits"):
        open_envelope(f"{name}.{alike}.{iv}.{tag}.", PASS)


def test_wrong_passphrase_and_damage_say_the_same() -> None:
    sealed = seal(b"secret words", PASS, salt=SALT, iv=IV)
    with pytest.raises(OpenFailed) as wrong:
        open_envelope(sealed, PASS + "!")
    with pytest.raises(OpenFailed) as damaged:
        open_envelope(sealed[:-2] + ("AA" if sealed[-2:] != "AA" else "BB"), PASS)
    assert str(wrong.value) == str(damaged.value)
    assert PASS not in str(wrong.value)


def test_passphrase_is_sealed_in_nfc_and_opened_either_way() -> None:
    typed = unicodedata.normalize("NFD", "crème brûlée")
    composed = unicodedata.normalize("NFC", typed)
    assert typed != composed
    sealed = seal(b"x", typed, salt=SALT, iv=IV)
    assert sealed == seal(b"x", composed, salt=SALT, iv=IV)
    assert open_envelope(sealed, typed) == open_envelope(sealed, composed) == b"x"


def test_raw_passphrase_of_another_program_opens() -> None:
    """The reference seals with the bytes as typed, decomposed ones too."""
    typed = unicodedata.normalize("NFD", "crème brûlée")
    key = envelope._derive(typed.encode(), SALT)
    both = AESGCM(key).encrypt(IV, b"old", None)
    sealed = "dcb1." + ".".join(map(envelope._encode, (SALT, IV, both[-16:], both[:-16])))
    assert open_envelope(sealed, typed) == b"old"


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    assert envelope._utf8("\ud83dx\ude80") == "\ufffdx\ufffd".encode()
    assert envelope._utf8("\ud83d\ude80") == "🚀".encode()


@pytest.mark.usefixtures("cheap")
def test_salt_and_iv_are_new_each_time() -> None:
    parts = [seal_fresh(b"same", PASS).split(".") for _ in range(10_000)]
    assert len({p[1] for p in parts}) == len({p[2] for p in parts}) == 10_000


def test_form_is_refused_before_a_key_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(passphrase: bytes, salt: bytes) -> bytes:
        raise AssertionError("a key was derived")

    monkeypatch.setattr(envelope, "_derive", never)
    good = "dcb1." + ".".join(map(envelope._encode, (SALT, IV, b"t" * 16, b"c")))
    bad = [
        "",
        "dcb1",
        "dcb1.",
        good + "\n",
        good + "=",
        " " + good,
        "\ufeff" + good,
        good + ".",
        good.replace("dcb1", "dcb2"),
        good.replace("dcb1", "DCB1"),
        good + "\ud800",
    ]
    for text in bad:
        with pytest.raises((BadEnvelope, UnsupportedVersion)):
            open_envelope(text, PASS)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(seal(bytes(1000), PASS, salt=SALT, iv=IV)) == 5 + 22 + 1 + 16 + 1 + 22 + 1 + 1334
    monkeypatch.setattr(envelope, "MAX_BYTES", 10)
    with pytest.raises(LimitReached):
        seal(bytes(11), PASS, salt=SALT, iv=IV)
    monkeypatch.setattr(envelope, "MAX_ENVELOPE", 80)
    with pytest.raises(LimitReached):
        open_envelope("dcb1." + "." * 3 + "A" * 90, PASS)


@needs_shared
def test_hostile_pack(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, SHARED / "hostile" / "gen_hostile.py", tmp_path],
        check=True,
        capture_output=True,
    )
    listed = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["cases"]
    sealed = [case for case in listed if case["kind"] == "envelope"]
    assert len(sealed) >= 9
    for case in sealed:
        with pytest.raises(DcbError) as error:
            open_envelope((tmp_path / case["name"]).read_bytes(), case.get("passphrase", PASS))
        assert case.get("where", "") in str(error.value)
