"""Measures of the model's output: candidates, surprisal, changes.

May import metrics' own helpers and core.
"""
