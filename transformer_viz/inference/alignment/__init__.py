"""Word alignment of a corpus, and its error against gold for each head.

May import metrics' alignment and statistics, inference, checkpoints and core.
"""
