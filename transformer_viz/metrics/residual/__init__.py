"""Measures of norms and the residual stream.

May import metrics' own helpers and core.
"""
