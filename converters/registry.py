"""Finds formats: the modules of :mod:`converters.formats` and the entry points ``dcb.formats``.

A format module is imported when it is asked for by name, or when all formats are
(detection, ``dcb formats``); ``import converters`` imports none. The id of a
built-in format is the name of its module with dashes, so that a name needs one
import only.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from functools import cache

from converters.errors import BadInput, UsageError
from converters.types import Format

__all__ = [
    "all_formats",
    "fault_of",
    "ids",
    "is_plugin",
    "lookup",
    "notes",
    "target",
    "use_plugins",
]

GROUP = "dcb.formats"
_PACKAGE = "converters.formats"
_GROUP_DEFAULT = {"chat-json": "openai-chat"}


@cache
def _builtin() -> tuple[str, ...]:
    package = importlib.import_module(_PACKAGE)
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return tuple(name for name in names if not name.startswith("_"))


_enabled = True


def use_plugins(*, enabled: bool) -> None:
    """Switch format plugins on (the default) or off for this process."""
    global _enabled  # noqa: PLW0603 - one switch per process, set once at the edge
    _enabled = enabled
    _plugins.cache_clear()
    all_formats.cache_clear()


@cache
def _plugins() -> dict[str, Format]:
    found: dict[str, Format] = {}
    if not _enabled:
        return found
    # Takes as long to load as a format; a run between two known formats needs no plugin.
    from importlib import metadata

    own = {name.replace("_", "-") for name in _builtin()}
    for entry in metadata.entry_points(group=GROUP):
        try:
            record = entry.load()
            if not isinstance(record, Format):
                raise TypeError("not a Format record")  # noqa: TRY301
            if record.id in own or record.id in found:
                raise ValueError(f"the id {record.id!r} is taken")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - a broken plugin must not take the tool down
            warnings.warn(f"format plugin {entry.name!r} left out: {error}", stacklevel=2)
        else:
            found[record.id] = record
    return found


def is_plugin(record: Format) -> bool:
    """Whether a format comes from a plugin: what it raises is no bug of dcb."""
    return record.id in _plugins()


def fault_of(
    record: Format, error: Exception, doing: str = "", path: str | None = None
) -> BadInput | None:
    """Give the error that an exception in a plugin stands for; ``None`` for a format of dcb."""
    if not is_plugin(record):
        return None
    return BadInput(
        f"format plugin {record.id!r} failed{doing}: {error!r}",
        path=path,
        hint="--no-plugins leaves plugins out",
    )


@cache
def _load(name: str) -> Format:
    record = importlib.import_module(f"{_PACKAGE}.{name}").FORMAT
    if not isinstance(record, Format) or record.id != name.replace("_", "-"):
        raise TypeError(f"module {name} does not hold the FORMAT record of its name")
    return record


@cache
def all_formats() -> tuple[Format, ...]:
    """Give every format, sorted by id. Imports all format modules."""
    found = [*(_load(name) for name in _builtin()), *_plugins().values()]
    return tuple(sorted(found, key=lambda record: record.id))


def ids() -> tuple[str, ...]:
    """Give the ids of the built-in formats without importing them."""
    return tuple(name.replace("_", "-") for name in _builtin())


def lookup(name: str) -> tuple[Format, ...]:
    """Give the formats that a name stands for: one, or the members of a group.

    Raises :class:`UsageError` with the nearest valid name.
    """
    module = name.replace("-", "_")
    if module in _builtin():
        return (_load(module),)
    if name in _plugins():
        return (_plugins()[name],)
    formats = all_formats()
    found = tuple(record for record in formats if name == record.group or name in record.aliases)
    if found:
        return found
    known = [record.id for record in formats]
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    raise UsageError(
        f"no format is called {name!r}",
        hint=f"did you mean {near[0]!r}?" if near else "`dcb formats` lists them",
    )


def target(name: str) -> Format:
    """Give the format to write under a name; a group stands for its default member."""
    record = lookup(_GROUP_DEFAULT.get(name, name))[0]
    if record.write is None:
        writers = ", ".join(f.id for f in all_formats() if f.write is not None)
        raise UsageError(f"dcb does not write {record.id!r}", hint=f"it writes {writers}")
    return record


def notes(record: Format) -> str:
    """Give the notes of a format: the docstring of its module."""
    module = inspect.getmodule(record.probe)
    return inspect.cleandoc(module.__doc__ or "") if module else ""
