"""Batched decoding: concurrent searches of one model share their forward passes.

The ids equal those of :func:`generation.translate`, the numbers up to 1e-5.
"""
