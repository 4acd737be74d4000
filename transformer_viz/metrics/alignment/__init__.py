"""Cross-attention as a word alignment: links, files of them, and their error against gold (M16).

May import numpy, pandas, metrics' head measures, its word merging, and core.
"""
