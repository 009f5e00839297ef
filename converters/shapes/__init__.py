"""Message shapes of the model APIs and their IR blocks."""
