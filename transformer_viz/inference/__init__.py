"""Inference: traces, translations, searches and the inspection of checkpoints.

May import checkpoints, capture, preprocessing, model and core.
"""
