"""Serialization of parts of a trace, and checks of their contents on reading."""
