"""Figures of measurements across changed runs, not of a single run.

May import `views/charts` and its dependencies.
"""
