"""A shard of a corpus through a model: what its heads do, as exact sums, and the examples.

May import inference, its head metrics, metrics, checkpoints and core.
"""
