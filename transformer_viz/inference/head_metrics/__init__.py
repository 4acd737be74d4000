"""Head metrics of a model: its sentences run one by one, and what is measured is added up.

May import metrics' heads, inference, checkpoints and core.
"""
