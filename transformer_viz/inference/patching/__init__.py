"""Activation patching: parts of a run taken from a run of another sentence, and what that moves.

May import inference, capture, checkpoints, metrics and core. `swapping.py` is `tv.swap`.
"""
