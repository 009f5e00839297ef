"""Snapshots: a session as a three-layer Markdown document."""
