"""Incremental decoding: checks of key-value caches, and generation rules.

May import models and the ground floor; nothing else of inference.
"""
