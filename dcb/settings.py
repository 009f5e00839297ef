"""Settings: ``dcb.toml`` in the working folder and in the user's configuration folder.

A setting has the name of the option that it stands for (``max-tokens``, ``policy``,
``history`` ...). Options win over the working folder, that over the user's folder, that
over the defaults. Nothing here reads a file or the environment; the command line does.

A file in a working folder comes with whatever was cloned there, so it may not say where
texts and keys are sent to (``llm-base-url``) nor switch the sending on (``summary``), and
what a person said about sealing it can only make stricter.

Source of names, defaults and bounds: program 0.2.0, settings (section 18 of its description).
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from converters.errors import UsageError

__all__ = ["FILE", "Settings", "combine", "parse"]

FILE: Final = "dcb.toml"
_STRICT: Final = {"seal": True, "seal_metadata": True, "index_plaintext": False}
_PERSONAL: Final = frozenset({"llm_base_url", "summary"})


class Settings(
    msgspec.Struct, rename="kebab", frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """All settings. ``home`` is the folder of the store, relative to the file that says it."""

    max_tokens: Annotated[int, msgspec.Meta(ge=256, le=32768)] = 4096
    bullets: Annotated[int, msgspec.Meta(ge=1, le=30)] = 6
    max_messages: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 400
    profile: Literal["published", "plugin"] = "published"
    policy: Literal["newWins", "snapshotWins", "timestamp", "weighted"] = "newWins"
    summary: Literal["extractive", "llm"] = "extractive"
    home: str | None = None
    history: bool = True
    seal: bool = False
    seal_metadata: bool = False
    index_plaintext: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 10
    llm_base_url: str | None = None
    llm_model: str | None = None
    llm_max_tokens: Annotated[int, msgspec.Meta(ge=256, le=4096)] = 1024
    llm_temperature: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2
    llm_timeout: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 60.0


_NAMES: Final = {field.encode_name: field.name for field in msgspec.structs.fields(Settings)} | {
    "merge-policy": "policy",
    "search-limit": "limit",
}


def parse(data: bytes, path: str, *, personal: bool) -> dict[str, object]:
    """Read one file and give its settings by attribute name.

    ``personal``: the file is in the user's own folder. :class:`UsageError` for what is no
    TOML, an unknown name, a value out of bounds, or a name that only a personal file may have.
    """
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"not TOML: {error}", path=path) from error
    given: dict[str, object] = {}
    for name, value in table.items():
        attribute = _NAMES.get(name.replace("_", "-"))
        if attribute is None:
            near = difflib.get_close_matches(name, _NAMES, 1)
            hint = f"did you mean {near[0]}?" if near else f"settings are {', '.join(_NAMES)}"
            raise UsageError(f"no setting {name[:60]!r}", path=path, hint=hint)
        if attribute in _PERSONAL and not personal:
            raise UsageError(
                f"{name} is not taken from a working folder",
                path=path,
                hint="set it in your own configuration folder, or give it as an option",
            )
        given[attribute] = value
    try:
        msgspec.convert({_wire(name): value for name, value in given.items()}, Settings)
    except msgspec.ValidationError as error:
        raise UsageError(f"bad value: {error}", path=path) from error
    home = given.get("home")
    if isinstance(home, str) and not home.startswith("~"):
        given["home"] = str(Path(path).parent / home)
    return given


def combine(
    work: dict[str, object] | None = None, own: dict[str, object] | None = None
) -> Settings:
    """Give the settings of the working folder over those of the person."""
    mine = own or {}
    given = mine | (work or {})
    given |= {name: value for name, value in _STRICT.items() if mine.get(name) is value}
    return msgspec.convert({_wire(name): value for name, value in given.items()}, Settings)


def _wire(name: str) -> str:
    return name.replace("_", "-")
