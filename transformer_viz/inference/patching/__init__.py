"""Activation patching: replace parts of a run by those of a run on another sentence.

May import inference, capture, checkpoints, metrics and core. `swapping.py` implements `tv.swap`.
"""
