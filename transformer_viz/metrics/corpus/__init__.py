"""Head measures of many sentences: in one go, as exact sums, with examples.

May import numpy, pandas, metrics' head measures and core; arrays in, whole numbers out.
"""
