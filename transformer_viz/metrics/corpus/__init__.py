"""Head measures over many sentences, as exact sums, with examples.

May import numpy, pandas, metrics' head measures and core; arrays in, integers out.
"""
