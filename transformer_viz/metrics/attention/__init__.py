"""Numbers about attention maps: heads, rows, distances, the steps behind one weight.

May import metrics' own helpers and core; arrays in, numbers out.
"""
