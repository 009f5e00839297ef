"""Settings from ``dcb.toml``: of the working folder, else of the user's config folder.

See :mod:`dcb.settings` for the names. Options of a command win.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from converters.errors import UsageError
from dcb.settings import FILE, Settings, combine, parse

__all__ = ["current", "settings", "store_home"]


@cache
def current() -> Settings:
    """Give the settings, those of the working folder over those of the user."""
    user = Path(platformdirs.user_config_dir("dcb", appauthor=False), FILE)
    return combine(_load(Path(FILE), personal=False), _load(user, personal=True))


def settings() -> dict[str, Any]:
    """Give all settings by name."""
    return msgspec.structs.asdict(current())


def _load(path: Path, *, personal: bool) -> dict[str, object]:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"the settings cannot be read: {error}", path=str(path)) from error
    return parse(data, str(path), personal=personal)


def store_home() -> Path:
    """Give the folder of the store: ``DCB_HOME``, the setting ``home``, else the data folder."""
    chosen = os.environ.get("DCB_HOME") or current().home
    if chosen is None:
        return Path(platformdirs.user_data_dir("dcb", appauthor=False))
    return Path(chosen).expanduser()
