"""Where the tests find the project, its golden files and the shared material."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "golden"
GOLDENS = (GOLDEN, *(Path(p) for p in os.environ.get("DCB_GOLDEN", "").split(os.pathsep) if p))
"""Where golden cases lie; a plugin's tests add their own folder by DCB_GOLDEN."""
SHARED = ROOT.parent / "shared"
VECTORS = SHARED / "vectors"
CORPUS = SHARED / "corpus"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the shared vectors and corpus are not beside the checkout"
)
