"""Portable bundles: export, verify and restore sessions of any readable source.

The bundle document itself is :mod:`converters.formats.dsh_bundle.document`; this
package adds the source's own bytes, the folder with its index, and the landing on
another machine.
"""

from __future__ import annotations

from dcb.bundle.drafts import Job
from dcb.bundle.export import Exported, export

__all__ = ["Exported", "Job", "export"]
