"""Measures of attention maps: heads, rows, distances, and the computation of one weight.

May import metrics' own helpers and core; arrays in, numbers out.
"""
