"""Where the tests find the project, its golden files and the shared material."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "golden"
SHARED = ROOT.parent / "shared"
VECTORS = SHARED / "vectors"
CORPUS = SHARED / "corpus"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the shared vectors and corpus are not beside the checkout"
)
