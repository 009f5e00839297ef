"""Portable bundles: export, verify and restore sessions of any readable source.

The bundle document itself is :mod:`converters.formats.dsh_bundle.document`; this
package adds the source's own bytes (``drafts``, ``native``, ``slices``, ``rows``), the
folder with its index (``export``, ``manifest``, ``verify``), and the landing on another
machine (``restore``, ``reopen``, ``landing``).
"""
