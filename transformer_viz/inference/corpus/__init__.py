"""Scan of a corpus shard with a model: exact sums of head measures, and examples.

May import inference, its head metrics, metrics, checkpoints and core.
"""
