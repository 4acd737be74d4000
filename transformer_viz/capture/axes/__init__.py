"""Meaning of a tensor's dimensions: items, features, queries and keys, in any order.

May import core and `capture/propagation.py`; independent of marks and edits.
"""
