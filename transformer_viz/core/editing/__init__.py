"""Base class of edits, and the edits that patch activations from other runs.

May import core and i18n. `core/edits.py` lists all kinds.
"""
