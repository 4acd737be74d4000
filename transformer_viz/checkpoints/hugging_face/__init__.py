"""Folders of the transformers library, and its models in memory.

May import common, files, preprocessing and core.
"""
