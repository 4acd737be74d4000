"""The command line: one command a function, every error one sentence.

May import everything.
"""
