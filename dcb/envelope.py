"""The ``dcb1.`` envelope: bytes sealed with a passphrase, as one line of text.

``dcb1.SALT.IV.TAG.CIPHERTEXT``, each part base64url without padding. The key is
scrypt(passphrase as UTF-8, SALT, N=32768, r=8, p=1, 32 bytes), the cipher
AES-256-GCM without additional data; SALT has 16 bytes, IV 12, TAG 16. The costs are
constants of the form, so a file cannot raise them.
Source: DialogueContextBridge 0.2.0, snapshot format, section 12.

The reference decoder also takes padding, the standard alphabet, a line break at the
end and shortened tags. This one takes the canonical form only: one text per value,
and a tag of 4 bytes would be guessed in no time.
"""

from __future__ import annotations

import base64
import os
import unicodedata
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from converters.errors import DcbError, LimitReached, UnsupportedVersion
from converters.text import units

__all__ = [
    "MAX_BYTES",
    "MAX_ENVELOPE",
    "MIN_PASSPHRASE",
    "BadEnvelope",
    "OpenFailed",
    "WeakPassphrase",
    "check_passphrase",
    "is_envelope",
    "open_envelope",
    "seal",
    "seal_fresh",
]

PREFIX: Final = "dcb1."
SALT_BYTES: Final = 16
IV_BYTES: Final = 12
TAG_BYTES: Final = 16
MIN_PASSPHRASE: Final = 8
"""The shortest passphrase that seals, in UTF-16 units."""
MAX_BYTES: Final = 256 << 20
"""The longest content, in bytes: sealing holds it in memory several times."""
MAX_ENVELOPE: Final = len(PREFIX) + 22 + 1 + 16 + 1 + 22 + 1 + (MAX_BYTES * 4 + 2) // 3
"""The length of the envelope of :data:`MAX_BYTES` bytes."""

_COST: Final = 32768
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class BadEnvelope(DcbError):
    """The text is no envelope, or not in its canonical form."""

    code = "bad-envelope"


class OpenFailed(DcbError):
    """The passphrase is wrong or the envelope was changed; the cipher cannot tell which."""

    code = "open-failed"


class WeakPassphrase(DcbError):
    """The passphrase is too short to seal with."""

    code = "weak-passphrase"


def seal(data: bytes, passphrase: str, *, salt: bytes, iv: bytes) -> str:
    """Give the envelope of ``data``. ``salt`` (16 bytes) and ``iv`` (12) serve once.

    The passphrase is used in NFC, so that it opens on every keyboard. Raises
    :class:`WeakPassphrase` below 8 UTF-16 units and :class:`LimitReached` past
    :data:`MAX_BYTES`. Use :func:`seal_fresh` unless the bytes must be reproducible.
    """
    if len(salt) != SALT_BYTES or len(iv) != IV_BYTES:
        raise ValueError("an envelope takes a salt of 16 bytes and an iv of 12")
    check_passphrase(passphrase)
    if len(data) > MAX_BYTES:
        raise LimitReached(
            f"{len(data)} bytes are too many to seal, the limit is {MAX_BYTES >> 20} MiB",
            hint="seal the parts one by one",
        )
    key = _derive(_utf8(_nfc(passphrase)), salt)
    sealed = AESGCM(key).encrypt(iv, data, None)
    parts = (salt, iv, sealed[-TAG_BYTES:], sealed[:-TAG_BYTES])
    return PREFIX + ".".join(map(_encode, parts))


def seal_fresh(data: bytes, passphrase: str) -> str:
    """Give the envelope of ``data`` with a salt and an iv that the system draws."""
    return seal(data, passphrase, salt=os.urandom(SALT_BYTES), iv=os.urandom(IV_BYTES))


def open_envelope(envelope: str | bytes, passphrase: str) -> bytes:
    """Give the bytes that were sealed.

    Tries the passphrase as it is, then in NFC (which is what :func:`seal` used). Nothing
    is given out before the tag is verified. Raises :class:`BadEnvelope` or
    :class:`UnsupportedVersion` before any key is derived when the form is wrong,
    :class:`OpenFailed` for a wrong passphrase and for changed data alike.
    """
    salt, iv, tag, ciphertext = _split(envelope)
    sealed = ciphertext + tag
    del ciphertext
    for attempt in dict.fromkeys((_utf8(passphrase), _utf8(_nfc(passphrase)))):
        try:
            return AESGCM(_derive(attempt, salt)).decrypt(iv, sealed, None)
        except InvalidTag:
            continue
    raise OpenFailed("wrong passphrase, or the envelope was changed")


def is_envelope(text: str | bytes) -> bool:
    """Whether a text is meant as an envelope: it starts with ``dcb1.`` and has five parts."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return data.startswith(PREFIX.encode()) and data.count(b".") == 4


def check_passphrase(passphrase: str) -> None:
    """Raise :class:`WeakPassphrase` when a passphrase is too short to seal with."""
    if min(units(passphrase), units(_nfc(passphrase))) < MIN_PASSPHRASE:
        raise WeakPassphrase(
            f"the passphrase is shorter than {MIN_PASSPHRASE} characters",
            hint="take several words; nothing can open the envelope without it",
        )


def _derive(passphrase: bytes, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=_COST, r=8, p=1).derive(passphrase)


def _split(envelope: str | bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Give the four parts decoded: every rule of the form is checked here, before the cost."""
    if isinstance(envelope, str):
        envelope = envelope.encode("utf-8", "replace")
    head = envelope[:16].split(b".", 1)[0]
    if head != b"dcb1":
        if head[:3] == b"dcb" and head[3:].isdigit() and len(head) < 16:
            raise UnsupportedVersion(
                f"envelope version {head.decode('ascii')} is not known, only dcb1"
            )
        raise BadEnvelope("not an envelope: it does not start with dcb1.")
    if len(envelope) > MAX_ENVELOPE:
        raise LimitReached(f"the envelope holds more than {MAX_BYTES >> 20} MiB")
    if envelope.count(b".") != 4:
        raise BadEnvelope(f"an envelope has five parts, this has {envelope.count(b'.') + 1}")
    salt, iv, tag, ciphertext = envelope.split(b".")[1:]
    return (
        _decode(salt, "salt", SALT_BYTES),
        _decode(iv, "iv", IV_BYTES),
        _decode(tag, "tag", TAG_BYTES),
        _decode(ciphertext, "ciphertext", None),
    )


def _decode(part: bytes, name: str, size: int | None) -> bytes:
    if size is not None and len(part) != (size * 4 + 2) // 3:
        raise BadEnvelope(
            f"the {name} of the envelope has not the length of {size} bytes",
            hint="padding and line breaks are not part of the form" if part else None,
        )
    if len(part) % 4 == 1 or part.translate(None, _ALPHABET):
        raise BadEnvelope(
            f"the {name} of the envelope is not unpadded base64url",
            hint="remove padding, blanks and line breaks, also at the end",
        )
    value = base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    tail = len(part) % 4
    if tail and base64.urlsafe_b64encode(value[len(value) // 3 * 3 :])[:tail] != part[-tail:]:
        raise BadEnvelope(f"the {name} of the envelope has stray bits at its end")
    return value


def _encode(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode("ascii")


def _nfc(passphrase: str) -> str:
    return unicodedata.normalize("NFC", passphrase)


def _utf8(text: str) -> bytes:
    """Encode as JavaScript does: half of a surrogate pair becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
