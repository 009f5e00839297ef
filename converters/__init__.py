"""Convert the transcripts of AI chat and coding tools to and from the turns IR."""
