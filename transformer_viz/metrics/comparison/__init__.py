"""Comparison of two runs: divergence of heads on shared words, and matching of heads.

May import metrics' attention, head measures and statistics, and core.
"""
