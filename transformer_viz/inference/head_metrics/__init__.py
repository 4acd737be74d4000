"""Head metrics of a model: its sentences run one by one, and what is measured is added up.

May import metrics' head measures, inference, checkpoints and core.
"""
