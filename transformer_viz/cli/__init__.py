"""Command line: one function per command, one sentence per error.

May import everything.
"""
