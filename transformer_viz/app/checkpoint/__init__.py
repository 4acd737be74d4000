"""What only the page Checkpoint needs: facts, its table of config values, uploads.

May import cards and everything below them.
"""
