"""Verification of a capture: a recorder below the probe, and edits in a second implementation.

May import capture, core and torch.
"""
