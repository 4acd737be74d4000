"""What each head is worth: heads removed before the output projection, and what is lost then.

May import inference, checkpoints, capture, metrics' statistics, core and torch.
"""
