"""Comparison of two models, sentences or interventions, head by head.

May import inference, checkpoints, metrics and core. `sides.py` implements `tv.compare`.
"""
