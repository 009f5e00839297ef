"""Format modules: one per format, found by :mod:`converters.registry`."""
