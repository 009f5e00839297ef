"""The start of the command ``dcb``, also as ``python -m dcb``."""

from __future__ import annotations

import atexit
import gc
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Load the command line, run it and end the process.

    An interrupt while it loads ends it like any other.
    """
    # Imports alone make many times the 700 objects after which Python looks for cycles, and a
    # large session is a hundred thousand lists without one.
    gc.set_threshold(500_000)
    try:
        from dcb.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as ended:
        _leave(ended.code)
        raise


def _leave(code: object) -> None:
    """End at once where nothing but memory is left to clean up.

    Taking the interpreter apart, and a large session with it object by object, takes as
    long as writing the session. Returns where the ordinary end has more to do.
    """
    # Pools of processes end their helpers and remove their semaphores in the ordinary end.
    if "multiprocessing" in sys.modules or not isinstance(code, int | None):
        return
    if sys.gettrace() or sys.getprofile() or sys.flags.inspect:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - what the ordinary end calls, too
    os._exit(code or 0)


if __name__ == "__main__":
    main()
