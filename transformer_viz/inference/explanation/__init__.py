"""Attributions of one output word, and the deletion curve that evaluates them.

May import metrics' attribution, inference, inference's ablation, capture, checkpoints and core.
"""
