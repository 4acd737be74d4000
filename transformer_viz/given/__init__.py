"""A trace from arrays of weights that somebody has: read, checked, and marked as not captured.

May import metrics, preprocessing and core; arrays of torch and JAX come in by their protocols.
"""
