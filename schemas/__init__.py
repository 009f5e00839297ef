"""JSON Schemas of the documents that dcb reads and writes, as package data."""
