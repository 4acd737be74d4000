"""The proof of what is shown: a witness below the probe, and edits made a second way.

May import capture, core and torch.
"""
