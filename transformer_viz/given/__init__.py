"""Traces from given arrays of weights: read, checked, and marked as not captured.

May import metrics, preprocessing and core; arrays of torch and JAX are read by their protocols.
"""
