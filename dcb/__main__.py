"""The start of the command ``dcb``, also as ``python -m dcb``."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]


def main() -> None:
    """Load the command line and run it; an interrupt while it loads ends it like any other."""
    # Imports alone make many times the 700 objects after which Python looks for cycles.
    gc.set_threshold(50_000)
    try:
        from dcb.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
