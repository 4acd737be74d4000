"""A model runs: traces, translations, searches, what a checkpoint holds.

May import checkpoints, capture, preprocessing, model and core.
"""
