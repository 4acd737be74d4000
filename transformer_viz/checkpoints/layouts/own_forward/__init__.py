"""Calls of a user's own forward: roles of its inputs, found by trial runs.

May import capture, common, files and core.
"""
