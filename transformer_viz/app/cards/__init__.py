"""The cards that several pages are put together from.

May import lessons, live and shell, and everything below them.
"""
