"""Head metrics of a model, summed over its sentences.

May import metrics' head measures, inference, checkpoints and core.
"""
