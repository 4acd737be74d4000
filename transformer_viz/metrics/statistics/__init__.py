"""Uncertainty of measurements: bootstrap over sentences, rank intervals, Holm's correction.

May import numpy alone.
"""
