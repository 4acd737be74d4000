"""Word alignment from cross-attention: links, link files, and their error against gold (M16).

May import numpy, pandas, metrics' head measures, its word merging, and core.
"""
