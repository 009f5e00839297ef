"""The command line; the only place that prints.

Commands live in modules of their own and are imported when they run, so that
``dcb --help`` loads no format and no cryptography.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from converters.errors import DcbError, UsageError
from dcb.cli import _run

__all__ = ["main"]

_COMMANDS: Final = {
    "convert": ("convert", "Convert transcripts into another format."),
    "detect": ("detect", "Say which format a file has, and why."),
    "formats": ("formats", "List the formats and what each can carry."),
    "show": ("show", "Show one transcript or snapshot, readable and safe."),
    "scan": ("scan", "Find the sessions of every tool on this machine."),
    "compile": ("compile", "Make a three-layer snapshot of a session."),
    "check": ("check", "Check snapshots, bundles and documents; for CI."),
    "brief": ("brief", "Make a brief to start a new conversation from."),
    "merge": ("merge", "Merge two snapshots by a policy."),
    "bundle": ("bundle", "Back up sessions and restore them elsewhere."),
    "seal": ("seal", "Encrypt a file with a passphrase."),
    "open": ("seal", "Decrypt a sealed file."),
    "store": ("store", "Keep, search and version snapshots."),
}
"""Command -> (module below ``dcb.cli``, help line); the module's ``app`` or ``open_app``."""


class _Lazy(TyperGroup):
    """A group that knows its commands by name and imports the one that runs."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [name for name in _COMMANDS if _exists(name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in _COMMANDS or not _exists(cmd_name):
            return None
        return TyperCommand(cmd_name, help=_COMMANDS[cmd_name][1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, _load(name) if name in _COMMANDS else command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except DcbError as error:
            _run.print_error(error)
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
        except KeyboardInterrupt:
            _run.say("interrupted")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            _run.close_stdout()
            raise typer.Exit(0) from None
        except OSError as error:
            _run.close_stdout()
            _run.print_os_error(error)
            raise typer.Exit(1) from None
        finally:
            _run.sweep()


def _exists(name: str) -> bool:
    return importlib.util.find_spec(f"{__name__}.{_COMMANDS[name][0]}") is not None


def _load(name: str) -> Any:
    module = importlib.import_module(f"{__name__}.{_COMMANDS[name][0]}")
    command = typer.main.get_command(getattr(module, f"{name}_app", None) or module.app)
    command.name = name
    return command


app = typer.Typer(
    cls=_Lazy,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        # Takes longer to load than the rest of the help.
        from importlib import metadata

        typer.echo(f"dcb {metadata.version('dcb')}")
        raise typer.Exit


@app.callback(epilog="Example: dcb convert session.jsonl --to interchange -o session.json")
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    plugins: Annotated[
        bool, typer.Option("--plugins/--no-plugins", help="Use format plugins.")
    ] = True,
) -> None:
    """Convert, snapshot and bundle the transcripts of AI chat and coding tools.

    Nothing is lost in silence: what a format cannot carry is counted, named and located.
    """
    del version
    if not plugins:
        _run.disable_plugins()


def main() -> None:
    """Run the command line and exit with the code."""
    _run.open_streams()
    _run.catch_signals()
    _run.show_warnings()
    try:
        app()
    except SystemExit as ended:
        failure, code = _run.flush_stdout(), ended.code
    except OSError as error:  # of the help text, which is printed before a command runs
        _run.close_stdout()
        failure, code = error, 0
    else:
        return
    if failure is not None and not isinstance(failure, BrokenPipeError):
        _run.print_os_error(failure)
        code = code or 1
    raise SystemExit(code)
