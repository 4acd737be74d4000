"""Head importance by ablation: removal of heads before the output projection, and its cost.

May import inference, checkpoints, capture, metrics' statistics, core and torch.
"""
