"""The exceptions that leave the public API for bad input; anything else is a bug."""

from __future__ import annotations

__all__ = [
    "BadInput",
    "DcbError",
    "LimitReached",
    "OutputError",
    "UnknownFormat",
    "UnsupportedVersion",
    "UsageError",
    "VerifyError",
]


class DcbError(Exception):
    """Something that a person can mend: what, where, and what to do about it.

    ``path`` is the input as the person named it (an archive member is
    ``export.zip!conversations.json``); ``position`` is a line number, a byte
    offset such as ``byte 120``, a JSON pointer or ``TABLE.id=ID``. ``code`` is
    stable and stands in ``--json`` output.
    """

    code = "error"

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        position: str | int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.position = position
        self.hint = hint

    @property
    def where(self) -> str:
        """``FILE:POSITION``, ``FILE`` or an empty string."""
        if self.path is None:
            return "" if self.position is None else str(self.position)
        return self.path if self.position is None else f"{self.path}:{self.position}"

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.path, self.position, self.hint))


def _rebuild(
    kind: type[DcbError],
    message: str,
    path: str | None,
    position: str | int | None,
    hint: str | None,
) -> DcbError:
    return kind(message, path=path, position=position, hint=hint)


class BadInput(DcbError):
    """The bytes are not what the format says, or hold no session."""

    code = "bad-input"


class UnknownFormat(DcbError):
    """No reader, or more than one, claims the input; or a format name is unknown."""

    code = "unknown-format"


class UnsupportedVersion(DcbError):
    """A known format in a version that this release does not read."""

    code = "unsupported-version"


class LimitReached(DcbError):
    """A stated limit (size, depth, member count) stopped the work."""

    code = "limit-reached"


class VerifyError(DcbError):
    """A checksum or fingerprint does not fit."""

    code = "verify-failed"


class OutputError(DcbError):
    """The output could not be written, or would overwrite something."""

    code = "output-failed"


class UsageError(DcbError):
    """An option or a combination of options that makes no sense (exit code 2)."""

    code = "usage"
