"""Settings from ``dcb.toml``: of the working folder, else of the user's config folder.

Names in use: ``max_tokens``, ``bullets``, ``max_messages`` (compile), ``merge_policy``,
``index_plaintext``, ``history`` and ``home`` (store). Options of a command win.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from converters.errors import UsageError

__all__ = ["settings", "store_home"]

_NAME = "dcb.toml"


@cache
def settings() -> dict[str, Any]:
    """Give the settings, those of the working folder over those of the user."""
    user = Path(platformdirs.user_config_dir("dcb", appauthor=False), _NAME)
    return {**_load(user), **_load(Path(_NAME))}


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the settings cannot be read: {error}", path=str(path)) from error


def store_home() -> Path:
    """Give the folder of the store: ``DCB_HOME``, the setting ``home``, else the data folder."""
    chosen = os.environ.get("DCB_HOME") or settings().get("home")
    if chosen is None:
        return Path(platformdirs.user_data_dir("dcb", appauthor=False))
    if not isinstance(chosen, str):
        raise UsageError("dcb.toml: home must be a text")
    return Path(chosen).expanduser()
