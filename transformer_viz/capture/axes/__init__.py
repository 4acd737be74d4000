"""What the dimensions of a tensor are: items, features, queries and keys, whatever their order.

May import core and `capture/propagation.py`; knows no marks and no edits.
"""
