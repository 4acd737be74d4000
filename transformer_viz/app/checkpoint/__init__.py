"""Parts of the page Checkpoint: facts, its table of config values, uploads.

May import cards and everything below them.
"""
