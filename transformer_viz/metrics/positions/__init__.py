"""Numbers about positional encodings: tables, similarity, shifts.

May import metrics' own helpers and core.
"""
