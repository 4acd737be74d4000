"""Checkpoints of strangers, opened in a process of their own."""
