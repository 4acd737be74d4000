"""Parts of the edits: what all of them share, and those that take numbers from elsewhere.

May import core and i18n. `core/edits.py` is the list of all kinds.
"""
