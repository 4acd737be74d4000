"""Numbers about what the model wrote: candidates, surprisal, what changed.

May import metrics' own helpers and core.
"""
