"""Alignments of many sentences, and their error against gold, head by head.

May import metrics' alignment and statistics, inference, checkpoints and core.
"""
