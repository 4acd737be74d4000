"""Weights that were given and not captured: what such a trace says of itself."""
