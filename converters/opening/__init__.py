"""Turns what a person names (file, folder, archive, stream) into inputs for readers.

The only package that opens files: inputs, their declared companions, and private
copies of databases. :func:`open_inputs` gives everything that a source holds, one
by one; a thing that cannot be opened comes as an error in its place.
"""

from __future__ import annotations

from converters.opening._inputs import Folder, Memory, Stored, companions
from converters.opening._trees import DiskTree, Listing, kind_of
from converters.opening._walk import Found, Opener, Skipped, head_of, open_inputs

__all__ = [
    "DiskTree",
    "Folder",
    "Found",
    "Listing",
    "Memory",
    "Opener",
    "Skipped",
    "Stored",
    "companions",
    "head_of",
    "kind_of",
    "open_inputs",
]
