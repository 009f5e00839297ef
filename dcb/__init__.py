"""Snapshots, bundles, stores and the command line, built on the turns IR of `converters`."""
