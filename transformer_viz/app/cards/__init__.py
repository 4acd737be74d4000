"""Cards that several pages share.

May import lessons, live and shell, and everything below them.
"""
