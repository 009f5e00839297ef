"""Where a session lands on this machine: paths of any platform on any host.

Source: Interchange v1, sections 7.5 (landing, the older rule for ``groupedTo``) and 7.6.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from converters.errors import UsageError
from converters.formats.dsh_bundle.document import landing_hint
from converters.text import JS_SPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Landing", "Rule", "folder_of", "is_here", "land", "remap", "rule_of"]

_SEPARATORS: Final = "/\\"
_WINDOWS: Final = re.compile(r"[A-Za-z]:|\\\\")


class Rule(NamedTuple):
    """Paths at or below ``source`` go to ``target``."""

    source: str
    target: str


class Landing(NamedTuple):
    """Where a restored session belongs.

    ``grouped_to`` is the original working directory where it exists here, else what
    a rule makes of it, else the folder of the bundle. ``note`` says in words why it
    is not the original; ``remapped`` is the report of the rule that was applied.
    """

    original_cwd: str | None
    cwd_available: bool
    grouped_to: str
    landing_hint: str | None
    remapped: dict[str, Any] | None = None
    note: str | None = None


def rule_of(text: str) -> Rule:
    """Parse ``FROM=TO``; raises :class:`UsageError`."""
    source, equals, target = text.partition("=")
    if not equals or not source.strip() or not target.strip():
        raise UsageError(f"--map-cwd takes FROM=TO, not {text!r}")
    return Rule(source, target)


def remap(
    cwd: str, rules: Iterable[Rule], *, windows: bool = False
) -> tuple[str, dict[str, Any] | None]:
    """Give ``(mapped path, report)``; no report where no rule fits.

    The longest rule wins; a path with ``..`` below it stays as it is, with a
    ``reason``. ``windows`` joins by the rules of that platform.
    """
    path = ntpath if windows else posixpath
    trimmed = [Rule(_trim(rule.source), _trim(rule.target)) for rule in rules]
    usable = sorted(
        (rule for rule in trimmed if rule.source and rule.target),
        key=lambda rule: len(rule.source),
        reverse=True,
    )
    for rule in usable:
        if not cwd.startswith(rule.source):
            continue
        rest = cwd[len(rule.source) :]
        if rest and rest[0] not in _SEPARATORS:
            continue
        pieces = [piece for piece in re.split(r"[/\\]+", rest) if piece]
        mapped = cwd if ".." in pieces else path.normpath(path.join(rule.target, *pieces))
        report: dict[str, Any] = {
            "from": rule.source,
            "to": rule.target,
            "original": cwd,
            "mapped": mapped,
            "absolute": path.isabs(mapped),
        }
        if ".." in pieces:
            report["reason"] = "parent-traversal"
        return mapped, report
    return cwd, None


def _trim(text: str) -> str:
    return text.strip(JS_SPACE).rstrip(_SEPARATORS)


def is_here(path: str) -> bool:
    """Whether a folder exists on this machine; what the system cannot look at does not.

    The path stands in a bundle: it can be too long for any file system, or below a folder
    that this person may not enter.
    """
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def folder_of(path: str, *, is_folder: Callable[[str], bool] = is_here) -> str:
    """Give the folder of a path, in its own spelling; ``.`` for a bare name.

    Of a member, ``ARCHIVE!MEMBER``, it is the archive's: there is no folder inside a file.
    """
    ends = _SEPARATORS if _WINDOWS.match(path) else "/"
    path = _outside(path, ends, is_folder)
    cut = max(path.rfind(end) for end in ends)
    return "." if cut < 0 else path[:cut] or path[: cut + 1]


def _outside(path: str, ends: str, is_folder: Callable[[str], bool]) -> str:
    """Give a path up to its first piece with a ``!`` that is no folder: the archive."""
    for mark in re.finditer("!", path):
        end = re.compile(f"[{re.escape(ends)}]").search(path, mark.end())
        if end is not None and not is_folder(path[: end.start()]):
            return path[: mark.start()]
    return path


def land(
    original_cwd: Any,
    bundle_path: str,
    *,
    is_folder: Callable[[str], bool],
    rules: Iterable[Rule] = (),
    windows: bool = False,
) -> Landing:
    """Decide where a session belongs; never an error, never in silence.

    ``is_folder`` says whether a folder exists on this machine.
    """
    cwd = original_cwd if isinstance(original_cwd, str) and original_cwd else None
    hint = landing_hint(cwd)
    folder = folder_of(bundle_path, is_folder=is_folder)
    if cwd is None:
        return Landing(None, cwd_available=False, grouped_to=folder, landing_hint=hint)
    if is_folder(cwd):
        return Landing(cwd, cwd_available=True, grouped_to=cwd, landing_hint=hint)
    mapped, report = remap(cwd, rules, windows=windows)
    if report is not None and "reason" not in report:
        note = f"{cwd} is not on this machine; the session is grouped to {mapped} as asked"
        return Landing(cwd, False, mapped, hint, report, note)
    note = f"{cwd} is not on this machine; the session is grouped to the bundle's folder"
    return Landing(cwd, False, folder, hint, report, note)
