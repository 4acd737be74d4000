"""Head measures: M1 to M15 as sums over rows, their tables, and roles by rule.

May import numpy, pandas, metrics' statistics and core; arrays in, numbers out.
"""
